"""Instructions to the session that makes the run of a baseline, and its answer at the end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.engine.marker import is_eval
from pytest_llmeval.engine.rerun.installs import installs_from
from pytest_llmeval.engine.run_header import INSTALLED, files_loaded
from pytest_llmeval.runs.lookup.best_run import covers
from pytest_llmeval.settings import RERUN


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What the session in the worktree is told by the one that started it.

    Attributes:
        session: id of that session, whose caps and refreshed draws are this one's too.
        checkout: top of its working tree, from which nothing may be loaded here.
        worktree: top of the one that is tested instead.
        selection: paths of tests and node ids, relative to rootpath; empty for all evals.
        outcome: the file in which this session tells what came of it.
    """

    session: str
    checkout: str
    worktree: str
    selection: tuple[str, ...]
    outcome: str

    def written(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self))

    def wants(self, item: pytest.Item) -> bool:
        """Tell whether an item is to run: an eval among what the user chose."""
        is_chosen = not self.selection or covers(self.selection, narrow=(item.nodeid,))
        return is_chosen and is_eval(item)

    def tell(self, *, run: Path | None, foreign: Collection[str]) -> None:
        """Write what came of the session, for the one that waits for it."""
        told = {"run": None if run is None else str(run), "foreign": list(foreign)}
        Path(self.outcome).write_text(json.dumps(told))


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseOutcome:
    """What came of the session in the worktree.

    Attributes:
        run: the run file; None if no eval ran.
        foreign: files of the checkout, or copied from it, that were loaded there.
    """

    run: str | None
    foreign: tuple[str, ...]


def read_brief(config: pytest.Config) -> Brief | None:
    """Return what this session was told; None if it is a session of its own.

    The variable is taken away: a pytest that a test starts makes no baseline.
    """
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    text = worker.get(RERUN) or os.environ.pop(RERUN, None)
    if text is None:
        return None
    told = json.loads(text)
    return Brief(**{**told, "selection": tuple(told["selection"])})


def foreign_files(config: pytest.Config, brief: Brief) -> tuple[str, ...]:
    """List the files that this process loaded from the checkout, or from a copy of it."""
    checkout, worktree = Path(brief.checkout), Path(brief.worktree)
    prefixes = {Path(sys.prefix), Path(sys.base_prefix), worktree} - {checkout}
    copied = {file for install in installs_from(checkout) for file in install.files}

    def is_foreign(file: Path) -> bool:
        if str(file) in copied:
            return True
        is_installed = any(part in str(file) for part in INSTALLED)
        is_apart = is_installed or any(map(file.is_relative_to, prefixes))
        return file.is_relative_to(checkout) and not is_apart

    loaded = {os.path.realpath(name) for name in files_loaded(config)}
    return tuple(sorted(name for name in loaded if is_foreign(Path(name))))


def read_outcome(file: Path) -> BaseOutcome | None:
    """Read what a session told; None if it did not come to that."""
    try:
        told = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return BaseOutcome(run=told["run"], foreign=tuple(told["foreign"]))
