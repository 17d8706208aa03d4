"""Changes of requests in words: ``[-lost-] {+new+}``, and how many cases have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_llmeval.errors import listed_names
from pytest_llmeval.models.message import ROLES
from pytest_llmeval.reports.common_causes import are_told
from pytest_llmeval.reports.formats import counted
from pytest_llmeval.reports.report import Report
from pytest_llmeval.safe_text import printable
from pytest_llmeval.transcripts.common_change import RequestChange
from pytest_llmeval.transcripts.word_diff import MessageDiff, Piece

_MARKS = {" ": ("", ""), "-": ("[-", "-]"), "+": ("{+", "+}")}
_MOST_NAMES = 2


def marked(piece: Piece) -> str:
    """Mark words that one side alone has, without the blanks and line ends before them."""
    begin, end = _MARKS[piece.op]
    text = piece.text.lstrip() if begin else piece.text
    if not text:  # nothing but blanks has changed
        return f"{begin}{printable(piece.text)}{end}"
    return f"{piece.text[: len(piece.text) - len(text)]}{begin}{text}{end}"


def changed_words(part: MessageDiff) -> str:
    """Write the changed words of a message, or a setting, in one line."""
    return " ".join("".join(map(marked, part.pieces)).split())


def told_changes(report: Report) -> list[tuple[str, RequestChange]]:
    """List the changes of requests, each with its heading, without what a common cause tells."""
    names = {one.of.function: one.name for one in report.side.compared}
    changes = []
    for one in report.request_changes:
        parts = [part for part in one.parts if not are_told(part.role, one.functions, report)]
        if parts:
            changes.append(replace(one, parts=tuple(parts)))
    return [(_heading(one, names), one) for one in changes]


def _heading(change: RequestChange, names: Mapping[str, str]) -> str:
    """Say in which functions and in how many cases a request changed so.

    Args:
        change: of requests.
        names: what to call each function.
    """
    noun = "prompt" if ROLES.issuperset(part.role for part in change.parts) else "request"
    functions = [names.get(function, function) for function in change.functions]
    of = listed_names(functions, _MOST_NAMES)
    text = f"what changed in the {noun} of {of}"
    if change.cases == change.looked_at:
        return text if change.cases == 1 else f"{text}, the same in all {change.cases} cases"
    if change.cases > 1:
        return f"{text}, the same in {change.cases} of {counted(change.looked_at, 'case')}"
    rest = f"the {change.looked_at} changed cases have no change in common"
    return f"what changed in the {noun} of {change.case.rpartition('::')[2]}; {rest}"
