"""The line that explains the letter of a case some of whose trials did not pass."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_llmeval.reports.formats import Line, counted


def explained_letters(cases: int) -> Iterator[Line]:
    """Explain ``m``, if it was printed for any case."""
    if cases:
        ways = "-rm shows them, --llm-fail-on-miss fails such a case"
        yield Line(f"m: {counted(cases, 'case')} passed with missed trials; {ways}")
