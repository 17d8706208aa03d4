"""Put the engine in place, in a session that has evals."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

import pytest

from pytest_llmeval.engine.case.case import CaseRunner
from pytest_llmeval.engine.compat import SUPPORTED, Abilities, find_abilities, missing_parts
from pytest_llmeval.engine.earlier_runs import unfinished
from pytest_llmeval.engine.hooks import RUNNER, EngineHooks
from pytest_llmeval.engine.marker import MARKER, Eval, read_marker
from pytest_llmeval.engine.run_header import Choice, open_run
from pytest_llmeval.engine.schedule.case_trials import CaseTrials
from pytest_llmeval.engine.schedule.overlap import (
    EXCLUSIVE_FIXTURES,
    askable,
    serial_case,
    serial_session,
    signature,
)
from pytest_llmeval.engine.schedule.progress import Wording, make_display
from pytest_llmeval.engine.schedule.scheduler import Scheduler
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.http.masking import masked_logs
from pytest_llmeval.models.model_session import ModelSession
from pytest_llmeval.records import Progress, Run
from pytest_llmeval.runs.retry import Retry
from pytest_llmeval.settings import Settings

INTERCEPTION = "_llm_interception"
NO_ASSERTS = (
    "nothing was asserted: python -O leaves out the asserts of tests under --assert=plain, so "
    "every trial passes. Run without -O, or without --assert=plain"
)


def install(
    session: pytest.Session,
    items: list[pytest.Item],
    *,
    settings: Settings,
    models: ModelSession,
    choice: Choice,
    wording: Wording,
) -> Run:
    """Make every item under the marker run its trials; return the run that begins.

    Items that are not run again are taken out of ``items`` where a run is completed.

    Raises:
        SettingsError: an item or a setting is impossible, or this pytest lacks a private part
            that the engine needs.
    """
    models.check_settings()
    masking = ExitStack()
    masking.enter_context(masked_logs())
    session.config.add_cleanup(masking.close)
    evals = [read_marker(item, settings) for item in items if MARKER in item.keywords]
    if any(spec.intercept for spec in evals):
        _check_interception()
    cases = [spec.case for spec in evals]
    opening = open_run(session.config, cases, rules=settings.gate, choice=choice)
    if choice.retry is not None:
        evals = unfinished(session.config, items, evals, retry=choice.retry)
    if evals:
        _require_parts(session, evals[0].item)
        abilities = find_abilities(session)
        trials = _trials_of(evals, settings, abilities, retry=choice.retry)
        scheduler = _scheduler(session, trials, settings, abilities)
        _show_progress(session.config, scheduler, list(trials.values()), wording=wording)
        models.notes += _notes(session.config, trials, abilities)
        exclusive = EXCLUSIVE_FIXTURES.union(abilities.exclusive, settings.serial_fixtures)
        runners = _runners(trials, scheduler)
        hooks = EngineHooks(opening, runners, scheduler, models=models, exclusive=exclusive)
        session.config.pluginmanager.register(hooks, "llmeval-engine")
    return opening


def _check_interception() -> None:
    from pytest_llmeval.models.interception import check_seams
    from pytest_llmeval.models.providers.vendor import check_keys

    check_seams()
    check_keys()


def _require_parts(session: pytest.Session, item: pytest.Function) -> None:
    missing = missing_parts(session, item)
    if missing:
        raise SettingsError(
            f"pytest {pytest.__version__} is not supported: {', '.join(missing)} moved. "
            f"Install a supported one: {SUPPORTED}"
        )


def _trials_of(
    evals: Sequence[Eval],
    settings: Settings,
    abilities: Abilities,
    *,
    retry: Retry | None,
) -> dict[pytest.Item, CaseTrials]:
    session = evals[0].item.session
    standing = {} if retry is None else retry.standing
    one = "concurrency 1" if settings.concurrency == 1 else ""
    everywhere = serial_session(session.config) or one or abilities.serial
    alone = (*settings.serial_fixtures, *abilities.exclusive)
    names = askable(session)
    return {
        spec.item: CaseTrials(
            spec,
            serial=everywhere or serial_case(spec, alone),
            signature=signature(spec.item, names),
            standing=standing.get(spec.case.id, ()),
        )
        for spec in evals
    }


def _scheduler(
    session: pytest.Session,
    trials: Mapping[pytest.Item, CaseTrials],
    settings: Settings,
    abilities: Abilities,
) -> Scheduler:
    # The gate's libraries: 0.3 s that a session which waits for a model need not add.
    is_worker = hasattr(session.config, "workerinput")
    ahead = () if is_worker else ("pytest_llmeval.stats", "pytest_llmeval.gate")
    limit = max(1, settings.concurrency // workers(session.config))
    return Scheduler(session, trials, abilities=abilities, limit=limit, ahead=ahead)


def _runners(trials: Mapping[pytest.Item, CaseTrials], scheduler: Scheduler) -> list[CaseRunner]:
    runners = []
    for item, case in trials.items():
        names = case.item.fixturenames
        if case.spec.intercept and INTERCEPTION not in names:
            names.insert(0, INTERCEPTION)  # before any fixture that may ask
        runner = CaseRunner(case, scheduler=scheduler)
        runner.install()
        item.stash[RUNNER] = runner
        runners.append(runner)
    return runners


def _notes(
    config: pytest.Config, trials: Mapping[pytest.Item, CaseTrials], abilities: Abilities
) -> Iterator[str]:
    lacking = {abilities.serial, *abilities.exclusive} - {""}
    if any(case.serial in lacking for case in trials.values()):
        yield abilities.note
    if sys.flags.optimize and config.getoption("assertmode", "") == "plain":
        yield NO_ASSERTS


def _show_progress(
    config: pytest.Config, scheduler: Scheduler, cases: Sequence[CaseTrials], *, wording: Wording
) -> None:
    def look() -> Progress:
        return Progress(
            done=sum(trials.done for trials in cases),
            total=sum(trials.repeats for trials in cases),
            made=sum(trials.made for trials in cases),
            replayed=sum(trials.replayed for trials in cases),
            in_flight=scheduler.in_flight,
        )

    scheduler.display = make_display(config, look=look, wording=wording)
    if scheduler.display is not None:
        config.pluginmanager.register(scheduler.display, "llmeval-progress-display")


def workers(config: pytest.Config) -> int:
    """Return how many processes share the limit."""
    worker: dict[str, int] = getattr(config, "workerinput", {})
    return int(worker.get("workercount", 1))
