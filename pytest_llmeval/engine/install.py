"""Put the engine in place, in a session that has evals."""

from __future__ import annotations

import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_llmeval.engine.case import CaseRunner
from pytest_llmeval.engine.case_trials import CaseTrials
from pytest_llmeval.engine.compat import SUPPORTED, Abilities, find_abilities, missing_parts
from pytest_llmeval.engine.hooks import EngineHooks
from pytest_llmeval.engine.marker import Eval, is_eval, read_marker
from pytest_llmeval.engine.run_header import Choice, open_run
from pytest_llmeval.engine.schedule import overlap
from pytest_llmeval.engine.schedule.progress import Wording, show_progress
from pytest_llmeval.engine.schedule.rounds import rounds_of
from pytest_llmeval.engine.schedule.scheduler import Scheduler
from pytest_llmeval.engine.trial.followers import followers, needs_protocol
from pytest_llmeval.engine.trial.put_on_item import TrialHooks
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.http.masking import masked_logs
from pytest_llmeval.models.model_session import ModelSession
from pytest_llmeval.models.source import SourceFiles
from pytest_llmeval.records import Run
from pytest_llmeval.settings import Settings
from pytest_llmeval.stats.arrays import load

if TYPE_CHECKING:
    from pytest_llmeval.judging import EarlyJudge

