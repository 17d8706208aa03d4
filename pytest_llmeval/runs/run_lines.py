"""The lines of a run file: a header with all of a run but its trials, then a line a trial.

A lookup reads the header alone. docs/run-format.md describes the format. The fields and types of
a record say how its line is read; msgspec checks them, and names the path of a fault.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from pytest_llmeval import records
from pytest_llmeval.cache.case_parameters import plain_value
from pytest_llmeval.cache.reply import Finite, Scalar, read_json
from pytest_llmeval.errors import Failure, Lost

SCHEMA = 1
RUN_ID = r"[0-9]{8}T[0-9]{6}-[0-9a-f]{6}"
FULL_HASH = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
LONGEST_FAULT = 160  # characters; a wrong value in it may have any length
_NAMES = {"rules": "gate", "index": "trial"}  # what fields of records are called in the file
_FLAT = {"usage": records.Usage}  # fields whose own fields stand in their place
_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))
_CANONICAL = json.JSONEncoder(
    default=plain_value, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":")
)


class Malformed(ValueError):
    """A line, or a file of lines, that does not fit the format."""


class NewerSchema(Malformed):
    """The file was written by a later version, in another format."""


def _like(pattern: str) -> Any:
    return Annotated[str, msgspec.Meta(pattern=rf"^(?:{pattern})\Z")]


_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]  # every reader of JSON keeps these
_CHECKED: dict[Any, Any] = {
    int: _Count,
    float: Finite,
    records.Parameter: Scalar,
    records.Setting: Union[Scalar, tuple[str, ...]],  # noqa: UP007
    # int() alone would also read "-1", " 1", "1_0" and the digits of other scripts.
    records.Slot: _like("(?:shared|[0-9]{1,9})/[0-9]{1,9}"),
}


def _checked(hint: Any) -> Any:
    """Return the type by which msgspec checks what a field of a record holds."""
    if hint in _CHECKED:
        return _CHECKED[hint]
    if is_dataclass(hint):
        return _line_type(hint)
    origin, arguments = get_origin(hint), tuple(map(_checked, get_args(hint)))
    if origin in (Union, UnionType):
        return Union[arguments]  # noqa: UP007
    return origin[arguments] if origin in (tuple, Mapping) else hint


@cache
def _fields(record: Any) -> tuple[tuple[attrgetter[Any], str, Any, object], ...]:
    """List the fields of a dataclass: what reads one, its name in the file, type, default."""
    hints, rows = get_type_hints(record), []
    for one in fields(record):
        if one.name in _FLAT:
            part = _fields(_FLAT[one.name])
            rows += [(attrgetter(f"{one.name}.{name}"), name, *more) for _, name, *more in part]
            continue
        default = one.default if one.default_factory is MISSING else one.default_factory()
        rows.append(
            (attrgetter(one.name), _NAMES.get(one.name, one.name), hints[one.name], default)
        )
    return tuple(rows)


def _line_type(record: Any, **others: Any) -> Any:
    """Type the line of a record, in which a field that has a default may be missing.

    Args:
        record: a dataclass.
        others: types of what the record does not tell, by their names in the file.
    """
    types = {
        name: _checked(hint) if default is MISSING else NotRequired[_checked(hint)]
        for _, name, hint, default in _fields(record)
    }
    return TypedDict(record.__name__, types | others)  # type: ignore[operator]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """The calls of a run to one model, summed up.

    Attributes:
        model: the model asked for; None where a request named none.
        served: what the providers said answered, sorted.
        hosts: origins of the APIs, sorted.
        parameters: every value that a sampling parameter had.
        calls: how many calls, replayed ones included.
        made: how many calls were paid for in this run: neither replayed nor failed.
    """

    model: str | None
    served: tuple[str, ...]
    hosts: tuple[str, ...]
    parameters: Mapping[str, tuple[records.Parameter, ...]]
    calls: int
    made: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """The first line of a run file.

    Attributes:
        run: the run without its trials.
        trials: how many trials follow.
        errored: how many trials are errored; ``skipped`` likewise.
        models: one entry for each model asked, sorted by name.
    """

    run: records.Run
    trials: int
    errored: int
    skipped: int
    models: tuple[ModelUse, ...]

    @property
    def models_asked(self) -> frozenset[str]:
        """The models that the run asked for by name."""
        return frozenset(use.model for use in self.models if use.model is not None)

    @property
    def ran(self) -> int:
        """The number of trials that were not skipped."""
        return self.trials - self.skipped

    @property
    def only_replayed(self) -> bool:
        """Whether the run made calls and paid for none; false for a run without any call."""
        return bool(self.models) and not any(use.made for use in self.models)


def model_uses(trials: Iterable[records.Trial]) -> tuple[ModelUse, ...]:
    """Sum up the calls of trials by the model that was asked."""
    calls_of: dict[str | None, list[records.Call]] = {}
    for trial in trials:
        for call in trial.calls:
            calls_of.setdefault(call.model, []).append(call)
    by_name = sorted(calls_of, key=lambda model: (model is not None, model or ""))
    return tuple(_model_use(model, calls_of[model]) for model in by_name)


def _model_use(model: str | None, calls: list[records.Call]) -> ModelUse:
    values: dict[str, dict[str, records.Parameter]] = {}
    for call in calls:
        for name, value in call.parameters.items():
            # Told apart by their JSON: to Python, 1 and 1.0 and True are one value.
            values.setdefault(name, {})[json.dumps(value)] = value
    return ModelUse(
        model=model,
        served=tuple(sorted({call.served for call in calls if call.served is not None})),
        hosts=tuple(sorted({call.host for call in calls if call.host is not None})),
        parameters={
            name: tuple(found[key] for key in sorted(found))
            for name, found in sorted(values.items())
        },
        calls=len(calls),
        made=sum(call.was_paid for call in calls),
    )


def collected_cases(ids: Iterable[str]) -> records.Collected:
    """Count and digest the ids of cases, in whatever order they come."""
    ordered = sorted(ids)
    digest = hashlib.sha256(_ENCODER.encode(ordered).encode("ascii")).hexdigest()
    return records.Collected(cases=len(ordered), sha256=digest)


def parameters_digest(parameters: Mapping[str, object]) -> str | None:
    """Digest the parameters of a case.

    Args:
        parameters: value of each argument name, as pytest passes them to the test.

    Returns:
        sha256 of their canonical JSON (sorted keys, no whitespace, ASCII) in hex;
        None where a value cannot be put as JSON, such as NaN, or an object that is no record.
    """
    try:
        canonical = _CANONICAL.encode(dict(parameters))
    except Exception:  # whatever the classes of the project raise
        return None
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def sparse(record: Any) -> dict[str, object]:
    """List the fields of a record: those without a default, and those that differ from it."""
    line: dict[str, object] = {}
    kind: Any = type(record)
    for read, name, hint, default in _fields(kind):
        value = read(record)
        if default is MISSING or (value is not None and value != default):
            # Equal runs are equal bytes, in whatever order a mapping was filled.
            is_mapping = getattr(hint, "__origin__", None) is Mapping
            line[name] = dict(sorted(value.items())) if is_mapping else value
    return line


def dump_line(line: Mapping[str, object]) -> bytes:
    """Write a line as ASCII JSON, newline included.

    The standard library writes it: msgspec has other bytes for a small number, and refuses a name
    of a file that is no UTF-8.

    Raises:
        ValueError: a number in it is not finite.
    """
    return f"{_ENCODER.encode(line)}\n".encode("ascii")


def header_line(run: records.Run) -> bytes:
    """Write the header of a run in the order of its fields, and its trials summed up."""
    ended = Counter(trial.outcome for trial in run.trials)
    line = {"schema": SCHEMA, **sparse(run)}
    for name in ("ci", "collected"):
        line |= {name: sparse(line[name])} if name in line else {}
    if run.fixtures:
        line["fixtures"] = {
            name: dict(sorted(used.items())) for name, used in sorted(run.fixtures.items())
        }
    del line["cases"], line["trials"]
    return dump_line(
        {
            **line,
            "trials": len(run.trials),
            "errored": ended[records.Outcome.ERRORED],
            "skipped": ended[records.Outcome.SKIPPED],
            "models": [asdict(use) for use in model_uses(run.trials)],
            "cases": [sparse(case) for case in run.cases],
        }
    )


def trial_line(trial: records.Trial, *, function: str) -> bytes:
    """Write a trial; ``function`` is the one of its case, so that a line can be read alone."""
    line = {"case": trial.case, "function": function, "trial": trial.index, **sparse(trial)}
    if trial.calls:
        line["calls"] = [_call_line(call) for call in trial.calls]
    return dump_line(line)


def _call_line(call: records.Call) -> dict[str, object]:
    # For older readers of the format a loss is written in its earlier fields, too.
    in_words = {"failure": call.failure, "reason": call.reason} if call.lost else {}
    return sparse(call) | in_words | {"slot": str(call.slot)}


class EndLine(TypedDict, total=False):
    """The last line of a run file."""

    counts: dict[str, _Count]
    sha256: str


class Beginning(TypedDict):
    """The score of a trial, with its case and function."""

    case: str
    outcome: records.Outcome
    scores: NotRequired[dict[str, Finite]]


class _AnyLine(TypedDict):
    schema: _Count


_RunId, _FullHash = _like(RUN_ID), _like(FULL_HASH) | None
_HEADER = _line_type(
    records.Run,
    id=_RunId,
    commit=_FullHash,
    tree=_FullHash,
    compared_with=NotRequired[_RunId],
    trials=_Count,  # the first line says how many follow
    errored=NotRequired[_Count],
    skipped=NotRequired[_Count],
    models=tuple[_line_type(ModelUse, made=NotRequired[_Count]), ...],  # type: ignore[misc]
)
_CHECKED[records.Call] = _line_type(
    records.Call, failure=NotRequired[Failure | None], reason=NotRequired[str | None]
)
_TRIAL = _line_type(records.Trial, function=str)
# The beginnings of sentences by which earlier versions wrote a loss.
_EARLIER_LOSSES = {
    "cap ": Lost.CAP,
    "not set: ": Lost.NO_KEY,
    "key refused: ": Lost.KEY_REFUSED,
    "CancelledError": Lost.CANCELLED,
    "network: timeout of the client": Lost.OWN_TIMEOUT,
}


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def read_line(data: bytes, kind: Any) -> Any:
    """Read a line.

    Args:
        data: the line, with its end.
        kind: a ``TypedDict``; fields that it does not name are left out.

    Raises:
        Malformed: it is no JSON, was cut, or does not fit the type.
    """
    if not data.endswith(b"\n"):
        raise Malformed("cut off")
    try:
        return read_json(data, _decoder(kind))
    except msgspec.ValidationError as exc:
        fault, half = str(exc), LONGEST_FAULT // 2
        cut = fault if len(fault) <= LONGEST_FAULT else f"{fault[:half]}...{fault[-half:]}"
        raise Malformed(cut) from exc
    except (ValueError, OverflowError) as exc:
        raise Malformed("not JSON") from exc


def read_header(data: bytes) -> RunHeader:
    """Read the first line of a run file.

    Raises:
        NewerSchema: it is of a later format.
        Malformed: it is no header.
    """
    schema = read_line(data, _AnyLine)["schema"]
    if schema > SCHEMA:
        raise NewerSchema(f"schema {schema}")
    if schema < SCHEMA:
        raise Malformed(f"schema {schema} never was")
    line = read_line(data, _HEADER)
    return RunHeader(
        trials=line.pop("trials"),
        errored=line.pop("errored", 0),
        skipped=line.pop("skipped", 0),
        # Earlier versions did not count the calls that were made.
        models=tuple(ModelUse(**{"made": one["calls"], **one}) for one in line.pop("models")),
        run=_run(line),
    )


def _run(line: dict[str, Any]) -> records.Run:
    offset = None
    with suppress(ValueError):
        offset = datetime.fromisoformat(line["created"]).utcoffset()
    if offset != timedelta(0):
        raise Malformed("Expected a time in UTC - at `$.created`")
    line["rules"] = line.pop("gate", {})
    line["cases"] = tuple(records.Case(**case) for case in line["cases"])
    for name, kind in (("ci", records.CiJob), ("collected", records.Collected)):
        line[name] = line.get(name) and kind(**line[name])
    repeats: dict[str, int] = {}
    for case in line["cases"]:
        repeats[case.function] = max(case.repeats, repeats.get(case.function, 0))
    for name, looks in line.get("looks", {}).items():
        if not 1 <= looks <= repeats.get(name, 0):
            raise Malformed("Expected repeats of a function that `cases` has - at `$.looks`")
    return records.Run(**line, trials=())


def read_trial(data: bytes, *, functions: Mapping[str, str]) -> records.Trial:
    """Read the line of a trial.

    Args:
        data: the line.
        functions: function of each case that the header lists, by case id.

    Raises:
        Malformed: it is no trial of these cases.
    """
    line = read_line(data, _TRIAL)
    if line.pop("function") != functions.get(line["case"]):
        raise Malformed("`case` and `function` are not in the list of the first line")
    calls = tuple(map(_call, line.pop("calls", ())))
    return records.Trial(index=line.pop("trial"), calls=calls, **line)


def _call(line: dict[str, Any]) -> records.Call:
    failure, reason = line.pop("failure", None), line.pop("reason", None)
    if failure is not None and "lost" not in line:
        line["lost"], line["lost_for"] = _earlier_loss(failure, reason)
    usage = {name: line.pop(name) for _, name, *_ in _fields(records.Usage) if name in line}
    return records.Call(
        **line | {"slot": records.Slot.parse(line["slot"]), "usage": records.Usage(**usage)}
    )


def _earlier_loss(failure: Failure, reason: str | None) -> tuple[Lost, tuple[str, ...]]:
    """Read why a call was lost from the words of an earlier version."""
    lost, rest = (Lost.CONTENT if failure == "content" else Lost.OTHER), reason or ""
    for beginning, known in _EARLIER_LOSSES.items():
        if rest.startswith(beginning):
            lost, rest = known, rest.removeprefix(beginning)
    answered = re.fullmatch(r"HTTP (\S+)(?: \((.*)\))?", rest)
    if answered and lost in (Lost.CONTENT, Lost.KEY_REFUSED):
        return lost, tuple(filter(None, answered.groups()))
    values = rest.split(", ") if lost is Lost.NO_KEY else [rest]
    return lost, tuple(filter(None, values))
