"""All lines of a session: its header, the live line, the section at its end.

`llmeval compare`, `show` and `list` print the same of recorded runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from http import HTTPStatus
from itertools import chain

from pytest_llmeval.errors import counted
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.records import Progress, Run, stops_of
from pytest_llmeval.reports import notation, remarks, sentences, telling, tries
from pytest_llmeval.reports.cost import capped_lines, cost_of_run, unknown_lines
from pytest_llmeval.reports.notation import BOLD, RED, YELLOW, Line, in_form, keys_in
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.reports.report import Report
from pytest_llmeval.reports.terminal import gated, headline, tables
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.unseen_connections import unseen, unseen_connections
from pytest_llmeval.runs.git import short_hash
from pytest_llmeval.runs.lookup.best_run import peculiarities, unusable_trials
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.store import FoundRun, first_of
from pytest_llmeval.safe_text import printable
from pytest_llmeval.settings import Settings, dir_option, lists_of, pytest_into

_ONE_TRIAL = "one trial of a case cannot show how much replies vary: type  --llm-repeats=5"
_LISTED_CASES = 3
_MINUTE = 60
_HOUR = 3600


def header(planned: Judgement) -> list[str]:
    """Name the baseline, before the first test."""
    sides = (planned.baseline, "baseline"), (planned.anchor, "anchor")
    named = (_named(found, side=side, notes=found.notes) for found, side in sides if found)
    return [printable(f"llm evals: {line}") for line in chain.from_iterable(named)]


def _named(found: Baseline, *, side: str, notes: Sequence[str]) -> list[str]:
    """Name a run that was found, and how: ``baseline main@1a2b3c4 (merge-base, ...), 10 repeats``.

    Args:
        found: a run.
        side: which one of a comparison it is.
        notes: what is odd about it.
    """
    run, named = found.run, f"{side} {headline.place(found)}"
    facts: list[str] = [found.chosen] if found.chosen else []
    facts += [found.how] if found.how != found.reference else []
    if found.how not in ("table", "nothing yet"):
        by = notation.recorded_by(found.how, run.ci)
        facts.append(f"recorded {run.created[:16].replace('T', ' ')}{by}")
    if found.how in ("file", "last", "run id"):
        facts.append(f"run {run.id}")
    repeats = sorted({case.repeats for case in run.cases})
    shown = counted(repeats[-1], "repeat") if repeats else "no case"
    if len(repeats) > 1:
        shown = f"{repeats[0]} to {shown}"
    if found.substitute:  # for a commit without a run
        named += f" instead of {(found.wanted or '')[:7]}, {found.distance} behind"
        if found.differing_files is not None:
            verb = "differs" if found.differing_files == 1 else "differ"
            named += f", {counted(found.differing_files, 'file')} {verb}"
    return [f"{named} ({', '.join(facts)}), {shown}", *(f"note: {note}" for note in notes)]


def progress_line(progress: Progress, *, width: int) -> str:
    """Word the progress of a session that runs, with as many parts as fit.

    Args:
        progress: how far the session is.
        width: columns that may be filled.
    """
    most = "at most " if progress.may_stop else ""
    parts = [f"llm evals: {progress.done}/{most}{progress.total} trials"]
    if progress.seconds_left is not None:  # the part that most people want, so it is cut off last
        parts.append(f"{_duration(progress.seconds_left)} left")
    for provider, status in progress.holding_back.items():
        is_pace = status == HTTPStatus.TOO_MANY_REQUESTS
        why = "too many calls" if is_pace else f"unavailable (HTTP {status})"
        parts.append(f"waiting for {provider}: {why}")
    if progress.in_flight is not None:
        parts.append(f"{progress.in_flight} under way")
    parts.append(f"{progress.made} calls made, {progress.replayed} replayed")
    while len(parts) > 1 and len(" · ".join(parts)) > width:
        parts.pop()
    return " · ".join(parts)[: max(0, width)]


def _duration(seconds: float) -> str:
    """Write ``40 s``, ``3 min``, ``1 h 10 min``, no finer, as it is an estimate."""
    if seconds < _MINUTE:
        return f"about {max(1, round(seconds))} s"
    minutes = round(seconds / _MINUTE)
    if seconds < _HOUR:
        return f"about {minutes} min"
    return f"about {minutes // 60} h {minutes % 60} min"


def section(
    report: Report, judgement: Judgement, page: Page, *, shown_as_m: int = 0
) -> Iterator[Line]:
    """Word a judgement: the result, the reasons, what was done; last what to type next.

    Args:
        report: on the judgement.
        judgement: of a session.
        page: to which the lines are fitted.
        shown_as_m: for how many cases pytest printed the letter ``m``.
    """
    lines = [*_result(report, judgement, page)]
    if report.anchor:
        lines += gated.anchored_lines(report.anchor, report, page)
    if lines:
        lines.append(Line())
    lines += [*gated.circumstances(report, judgement, page), *_facts(judgement, page)]
    lines += map(Line, filter(None, [tries.tries_line(judgement)]))
    if shown_as_m:
        ways = "-rm shows them, --llm-fail-on-miss fails such a case"
        lines.append(Line(f"m: {counted(shown_as_m, 'case')} passed with wrong answers; {ways}"))
    lines += [Line(text, BOLD) for text in filter(None, [report.to_decide])]
    return _fitted([*lines, *_next_command(report, judgement, page)], judgement, page)


def _fitted(lines: Iterable[Line], judgement: Judgement, page: Page) -> Iterator[Line]:
    """Fit lines to a page, with ini lines in the form of the user's file."""
    toml, known = judgement.settings.toml, {*lists_of(judgement.settings)}

    def told(line: Line) -> Line:
        text = in_form(line.text, toml=toml, known=known)
        known.update(keys_in(text))  # a key stands in the file once
        return replace(line, text=text)

    return page.fitted(map(told, lines))


