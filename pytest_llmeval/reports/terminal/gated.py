"""The lines of a comparison: its table, and the sentences on each function.

The cases that fell or rose most have a line of both replies, and the command for the rest.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from pytest_llmeval.errors import counted, listed_names
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports import common_causes, reasons, sentences, telling
from pytest_llmeval.reports.notation import (
    YELLOW,
    Line,
    case_name,
    columns,
    decimals,
    percent,
)
from pytest_llmeval.reports.remarks import claims
from pytest_llmeval.reports.report import (
    CaseEntry,
    ComparedFunction,
    Excerpt,
    MovedCase,
    Report,
    Side,
)
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.terminal.tables import CAN_FIND, compared_table, side_name, style
from pytest_llmeval.transcripts.word_diff import first_difference

_MOST_CASES = 8  # after this many functions each names one case, except under -v
_LINES_OF_A_PART = 5  # of a changed request
_LISTED_FUNCTIONS = 5
_LISTED_CASES = 3
_LISTED_MORE = 4  # by name alone
_LISTED_OTHERS = 1  # that went the other way
_LISTED_LOST = 20
_LEAST_ROOM = 20  # columns in which the beginning of a message is still worth reading
_OPEN = (Verdict.REGRESSED, Verdict.NOT_COMPARABLE, Verdict.NOT_CONFIRMED, Verdict.INCONCLUSIVE)
_FELL = (*_OPEN, Verdict.NO_SIGNIFICANT_CHANGE, Verdict.IMPROVED)  # or some of their cases

Told = Sequence[MovedCase[CaseEntry]]  # cases that have a line of their own


def gated_lines(report: Report, page: Page) -> Iterator[Line]:
    """Word the comparison with the baseline: its table, and each function by itself."""
    side = report.side
    lines, left_out = compared_table(side, report.settings, page)
    yield from lines
    for heading, change in common_causes.told_changes(report):
        yield from (Line(), Line(heading))
        for part in change.parts:
            words = f"  {part.role}  {common_causes.changed_words(part)}"
            yield Line(page.cut(words, _LINES_OF_A_PART * page.width))
    shown, before = 0, None
    for function in telling.worst_first(side.compared):
        of, told = function.of, _told_cases(function, page)
        if shown >= _MOST_CASES and of.verdict is not Verdict.NO_SIGNIFICANT_CHANGE:
            told = told if page.verbose else told[:1]
        shown += len(told)
        dropped = left_out.get((of.function, of.metric), [])
        about = [*_about(side, function, page, told, dropped)]
        is_one_more = before is of.verdict is Verdict.NEW  # each of these functions has one line
        yield from about[1:] if is_one_more else about
        before = of.verdict


def circumstances(report: Report, judgement: Judgement, page: Page) -> Iterator[Line]:
    """Write the other differences from the baseline, and the scope of the comparison."""
    for difference in common_causes.other_differences(report):
        yield Line(f"differs from the baseline: {difference.line(judgement.names)}")
    comparison, rules = judgement.comparison, report.settings
    if comparison is None:
        return
    yield from _ungated(report, page)
    # that figures hold for these cases and their wording is true of nearly all comparisons
    known = [] if page.verbose else claims(comparison.functions, these_alone=True)
    scopes = [text for text in report.scope if text not in known]
    if page.verbose and any(one.effect.mean_interval for one in comparison.functions):
        level = percent(1 - 2 * rules.alpha)
        scopes.append(f"beside a mean: its own {level} interval; do not compare two")
    asked = [one for one in comparison.functions if one.effect.changed]
    changed = [one.effect.changed for one in asked if telling.tells_drop(one, target=rules.target)]
    if page.verbose and changed:
        scopes.append(f"{CAN_FIND}: what is found {sentences.how_often_caught(min(changed))}")
    if scopes:
        yield Line(" · ".join(scopes))
    yield from (Line(f"note: {reasons.worded(note)}", YELLOW) for note in comparison.notes)
    if missing := report.not_judged:
        names = [f"{one.name} ({counted(one.cases, 'case')}, {one.why})" for one in missing]
        yield Line(f"not judged: {listed_names(names, _LISTED_FUNCTIONS)}", YELLOW)


def anchored_lines(anchor: Side, report: Report, page: Page) -> Iterator[Line]:
    """Word the comparison with the anchor: the functions that fail."""
    yield from compared_table(anchor, report.settings, page)[0]
    for one in telling.worst_first(anchor.compared):
        if one.of.fails:
            yield Line(f"against the anchor: {one.sentence}", style(one.of))
            told = _told_cases(one, page)
            yield from (Line(f"  {text}") for text in _counts(one, told))
            yield from _moved_lines(anchor, one, page, told)


def _about(
    side: Side, function: ComparedFunction, page: Page, told: Told, dropped: Sequence[str]
) -> Iterator[Line]:
    replayed = (sentences.ALL_REPLAYED, sentences.COMPARED_REPLAYED)
    is_told = function.sentence not in replayed  # else the table shows it already
    if is_told:
        text = sentences.with_name(function.sentence, function.label)
        yield from (Line(), Line(text, style(function.of)))
    if facts := [*_counts(function, told), *dropped]:
        yield Line(f"{'  ' if is_told else f'{function.label}: '}{' · '.join(facts)}")
    yield from _moved_lines(side, function, page, told)
    remarks = [*(telling.pass_hat_words(function) if page.verbose else ()), *function.remarks]
    yield from (Line(f"  {remark}") for remark in remarks)
    if function.accepting_line:
        bound = ""
        if function.of.effect.mean_interval is not None and function.of.effect.mean is not None:
            end = "lower" if function.of.better == "higher" else "upper"
            bound = f" (the {end} end of the interval of {decimals(function.of.effect.mean)})"
        yield Line(f"  to accept it, add to the ini file{bound}  {function.accepting_line}")


def _ungated(report: Report, page: Page) -> Iterator[Line]:
    """Write how the ungated metrics moved, a line a function."""
    by_function: dict[str, list[str]] = {}
    for one in report.ungated:
        if one.changed and page.verbose:
            moved = f"{one.metric} {telling.moved_ungated(one)}"
            by_function.setdefault(one.name, []).append(moved)
    for name, metrics in by_function.items():
        yield Line(f"not gated  {name}  {', '.join(metrics)}")


def _told_cases(function: ComparedFunction, page: Page) -> list[MovedCase[CaseEntry]]:
    """Choose the cases that are named in a line of their own; each fell or rose."""
    verdict = function.of.verdict
    if verdict is Verdict.NO_SIGNIFICANT_CHANGE:
        moved = {case.of.case: case for case in function.moved}
        return [moved.get(one.case) or MovedCase(of=one) for one in sentences.all_lost(function)]
    if verdict not in (*_OPEN, Verdict.IMPROVED):
        return []
    improved, most = verdict is Verdict.IMPROVED, _LISTED_CASES if page.verbose else 1
    leading, others = (_moved(function, improved=way) for way in (improved, not improved))
    return [*leading[:most], *others[:_LISTED_OTHERS]]


def _counts(function: ComparedFunction, told: Told) -> Iterator[str]:
    """Count the cases that fell and rose, unless all of them are named."""
    if sum(bool(case.difference) for case in function.compared) > len(told) > 0:
        yield telling.moved_counts(function)
    if telling.is_mean_alone(function.of):
        yield telling.MEAN_ALONE


def _moved(function: ComparedFunction, *, improved: bool) -> list[MovedCase[CaseEntry]]:
    """Return the cases that went one way; the case that moved most is the first."""
    return [case for case in function.moved if (case.of.difference > 0) is improved]


def _moved_lines(side: Side, function: ComparedFunction, page: Page, told: Told) -> Iterator[Line]:
    """Name the cases that moved most, with the first failure and a line of both replies.

    Args:
        side: the comparison that the function is of.
        function: whose cases are told.
        page: on which each takes few lines.
        told: the cases.
    """
    sides = side_name(side), "here"
    rows = [_row(function, case) for case in told]
    if any(columns(page.shown(row)) > page.width for row in rows):
        # the sentence above has the function's name
        rows = [_row(function, case, is_brief=True) for case in told]
    others = _others(function, told)
    for row, case in zip(rows, told[:_LISTED_LOST], strict=False):
        if others and case.of.difference > 0 > told[0].of.difference:
            yield Line(others)
            others = ""
        yield from in_a_line(row, case.failure, page)
        if page.verbose or case is told[0] or case.of.difference < 0 < told[0].of.difference:
            yield from _replies(case.excerpt or Excerpt(None, None), page, sides=sides)
    if others:
        yield Line(others)
    if (more := len(told) - _LISTED_LOST) > 0:
        yield Line(f"  and {more} more that fell from all passed to all missed")


def _row(function: ComparedFunction, case: MovedCase[CaseEntry], *, is_brief: bool = False) -> str:
    """Write how a case moved: ``fell most  test_x[Peru]  10/10 -> 1/5``."""
    moved = sentences.moved_case(case.of, function.of)
    if is_brief and case.of.case.startswith(f"{function.of.function}["):
        moved = moved.removeprefix(function.name)
    return f"  {sentences.verb(function.of.better, improved=case.of.difference > 0)} most  {moved}"


def _others(function: ComparedFunction, told: Told) -> str:
    """Name further cases that fell nearly as far as the first; "" if there is none."""
    fell = _moved(function, improved=False)[: _LISTED_CASES + _LISTED_MORE]
    if function.of.verdict not in (*_OPEN, Verdict.IMPROVED) or not fell:
        return ""
    nearly = [case for case in fell if 2 * case.of.difference <= fell[0].of.difference]
    others = [telling.moved_in_brief(case.of, function) for case in nearly if case not in told]
    word = sentences.verb(function.of.better, improved=False)
    named = len(others) + sum(case.of.difference < 0 for case in told)
    more = sum(case.difference < 0 for case in function.compared) - named
    rest = f" and {more} more" if more else ""
    return f"  {word} too  {' · '.join(others)}{rest}" if others else ""


def _replies(replies: Excerpt, page: Page, *, sides: tuple[str, str]) -> Iterator[Line]:
    """Put a line of each reply one below the other, from their first difference if it is late."""
    width = max(map(columns, sides))
    room = page.width - width - 6
    old, new = (reply or "" for reply in replies)
    skipped = 0
    if old and new and max(columns(old), columns(new)) > room:
        skipped = max(0, first_difference(old, new) - room // 3)
    for side, reply in zip(sides, replies, strict=True):
        if reply is not None:
            name = side + " " * (width - columns(side))
            text = f"\N{HORIZONTAL ELLIPSIS}{reply[skipped:]}" if skipped else reply
            yield Line(page.cut(f"    {name}  {text}", page.width))


def in_a_line(text: str, message: str, page: Page) -> Iterator[Line]:
    """Put a message behind a text, or below it where there is no room."""
    room = page.width - columns(page.shown(text)) - 2
    if message and room >= min(_LEAST_ROOM, len(message)):
        yield Line(f"{text}  {page.cut(message, room)}")
        return
    yield Line(text)
    if message:
        yield Line(page.cut(f"    {message}", page.width))


def command(side: Side, page: Page, *, runs: Sequence[str] = ()) -> str:
    """Write the command that shows both replies of the case that fell most; "" if none fell.

    Args:
        side: the comparison.
        page: that names the cases.
        runs: names of both runs, none for the baseline and the last one.
    """
    fell = (one for one in telling.worst_first(side.compared) if one.of.verdict in _FELL)
    told = ((one, case) for one in fell for case in _told_cases(one, page))
    worst = next((each for each in told if each[1].of.difference < 0), None)
    if worst is None:
        return ""
    function, case = worst[0], worst[1].of.case
    names = {each.case for one in side.compared for each in one.compared}
    name = case_name(case, function.of)
    if sum(name in other for other in names) > 1:
        name = case
    return f"read both replies:  llmeval diff {' '.join(map(shlex.quote, (name, *runs)))}"
