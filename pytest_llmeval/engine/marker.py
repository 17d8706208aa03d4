"""The marker ``llm_eval``: its decorator, which items are evals, and what it says of a case."""

from __future__ import annotations

import inspect
import unittest
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import pytest

from pytest_llmeval.engine import mark_arguments
from pytest_llmeval.engine.case_sources import is_sampled
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Better, Case, function_of
from pytest_llmeval.runs.run_lines import parameters_digest
from pytest_llmeval.settings import MARKER, Settings

_EMPTY = "got empty parameter set"  # how pytest begins the reason of such a skip
_Marked = TypeVar("_Marked", bound=Callable[..., object] | type)

if TYPE_CHECKING:

    @overload
    def llm_eval(marked: _Marked, /) -> _Marked: ...

    @overload
    def llm_eval(
        repeats: int | None = None,
        *,
        min_score: float | None = None,
        gate: str | Sequence[str] | None = None,
        better: Better | Mapping[str, Better] = "higher",
        cluster: str | None = None,
        wording: str | None = None,
        concurrency: Literal["serial"] | None = None,
        intercept: bool | None = None,
    ) -> pytest.MarkDecorator: ...


def llm_eval(*args: Any, **arguments: Any) -> Any:
    """Mark a test function or class as an eval; with or without parentheses.

    The same as ``@pytest.mark.llm_eval(...)``. Arguments are checked at collection, so
    that a mistake is one line and not a traceback of an import.

    Args:
        *args: ``repeats``, which may be given by position, or what is marked.
        **arguments: those below.

    Keyword Args:
        repeats (int): how many trials a case has, 1 or more; ``llm_repeats`` (5) if it is left
            out. ``--llm-repeats`` overrides it.
        min_score (float): the case fails if the mean of its gated metric over its trials is
            below this number, which is in the metric's own unit.
        gate (str | Sequence[str]): the metric, or metrics, that the gate looks at: ``pass``
            (0 or 1), those that the test records by ``llm_score``, and ``seconds``, ``tokens``
            and ``cost`` (dollars) of the calls of a trial. If it is left out: ``score`` where
            one is recorded, else ``pass``.
        better (str | Mapping[str, str]): ``"higher"`` or ``"lower"``, for the metrics that the
            test records, or for each by its name: ``{"latency_ms": "lower"}``. It must be given
            for gated names that usually mean that lower is better, such as ``latency_ms``.
        cluster (str): name of a parametrize argument; cases with equal values of it are one
            unit of the gate's test.
        wording (str): name of a parametrize argument that only words the question; from 3
            wordings on the verdict is one about wordings in general.
        concurrency (str): ``"serial"`` runs the trials alone, one after the other.
        intercept (bool): whether clients that the application builds itself are cached,
            counted and overlapped too, which they are unless the ini file says no.

    Returns:
        The marked function or class; with parentheses a mark that is its decorator.

    Raises:
        SettingsError: at collection, if an argument is impossible or the item cannot be an eval:
            one line, and the session exits 4.
    """
    return getattr(pytest.mark, MARKER)(*args, **arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Eval:
    """An item under the marker, with the merged arguments of its marks.

    Attributes:
        settings: of the session.
    """

    item: pytest.Function
    case: Case
    settings: Settings
    is_serial: bool = False
    intercept: bool = False


def is_eval(item: pytest.Item) -> bool:
    """Whether an item is under the marker, and not only because its module or class is.

    What cannot be an eval stays an ordinary test there; a mark of its own is a mistake.
    """
    if MARKER not in item.keywords:
        return False
    return not _foreign_kind(item) or any(mark.name == MARKER for mark in item.own_markers)


def ordinary_note(items: Sequence[pytest.Item]) -> str:
    """Say which items run as ordinary tests though their module or class is marked.

    Args:
        items: one or more, of no kind that can be an eval.
    """
    first, kind = items[0].nodeid, _foreign_kind(items[0]).partition(".")[0]
    others = f", and {len(items) - 1} more like it" if len(items) > 1 else ""
    return (
        f"{first} is {kind}{others}: under the @{MARKER} of a module or class such a test runs "
        "once, as an ordinary test"
    )


def empty_note(items: Sequence[pytest.Item]) -> str:
    """Name evals without a case, as the list of their parameters is empty; "" if there is none."""
    empty = [
        function_of(item.nodeid)
        for item in items
        for mark in item.own_markers
        if mark.name == "skip" and str(mark.kwargs.get("reason")).startswith(_EMPTY)
    ]
    if not empty:
        return ""
    return f"{', '.join(empty)}: no case, as the list of @pytest.mark.parametrize is empty: fill it"


def read_marker(item: pytest.Item, settings: Settings) -> Eval:
    """Merge and check every ``llm_eval`` mark that applies to an item.

    Raises:
        SettingsError: the item cannot be an eval, or an argument is impossible.
    """
    kind = _foreign_kind(item)
    if not kind and inspect.isasyncgenfunction(cast("pytest.Function", item).obj):
        kind = "an async generator. Write it without yield."
    if kind:
        raise SettingsError(f"{item.nodeid}: @{MARKER} does not work on {kind}")
    function = cast("pytest.Function", item)
    try:
        return _eval_of(function, mark_arguments.merged(function), settings)
    except SettingsError as exc:
        raise SettingsError(f"{item.nodeid}: @{MARKER}: {exc}") from None


def case_id(item: pytest.Item) -> str:
    """Return the node id, without the group that xdist appends under ``--dist=loadgroup``.

    A baseline recorded otherwise would have no case in common.
    """
    assert item.parent is not None  # noqa: S101 - a function stands in a module
    return f"{item.parent.nodeid}::{item.name}"


def has_positional_id(item: pytest.Function) -> bool:
    """Whether a part of the id counts positions: pytest's ``ticket0``, our own ``seed7-0``.

    Such an id names another case as soon as one is inserted before it.
    """
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return False
    if is_sampled(callspec.id):
        return True
    parts = callspec.id.split("-")
    made = {f"{name}{callspec.indices.get(name)}": value for name, value in callspec.params.items()}
    # A text alone is its own id; to write any other value could raise.
    texts = {str(value) for value in made.values() if issubclass(type(value), str)}
    return any(part in parts and part not in texts for part in made)


def _foreign_kind(item: pytest.Item) -> str:
    """Name the kind of an item that is no plain test function, and what to do; "" if it is."""
    if not isinstance(item, pytest.Function):
        return f"a {type(item).__name__}. Mark a plain test function."
    if item.cls is not None and issubclass(item.cls, unittest.TestCase):
        return "a unittest method. Write it as a plain test function."
    if hasattr(item.obj, "hypothesis"):
        return "a @given function. Give the cases with pytest.mark.parametrize."
    return ""


def _eval_of(item: pytest.Function, arguments: Mapping[str, object], settings: Settings) -> Eval:
    """Check the arguments, and make of them what is known of the case.

    Raises:
        SettingsError: one is unknown, or impossible.
    """
    repeats = mark_arguments.repeats(arguments.get("repeats", settings.default_repeats))
    callspec = getattr(item, "callspec", None)
    parameters: Mapping[str, object] = {} if callspec is None else callspec.params
    wording, topic = mark_arguments.wording(parameters, arguments.get("wording"))
    gate = mark_arguments.gate(arguments.get("gate", ()))
    better, lower = mark_arguments.directions(arguments.get("better"), gate=gate)
    case = Case(
        id=case_id(item),
        function=function_of(case_id(item)),
        repeats=settings.repeats or repeats,
        marked=repeats if "repeats" in settings.typed else settings.repeats or repeats,
        min_score=mark_arguments.min_score(arguments.get("min_score"), gate=gate),
        parameters=None if callspec is None else parameters_digest(parameters),
        positional=has_positional_id(item),
        gate=gate,
        better=better,
        lower=lower,
        cluster=mark_arguments.cluster(parameters, arguments.get("cluster")),
        wording=wording,
        topic=topic,
    )
    intercept = arguments.get("intercept", settings.intercept is not False)
    return Eval(
        item=item,
        case=case,
        settings=settings,
        is_serial=mark_arguments.is_serial(arguments.get("concurrency")),
        intercept=mark_arguments.intercept(intercept),
    )
