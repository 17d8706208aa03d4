"""The run that begins: its cases, its commit, and how they were selected."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_llmeval.engine.compat import INSTALLED
from pytest_llmeval.records import CONFIRM, Case, CiJob, Run, function_of, paths_of
from pytest_llmeval.runs.git import GitState, read_state, relative_root, unknown_files
from pytest_llmeval.runs.run_lines import collected_cases
from pytest_llmeval.runs.store import new_run_id
from pytest_llmeval.settings import GateRules
from pytest_llmeval.vendors import VENDORS
from pytest_llmeval.version import __version__

GIT = pytest.StashKey[GitState]()

_NAMES_IN: Any = vars(ModuleType)["__dict__"]  # of a module; no subclass can take its place
# Ends of a pytest that ran all it was to run: tests may have failed, and there may be none.
ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
_MOST_CHANGED = 20  # files that are named
# What they leave out depends on the session before, so it is no selection to be had again.
_BY_LAST_SESSION = {
    "lf": "--lf",
    "llm_missed": "--llm-missed",
    **dict.fromkeys(("stepwise", "stepwise_skip", "stepwise_reset"), "--stepwise"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The evals of a session as they were chosen.

    Attributes:
        collected: ids of the cases that were collected, before any was left out.
        left_out: the items of those that will not run.
        deselected: all items that were announced to be left out.
        typed: what the user typed of the selection.
        job: of CI, None on a laptop.
        made: why the run is made, see ``records.Run``.
    """

    collected: Sequence[str]
    left_out: Sequence[pytest.Item]
    deselected: Collection[pytest.Item]
    typed: Sequence[str]
    job: CiJob | None
    made: str | None = None


def open_run(
    config: pytest.Config, cases: Sequence[Case], *, rules: GateRules, choice: Choice
) -> Run:
    """Describe the run that begins, without its trials; whether all of them end is known later.

    Args:
        config: of the session, after collection.
        cases: every case that will run, in order of collection.
        rules: of the gate, whether or not it is asked this time.
        choice: how the cases were chosen.
    """
    now, git, chosen = datetime.now(UTC), git_state(config), selection(config)
    dropped = _dropped(choice.left_out, config)
    ids = any("::" in path for path in paths_of(chosen))
    return Run(
        id=new_run_id(now),
        created=now.isoformat(timespec="seconds"),
        commit=git.commit,
        tree=git.tree,
        dirty=git.dirty,
        unseen=git.hidden,
        changed=git.changed[:_MOST_CHANGED],
        ref=git.branch,
        root=relative_root(config.rootpath, top=git.top),
        versions=_versions(),
        selection=chosen,
        complete=not (any(_by_last(config.option)) or ids or dropped or choice.made == CONFIRM),
        partial=tuple(sorted(_in_part(config, cases, choice=choice, dropped=dropped))),
        cases=tuple(cases),
        trials=(),
        outside_calls=0,
        rules=asdict(rules),
        ci=choice.job,
        # pytest may drop whole files before they are collected
        collected=None if _by_last(config.option) else collected_cases(choice.collected),
        made=choice.made,
        typed=tuple(choice.typed),
    )


def _in_part(
    config: pytest.Config, cases: Sequence[Case], *, choice: Choice, dropped: Sequence[pytest.Item]
) -> set[str]:
    """Name the functions of which cases were left out openly."""
    in_part = {function_of(path) for path in paths_of(choice.typed) if "[" in path}
    announced = [item for item in choice.left_out if item in choice.deselected]
    by_last = _by_last(config.option)
    if any(option in choice.typed for option in by_last):
        # pytest drops items of such sessions before anybody sees them
        in_part |= {case.function for case in cases}
    elif by_last:  # that announces what it leaves out as any plugin does
        announced = [item for item in announced if item not in dropped]
    return in_part | {function_of(item.nodeid) for item in announced}


def files_used(config: pytest.Config) -> list[Path]:
    """List the files of the working tree that this process imported or was configured by.

    Returns:
        Paths whose folders are no links. What is installed is not among them, nor is a
        virtualenv that lies in the working tree.
    """
    top = git_state(config).top
    if top is None:
        return []
    top = Path(os.path.realpath(top))
    prefixes = map(Path, (sys.prefix, sys.base_prefix))
    environments = [path for path in prefixes if path != top and path.is_relative_to(top)]
    by_folder: dict[str, list[str]] = {}
    for name in files_loaded(config) | {str(config.inipath)}:
        if INSTALLED.search(name):
            continue
        written, file = os.path.split(name)
        by_folder.setdefault(written, []).append(file)
    used: list[Path] = []
    for written in filter(os.path.isabs, by_folder):
        folder = Path(os.path.realpath(written))
        if folder.is_relative_to(top) and not any(map(folder.is_relative_to, environments)):
            used += [folder / file for file in by_folder[written]]
    return used


