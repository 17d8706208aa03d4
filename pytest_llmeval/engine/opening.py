"""What is known of a run when it begins: its cases, its commit, how they were selected."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import metadata

import pytest

from pytest_llmeval import __version__
from pytest_llmeval.records import Case, Run
from pytest_llmeval.runs.git import GitState, read_state, relative_root
from pytest_llmeval.runs.store import new_run_id

GIT = pytest.StashKey[GitState]()

_SDKS = ("openai", "anthropic", "ollama")
_SELECTING_OPTIONS = ("keyword", "markexpr", "lf", "failedfirst", "stepwise", "deselect")


def open_run(
    config: pytest.Config,
    cases: Sequence[Case],
    *,
    deselected: Iterable[pytest.Item],
    completes: str | None = None,
) -> Run:
    """Describe the run that begins, without its trials.

    ``complete`` says whether everything was collected and nothing left out; whether every
    trial ended is known later.

    Args:
        config: of the session, after collection.
        cases: every case that will run, in order of collection.
        deselected: eval items that were left out.
        completes: id of the run that this one completes.
    """
    now = datetime.now(UTC)
    git = git_state(config)
    left_out = {_function(item.nodeid) for item in deselected}
    chosen = {_function(argument) for argument in selection(config) if "[" in argument}
    return Run(
        id=new_run_id(now),
        created=now.isoformat(timespec="seconds"),
        commit=git.commit,
        tree=git.tree,
        dirty=git.dirty,
        ref=git.branch,
        root=relative_root(config.rootpath, top=git.top),
        versions=_versions(),
        selection=selection(config),
        complete=not left_out and not _is_selective(config),
        partial=tuple(sorted(left_out | chosen)),
        cases=tuple(cases),
        trials=(),
        completes=completes,
    )


def git_state(config: pytest.Config) -> GitState:
    """Return what the session stands on, read once: tests may write into the tree."""
    if GIT not in config.stash:
        config.stash[GIT] = read_state(config.rootpath)
    return config.stash[GIT]


def selection(config: pytest.Config) -> tuple[str, ...]:
    """Return the path arguments of a session, relative to rootpath.

    Returns:
        Empty if pytest chose the paths itself (``testpaths``, or all of rootpath).
    """
    source = config.args_source
    if source is config.ArgsSource.TESTPATHS:
        return ()
    paths = (_relative(argument, config) for argument in config.args)
    return tuple(path for path in paths if path != ".")


def _relative(argument: str, config: pytest.Config) -> str:
    path, separator, rest = argument.partition("::")
    absolute = (config.invocation_params.dir / path).resolve()
    root = config.rootpath.resolve()
    shown = absolute.relative_to(root) if absolute.is_relative_to(root) else absolute
    return f"{shown.as_posix()}{separator}{rest}"


def _is_selective(config: pytest.Config) -> bool:
    """Whether an option or argument may have left cases out."""
    if any("::" in argument for argument in config.args):
        return True
    return any(config.getoption(name, None) for name in _SELECTING_OPTIONS)


def _function(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _versions() -> dict[str, str]:
    versions = {
        "python": platform.python_version(),
        "pytest": pytest.__version__,
        "pytest-llm-baseline": __version__,
    }
    for name in _SDKS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
