"""A JSON report that somebody else wrote, read strictly, and the comment that is made of it.

Nothing in it is believed or obeyed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmeval.errors import ReportRefused
from pytest_llmeval.reports.markdown import render
from pytest_llmeval.runs.git import short_hash
from pytest_llmeval.safe_text import printable

if TYPE_CHECKING:
    from pytest_llmeval.github.workflow_run import WorkflowRun

SCHEMA_FILE = Path(__file__).with_name("report-schema.json")  # docs/ has the same
MOST_BYTES = 5 * 10**6
MOST_VALUES = 10**6
DEEPEST = 20  # objects and lists in each other
LARGEST = 2**53  # whole numbers beyond it are not kept exactly
_INSTEAD = "look at the artifact, or report on a part of the suite"
_LONGEST_MISFIT = 100  # characters
LONGEST = 65_536  # characters that GitHub takes of a comment


def read_report(content: bytes) -> Mapping[str, Any]:
    """Read a report.

    Args:
        content: the file, of which more than ``MOST_BYTES`` need not be read.

    Raises:
        ReportRefused: it is too large, no JSON, or does not fit the schema.
    """
    if len(content) > MOST_BYTES:
        raise ReportRefused(f"the report has more than {MOST_BYTES} bytes: {_INSTEAD}")
    try:
        report = json.loads(content.decode(), object_pairs_hook=_object)
    except RecursionError:
        raise ReportRefused(
            "the report is nested too deeply: --llm-report writes none like it"
        ) from None
    except ValueError as exc:
        raise ReportRefused(f"the report is no JSON as --llm-report writes it: {exc}") from None
    _check_values(report)
    why = misfit(report)
    if why:
        raise ReportRefused(
            f"the report does not fit its schema: {printable(why)[:_LONGEST_MISFIT]}: "
            "was it written by another version of the plugin?"
        )
    return dict(report)


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


def misfit(document: object) -> str:
    """Say in what a document is no report of this schema; "" if it is one.

    Args:
        document: as ``json`` read it, from whatever source.
    """
    import fastjsonschema

    try:
        _check()(document)
    except fastjsonschema.JsonSchemaValueException as exc:
        return f"{exc.name or 'the report'}: {exc.message.removeprefix(exc.name or '').strip()}"
    return ""


@cache
def _check() -> Callable[[object], object]:
    """Compile the schema, which takes 0.1 s."""
    import fastjsonschema

    check: Callable[[object], object] = fastjsonschema.compile(
        json.loads(SCHEMA_FILE.read_text(encoding="utf-8")), use_default=False
    )
    return check


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return made


def _check_values(report: object) -> None:
    """Refuse what JSON allows and no report has: numbers beyond all bounds, heaps of values."""
    values, level = 0, [report]
    for _ in range(DEEPEST):
        values += len(level)
        if values > MOST_VALUES:
            raise ReportRefused(f"the report has more than {MOST_VALUES} values: {_INSTEAD}")
        for value in level:
            if isinstance(value, float) and not math.isfinite(value):
                raise ReportRefused("the report has a number that is not finite")
            if isinstance(value, int) and abs(value) > LARGEST:
                raise ReportRefused("the report has a whole number that is too large")
        level = [entry for value in level for entry in _entries(value)]
    if level:
        raise ReportRefused(f"the report has more than {DEEPEST} levels")


def _entries(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
