"""The lines of a comparison: its table, and what there is to say on each function.

Of the cases that fell or rose most there is a line of both replies, and the command for the rest.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from pytest_llmeval.gate.results import CaseComparison, Comparison, FunctionComparison, Verdict
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports import remarks, sentences
from pytest_llmeval.reports.document import has_moved, moved_ungated
from pytest_llmeval.reports.entries import ungated_function
from pytest_llmeval.reports.formats import (
    YELLOW,
    Line,
    case_name,
    columns,
    label,
    percent,
    short,
)
from pytest_llmeval.reports.provenance import differences
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.reports.sentences import all_lost, count_moved, most_moved, moved_case, verb
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.terminal.tables import by_severity, compared_table, side_name, style
from pytest_llmeval.transcripts.word_diff import first_difference

_MOST_CASES = 8  # after so many a function has one case, but under -v
_LISTED_CASES = 3
_LISTED_MORE = 4  # by name alone
_LISTED_OTHERS = 1  # that went the other way
_LISTED_LOST = 20
_LEAST_ROOM = 20  # in which the beginning of a message still tells something
_OPEN = (Verdict.REGRESSED, Verdict.NOT_COMPARABLE, Verdict.INCONCLUSIVE)
_FELL = (*_OPEN, Verdict.NO_SIGNIFICANT_CHANGE)  # or may have


def gated_lines(judgement: Judgement, page: Page) -> Iterator[Line]:
    """Word the comparison with the baseline: its table, and each function by itself."""
    lines, left_out = compared_table(judgement, page)
    yield from lines
    shown, before = 0, None
    for function in by_severity(judgement.comparison):
        told = _told_cases(function)
        if shown >= _MOST_CASES and function.verdict is not Verdict.NO_SIGNIFICANT_CHANGE:
            told = told if page.verbose else told[:1]
        shown += len(told)
        dropped = left_out.get((function.function, function.metric), [])
        about = [*_about(judgement, function, page, told=told, dropped=dropped)]
        is_one_more = before is function.verdict is Verdict.NEW  # each of these has a line alone
        yield from about[1:] if is_one_more else about
        before = function.verdict


def circumstances(judgement: Judgement, page: Page) -> Iterator[Line]:
    """Tell what else differs from the baseline, and what the comparison with it holds for."""
    for difference in differences(judgement):
        yield Line(f"differs from the baseline: {difference.line(judgement.names)}")
    rules, comparison = judgement.settings.gate, judgement.comparison
    if comparison is None:
        return
    yield from _ungated(comparison, page)
    scopes = [*remarks.scope(comparison, rules)]
    if page.verbose and (family := remarks.family_words(comparison, rules)):
        scopes.append(family)
    if page.verbose and any(one.effect.mean_interval for one in comparison.functions):
        scopes.append(
            f"beside a mean: its own {percent(1 - 2 * rules.alpha)} interval, which tests nothing"
        )
    if scopes:
        yield Line(" · ".join(scopes))
    yield from (Line(f"note: {worded(note)}", YELLOW) for note in comparison.notes)
    if comparison.not_judged:
        yield Line(remarks.not_judged(comparison), YELLOW)


def anchored_lines(against: Judgement, page: Page) -> Iterator[Line]:
    """Word the comparison with the anchor, which stands for the baseline: what fails in it."""
    yield from compared_table(against, page)[0]
    for one in by_severity(against.comparison):
        if one.fails:
            text = sentences.sentence(one, against.settings.gate)
            yield Line(f"against the anchor: {text}", style(one))
            yield from _moved_lines(against, one, page, told=_told_cases(one))


def _about(
    judgement: Judgement,
    function: FunctionComparison,
    page: Page,
    *,
    told: Sequence[CaseComparison],
    dropped: Sequence[str],
) -> Iterator[Line]:
    name, text = label(function), sentences.sentence(function, judgement.settings.gate)
    is_told = text != sentences.ALL_REPLAYED  # else the table has said that much
    if is_told:
        yield Line()
        yield Line(sentences.with_name(text, name), style(function))
    yield from _moved_lines(judgement, function, page, told=told)
    for remark in remarks.remarks(judgement, function):
        yield Line(f"  {remark}")
    if dropped:
        yield Line(f"{'  ' if is_told else f'{name}: '}{' · '.join(dropped)}")
    if accepting := remarks.accepting_line(judgement, function):
        yield Line(f"  if this drop is meant, say in the ini file  {accepting}")


def _ungated(comparison: Comparison, page: Page) -> Iterator[Line]:
    """Tell how the metrics moved that decide nothing, a line a function."""
    by_function: dict[str, list[str]] = {}
    for one in comparison.ungated:
        entry = ungated_function(one)
        if one.effect.changed and (page.verbose or has_moved(entry)):
            moved = f"{one.metric} {moved_ungated(entry)}"
            by_function.setdefault(short(one), []).append(moved)
    for name, metrics in by_function.items():
        yield Line(f"not gated  {name}  {', '.join(metrics)}")


def _told_cases(function: FunctionComparison) -> list[CaseComparison]:
    """Choose the cases that are named; each fell or rose."""
    verdict = function.verdict
    if verdict is Verdict.NO_SIGNIFICANT_CHANGE:
        return all_lost(function)
    if verdict not in (*_OPEN, Verdict.IMPROVED):
        return []
    improved = verdict is Verdict.IMPROVED
    ways = (improved, _LISTED_CASES), (not improved, _LISTED_OTHERS)
    return [case for way, most in ways for case in most_moved(function, most, improved=way)]


def _moved_lines(
    judgement: Judgement,
    function: FunctionComparison,
    page: Page,
    *,
    told: Sequence[CaseComparison],
) -> Iterator[Line]:
    """Name the cases that moved most, with the first failure and a line of both replies.

    Args:
        judgement: with the baseline, the failures and the replies.
        function: whose cases are told.
        page: on which each takes few lines.
        told: the cases.
    """
    sides = side_name(judgement), "here"
    differences = [case.difference for case in function.compared]
    has_more = sum(map(bool, differences)) > len(told) > 0
    if has_more and function.verdict is not Verdict.NO_SIGNIFICANT_CHANGE:
        yield Line(f"  {count_moved(differences, function.better)}")
    rows = [_row(function, case) for case in told]
    if any(columns(page.shown(row)) > page.width for row in rows):
        # the sentence above has the function's name
        rows = [_row(function, case, is_brief=True) for case in told]
    others = _others(function, told)
    for row, case in zip(rows, told[:_LISTED_LOST], strict=False):
        improved = case.difference > 0
        if others and improved:
            yield Line(others)
            others = ""
        headline = "" if improved else judgement.headlines.get(case.case, "")
        yield from in_a_line(row, headline, page)
        yield from _replies(judgement.excerpts.get(case.case, (None, None)), page, sides=sides)
    if others:
        yield Line(others)
    if len(told) > _LISTED_LOST:
        more = len(told) - _LISTED_LOST
        yield Line(f"  and {more} more that fell from all passed to all missed")


def _row(function: FunctionComparison, case: CaseComparison, *, is_brief: bool = False) -> str:
    """Write how a case moved: ``fell most  test_x[Peru]  10/10 -> 1/5``."""
    moved = moved_case(case, function)
    if is_brief and case.case.startswith(f"{function.function}["):
        moved = moved.removeprefix(short(function))
    return f"  {verb(function.better, improved=case.difference > 0)} most  {moved}"


def _others(function: FunctionComparison, told: Sequence[CaseComparison]) -> str:
    """Name further cases that fell nearly as far as the first; "" if there is none."""
    fell = most_moved(function, _LISTED_CASES + _LISTED_MORE)
    if function.verdict not in _OPEN or not fell:
        return ""
    others = [
        moved_case(case, function).removeprefix(short(function))
        for case in fell
        if 2 * case.difference <= fell[0].difference and case not in told
    ]
    return f"  {verb(function.better, improved=False)} too  {' · '.join(others)}" if others else ""


def _replies(
    replies: tuple[str | None, str | None], page: Page, *, sides: tuple[str, str]
) -> Iterator[Line]:
    """Put a line of both replies one below the other, from where they part if that is far on."""
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


def command(functions: Sequence[FunctionComparison], *, runs: Sequence[str] = ()) -> str:
    """Write what shows both replies of the case that fell most; "" if none is said to have fallen.

    Args:
        functions: the worst one first.
        runs: names of both runs, none for the baseline and the last one.
    """
    told = ((one, case) for one in functions if one.verdict in _FELL for case in _told_cases(one))
    worst = next((each for each in told if each[1].difference < 0), None)
    if worst is None:
        return ""
    names = [case.case for one in functions for case in one.compared]
    name = case_name(worst[1].case, worst[0].function, short(worst[0]))
    if len({other for other in names if name in other}) > 1:
        name = worst[1].case
    return f"read both replies:  llmeval diff {' '.join(map(shlex.quote, (name, *runs)))}"
