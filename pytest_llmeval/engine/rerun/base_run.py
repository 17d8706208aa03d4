"""Run the evals of a commit now, in a worktree of it, by a pytest of its own."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from pytest_llmeval.engine.compat import INSTALLED
from pytest_llmeval.engine.rerun.base_arguments import base_arguments
from pytest_llmeval.engine.rerun.child import Brief, Child, ended_in_order, run_children
from pytest_llmeval.engine.rerun.opened import opened_files
from pytest_llmeval.engine.rerun.preparation import empty_submodules, prepare
from pytest_llmeval.engine.rerun.relocation import (
    OF_TOOLS,
    Relocation,
    changed_dependencies,
    installs_from,
    moved_environment,
    python_path,
)
from pytest_llmeval.engine.rerun.scratch import scratch_folder
from pytest_llmeval.engine.run_header import ENDED, git_state, selection
from pytest_llmeval.errors import BaselineError, GitFailed, Lost, listed_names
from pytest_llmeval.models.limits.journal import Journal
from pytest_llmeval.records import Outcome, Run, paths_of, too_many_errored
from pytest_llmeval.runs.git import ask, lacks_text, relative_root, short_hash
from pytest_llmeval.runs.keyless import lacks_only_a_key
from pytest_llmeval.runs.lookup.best_run import crashed_functions, shortcomings
from pytest_llmeval.runs.own_repository import OwnRepository
from pytest_llmeval.runs.run_file import read_run
from pytest_llmeval.runs.store import FoundRun, first_of
from pytest_llmeval.settings import MARKER, AskedRun, Settings

_LISTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRun:
    """What came of running the evals of a commit.

    Attributes:
        found: the run; None if no eval of the selection is in the commit.
        dropped: paths that the user typed and that the commit lacks.
        dependencies: files by which the commit wants another environment than this one.
        submodules: folders that are empty in the worktree.
        ignored: names what was read here up to now and git ignores, as seen from rootdir, but for
            what the worktree had, too.
    """

    found: FoundRun | None
    dropped: tuple[str, ...]
    dependencies: tuple[str, ...]
    submodules: tuple[str, ...]
    ignored: Callable[[], tuple[str, ...]]


class Rerun:
    """All that a session needs to run the evals of another commit.

    Args:
        config: of the session.
        settings: likewise.
        parser: of its command line; None where a conftest loaded the plugin too late for it.
        environ: the variables of this process before a conftest could change them.
        typed: its arguments, likewise.

    Raises:
        BaselineError: there is no working tree, or our own repository cannot be written.
    """

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        parser: pytest.Parser | None,
        environ: Mapping[str, str],
        *,
        typed: Sequence[str],
    ) -> None:
        top = git_state(config).top
        if top is None:
            raise BaselineError("no commit can be checked out: there is no git repository here")
        self._config, self._settings = config, settings
        self._parser, self._environ, self._typed = parser, environ, typed
        self._checkout = Path(os.path.realpath(top))
        self._copied = tuple(config.rootpath / name for name in settings.base_files)
        chosen = paths_of(selection(config))
        # The paths of the selection if there are node ids among them.
        self._node_ids = chosen if any("::" in path for path in chosen) else ()
        fetches = bool(settings.fetch)
        self._repository = OwnRepository(settings.directory, top=top, fetches=fetches)
        try:
            self._repository.prepare()
        except (GitFailed, OSError) as exc:
            raise BaselineError(f"{self._repository.path} cannot be made: {exc}") from exc

    def run(self, commit: str) -> BaseRun:
        """Run the evals of a commit with the selection and the settings of this session.

        Args:
            commit: full hash.

        Raises:
            BaselineError: it cannot be checked out, its evals did not end, or they tested code
                of this checkout.
        """
        try:
            with ended_in_order(), self.worktree(commit) as relocation:
                return self._run_in(relocation, commit)
        except (GitFailed, OSError) as exc:
            how = "\n       If this clone lacks it let it be fetched:  add --llm-fetch"
            hint = "" if self._repository.fetches else how
            raise BaselineError(
                f"commit {short_hash(commit)} cannot be checked out: {exc}{hint}"
            ) from exc

    @contextmanager
    def worktree(self, commit: str) -> Iterator[Relocation]:
        """Check a commit out, with what git does not check out into it, as long as it is needed.

        Raises:
            BaselineError: something that the commit needs is not here.
            GitFailed, OSError: it cannot be checked out.
        """
        with scratch_folder() as scratch:
            relocation = Relocation(self._checkout, scratch / self._checkout.name)
            with self._repository.worktree(commit, relocation.worktree):
                prepare(relocation, self._copied, self._repository.filters)
                yield relocation

    def _run_in(self, relocation: Relocation, commit: str) -> BaseRun:
        root = self._config.rootpath
        projects = [install.project for install in installs_from(self._checkout)]
        place, found = relocation.place(root), None
        has_root = place is not None and place.is_dir()
        child = self.child(relocation, AskedRun(selection=self._node_ids))
        if child.given.has_tests and has_root:
            (code,) = run_children(child)
            found = self.found(child, code, commit)
        if found is None:
            self._check_nothing_ran(relocation, commit)
        else:
            self._check(found.run, relocation)
        # copied there, or made there by a conftest
        there = frozenset(
            (ask(relocation.worktree, "ls-files", "--others", "-z") or "").split("\0")
        )
        return BaseRun(
            found=found,
            dropped=child.given.dropped,
            dependencies=changed_dependencies(relocation, (root, *projects)),
            submodules=empty_submodules(relocation),
            ignored=partial(self._ignored, relocation, there),
        )

    def _ignored(self, relocation: Relocation, there: frozenset[str]) -> tuple[str, ...]:
        names = set(opened_files(self._config).ignored(relocation)) - there
        root, own = map(os.path.realpath, (self._config.rootpath, self._settings.directory))
        files = [self._checkout / name for name in names]
        others = (file for file in files if not file.is_relative_to(own))
        return tuple(sorted(os.path.relpath(file, root) for file in others))

    def _check_nothing_ran(self, relocation: Relocation, commit: str) -> None:
        """See that a commit has no eval if none of it ran, unless some were chosen."""
        top, base = relocation.worktree, short_hash(commit)
        if selection(self._config) or lacks_text(MARKER, commit=commit, top=top):
            return
        root = relative_root(self._config.rootpath, top=self._checkout)
        raise BaselineError(
            f"{base} has evals, and none was found there with rootdir {root!r}. If they were moved "
            f"record them where they were:  git switch --detach {base} && pytest"
        )

    def _check(self, run: Run, relocation: Relocation) -> None:
        """Refuse a run of which the gate could make nothing, before more is paid for."""
        ran = [trial for trial in run.trials if trial.outcome is not Outcome.SKIPPED]
        errored = [trial for trial in ran if trial.outcome is Outcome.ERRORED]
        calls = [call for trial in errored for call in trial.calls]
        keys = {call.lost_for[0] for call in calls if call.lost is Lost.NO_KEY}
        # set by a conftest, for one of the two
        has_key = any(os.environ.get(key) != self._environ.get(key) for key in keys)
        # A key that both sessions lack is said in one line by this one.
        is_keyless = lacks_only_a_key(errored) and not has_key
        if too_many_errored(len(errored), ran=len(ran)) and not is_keyless:
            reasons = Counter(call.reason for call in calls)
            mostly = "".join(f" ({reason})" for reason, _ in reasons.most_common(1) if reason)
            again = "Run again: only calls without a reply are sent again" if calls else "See above"
            raise BaselineError(
                f"{len(errored)} of {len(ran)} trials of run {run.id} errored{mostly}, more than "
                f"5 %: it is no baseline. {again}{_absent(relocation)}"
            )
        if crashed := crashed_functions(run):
            raise BaselineError(
                f"run {run.id} is no baseline, {crashed[0]}; see above{_absent(relocation)}"
            )
        has_all = len(run.trials) == sum(case.repeats for case in run.cases)
        # Node ids are no selection of which anybody can ask for the same again.
        if not has_all or not (run.complete or self._node_ids):
            why = shortcomings(run, trials=len(run.trials))[-1]
            raise BaselineError(f"run {run.id} is no baseline, {why}; see above")

    @property
    def here(self) -> Relocation:
        """The working tree of this session, for a second session in it."""
        return Relocation(self._checkout, self._checkout)

    def child(self, relocation: Relocation, asked: AskedRun) -> Child:
        """Describe the pytest of a working tree, with the arguments and settings of this session.

        Args:
            relocation: of the tree, ready for it.
            asked: what is to be run.
        """
        installs = () if relocation.is_here else tuple(installs_from(self._checkout))
        settings, folder = self._settings, self._config.invocation_params.dir
        brief = Brief(
            session=settings.session,
            checkout=str(self._checkout),
            worktree=str(relocation.worktree),
            outcome=str(relocation.scratch / "outcome.json"),
            asked=asked,
        )
        old = self._environ.get("PYTHONPATH", "")
        own = [entry for entry in sys.path if not INSTALLED.search(entry)]
        path = python_path(relocation, entries=own, installs=installs, variable=old, folder=folder)
        given = base_arguments(
            self._config,
            self._parser,
            relocation,
            typed=self._typed,
            directory=settings.directory,
            options=asked.options,
        )
        moved = moved_environment(relocation, self._environ, path)
        there = relocation.place(folder) or folder
        there.mkdir(parents=True, exist_ok=True)
        self._config.add_cleanup(Journal(settings.directory, settings.session).remove)
        return Child(
            brief=brief,
            given=given,
            folder=there,
            environ={**moved, **self._repository.filters},
            output=relocation.scratch / "output.txt" if asked.confirmation else None,
        )

    def found(self, child: Child, code: int, commit: str) -> FoundRun | None:
        """Read the run that a pytest recorded, None if no eval ran.

        Args:
            child: the pytest.
            code: with which it ended.
            commit: that it tested.

        Raises:
            BaselineError: it did not run to its end, or tested code of this checkout.
        """
        outcome = child.brief.outcome_told()
        if outcome.foreign:
            own, base = f"{self._checkout}{os.sep}", short_hash(commit)
            files = [file.removeprefix(own) for file in outcome.foreign]
            raise BaselineError(
                f"the run of {base} is no baseline: it read {first_of(files)}, which is of this "
                "checkout or a copy of it. Name files relative to the project, and install "
                f"packages by  pip install -e .  or record {base} by itself, installed from it:  "
                f"git switch --detach {base}"
            )
        if code not in ENDED:
            if child.output is not None:
                print(f"\n{child.output.read_text(errors='replace')}", flush=True)
            absent = _absent(Relocation(self._checkout, Path(child.brief.worktree)))
            raise BaselineError(
                f"the evals of {short_hash(commit)} did not run to their end: their pytest ended "
                f"with {code}; see above{absent}"
            )
        if outcome.run is None:
            return None
        return FoundRun(Path(outcome.run), read_run(Path(outcome.run)))


def _absent(relocation: Relocation) -> str:
    """Say what of a checkout the worktree of a commit lacks, and how it gets it."""
    top = relocation.checkout
    found = ask(top, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    names = [name for name in (found or "").split("\0") if name and not OF_TOOLS.search(name)]
    lacking = {"what git ignores": sorted(names), "submodules": empty_submodules(relocation)}
    listed = [f"{kind} ({listed_names(one, _LISTED)})" for kind, one in lacking.items() if one]
    if relocation.is_here or not listed:
        return ""
    return (
        f". It lacks {' and '.join(listed)}: copy or make that by llm_base_files or llm_base_setup "
        "of the ini file"
    )
