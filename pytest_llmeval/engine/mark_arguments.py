"""The arguments of the marker ``llm_eval``: merged over all marks of an item, and checked.

Each check returns the value as it is used, or raises a ``SettingsError`` that says what was wrong
with it and how it is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from pytest_llmeval import records
from pytest_llmeval.errors import SettingsError, did_you_mean
from pytest_llmeval.runs.run_lines import parameters_digest
from pytest_llmeval.settings import MARKER

NAMES = ("repeats", "min_score", "gate", "better", "cluster", "wording", "concurrency", "intercept")


def merged(item: pytest.Function) -> dict[str, object]:
    """Arguments by name, merged one by one: param over function over class over module.

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
    unknown = sorted(merged.keys() - set(NAMES))
    if unknown:
        hint = did_you_mean(unknown[0], NAMES, most=len(NAMES))
        raise SettingsError(f"no argument is called {unknown[0]}. {hint}")
    return merged


def repeats(value: object) -> int:
    """How many trials a case has."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingsError(f"repeats must be a whole number of 1 or more, not {value!r}")
    return value


def min_score(value: object, *, gate: tuple[str, ...]) -> float | None:
    """The least mean of the gated metric; None if any will do."""
    if value is None:
        return None
    if gate and set(gate) <= set(records.MEASURED_METRICS):
        raise SettingsError(
            f"min_score holds for scores, and the gate looks at {' and '.join(gate)} alone; "
            f'name a score too, as in gate=("pass", "{gate[0]}")'
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SettingsError(f"min_score must be a finite number such as 0.8, not {value!r}")
    return float(value)


def gate(value: object) -> tuple[str, ...]:
    """The metrics that the gate looks at."""
    names = (value,) if isinstance(value, str) else value
    if (
        not isinstance(names, list | tuple)
        or not all(isinstance(name, str) and name for name in names)
        or len(set(names)) != len(names)
    ):
        raise SettingsError(f'gate must name metrics, as in gate="score", not {value!r}')
    return tuple(names)


def directions(value: object, *, gate: tuple[str, ...]) -> tuple[records.Better, tuple[str, ...]]:
    """Return the direction of metrics that are not named, and the metrics that go lower."""
    ways = value if isinstance(value, Mapping) else {}
    unsaid = [name for name in gate if records.is_usually_lower(name) and name not in ways]
    if unsaid and (value is None or ways):
        raise SettingsError(
            f"of {' and '.join(unsaid)}, is a higher or a lower value better? Say so, as in "
            f'better={{"{unsaid[0]}": "lower"}}'
        )
    if not isinstance(value, Mapping):
        return _better(value, gate=gate), ()
    for name, way in ways.items():
        if not isinstance(name, str) or records.OWN_DIRECTIONS.get(name, way) != way:
            raise SettingsError(f"better={value!r}: {name!r} has a direction of its own")
        _better(way, gate=())
    return "higher", tuple(name for name, way in ways.items() if way == "lower")


def _better(value: object, *, gate: tuple[str, ...]) -> records.Better:
    if value is None:
        return "higher"
    if value not in ("higher", "lower"):
        raise SettingsError(f'better must be "higher" or "lower", not {value!r}')
    is_true = value == "higher" and records.PASS_METRIC in gate  # says what is so anyway
    if gate and records.OWN_DIRECTIONS.keys() >= set(gate) and not is_true:
        own = " and ".join(f"{records.OWN_DIRECTIONS[name]} of {name}" for name in gate)
        raise SettingsError(
            f'better="{value}" has nothing to turn: {own} is always better; '
            'leave it out, or gate on a score that the test records, as in gate="score"'
        )
    return value


def is_serial(value: object) -> bool:
    """Whether the trials run alone."""
    if value not in (None, "serial"):
        raise SettingsError(
            f'concurrency must be "serial", not {value!r}; '
            "how many trials overlap is set by --llm-concurrency"
        )
    return value is not None


def intercept(value: object) -> bool:
    """Whether clients of the application are cached and counted."""
    if not isinstance(value, bool):
        raise SettingsError(
            f"intercept must be True or False, not {value!r}; "
            "hosts are named in the ini file, as llm_intercept_hosts"
        )
    return value


def cluster(parameters: Mapping[str, object], name: object) -> str | None:
    """The value of the argument by which cases are one unit, as text."""
    if name is None:
        return None
    return str(parameters[_checked_name(name, parameters, argument="cluster")])


def wording(parameters: Mapping[str, object], name: object) -> tuple[str | None, str | None]:
    """Return digests of how the case puts its question, and of the rest of its parameters.

    No text of theirs: a template is a prompt, which a run file must not hold.
    """
    if name is None:
        return None, None
    chosen = _checked_name(name, parameters, argument="wording")
    rest = {key: value for key, value in parameters.items() if key != chosen}
    return _digest_of({chosen: parameters[chosen]}), _digest_of(rest)


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
