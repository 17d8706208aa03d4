"""The comment below a pull request, made of the report of another job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_llmeval.errors import ReportRefused
from pytest_llmeval.github.workflow_run import WorkflowRun
from pytest_llmeval.reports.markdown.page import render
from pytest_llmeval.runs.git import short_hash

LONGEST = 65_536  # characters that GitHub takes


def marker(name: str) -> str:
    """Return the first line of a comment, which nobody sees.

    Args:
        name: of what is compared, as a repository may have several suites.
    """
    return f"<!-- llmeval comment: {name} -->"


def written(report: Mapping[str, Any], run: WorkflowRun, *, name: str) -> str:
    """Write the comment on a run: who says so, and what the report says.

    Args:
        report: as its schema has it; all texts in it are a stranger's.
        run: as GitHub tells it.
        name: for the marker.

    Raises:
        ReportRefused: it fits the schema and contradicts itself, so that it cannot be shown.
    """
    try:
        shown = render(report)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as exc:
        raise ReportRefused(f"the report contradicts itself: {type(exc).__name__}") from None
    ended = f"[its run]({run.url}) ended in {run.conclusion}"
    origin = f"As reported by the pull request's job for {short_hash(run.commit)}; {ended}."
    text = f"{marker(name)}\n{origin}\n\n{shown}"
    # Half a line could be what nobody wrote.
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition("\n")[0]


def nobody_to_tell(run: WorkflowRun, repository: str, numbers: Sequence[int]) -> str:
    """Say why a run is not commented on."""
    of = f"run {run.id} was for {short_hash(run.commit)} of {run.repository}:{run.branch}"
    if not numbers:
        return f"nothing to comment: {of}, and no open pull request of {repository} ends there"
    several = ", ".join(f"#{number}" for number in numbers)
    return f"nothing to comment: {of}, which cannot be told apart in {several}"


def is_worth_a_comment(report: Mapping[str, Any]) -> bool:
    """Whether there is anything to say where nothing was said before."""
    return report["verdict"] != "unchanged" or bool(report["fails"])