def _next_command(report: Report, judgement: Judgement, page: Page) -> Iterator[Line]:
    """Write the command for both replies of the case that fell most, if the run was recorded."""
    run, baseline, anchor = judgement.run, judgement.baseline, judgement.anchor
    if run is None or judgement.path is None:
        return
    is_known = baseline is not None and run.compared_with == baseline.run.id
    runs = () if baseline is None or is_known else (baseline.reference, run.id)
    text = gated.command(report.side, page, runs=runs)
    if not text and anchor is not None and report.anchor is not None:
        text = gated.command(report.anchor, page, runs=(anchor.reference, run.id))
    if text:
        yield _where_typed(text, judgement)


def _where_typed(command: str, judgement: Judgement) -> Line:
    """Have a command look into the folder that was typed for this one."""
    return Line(f"{command}{dir_option(judgement.settings.typed_directory)}", BOLD)


def _result(report: Report, judgement: Judgement, page: Page) -> Iterator[Line]:
    yield from (Line(one.sentence, BOLD) for one in report.common_causes)
    yield from headline.headlines(judgement)
    if judgement.comparison is not None:
        yield from gated.gated_lines(report, page)
    elif headline.is_described(judgement):
        yield from _described(report, judgement, page)


def _facts(judgement: Judgement, page: Page) -> Iterator[Line]:
    """Tell what was run, paid and compared with."""
    run = judgement.run
    if run is not None:
        prices = Prices(judgement.settings.prices)
        cost = cost_of_run(run, prices)
        took = judgement.seconds if page.verbose else 0.0
        unseen_count = sum(judgement.connections.values())
        yield Line(" · ".join(_account(run, took, cost=str(cost), unseen=unseen_count)))
        yield from (Line(text, YELLOW) for text in unknown_lines(cost, prices))
        yield from (Line(text, RED) for text in capped_lines(run))
    yield from map(Line, _sides(judgement, page))
    if judgement.serial:
        reasons = ", ".join(f"{reason} ({count})" for reason, count in judgement.serial.items())
        cases = counted(sum(judgement.serial.values()), "case")
        yield Line(f"{cases} ran serially: {reasons}")
    for one in judgement.slowdowns:
        seconds = f"{one.seconds:.{0 if one.seconds >= 10 else 1}f}"  # noqa: PLR2004
        told = f"{one.provider} slowed us down {counted(one.times, 'time')}, by HTTP {one.status}:"
        yield Line(f"{told} down to {counted(one.lowest, 'call')} at once, {seconds} s waited")
    notes = [*unseen(judgement), *map(worded, judgement.notes), *unseen_connections(judgement)]
    yield from (Line(f"note: {note}", YELLOW) for note in notes)
    if judgement.path is not None and run is not None:
        yield from map(Line, _recorded(run, page, judgement.settings))


