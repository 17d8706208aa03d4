"""The earlier runs that a session needs, found before anything is run or paid for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from pytest_llmeval.cache.directory import refuse_foreign, refuse_unwritable
from pytest_llmeval.cache.queries import DATABASE, RowReader
from pytest_llmeval.engine.run_header import git_state, selection
from pytest_llmeval.errors import BaselineError
from pytest_llmeval.records import Run
from pytest_llmeval.runs.ci import CiFacts
from pytest_llmeval.runs.git import relative_root
from pytest_llmeval.runs.lookup.draws import draws_of_line, draws_of_run
from pytest_llmeval.runs.lookup.missed import missed_last
from pytest_llmeval.runs.lookup.refs import Baseline, Refs
from pytest_llmeval.runs.lookup.session_baseline import MakeRun, find_baseline
from pytest_llmeval.runs.own_repository import SECONDS
from pytest_llmeval.runs.sharing.shared_store import session_refs
from pytest_llmeval.runs.store import RunStore, refuse_tracked
from pytest_llmeval.settings import Settings, default_directory

COMPARED_KEY = "llmeval_compared"
LOOKS_KEY = "llmeval_looks"  # under which a worker finds whether functions may stop early

_SECONDS_ON_LAPTOP = 5.0  # for the store of a team: in CI nobody waits, and a missing run costs


def refuse_untrusted_runs(config: pytest.Config, settings: Settings) -> None:
    """Take nothing from a store that a stranger, or a commit, can write to.

    Raises:
        SettingsError: the folder is a stranger's, or git tracks runs or replies.
    """
    if settings.typed_directory is None:
        refuse_foreign(settings.directory, rootpath=config.rootpath)
    refuse_tracked(settings.directory, git=git_state(config))


def refuse_unwritable_places(settings: Settings) -> None:
    """Refuse places that nothing can be written to, before the first call is paid for.

    Raises:
        SettingsError: the run or a report could not be written at the end.
    """
    folder = settings.directory / "runs"
    if settings.cache != "replay":  # which may read from a disk that nobody can write to
        todo = "Make room or allow writing, or name another directory with --llm-dir"
        refuse_unwritable(folder / "run", named=str(settings.directory), todo=todo)
    for path in settings.reports:
        refuse_unwritable(path, named=f"--llm-report={path}", todo="Name another file")


def notes_on_store(config: pytest.Config, settings: Settings, ci: CiFacts) -> Iterator[str]:
    """Say what is odd about where a job keeps its runs; nothing on a laptop."""
    git = git_state(config)
    if ci.provider is None:
        return
    if git.commit is None:
        yield f"no later job is compared with this run, as its commit is not known: {git.lack}"
    usual = default_directory(config.rootpath, has_ini=config.inipath is not None)
    place = settings.directory
    if settings.baseline and settings.typed_directory is None and place != usual:
        yield f"runs and replies are those of {place}, which llm_dir or addopts of this branch name"


def baseline_of(
    config: pytest.Config,
    settings: Settings,
    reference: str,
    *,
    option: str,
    ci: CiFacts,
    make: MakeRun | None,
) -> Baseline:
    """Find the run that a session is to be compared with, or let it be made.

    Raises:
        BaselineError: there is none, or it does not fit.
    """
    git = git_state(config)
    seconds = SECONDS if ci.provider else _SECONDS_ON_LAPTOP
    return find_baseline(
        reference,
        session_refs(settings, git=git, ci=ci, seconds=seconds),
        settings,
        option=option,
        root=relative_root(config.rootpath, top=git.top),
        selection=selection(config),
        models=None if settings.model is None else frozenset({settings.model}),
        make=make,
    )


def draws_to_replay(
    config: pytest.Config, settings: Settings, *, earlier: Sequence[Baseline]
) -> Sequence[frozenset[str]]:
    """Collect the draws to replay in the place of newer ones, which a refresh may have made.

    These are the draws of the baseline and of the anchor; without any,
    of the runs of this commit and its ancestors.

    Args:
        config: of the session, or of a worker.
        settings: of the session.
        earlier: these two, in this order; a worker learns them from its controller.
    """
    if settings.cache not in ("auto", "replay"):
        return ()
    with closing(RowReader(settings.directory / "cache" / DATABASE)) as rows:
        if not rows.has_choice():
            return ()
    store = RunStore(settings.directory)
    worker: dict[str, list[str]] = getattr(config, "workerinput", {})
    runs = [one.run for one in earlier]
    runs += map(store.load, map(Path, worker.get(COMPARED_KEY, ())))
    if runs:
        return list(map(draws_of_run, runs))
    git = git_state(config)
    return [draws_of_line(Refs(store, git), root=relative_root(config.rootpath, top=git.top))]


def missed_before(config: pytest.Config, settings: Settings) -> frozenset[str] | None:
    """Return the ids of the cases that missed or moved when they last ran in this working tree.

    None if no run of it is stored.
    """
    git, store = git_state(config), RunStore(settings.directory)
    root = relative_root(config.rootpath, top=git.top)
    return missed_last(store, git=git, root=root, selection=selection(config))


def may_defer(settings: Settings, ci: CiFacts, environ: Mapping[str, str]) -> bool:
    """Tell whether cases that ask something new without a key may be left to a merge queue.

    A pull request from another repository alone is given no key. Where CI does not say that it is
    one, in the queue itself, or where a key of any vendor is set, such cases fail the session.

    Args:
        settings: of the session.
        ci: what CI tells of the job.
        environ: the variables as CI set them, before a conftest changed any.
    """
    if settings.gate.keyless != "defer" or ci.fork is not True or ci.is_queued:
        return False
    from pytest_llmeval.models.vendors.recognition import any_key_is_set

    return not any_key_is_set(environ)


def source_of_forecast(settings: Settings, baseline: Baseline | None) -> tuple[Run | None, bool]:
    """Return the run that forecasts calls and costs, and whether it is the baseline."""
    if baseline is not None and baseline.run.cases:
        return baseline.run, True
    if settings.cache == "replay":
        return None, False  # nothing will be asked, so no run need be read
    with suppress(BaselineError):
        newest = RunStore(settings.directory).newest()
        return None if newest is None else newest.run, False
    return None, False
