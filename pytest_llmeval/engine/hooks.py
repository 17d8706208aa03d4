"""The hooks that turn marked items into cases, registered only where there are any."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from pytest_llmeval.engine.case import CaseRunner
from pytest_llmeval.engine.fold import shown_score
from pytest_llmeval.engine.marker import Eval
from pytest_llmeval.engine.probe import missing_parts
from pytest_llmeval.engine.trial import TRIAL, Phase
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Outcome, Run
from pytest_llmeval.runs.header import header_line
from pytest_llmeval.runs.trials import trial_line

RUNNER = pytest.StashKey[CaseRunner]()
NOTES = pytest.StashKey[list[str]]()


def install(
    session: pytest.Session,
    evals: Sequence[Eval],
    *,
    opening: Run,
) -> None:
    """Make every eval item run its trials.

    Args:
        session: the session, after collection.
        evals: the items under the marker, with what their marks amount to; not empty.
        opening: the run that begins, without trials.

    Raises:
        SettingsError: this pytest lacks a private part that the engine needs.
    """
    missing = missing_parts(session, evals[0].item)
    if missing:
        raise SettingsError(
            f"pytest {pytest.__version__} is not supported: {', '.join(missing)} moved. "
            "Install a supported one: pip install 'pytest>=8.4,<10'"
        )
    for spec in evals:
        runner = CaseRunner(spec)
        runner.install()
        spec.item.stash[RUNNER] = runner
    if not session.config.pluginmanager.has_plugin("llmeval-engine"):
        notes = session.config.stash.setdefault(NOTES, [])
        hooks = EngineHooks(opening, notes=notes)
        session.config.pluginmanager.register(hooks, "llmeval-engine")


class EngineHooks:
    """Watches the reports of trials and writes those of cases.

    Args:
        opening: the run that begins, without trials; it rides on the first report.
        notes: sentences for the section; each rides on the next report.
    """

    def __init__(self, opening: Run, *, notes: list[str]) -> None:
        self._notes = notes
        self._opening: Run | None = opening

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note what left a phase of a trial; give a case's report its data."""
        trial = item.stash.get(TRIAL, None)
        if trial is not None:
            trial.note(_phase(call), call.excinfo)
            return (yield)
        report = yield
        runner = item.stash.get(RUNNER, None)
        if runner is not None and _tells_the_end(runner, call):
            self._complete(report, runner)
        return report

    def _complete(self, report: pytest.TestReport, runner: CaseRunner) -> None:
        """Attach the trials to the one report that tells how the case ended."""
        payload = _payload(runner)
        if self._opening is not None:
            # Not at the end, in workeroutput: a worker that is killed never sends that.
            payload["opening"], self._opening = _builtins(header_line(self._opening)), None
        if self._notes:
            payload["notes"], self._notes[:] = list(self._notes), []
        report.duration = sum(trial.record.seconds for trial in runner.ended)
        report.llm_eval = payload  # type: ignore[attr-defined]  # rides on the report


def _phase(call: pytest.CallInfo[None]) -> Phase:
    assert call.when != "collect"  # noqa: S101 - reports of items have the other three
    return call.when


def _tells_the_end(runner: CaseRunner, call: pytest.CallInfo[None]) -> bool:
    """Whether this phase ended the case: its call, or a setup that did not get there."""
    if call.when == "setup" and call.excinfo is not None:
        if not runner.ended:
            runner.unrun(call.excinfo)
        return True
    return call.when == "call" and runner.outcome is not None


def _payload(runner: CaseRunner) -> dict[str, Any]:
    """Put a case as plain builtins, which a worker can send to the controller."""
    records = [trial.record for trial in runner.ended]
    return {
        "case": runner.spec.case.id,
        "outcome": str(runner.outcome),
        "fell_short": any(r.outcome in (Outcome.MISSED, Outcome.CRASHED) for r in records),
        "score": shown_score(records, runner.spec.case),
        "trials": _builtins(
            [trial_line(record, function=runner.spec.case.function) for record in records]
        ),
        "headline": _first_headline(runner),
    }


def _builtins(lines: object) -> Any:
    """Put lines as what JSON knows: execnet sends no enum and no tuple subclass."""
    return json.loads(json.dumps(lines))


def _first_headline(runner: CaseRunner) -> str:
    headlines: Sequence[str] = [trial.headline for trial in runner.ended if trial.headline]
    return headlines[0][:300] if headlines else ""
