"""Putting the engine in place, in a session that has evals."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import import_module

import pytest

from pytest_llmeval.engine.case.case import CaseRunner
from pytest_llmeval.engine.compat import Abilities, find_abilities, missing_parts
from pytest_llmeval.engine.earlier_runs import unfinished
from pytest_llmeval.engine.hooks import RUNNER, EngineHooks
from pytest_llmeval.engine.marker import MARKER, Eval, read_marker
from pytest_llmeval.engine.run_header import open_run
from pytest_llmeval.engine.schedule.case_trials import CaseTrials
from pytest_llmeval.engine.schedule.overlap import (
    EXCLUSIVE_FIXTURES,
    Lookahead,
    askable,
    serial_case,
    serial_session,
    signature,
)
from pytest_llmeval.engine.schedule.progress import Wording, make_display
from pytest_llmeval.engine.schedule.scheduler import Scheduler
from pytest_llmeval.engine.trial.shared_calls import IMPORTS
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.http.masking import masked_logs
from pytest_llmeval.models.model_session import ModelSession
from pytest_llmeval.records import Progress, Run, Trial
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
    left_out: Sequence[pytest.Item],
    deselected: Collection[pytest.Item],
    typed: Sequence[str],
    retry: Retry | None,
    word: Wording,
) -> Run:
    """Make every item under the marker run its trials.

    Args:
        session: the session, after collection.
        items: its items; those that ``retry`` does not run again are taken out.
        settings: of the session.
        models: all that the session holds of models.
        left_out: items under the marker that were collected and will not run.
        deselected: all items that were announced to be left out.
        typed: what the user typed of the selection.
        retry: the run that the session completes, if it does.
        word: puts progress into a line.

    Returns:
        The run that begins, without trials.

    Raises:
        SettingsError: an item or a setting is impossible, or this pytest lacks a private part
            that the engine needs.
    """
    config = session.config
    models.check_settings()
    masking = ExitStack()
    masking.enter_context(masked_logs())
    config.add_cleanup(masking.close)
    evals = [read_marker(item, settings) for item in items if MARKER in item.keywords]
    if any(spec.intercept for spec in evals):
        from pytest_llmeval.models.intercept.patch import check_seams
        from pytest_llmeval.models.intercept.recognition import check_keys

        check_seams()
        check_keys()
    opening = open_run(
        config,
        [spec.case for spec in evals],
        rules=settings.gate,
        left_out=left_out,
        deselected=deselected,
        typed=typed,
        completes=retry.run.id if retry else None,
    )
    if retry is not None:
        evals = unfinished(config, items, evals, retry=retry)
    if evals:
        _install(
            session,
            evals,
            settings=settings,
            opening=opening,
            models=models,
            retry=retry,
            word=word,
        )
    return opening


def _install(
    session: pytest.Session,
    evals: Sequence[Eval],
    *,
    settings: Settings,
    opening: Run,
    models: ModelSession,
    retry: Retry | None,
    word: Wording,
) -> None:
    missing = missing_parts(session, evals[0].item)
    if missing:
        raise SettingsError(
            f"pytest {pytest.__version__} is not supported: {', '.join(missing)} moved. "
            "Install a supported one: pip install 'pytest>=8.4,<10'"
        )
    abilities = find_abilities(session)
    trials = _trials_of(
        evals, session.config, settings, abilities, standing=retry.standing if retry else {}
    )
    lookahead = Lookahead(session, trials)
    # The gate's libraries: 0.3 s that a session which waits for a model need not add.
    ahead = (
        ()
        if hasattr(session.config, "workerinput")
        else ("pytest_llmeval.stats", "pytest_llmeval.gate")
    )
    limit = max(1, settings.concurrency // workers(session.config))
    scheduler = Scheduler(
        session,
        abilities=abilities,
        limit=limit,
        following=lookahead.following,
        chores=(partial(import_module, name) for name in ahead),
    )
    for spec in evals:
        if spec.intercept and INTERCEPTION not in spec.item.fixturenames:
            spec.item.fixturenames.insert(0, INTERCEPTION)  # before any fixture that may ask
    _show_progress(session.config, scheduler, list(trials.values()), word=word)
    runners = [CaseRunner(spec, trials[spec.item], scheduler=scheduler) for spec in evals]
    for runner in runners:
        runner.install()
        runner.item.stash[RUNNER] = runner
    hooks = EngineHooks(
        opening, runners=runners, scheduler=scheduler, lookahead=lookahead, models=models
    )
    hooks.exclusive = EXCLUSIVE_FIXTURES.union(abilities.exclusive, settings.serial_fixtures)
    imports = session.config.pluginmanager.get_plugin(IMPORTS)
    hooks.imported = int if imports is None else imports.untold
    lacking = {abilities.serial, *abilities.exclusive} - {""}
    if any(trials[spec.item].serial in lacking for spec in evals):
        hooks.notes.append(abilities.note)
    if sys.flags.optimize and session.config.getoption("assertmode", "") == "plain":
        hooks.notes.append(NO_ASSERTS)
    session.config.pluginmanager.register(hooks, "llmeval-engine")


def _trials_of(
    evals: Sequence[Eval],
    config: pytest.Config,
    settings: Settings,
    abilities: Abilities,
    *,
    standing: Mapping[str, Sequence[Trial]],
) -> dict[pytest.Item, CaseTrials]:
    one = "concurrency 1" if settings.concurrency == 1 else ""
    everywhere = serial_session(config) or one or abilities.serial
    alone = (*settings.serial_fixtures, *abilities.exclusive)
    names = askable(evals[0].item.session)
    return {
        spec.item: CaseTrials(
            spec,
            serial=everywhere or serial_case(spec, alone),
            signature=signature(spec.item, names),
            standing=standing.get(spec.case.id, ()),
        )
        for spec in evals
    }


def _show_progress(
    config: pytest.Config, scheduler: Scheduler, cases: Sequence[CaseTrials], *, word: Wording
) -> None:
    def look() -> Progress:
        return Progress(
            done=sum(trials.done for trials in cases),
            total=sum(trials.repeats for trials in cases),
            made=sum(trials.made for trials in cases),
            replayed=sum(trials.replayed for trials in cases),
            in_flight=scheduler.in_flight,
        )

    scheduler.display = make_display(config, look=look, word=word)
    if scheduler.display is not None:
        config.pluginmanager.register(scheduler.display, "llmeval-progress-display")


def workers(config: pytest.Config) -> int:
    """How many processes share the limit."""
    worker: dict[str, int] = getattr(config, "workerinput", {})
    return int(worker.get("workercount", 1))
