"""Files that a session leaves for others: ``--llm-report``, and the summary of a job on GitHub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_llmeval.checks import MARKDOWN
from pytest_llmeval.gate.results import Fact, Why
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports.document import Entry
from pytest_llmeval.reports.json import document, json_text
from pytest_llmeval.reports.markdown.page import render
from pytest_llmeval.settings import STEP_SUMMARY, Settings


def write_reports(report: Entry, paths: Sequence[Path]) -> list[str]:
    """Write the files that ``--llm-report`` names; return a sentence for each that cannot be.

    Args:
        report: the JSON report, of which all are made.
        paths: each ends in one of ``REPORT_ENDINGS``.
    """
    problems = []
    for path in paths:
        text = render(report) if path.suffix == MARKDOWN else json_text(report)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as exc:
            problems.append(f"--llm-report={path}: not written: {exc}")
    return problems


def append_summary(report: Entry, environ: Mapping[str, str]) -> list[str]:
    """Append the Markdown to the summary of the job, if this is one; return likewise.

    Args:
        report: the JSON report.
        environ: the variables of the session, among which GitHub names the file.
    """
    path = environ.get(STEP_SUMMARY)
    if not path:
        return []
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{render(report)}\n")
    except OSError as exc:
        return [f"{STEP_SUMMARY}={path}: not written: {exc}"]
    return []


def report_of_refusal(settings: Settings, message: str) -> Entry:
    """Make the report on a session that was refused before anything ran."""
    why = Fact(Why.REFUSED, (message,))
    return document(Judgement(settings=settings, could_not_judge=why))
