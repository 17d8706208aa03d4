"""A report as one page of Markdown, for a pull request or the summary of a job."""

from __future__ import annotations

from pytest_llmeval.reports.markdown.cells import Entry
from pytest_llmeval.reports.markdown.head import head, is_unchanged, unchanged_line


def render(document: Entry) -> str:
    """Write a report as Markdown.

    Args:
        document: a JSON report, of this process or read from a file that fits the schema.

    Returns:
        Lines, with a newline at the end.
    """
    lines = [unchanged_line(document)] if is_unchanged(document) else head(document)
    return "\n".join([*lines, ""])