Tests = Mapping[str, pytest.Function]  # a case of each test function, by node id of that
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
    early_judge: Callable[[Run], EarlyJudge | None],
) -> Run:
    """Make every item under the marker run its trials; return the run that begins.

    Args:
        session: after collection.
        items: what other plugins chose.
        settings: of the session.
        models: all that the session holds of models.
        choice: how the cases were chosen.
        wording: puts progress into a line.
        early_judge: makes the judge of the run that begins; None for no early looks.

    Raises:
        SettingsError: an item or a setting is impossible, or a private part of pytest is gone.
    """
    config = session.config
    _require_parts(session, items)
    models.check_settings()
    _keep_from_fakes()
    evals = [read_marker(item, settings) for item in items if is_eval(item)]
    _refuse_twins(evals)
    _take_care_of_keys(config, evals)
    opening = _opening(config, evals, settings=settings, choice=choice)
    given = {one.case.parameters: one.item.callspec.params for one in evals if one.case.parameters}
    models.replies.keep_parameters(given)
    abilities = find_abilities(session)
    exclusive = overlap.EXCLUSIVE_FIXTURES.union(abilities.exclusive, settings.serial_fixtures)
    trials = _trials_of(evals, abilities, exclusive=exclusive)
    models.notes += _notes(config, trials.values(), abilities)
    limit = max(1, settings.concurrency // workers(config))
    scheduler = Scheduler(session, trials, abilities=abilities, limit=limit)
    throttle = models.services.throttle
    scheduler.show = show_progress(
        config,
        look=lambda: replace(scheduler.progress(), holding_back=throttle.holding_back()),
        wording=wording,
    )
    judge, notes = early_judge(opening), models.notes
    scheduler.run_in_rounds(rounds_of(trials.values(), session, opening, judge=judge, notes=notes))
    scheduler.meanwhile += imports_of_gate(config)
    proven = set[str]()
    runners = [CaseRunner(one, scheduler=scheduler, proven=proven) for one in trials.values()]
    hooks = EngineHooks(opening, runners, scheduler, models=models, exclusive=exclusive)
    config.pluginmanager.register(hooks, "llmeval-engine")
    return opening


def imports_of_gate(config: pytest.Config) -> list[Callable[[], object]]:
    """Return what imports the gate and its libraries, step by step, as it takes 0.3 s."""
    compares = config.option.llm_baseline and not hasattr(config, "workerinput")
    return [load, partial(import_module, "pytest_llmeval.gate.compare")] if compares else []


def _keep_from_fakes() -> None:
    """Tell pyfakefs to leave our own files alone, and the files of diskcache, imported late."""
    faker = sys.modules.get("pyfakefs.fake_filesystem_unittest")
    passed_over = getattr(getattr(faker, "Patcher", None), "RUNTIME_SKIPMODULES", None)
    if isinstance(passed_over, dict):
        import_module("pytest_llmeval.cache.database")  # while it can see what is real
        passed_over["pytest_llmeval"] = ["pytest_llmeval", "diskcache"]


def _refuse_twins(evals: Iterable[Eval]) -> None:
    """Refuse two cases of one id before the first call: no run could be recorded.

    Raises:
        SettingsError: there are two.
    """
    times = Counter(spec.case.id for spec in evals)
    twins = [case for case, count in times.items() if count > 1]
    if twins:
        others = f", and {len(twins) - 1} more like it" if len(twins) > 1 else ""
        raise SettingsError(
            f"{twins[0]} was collected {times[twins[0]]} times{others}: two cases have the same "
            "id, and a run keeps one result a case. Look for a file that is named twice under "
            "--keep-duplicates, and for a hook that adds items; for more trials of a case give "
            "@llm_eval(repeats=...)"
        )


def _take_care_of_keys(config: pytest.Config, evals: Iterable[Eval]) -> None:
    """Mask keys in logs; find out, before anything is spent, whether clients have keys to send."""
    masking = ExitStack()
    masking.enter_context(masked_logs())
    config.add_cleanup(masking.close)
    keys = (text for name, text in os.environ.items() if "KEY" in name or "TOKEN" in name)
    can_be_sent = all(key.strip().isascii() and key.strip().isprintable() for key in keys)
    # Else the vendors say whose key it is: to import them all takes 30 ms.
    if not can_be_sent and any(spec.intercept for spec in evals):
        from pytest_llmeval.models.vendors.recognition import check_keys

        check_keys()


def _opening(
    config: pytest.Config, evals: Sequence[Eval], *, settings: Settings, choice: Choice
) -> Run:
    cases = [one.case for one in evals]
    run = open_run(config, cases, rules=settings.gate, choice=choice)
    files, tests = SourceFiles(), {one.case.function: one.item for one in evals}
    return replace(
        run,
        typed_model=settings.typed_model,
        tests=_digests_of_tests(tests, files),
        fixtures=_digests_of_fixtures(tests, files, below=config.rootpath),
        places={
            function: f"{Path(path).as_posix()}:{line + 1}"
            for function, item in tests.items()
            for path, line, _ in [item.location]
            if line is not None
        },
    )


def _digests_of_tests(functions: Tests, files: SourceFiles) -> dict[str, str]:
    """Digest the test functions of which there is source, by node id."""
    tests = {}
    for function, item in functions.items():
        of_class = [] if item.cls is None else [item.cls.__qualname__]
        name = ".".join([*of_class, item.originalname])
        digest = files.digest(item.obj, file=item.path, name=name)
        if digest is not None:
            tests[function] = digest
    return tests


def _digests_of_fixtures(
    functions: Tests, files: SourceFiles, *, below: Path
) -> dict[str, dict[str, str]]:
    """Digest the fixtures of the project that each test function uses, by node id and name."""
    digest = cache(files.code_digest)
    found: dict[str, dict[str, str]] = {}
    for function, item in functions.items():
        for name, definitions in item._fixtureinfo.name2fixturedefs.items():
            own = [one.func for one in definitions if _is_of_project(one.func, below)]
            known = [text for text in map(digest, own) if text is not None]
            if known:
                found.setdefault(function, {})[name] = "-".join(known)
    return found


def _is_of_project(function: Callable[..., object], folder: Path) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    path = Path("" if code is None else code.co_filename)
    return path.is_relative_to(folder) and not path.is_relative_to(sys.prefix)


def _require_parts(session: pytest.Session, items: Iterable[pytest.Item]) -> None:
    evals = [one for one in items if is_eval(one) and isinstance(one, pytest.Function)]
    # Where none is a function, the mark of each is a mistake, which is told by itself.
    missing = missing_parts(session, evals) if evals else ()
    if missing:
        raise SettingsError(
            f"pytest {pytest.__version__} is not supported: {', '.join(missing)} moved. "
            f"Install a supported one: {SUPPORTED}"
        )


def _trials_of(
    evals: Sequence[Eval], abilities: Abilities, *, exclusive: Collection[str]
) -> dict[pytest.Item, CaseTrials]:
    session, settings = evals[0].item.session, evals[0].settings
    one = "concurrency 1" if settings.concurrency == 1 else ""
    serial = overlap.serial_session(session.config) or one or abilities.serial
    names = overlap.askable(session)
    following = followers([spec.item for spec in evals])
    items = {spec.item.path: spec.item for spec in evals}
    unseen = following | {abilities.capture}
    hooks = {path: TrialHooks(item, without=unseen) for path, item in items.items()}
    return {
        spec.item: CaseTrials(
            spec,
            serial=serial or overlap.serial_case(spec, exclusive),
            # what overlaps nothing else is not started early
            signature=spec.item
            if needs_protocol(spec.item, following)
            else overlap.signature(spec.item, names),
            hooks=hooks[spec.item.path],
        )
        for spec in evals
    }


def _notes(
    config: pytest.Config, cases: Iterable[CaseTrials], abilities: Abilities
) -> Iterator[str]:
    lacking = {abilities.serial, *abilities.exclusive} - {""}
    if any(case.serial in lacking for case in cases):
        yield abilities.note
    library = overlap.greenlets()
    if library:
        yield (
            f"all cases ran serially: {library} puts greenlets in the place of threads, in which "
            "trials would overlap. To overlap them leave threads as they are in evals"
        )
    if sys.flags.optimize and config.getoption("assertmode", "") == "plain":
        yield NO_ASSERTS


def workers(config: pytest.Config) -> int:
    """Return how many processes share the limit."""
    worker: dict[str, int] = getattr(config, "workerinput", {})
    return int(worker.get("workercount", 1))
