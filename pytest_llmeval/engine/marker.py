"""The marker ``llm_eval``: its decorator, and what it says about one case."""

from __future__ import annotations

import inspect
import math
import unittest
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import pytest

from pytest_llmeval.engine.case_sources import is_sampled
from pytest_llmeval.errors import SettingsError, did_you_mean
from pytest_llmeval.records import (
    MEASURED_METRICS,
    OWN_DIRECTIONS,
    PASS_METRIC,
    Better,
    Case,
    is_usually_lower,
)
from pytest_llmeval.runs.run_lines import parameters_digest
from pytest_llmeval.settings import BRIEF, MARKER, Settings, is_to_be_gated

_NAMES = (
    "repeats",
    "min_score",
    "gate",
    "better",
    "cluster",
    "wording",
    "concurrency",
    "intercept",
)
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
        is_gated: the session is to be held against another run, or makes it.
        fails_on_miss: it fails as soon as one trial does not pass.
        must_replay: it proves nothing without a call that was seen, as only replays are wanted.
    """

    item: pytest.Function
    case: Case
    min_score: float | None = None
    is_serial: bool = False
    intercept: bool = False
    is_gated: bool = False
    fails_on_miss: bool = False
    must_replay: bool = False


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
        return _checked_eval(function, _merged_arguments(function), settings)
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


def _merged_arguments(item: pytest.Function) -> dict[str, object]:
    """Arguments, merged one by one: param over function over class over module.

    ``get_closest_marker`` cannot do this: it takes one whole mark, and the function's
    before the param's.
    """
    callspec = getattr(item, "callspec", None)
    on_param = [] if callspec is None else [m for m in callspec.marks if m.name == MARKER]
    elsewhere = [m for m in item.iter_markers(MARKER) if all(m is not p for p in on_param)]
    merged: dict[str, object] = {}
    for mark in [*on_param, *elsewhere]:
        if len(mark.args) > 1:
            raise SettingsError(
                "only repeats may be given by position; "
                f"name the others, as in @{MARKER}(5, min_score=0.8)"
            )
        given = dict(mark.kwargs)
        if mark.args:
            given.setdefault("repeats", mark.args[0])
        for name, value in given.items():
            if value is not None:
                merged.setdefault(name, value)
    return merged


def _checked_eval(item: pytest.Function, arguments: dict[str, object], settings: Settings) -> Eval:
    unknown = sorted(set(arguments) - set(_NAMES))
    if unknown:
        hint = did_you_mean(unknown[0], _NAMES, most=len(_NAMES))
        raise SettingsError(f"no argument is called {unknown[0]}. {hint}")
    repeats = _repeats(arguments.get("repeats", settings.default_repeats))
    callspec = getattr(item, "callspec", None)
    parameters: Mapping[str, object] = {} if callspec is None else callspec.params
    wording, topic = _wording(parameters, arguments.get("wording"))
    gate = _gate(arguments.get("gate", ()))
    better, lower = _directions(arguments.get("better"), gate=gate)
    case = Case(
        id=case_id(item),
        function=case_id(item).partition("[")[0],
        repeats=settings.repeats or repeats,
        parameters=None if callspec is None else parameters_digest(parameters),
        positional=has_positional_id(item),
        gate=gate,
        better=better,
        lower=lower,
        cluster=_cluster(parameters, arguments.get("cluster")),
        wording=wording,
        topic=topic,
    )
    intercept = _intercept(arguments.get("intercept", settings.intercept is not False))
    return Eval(
        item=item,
        case=case,
        min_score=_min_score(arguments.get("min_score"), gate=gate),
        is_serial=_is_serial(arguments.get("concurrency")),
        intercept=intercept,
        must_replay=intercept and settings.cache == "replay",
        is_gated=is_to_be_gated(settings) or _is_of_base(item.config),
        fails_on_miss=settings.fail_on_miss,
    )


def _is_of_base(config: pytest.Config) -> bool:
    """Tell whether the session makes the run of a baseline, for one that is gated."""
    return config.pluginmanager.has_plugin(BRIEF) or BRIEF in getattr(config, "workerinput", ())


def _repeats(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingsError(f"repeats must be a whole number of 1 or more, not {value!r}")
    return value


def _min_score(value: object, *, gate: tuple[str, ...]) -> float | None:
    if value is None:
        return None
    if gate and set(gate) <= set(MEASURED_METRICS):
        raise SettingsError(
            f"min_score holds for scores, and the gate looks at {' and '.join(gate)} alone; "
            f'name a score too, as in gate=("pass", "{gate[0]}")'
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SettingsError(f"min_score must be a finite number such as 0.8, not {value!r}")
    return float(value)


def _gate(value: object) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if (
        not isinstance(names, list | tuple)
        or not all(isinstance(name, str) and name for name in names)
        or len(set(names)) != len(names)
    ):
        raise SettingsError(f'gate must name metrics, as in gate="score", not {value!r}')
    return tuple(names)


def _directions(value: object, *, gate: tuple[str, ...]) -> tuple[Better, tuple[str, ...]]:
    """Return the direction of metrics that are not named, and the metrics that go lower."""
    ways = value if isinstance(value, Mapping) else {}
    unsaid = [name for name in gate if is_usually_lower(name) and name not in ways]
    if unsaid and (value is None or ways):
        raise SettingsError(
            f"is higher or lower better of {' and '.join(unsaid)}? Say it, as in "
            f'better={{"{unsaid[0]}": "lower"}}'
        )
    if not isinstance(value, Mapping):
        return _better(value, gate=gate), ()
    for name, way in ways.items():
        if not isinstance(name, str) or OWN_DIRECTIONS.get(name, way) != way:
            raise SettingsError(f"better={value!r}: {name!r} has a direction of its own")
        _better(way, gate=())
    return "higher", tuple(name for name, way in ways.items() if way == "lower")


def _better(value: object, *, gate: tuple[str, ...]) -> Better:
    if value is None:
        return "higher"
    if value not in ("higher", "lower"):
        raise SettingsError(f'better must be "higher" or "lower", not {value!r}')
    is_true = value == "higher" and PASS_METRIC in gate  # says what is so anyway
    if gate and OWN_DIRECTIONS.keys() >= set(gate) and not is_true:
        own = " and ".join(f"{OWN_DIRECTIONS[name]} of {name}" for name in gate)
        raise SettingsError(
            f'better="{value}" has nothing to turn: {own} is always better; '
            'leave it out, or gate on a score that the test records, as in gate="score"'
        )
    return value


def _is_serial(value: object) -> bool:
    if value not in (None, "serial"):
        raise SettingsError(
            f'concurrency must be "serial", not {value!r}; '
            "how many trials overlap is set by --llm-concurrency"
        )
    return value is not None


def _intercept(value: object) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(
            f"intercept must be True or False, not {value!r}; "
            "hosts are named in the ini file, as llm_intercept_hosts"
        )
    return value


def _cluster(parameters: Mapping[str, object], name: object) -> str | None:
    if name is None:
        return None
    return str(parameters[_checked_name(name, parameters, argument="cluster")])


def _wording(parameters: Mapping[str, object], name: object) -> tuple[str | None, str | None]:
    """Return digests of how the case puts its question, and of the rest of its parameters.

    No text of theirs: a template is a prompt, which a run file must not hold.
    """
    if name is None:
        return None, None
    wording = _checked_name(name, parameters, argument="wording")
    rest = {key: value for key, value in parameters.items() if key != wording}
    return _digest_of({wording: parameters[wording]}), _digest_of(rest)


def _digest_of(parameters: Mapping[str, object]) -> str | None:
    """Tell values apart within this session, objects by how they are written."""
    as_text = {name: str(value) for name, value in parameters.items()}
    return parameters_digest(parameters) or parameters_digest(as_text)


def _checked_name(name: object, parameters: Mapping[str, object], *, argument: str) -> str:
    """Return the name of a parameter of the case; it must be one of these."""
    if not isinstance(name, str) or name not in parameters:
        listed = ", ".join(parameters) or "none here"
        raise SettingsError(
            f"{argument} must name an argument of parametrize ({listed}), not {name!r}"
        )
    return name
