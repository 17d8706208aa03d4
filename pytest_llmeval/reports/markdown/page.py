"""A report as one page of Markdown, for a pull request or the summary of a job."""

from __future__ import annotations

from pytest_llmeval.reports.formats import counted
from pytest_llmeval.reports.markdown.cells import Entry
from pytest_llmeval.reports.markdown.details import functions, provenance
from pytest_llmeval.reports.markdown.head import head, is_unchanged, unchanged_line

MOST = 64_000  # characters; a comment on GitHub has at most 65,536, and begins with more
_ROOM_FOR_NOTE = 300


def render(document: Entry) -> str:
    """Write a report as Markdown.

    Args:
        document: a JSON report, of this process or read from a file that fits the schema.

    Returns:
        At most ``MOST`` characters, a newline at the end. What is left out for that is said.
    """
    if is_unchanged(document):
        return f"{unchanged_line(document)}\n"
    parts = ["\n".join([*head(document), ""]), *provenance(document)]
    room = MOST - _ROOM_FOR_NOTE - sum(map(len, parts))
    cut = 0
    for block in functions(document):
        if len(block) < room:
            parts.append(block)
            room -= len(block) + 1
        else:
            cut += 1
    if cut:
        blocks = counted(cut, "block of details", "blocks of details")
        parts.append(f"Left out, as there is no more room: {blocks}. The JSON report has all.\n")
    return "\n".join(parts)
