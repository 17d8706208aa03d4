"""Runs that were written down for the gate's tests, as files that the commands read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_llmeval.records import Call, Run
from pytest_llmeval.runs.store import RunStore
from tests.gate.builders import digest


def record(run: Run) -> None:
    """Save a run in the working directory, with digests such as the format asks for."""
    trials = tuple(replace(t, calls=tuple(map(_with_digests, t.calls))) for t in run.trials)
    RunStore(Path(".llmeval").absolute()).save(replace(run, tree="f" * 40, trials=trials))


def _with_digests(call: Call) -> Call:
    draw = None if call.draw is None else digest(call.draw)[:32]
    return replace(call, key=digest(call.key), draw=draw)
