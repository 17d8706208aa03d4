"""The comment below a pull request, made of the report of another job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_llmeval.github.workflow_run import WorkflowRun
from pytest_llmeval.runs.git import short_hash
from pytest_llmeval.safe_text import code_span, prose

LONGEST = 65_000  # characters; GitHub takes 65,536


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
    """
    ended = f"[its run]({run.url}) ended in {run.conclusion}"
    origin = f"As reported by the pull request's job for {short_hash(run.commit)}; {ended}."
    text = f"{marker(name)}\n{origin}\n\n{_rendered(report)}"
    return text.encode("utf-8", "replace").decode()[:LONGEST]


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


def _rendered(report: Mapping[str, Any]) -> str:
    fails = " (fails)" if report["fails"] else ""
    lines = [f"**{prose(report['verdict'])}**{fails} {prose(report['why'])}", ""]
    lines += [
        f"- {code_span(one['function'])}: {prose(one['verdict'])}" for one in report["functions"]
    ]
    return "\n".join([*lines, "", *map(prose, report["notes"])])