def _sides(judgement: Judgement, page: Page) -> Iterator[str]:
    """Name the runs that are compared with, as the header did, where they have remarks."""
    anchor = judgement.anchor if judgement.anchored is not None else None
    for found, side in ((judgement.baseline, "baseline"), (anchor, "anchor")):
        if found is not None and (page.verbose or found.substitute or found.remarks):
            yield from _named(found, side=side, notes=found.remarks)


def compared_lines(
    report: Report, judgement: Judgement, candidate: Baseline, page: Page
) -> Iterator[Line]:
    """Word a comparison of two runs that were named.

    Args:
        report: on the judgement.
        judgement: with a baseline.
        candidate: the run that was judged, and how it was found.
        page: to which the lines are fitted.
    """
    lines = [*_result(report, judgement, page), Line()]
    lines += gated.circumstances(report, judgement, page)
    sides = [found for found in (judgement.baseline, candidate) if found is not None]
    for side, found in zip(("baseline", "here"), sides, strict=True):
        name, *notes = _named(found, side=side, notes=found.remarks)
        lines += [Line(name), *(Line(note, YELLOW) for note in notes)]
    if judgement.fails:
        lines.append(Line(headline.failure_line(judgement), RED))
    text = gated.command(report.side, page, runs=[one.reference for one in sides])
    # a table has no replies, and the cases of a condition have other names
    if text and not any(one.is_table or "::" in one.reference for one in sides):
        lines.append(_where_typed(text, judgement))
    return _fitted(lines, judgement, page)


def shown_lines(
    report: Report, judgement: Judgement, found: Baseline, page: Page
) -> Iterator[Line]:
    """Word a single run, or a score table."""
    run = found.run
    ended = f"{counted(notation.case_count(run), 'case')}, {counted(len(run.trials), 'trial')}"
    of = f"commit {run.commit or 'none'}, branch {run.ref or 'none'}, created {run.created}"
    of = f"written {run.created}" if found.is_table else of
    lines = [Line(f"{found.named}, {ended}"), Line(of)]
    lines += (Line(f"note: {one}", YELLOW) for one in peculiarities(run, trials=len(run.trials)))
    lines += _described(report, judgement, page, is_table=found.is_table)
    return page.fitted([*lines, *headline.headlines(judgement)])


def _described(
    report: Report, judgement: Judgement, page: Page, *, is_table: bool = False
) -> Iterator[Line]:
    """Word a run that is compared with nothing: means, intervals, worst cases."""
    yield Line()
    yield from tables.described_table(report.side.described, report.settings, page)
    if judgement.run and {case.repeats for case in judgement.run.cases} == {1} and not is_table:
        yield Line(_ONE_TRIAL, YELLOW)
    why_drifts = "its repeats differ by more than chance explains: did the provider change"
    for one in judgement.descriptions:
        if one.drifts:
            yield Line(f"{notation.short(one)}: {why_drifts} meanwhile?", YELLOW)
        if one.identical_repeats:
            yield Line(f"{notation.label(one)}: {sentences.ONE_DRAW}", YELLOW)
    for function, short_of in telling.worst_cases(report.side.described)[:_LISTED_CASES]:
        case, metric = short_of.of, function.of.metric
        shown = notation.hits(case.scores, metric, are_hits=case.interval is not None)
        scores = f"{shown} {notation.ends_of(case.interval, metric) if page.verbose else ''}"
        name = notation.case_name(case.case, function.of)
        yield from gated.in_a_line(f"worst  {name}  {scores}".rstrip(), short_of.failure, page)
    lost = [one for one in judgement.descriptions if one.trials["errored"]]
    if lost:
        yield Line(f"errored trials have no score{remarks.run_again(judgement)}")
    for one in lost:
        yield from map(Line, remarks.first_errored(judgement, one))


def _account(run: Run, seconds: float, *, cost: str, unseen: int) -> Iterator[str]:
    """Count cases and calls: those that brought a reply or did not, and what was sent if more.

    Connections that were not seen are added: ``0 calls made`` alone would say that nothing was
    asked.
    """
    repeats, cases = sorted({case.repeats for case in run.cases}), counted(len(run.cases), "case")
    if len(repeats) > 1 or stops_of(run):
        yield f"{cases}, {counted(len(run.trials), 'trial')}"
    else:
        yield f"{cases} x {counted(repeats[0], 'repeat')}"
    calls = [call for trial in run.trials for call in trial.calls]
    yield from sorted({call.model for call in calls if call.model})
    made, replayed = sum(call.was_paid for call in calls), sum(call.replayed for call in calls)
    given_up = sum(call.was_given_up for call in calls)
    failed = sum(call.failure is not None for call in calls) - given_up
    more = f", {given_up} given up" * bool(given_up) + f", {failed} failed" * bool(failed)
    yield f"{made} calls made, {replayed} replayed{more}"
    if unseen:
        yield f"{counted(unseen, 'connection')} not seen"
    if run.attempts not in (None, made):
        yield f"{counted(run.attempts or 0, 'attempt')} sent"
    if run.outside_calls:
        yield f"{counted(run.outside_calls, 'call')} of no case"
    if seconds:  # none where runs were merged
        yield f"{seconds:.1f} s"
    if cost:
        yield cost


