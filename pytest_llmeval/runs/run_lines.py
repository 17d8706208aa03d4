"""The lines of a run file: a header with all of a run but its trials, then a line a trial.

A lookup reads the header alone. docs/run-format.md describes the format.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from pytest_llmeval.cache.parameters import plain
from pytest_llmeval.records import Call, Collected, Outcome, Parameter, Run, Trial
from pytest_llmeval.runs.json_lines import (
    Line,
    Malformed,
    as_count,
    as_object,
    as_text,
    like,
    many,
    need,
    nullable,
    record,
    sparse,
)

SCHEMA = 1
RUN_ID = r"[0-9]{8}T[0-9]{6}-[0-9a-f]{6}"
FULL_HASH = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_NAMES = {"rules": "gate"}  # what fields of a run are called in the file


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """The calls of a run to one model, summed up.

    Attributes:
        model: the model asked for; None where a request named none.
        served: what the providers said answered, sorted.
        hosts: origins of the APIs, sorted.
        parameters: every value that a sampling parameter had.
        calls: how many calls, replayed ones included.
        made: how many of them were paid for in this run: neither replayed nor failed.
    """

    model: str | None
    served: tuple[str, ...]
    hosts: tuple[str, ...]
    parameters: Mapping[str, tuple[Parameter, ...]]
    calls: int
    made: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """The first line of a run file.

    Attributes:
        run: the run without its trials.
        trials: how many trials follow.
        errored: how many of them are errored; ``skipped`` likewise.
        models: one entry for each model asked, sorted by name.
    """

    run: Run
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


class NewerSchema(Malformed):
    """The file was written by a later version, in another format."""


def model_uses(trials: Iterable[Trial]) -> tuple[ModelUse, ...]:
    """Sum up the calls of trials by the model that was asked."""
    calls_of: dict[str | None, list[Call]] = {}
    for trial in trials:
        for call in trial.calls:
            calls_of.setdefault(call.model, []).append(call)
    by_name = sorted(calls_of, key=lambda model: (model is not None, model or ""))
    return tuple(_model_use(model, calls_of[model]) for model in by_name)


def _model_use(model: str | None, calls: list[Call]) -> ModelUse:
    values: dict[str, dict[str, Parameter]] = {}
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


def collected_cases(ids: Iterable[str]) -> Collected:
    """Count and digest the ids of cases, in whatever order they come."""
    ordered = sorted(ids)
    written = json.dumps(ordered, ensure_ascii=True, separators=(",", ":"))
    digest = hashlib.sha256(written.encode("ascii")).hexdigest()
    return Collected(cases=len(ordered), sha256=digest)


def parameters_digest(parameters: Mapping[str, object]) -> str | None:
    """Digest the parameters of a case.

    Args:
        parameters: value of each argument name, as pytest passes them to the test.

    Returns:
        sha256 of their canonical JSON (sorted keys, no whitespace, ASCII) in hex;
        None where a value cannot be put as JSON, such as NaN, or an object that is no record.
    """
    try:
        canonical = json.dumps(
            dict(parameters),
            default=plain,
            sort_keys=True,
            ensure_ascii=True,
            allow_nan=False,
            separators=(",", ":"),
        )
    except Exception:  # whatever the classes of the project raise
        return None
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def header_line(run: Run) -> Line:
    """Write the header of a run in the order of its fields, and its trials summed up."""
    ended = Counter(trial.outcome for trial in run.trials)
    fixtures = sorted(run.fixtures.items())
    nested: dict[str, object] = {
        "ci": run.ci and sparse(run.ci),
        "collected": run.collected and sparse(run.collected),
        "fixtures": {name: dict(sorted(used.items())) for name, used in fixtures},
    }
    line = {_NAMES.get(name, name): nested.get(name, one) for name, one in sparse(run).items()}
    del line["cases"], line["trials"]
    return {
        "schema": SCHEMA,
        **line,
        "trials": len(run.trials),
        "errored": ended[Outcome.ERRORED],
        "skipped": ended[Outcome.SKIPPED],
        "models": [asdict(use) for use in model_uses(run.trials)],
        "cases": [sparse(case) for case in run.cases],
    }


def read_header(line: Line) -> RunHeader:
    """Read the first line of a run file.

    Raises:
        NewerSchema: it is of a later format.
        Malformed: it is no header.
    """
    schema = need(line, "schema", as_count)
    if schema > SCHEMA:
        raise NewerSchema(f"schema {schema}")
    if schema < SCHEMA:
        raise Malformed(f"schema {schema} never was")
    ended = {"errored": 0, "skipped": 0, **line}
    return RunHeader(
        run=_read_run(line),
        trials=need(line, "trials", as_count),
        errored=need(ended, "errored", as_count),
        skipped=need(ended, "skipped", as_count),
        models=need(line, "models", many(_read_model_use)),
    )


def _utc(value: object) -> str:
    created = as_text(value)
    try:
        offset = datetime.fromisoformat(created).utcoffset()
    except ValueError:
        offset = None
    if offset != timedelta(0):
        raise Malformed("is no time in UTC")
    return created


_run_id = like(RUN_ID, "a run id")
_full_hash = nullable(like(FULL_HASH, "a full hash"))
_read_run = record(
    Run,
    names=_NAMES,
    id=_run_id,
    created=_utc,
    commit=_full_hash,
    tree=_full_hash,
    completes=_run_id,
    compared_with=_run_id,
    trials=lambda _: (),  # the first line says how many follow
)
_read_use = record(ModelUse)
_read_trial = record(Trial, names={"index": "trial"})


def _read_model_use(value: object) -> ModelUse:
    line = as_object(value)
    return _read_use({"made": line.get("calls"), **line})  # which earlier versions did not count


def trial_line(trial: Trial, *, function: str) -> Line:
    """Write a trial; ``function`` is that of its case, so that a line can be read alone."""
    line: dict[str, object] = {"case": trial.case, "function": function, "trial": trial.index}
    line |= sparse(trial)
    del line["index"]
    if trial.calls:
        line["calls"] = [sparse(call) | {"slot": str(call.slot)} for call in trial.calls]
    return line


def read_trial(line: Line, *, functions: Mapping[str, str]) -> Trial:
    """Read the line of a trial.

    Args:
        line: the line.
        functions: function of each case that the header lists, by case id.

    Raises:
        Malformed: it is no trial of these cases.
    """
    case = need(line, "case", as_text)
    if need(line, "function", as_text) != functions.get(case):
        raise Malformed("'case' and 'function' are not in the list of the first line")
    return _read_trial(line)
