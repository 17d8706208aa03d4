"""The verdict in a line: the first lines of the section, and pytest's last line."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_llmeval.errors import counted
from pytest_llmeval.gate.results import Comparison, Verdict
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports import notation, sentences, telling
from pytest_llmeval.reports.notation import BOLD, RED, YELLOW, Line
from pytest_llmeval.reports.reasons import unjudgeable, why_failed, without_key, worded
from pytest_llmeval.reports.terminal.tables import style
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import Settings, lists_of


def headlines(judgement: Judgement) -> list[Line]:
    """Write the result of a session or a comparison, the reason to fail first."""
    lines = list[Line]()
    if judgement.could_not_judge:
        lines.append(Line(f"could not judge: {unjudgeable(judgement.could_not_judge)}", RED))
    if judgement.keyless:
        lines.append(Line(without_key(judgement), YELLOW if judgement.is_deferred else RED))
    compared = [(judgement.comparison, judgement.baseline, "")]
    compared.append((judgement.anchored, judgement.anchor, "the anchor "))
    for comparison, found, side in compared:
        if comparison is not None and found is not None:
            lines += _verdict(comparison, f"{side}{place(found)}", judgement.settings)
            if why := why_failed(comparison, judgement.settings):
                lines.append(Line(f"against {side.rstrip()}: {why}" if side else why, RED))
    if judgement.unsaved:
        lines.append(Line(worded(judgement.unsaved), RED))
    if is_described(judgement):
        lines.append(_ungated(judgement))
    return sorted(lines, key=lambda line: line.markup != RED)


def failure_line(judgement: Judgement) -> str:
    """Say in one plain line why the session fails, and whose line it is."""
    return f"llm evals: {why_it_fails(judgement)}"


def why_it_fails(judgement: Judgement) -> str:
    """Say in one plain line why the session fails."""
    settings = judgement.settings
    return notation.in_form(_failure(judgement), toml=settings.toml, known=lists_of(settings))


def _failure(judgement: Judgement) -> str:
    if judgement.could_not_judge:
        return f"could not judge: {unjudgeable(judgement.could_not_judge)}"
    if judgement.keyless and not (judgement.found_worse or judgement.is_deferred):
        return without_key(judgement)
    comparison, against = judgement.comparison, ""
    if (comparison is None or not comparison.fails) and judgement.anchored is not None:
        comparison, against = judgement.anchored, "against the anchor: "
    if comparison is None or (judgement.unsaved and not comparison.fails):
        return worded(judgement.unsaved)
    failing = sorted((one for one in comparison.functions if one.fails), key=telling.severity)
    if not failing:
        return f"{against}{why_failed(comparison, judgement.settings)}"
    text = sentences.sentence(failing[0], judgement.settings.gate)
    first = sentences.with_name(text, notation.label(failing[0]))
    named, *others = (one.function for one in failing)
    count = notation.counted_comparisons(others, more="more ", besides=[named])
    return f"{against}{first}" + (f" (and {count})" if others else "")


def is_described(judgement: Judgement) -> bool:
    """Tell whether a run is described, as it is compared with nothing."""
    if judgement.comparison is not None or judgement.run is None:
        return False
    return bool(judgement.descriptions) or not (judgement.could_not_judge or judgement.keyless)


def place(found: Baseline) -> str:
    """Name a run by its commit: ``main@1a2b3c4``, or ``1a2b3c4`` if the user typed this."""
    commit = (found.run.commit or "")[:7]
    if notation.is_own_hash(found.reference, found.run.commit):
        return commit
    return f"{found.reference}@{commit}" if commit else found.reference


def _verdict(comparison: Comparison, against: str, settings: Settings) -> Iterator[Line]:
    verdict, functions = comparison.verdict, comparison.functions
    having = [one for one in functions if one.verdict is verdict]
    if not having:
        return
    first = min(having, key=lambda one: not one.fails)
    word = sentences.verdict_words(verdict, accepted=first.accepted)
    if verdict is Verdict.UNCHANGED:
        word = sentences.unchanged_words(having)
    count = notation.counted_comparisons([one.function for one in functions])
    if len(having) < len(functions):
        count = f"{len(having)} of {count}"
    outcome = ""
    if verdict in (Verdict.NOT_CONFIRMED, Verdict.INCONCLUSIVE):
        why = f"{settings.prefix}strict" if settings.gate.strict else "fewer repeats than on main"
        outcome = f" (fails the build: {why})" if first.fails else " (does not fail the build)"
    elif verdict is Verdict.IMPROVED:
        # fewer trials of a case fall by chance, also where nothing changed
        lost = sum(case.difference == -1 for one in having if one.are_hits for case in one.compared)
        outcome = f", but {counted(lost, 'case')} fell from 1 to 0" if lost else ""
    yield Line(f"{word}: {count} vs {against}{outcome}", style(first) or BOLD)


def _ungated(judgement: Judgement) -> Line:
    if judgement.settings.makes_baseline:
        return Line("the next run is compared with this one")
    if judgement.not_gated:
        return Line(f"not gated: {judgement.not_gated}", YELLOW)
    if judgement.run is not None and judgement.run.commit is None:
        return Line("compared with nothing yet", YELLOW)  # the line on the recorded run says more
    return Line("compared with nothing yet: on a branch, add  --llm-baseline=main", YELLOW)