def _recorded(run: Run, page: Page, settings: Settings) -> Iterator[str]:
    """Name the recorded run where it cannot be a baseline, or few ask for it."""
    if run.commit is None:
        where = f"before the first commit of {run.ref}" if run.ref else "outside git"
        again = pytest_into(settings.typed_directory)
        yield f"recorded {run.id} {where}: compare with it by  {again} --llm-baseline=last"
        return
    stopped = ", as it stopped early" if run.stopped else ""
    bars = [f"incomplete{stopped}"] if not run.complete else []
    unknown = [file for file in run.unseen if file not in run.changed]
    hidden = [file for file in run.unseen if file in run.changed]
    if unknown:
        how = "git add it, or name it in .gitignore"
        bars.append(f"of a tree with {first_of(unknown)}, which git does not know: {how}")
    if hidden:
        how = "git update-index --no-assume-unchanged, or --no-skip-worktree"
        bars.append(f"of a tree where git does not look at {first_of(hidden)}: {how}")
    if run.dirty and not run.unseen:
        files = f" in {first_of(run.changed)}" if run.changed else ""
        bars.append(f"of uncommitted changes{files}: commit them and run again")
    why = [f"the run is {' and '.join(bars)}"] if bars else []
    if bar := "; ".join([*why, *unusable_trials(run)]):
        yield f"recorded {run.id} for {run.commit[:7]} (not usable as a baseline: {bar})"
    elif page.verbose or not settings.session:
        yield f"recorded {run.id} for {run.commit[:7]}"


def begins(commit: str) -> str:
    """Say that the evals of another commit run first."""
    return f"llm evals: the evals of {short_hash(commit)} run first, in a worktree"


def asks_again(reference: str, cases: int, repeats: int) -> str:
    """Say that something seems to have fallen, and who is asked again."""
    again = f"{counted(cases, 'case')} run {counted(repeats, 'time')} more"
    return f"llm evals: something seems to have fallen: {again}, on {reference} and here"


def confirmed_by(asked: Run, settings: Settings) -> Iterator[str]:
    """Say what it took to ask again; ``asked`` has those trials."""
    calls = sum(call.was_paid for trial in asked.trials for call in trial.calls)
    if calls:
        cost = cost_of_run(asked, Prices(settings.prices))
        shown = "" if cost.is_local else f" · {cost.spent}"
        yield f"further calls, to see whether the fall comes again: {calls}{shown}"


def ended(commit: str, found: FoundRun | None) -> str:
    """Say that the evals of another commit have ended."""
    run = "it has no such eval" if found is None else f"recorded as run {found.run.id}"
    return f"llm evals: end of the run of {short_hash(commit)}, {run}\n"


def rerun_notes(
    *, dropped: Sequence[str], dependencies: Sequence[str], submodules: Sequence[str]
) -> Iterator[str]:
    """Say how a baseline's run that was made now may differ from one that was made then.

    Args:
        dropped: paths that the user typed and that the commit lacks.
        dependencies: files by which the commit wants another environment than this one.
        submodules: folders that were empty.
    """
    if dropped:
        yield f"the commit lacks {first_of(dropped)}, which is compared with nothing"
    if dependencies:
        made = "the run was made with the packages installed here"
        yield f"{first_of(dependencies)} differs: {made}, which may not be what that commit wants"
    if submodules:
        yield f"the submodule {first_of(submodules)} was empty in that run"


def ignored_note(ignored: Sequence[str]) -> Iterator[str]:
    """Name the files that the session read here and that its baseline's new run lacked."""
    if ignored:
        inside = [name for name in ignored if not name.startswith("..")]
        todo = f": llm_base_files = {inside[0]}  in the ini file copies it" if inside else ""
        yield f"this run read {first_of(ignored)}, which git ignores and the baseline lacked{todo}"