def files_loaded(config: pytest.Config) -> set[str]:
    """Name the files of all modules of this process, each as its module names it."""
    modules = (*sys.modules.values(), *config.pluginmanager.get_plugins())
    # By the type, as libraries of cffi only claim to be modules; and not by getattr, at which a
    # lazy module would be imported.
    spaces = (_NAMES_IN.__get__(m) for m in modules if issubclass(type(m), ModuleType))
    return {space["__file__"] for space in spaces if _is_file_name(space.get("__file__"))}


def _is_file_name(value: object) -> bool:
    """Tell whether what a module calls its file could be one: anybody may set it to anything."""
    if not (issubclass(type(value), str) and isinstance(value, str)):
        return False
    if str.isascii(value):  # thousands are: each takes a tenth of the way below
        return "\0" not in value
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def untracked(config: pytest.Config, others: Iterable[Path]) -> tuple[str, ...]:
    """Name the files that a session used and that git neither tracks nor ignores.

    Args:
        config: of the session.
        others: files that its workers used.
    """
    return unknown_files({*files_used(config), *others}, top=git_state(config).top)


def git_state(config: pytest.Config) -> GitState:
    """Return what the session stands on, read once: tests may write into the tree."""
    if GIT not in config.stash:
        config.stash[GIT] = read_state(config.rootpath)
    return config.stash[GIT]


def selection(config: pytest.Config) -> tuple[str, ...]:
    """Return the path arguments of a session and the options that leave tests out.

    Returns:
        Paths relative to rootpath, none if pytest chose them itself (``testpaths``, or all of
        rootpath), then options as they can be typed, wherever they were set.
    """
    from_ini = config.args_source is config.ArgsSource.TESTPATHS
    return _selected(config, config.option, paths=() if from_ini else config.args)


def typed_selection(
    config: pytest.Config, parser: pytest.Parser | None, arguments: Iterable[str]
) -> tuple[str, ...]:
    """Return what the user typed of a selection, ``--lf`` and ``--stepwise`` included.

    The folder in which pytest was started counts as typed where pytest took it for want of paths.
    All else that leaves tests out stands in files or in the environment, which a branch, or
    a job that judges it, may change unseen: addopts, other ini keys, a conftest, and a file
    of arguments, though its name (``@FILE``) was typed.

    Args:
        config: of the session.
        parser: of its command line; None where a conftest loaded the plugin too late for it.
        arguments: that were typed.
    """
    if parser is None:
        return ()
    # An empty text takes the place of such a file: an option may stand before it.
    own = ["" if text.startswith("@") else text for text in arguments]
    typed = parser.parse_known_args(own)
    by_folder = config.args_source is config.ArgsSource.INVOCATION_DIR
    paths = config.args if by_folder else getattr(typed, "file_or_dir", ())
    return (*_selected(config, typed, paths=filter(None, paths)), *_by_last(typed))


def _selected(
    config: pytest.Config, options: argparse.Namespace, *, paths: Iterable[str]
) -> tuple[str, ...]:
    relative = (_relative(path, config) for path in paths)
    return (*(path for path in relative if path != "."), *_filters(config, options))


def _by_last(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the flags of ``_BY_LAST_SESSION`` that are set, also by an option that implies one."""
    set_here = (flag for name, flag in _BY_LAST_SESSION.items() if getattr(options, name, None))
    return tuple(dict.fromkeys(set_here))


def _filters(config: pytest.Config, options: argparse.Namespace) -> Iterator[str]:
    for option, name in (("-k", "keyword"), ("-m", "markexpr")):
        expression = " ".join((getattr(options, name, None) or "").split())
        if expression:
            yield f"{option} {expression}"
    for prefix in getattr(options, "deselect", None) or ():
        yield f"--deselect={prefix}"
    for option in ("ignore", "ignore-glob"):
        for path in getattr(options, option.replace("-", "_"), None) or ():
            yield f"--{option}={_relative(path, config)}"


def _relative(argument: str, config: pytest.Config) -> str:
    path, separator, rest = argument.partition("::")
    absolute = (config.invocation_params.dir / path).resolve()
    root = config.rootpath.resolve()
    shown = absolute.relative_to(root) if absolute.is_relative_to(root) else absolute
    return f"{shown.as_posix()}{separator}{rest}"


def _dropped(items: Sequence[pytest.Item], config: pytest.Config) -> list[pytest.Item]:
    """Tell which items were left out by something else than ``-k``, ``-m`` and ``--deselect``.

    pytest's own filters, which are hooks like any other, look at these items once more.
    """
    remaining = list(items)
    unheard: Any = copy(config)  # with which nobody hears of what they deselect
    unheard.hook = SimpleNamespace(pytest_deselected=lambda **_: None)
    for name in ("mark", "main"):
        plugin = config.pluginmanager.get_plugin(name)
        if plugin is not None and remaining:
            plugin.pytest_collection_modifyitems(items=remaining, config=unheard)
    return remaining


def _versions() -> dict[str, str]:
    versions = {
        "python": platform.python_version(),
        "pytest": pytest.__version__,
        "pytest-llm-baseline": __version__,
    }
    for name in (line.sdk for line in VENDORS.values() if line.sdk):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return dict(sorted(versions.items()))
