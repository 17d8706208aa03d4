"""Files that a session leaves for others: ``--llm-report``, and the summary of a job on GitHub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_llmeval.checks import HTML, MARKDOWN
from pytest_llmeval.gate.results import Fact, Why
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports.document import Entry
from pytest_llmeval.reports.json import json_text
from pytest_llmeval.reports.markdown.page import render
from pytest_llmeval.safe_text import printable
from pytest_llmeval.settings import STEP_SUMMARY, Settings

_LONGEST_WHY = 300


def write_reports(report: Entry, paths: Sequence[Path], judgement: Judgement) -> list[str]:
    """Write the files that ``--llm-report`` names; return a sentence for each that cannot be.

    Args:
        report: the JSON report, of which all are made.
        paths: each ends in one of ``REPORT_ENDINGS``.
        judgement: of which the report is made; a page of HTML has replies and earlier runs, too.
    """
    problems = []
    for path in paths:
        try:
            text = report_text(report, path.suffix, judgement)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except Exception as exc:  # the verdict stands, whatever a report stumbles over
            kind = "" if isinstance(exc, OSError) else f"{type(exc).__name__}: "
            why = printable(f"{kind}{exc}"[:_LONGEST_WHY])
            problems.append(f"--llm-report={path}: not written: {why}")
    return problems


def report_text(report: Entry, ending: str, judgement: Judgement) -> str:
    """Write a report in the form that an ending of ``REPORT_ENDINGS`` stands for."""
    if ending == HTML:
        from pytest_llmeval.reports.html.rendering import render_page  # numpy and scipy

        return render_page(report, judgement)
    return render(report) if ending == MARKDOWN else json_text(report)


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
    except Exception as exc:  # likewise
        return [f"{STEP_SUMMARY}={path}: not written: {exc}"]
    return []


def refused(settings: Settings, message: str) -> Judgement:
    """Make the judgement on a session that was refused before anything ran."""
    return Judgement(settings=settings, could_not_judge=Fact(Why.REFUSED, (message,)))
