"""The first line of a run file: everything about a run but its trials.

Whoever looks for a run reads this line alone; the format is told in docs/run-format.md.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import get_args

from pytest_llmeval.records import Better, Call, Case, Outcome, Parameter, Run, Setting, Trial
from pytest_llmeval.runs.format.json_lines import (
    Line,
    Malformed,
    count,
    flag,
    json_object,
    like,
    many,
    maybe,
    need,
    nullable,
    one_of,
    parameter,
    sparse,
    table,
    text,
)

SCHEMA = 1
RUN_ID = r"[0-9]{8}T[0-9]{6}-[0-9a-f]{6}"
FULL_HASH = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What the calls of a run that asked for one model sum up to.

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
    """What the first line tells.

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
        """How many trials were not skipped."""
        return self.trials - self.skipped

    @property
    def only_replayed(self) -> bool:
        """Whether the run made calls and paid for none; false for a run without any call."""
        return bool(self.models) and not any(use.made for use in self.models)


class NewerSchema(Malformed):
    """The file is in a format that came after this version."""


def model_uses(trials: Iterable[Trial]) -> tuple[ModelUse, ...]:
    """Sum up which models were asked, who answered, where, and with which parameters."""
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


def header_line(run: Run) -> Line:
    """Write the header of a run, its trials summed up."""
    ended = Counter(trial.outcome for trial in run.trials)
    return {
        "schema": SCHEMA,
        "id": run.id,
        "created": run.created,
        "commit": run.commit,
        "tree": run.tree,
        "dirty": run.dirty,
        "ref": run.ref,
        "root": run.root,
        "versions": dict(sorted(run.versions.items())),
        "selection": run.selection,
        "complete": run.complete,
        "partial": run.partial,
        "outside_calls": run.outside_calls,
        **({} if run.attempts is None else {"attempts": run.attempts}),
        **({} if run.completes is None else {"completes": run.completes}),
        **({} if not run.unseen else {"unseen": run.unseen}),
        **({} if not run.rules else {"gate": dict(sorted(run.rules.items()))}),
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
    schema = need(line, "schema", count)
    if schema > SCHEMA:
        raise NewerSchema(f"schema {schema}")
    if schema < SCHEMA:
        raise Malformed(f"schema {schema} never was")
    return RunHeader(
        run=_read_run(line),
        trials=need(line, "trials", count),
        errored=maybe(line, "errored", count, 0),
        skipped=maybe(line, "skipped", count, 0),
        models=need(line, "models", many(_read_model_use)),
    )


def _read_run(line: Line) -> Run:
    full_hash = nullable(like(FULL_HASH, "a full hash"))
    return Run(
        id=need(line, "id", like(RUN_ID, "a run id")),
        created=need(line, "created", _utc),
        commit=need(line, "commit", full_hash),
        tree=need(line, "tree", full_hash),
        dirty=need(line, "dirty", flag),
        ref=need(line, "ref", nullable(text)),
        root=need(line, "root", text),
        versions=need(line, "versions", table(text)),
        selection=need(line, "selection", many(text)),
        complete=need(line, "complete", flag),
        partial=need(line, "partial", many(text)),
        cases=need(line, "cases", many(_read_case)),
        trials=(),
        outside_calls=need(line, "outside_calls", count),
        completes=maybe(line, "completes", like(RUN_ID, "a run id"), None),
        attempts=maybe(line, "attempts", count, None),
        unseen=maybe(line, "unseen", many(text), ()),
        rules=maybe(line, "gate", table(_setting), {}),
    )


def _setting(value: object) -> Setting:
    return many(text)(value) if isinstance(value, list) else parameter(value)


def _utc(value: object) -> str:
    created = text(value)
    try:
        offset = datetime.fromisoformat(created).utcoffset()
    except ValueError:
        offset = None
    if offset != timedelta(0):
        raise Malformed("is no time in UTC")
    return created


def _read_model_use(value: object) -> ModelUse:
    line = json_object(value)
    calls = need(line, "calls", count)
    return ModelUse(
        model=need(line, "model", nullable(text)),
        served=need(line, "served", many(text)),
        hosts=need(line, "hosts", many(text)),
        parameters=need(line, "parameters", table(many(parameter))),
        calls=calls,
        made=maybe(line, "made", count, calls),
    )


def _read_case(value: object) -> Case:
    line = json_object(value)
    return Case(
        id=need(line, "id", text),
        function=need(line, "function", text),
        repeats=need(line, "repeats", count),
        parameters=maybe(line, "parameters", text, None),
        positional=maybe(line, "positional", flag, False),
        gate=maybe(line, "gate", many(text), ()),
        better=maybe(line, "better", one_of(get_args(Better)), "higher"),
        cluster=maybe(line, "cluster", text, None),
        wording=maybe(line, "wording", text, None),
        topic=maybe(line, "topic", text, None),
    )
