"""The section at the end of a session, as styled lines; the plugin writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.models.prices import Prices
from pytest_llmeval.printable import printable
from pytest_llmeval.records import Run, Slowdown
from pytest_llmeval.reports import words
from pytest_llmeval.reports.cost import capped_lines, cost_of, cost_words, unknown_lines
from pytest_llmeval.reports.gated import anchored_lines, gated_lines
from pytest_llmeval.reports.lines import RED, YELLOW, Line
from pytest_llmeval.reports.provenance import differences
from pytest_llmeval.reports.reasons import unjudgeable, why_failed, worded
from pytest_llmeval.reports.ungated import ungated_lines
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.retry import Retry
from pytest_llmeval.runs.store import first_of


def section(judgement: Judgement) -> list[Line]:
    """Word a judgement."""
    lines: list[Line] = []
    if judgement.run is not None:
        prices = Prices(judgement.settings.prices)
        cost = cost_of(judgement.run, prices)
        lines.append(Line(_run_line(judgement.run, judgement.seconds, cost=cost_words(cost))))
        lines += [Line(text, YELLOW) for text in unknown_lines(cost, prices)]
        lines += [Line(text, RED) for text in capped_lines(judgement.run)]
    lines += [Line(text) for text in baseline_lines(judgement.baseline)]
    if judgement.serial:
        lines.append(Line(_serial_line(judgement.serial)))
    lines += [Line(_slowdown_line(slowdown)) for slowdown in judgement.slowdowns]
    lines += [Line(f"note: {worded(note)}", YELLOW) for note in judgement.notes]
    if judgement.unsaved:
        lines.append(Line(judgement.unsaved, RED))
    if judgement.run is not None and judgement.baseline is not None:
        lines += [
            Line(f"differs from the baseline: {difference}")
            for difference in differences(
                judgement.baseline.run, judgement.run, rules=judgement.settings.gate
            )
        ]
    if judgement.comparison is not None:
        lines += gated_lines(judgement, judgement.comparison)
    elif judgement.run is not None and (judgement.descriptions or not judgement.could_not_judge):
        lines += ungated_lines(judgement)
    if judgement.could_not_judge:
        lines.append(Line(f"could not judge: {unjudgeable(judgement.could_not_judge)}", RED))
    if judgement.anchor is not None and judgement.anchored is not None:
        lines += [Line(), *map(Line, baseline_lines(judgement.anchor, side="anchor"))]
        lines += anchored_lines(judgement.anchor, judgement.anchored, judgement.settings.gate)
    if judgement.path is not None and judgement.run is not None:
        lines.append(Line(_recorded(judgement.run)))
    return lines


def header(baseline: Baseline | None, *, anchor: Baseline | None, retry: Retry | None) -> list[str]:
    """Say what will be compared with, before the first test."""
    lines = (
        *baseline_lines(baseline),
        *baseline_lines(anchor, side="anchor"),
        *retry_lines(retry),
    )
    return [printable(f"llm evals: {line}") for line in lines]


def baseline_lines(baseline: Baseline | None, *, side: str = "baseline") -> list[str]:
    """Say which run is compared with, and what is odd about it."""
    if baseline is None:
        return []
    return [side_line(baseline, side=side), *(f"note: {note}" for note in baseline.notes)]


def side_line(found: Baseline, *, side: str = "baseline") -> str:
    """Name a run that was found, and how: ``baseline main@1a2b3c4 (merge-base, ...), 10 repeats``.

    Args:
        found: a run.
        side: which one of a comparison it is.
    """
    run = found.run
    commit = f"@{run.commit[:7]}" if run.commit else ""
    facts: list[str] = [found.how] if found.how != found.reference else []
    if found.how not in ("table", "nothing yet"):
        facts.append(f"recorded {run.created[:16].replace('T', ' ')}")
    if found.how in ("file", "last", "run id"):
        facts.append(f"run {run.id}")
    repeats = sorted({case.repeats for case in run.cases})
    shown = words.counted(repeats[-1], "repeat") if repeats else "no case"
    if len(repeats) > 1:
        shown = f"{repeats[0]} to {shown}"
    return f"{side} {found.reference}{commit} ({', '.join(facts)}), {shown}"


def retry_lines(retry: Retry | None) -> list[str]:
    """Say which run is completed, and what that takes."""
    if retry is None or not retry.again:
        return []
    again = words.counted(retry.again, "trial")
    cases = words.counted(len(retry.unfinished), "case")
    standing = sum(map(len, retry.standing.values()))
    return [f"completing run {retry.run.id}: {again} of {cases} run again, {standing} stand"]


def failure_line(judgement: Judgement) -> str:
    """Say in one plain line why the session fails."""
    if judgement.could_not_judge:
        return f"llm evals: could not judge: {unjudgeable(judgement.could_not_judge)}"
    comparison, against = judgement.comparison, ""
    if (comparison is None or not comparison.fails) and judgement.anchored is not None:
        comparison, against = judgement.anchored, "against the anchor: "
    if comparison is None or (judgement.unsaved and not comparison.fails):
        return f"llm evals: {judgement.unsaved}"
    failing = [function for function in comparison.functions if function.fails]
    if not failing:
        return f"llm evals: {against}{why_failed(comparison, judgement.settings.gate)}"
    first = words.sentence(failing[0], judgement.settings.gate)
    if failing[0].verdict is not Verdict.REGRESSED:
        first = f"{words.label(failing[0])}: {first}"
    more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
    return f"llm evals: {against}{first}{more}"


def _run_line(run: Run, seconds: float, *, cost: str) -> str:
    repeats = sorted({case.repeats for case in run.cases})
    cases = words.counted(len(run.cases), "case")
    size = f"{cases} x {words.counted(repeats[0], 'repeat')}"
    if len(repeats) > 1:
        size = f"{cases}, {words.counted(len(run.trials), 'trial')}"
    models = sorted({call.model for trial in run.trials for call in trial.calls if call.model})
    parts = [size, *models, *_account(run), f"{seconds:.1f} s"]
    return " · ".join([*parts, cost] if cost else parts)


def _account(run: Run) -> Iterator[str]:
    """Count the calls that brought a reply or did not, and what was sent for them if more."""
    calls = [call for trial in run.trials for call in trial.calls]
    made, replayed = sum(call.was_paid for call in calls), sum(call.replayed for call in calls)
    failed = sum(call.failure is not None for call in calls)
    yield f"{made} calls made, {replayed} replayed" + (f", {failed} failed" if failed else "")
    if run.attempts not in (None, made):
        yield f"{words.counted(run.attempts or 0, 'attempt')} sent"
    if run.outside_calls:
        yield f"{words.counted(run.outside_calls, 'call')} of no case"


def _serial_line(serial: Mapping[str, int]) -> str:
    cases = words.counted(sum(serial.values()), "case")
    reasons = ", ".join(f"{reason} ({count})" for reason, count in serial.items())
    return f"{cases} ran serially: {reasons}"


def _slowdown_line(slowdown: Slowdown) -> str:
    """Say what a provider's limits cost: ``openai slowed us down 3 times: down to ...``."""
    seconds = f"{slowdown.seconds:.{0 if slowdown.seconds >= 10 else 1}f}"  # noqa: PLR2004
    return (
        f"{slowdown.provider} slowed us down {words.counted(slowdown.times, 'time')}: "
        f"down to {words.counted(slowdown.lowest, 'call')} in flight, "
        f"{seconds} s waited"
    )


def _recorded(run: Run) -> str:
    name = run.id if run.completes is None else f"{run.id}, which completes {run.completes},"
    if run.commit is None:
        return f"recorded {name} outside git: name it by its id, or with last"
    bars = ["incomplete"] if not run.complete else []
    if run.unseen:
        bars.append(
            f"of a tree where git does not look at {first_of(run.unseen)}: git add it, or name it "
            "in .gitignore; if it is tracked git update-index --no-assume-unchanged or "
            "--no-skip-worktree"
        )
    elif run.dirty:
        bars.append("of a dirty tree")
    bar = f" (no baseline for it: the run is {' and '.join(bars)})" if bars else ""
    return f"recorded {name} for {run.commit[:7]}{bar}"
