"""Complete the last run: keep its good trials and run the errored ones again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pytest_llmeval.errors import BaselineUnreadable, SettingsError
from pytest_llmeval.records import Case, Outcome, Run, Trial, trials_by_case
from pytest_llmeval.runs.git import GitState, short_hash
from pytest_llmeval.runs.store import RunStore

OPTION = "--llm-retry-errors"
EVERYTHING = "Run everything, replies that are known are replayed:  pytest"


@dataclass(frozen=True)
class Retry:
    """A run to be completed: its errored trials, and those that never ended, run again.

    Attributes:
        run: the run.
        path: its file, which stays as it is.
    """

    run: Run
    path: Path

    @cached_property
    def recorded(self) -> dict[str, tuple[Trial, ...]]:
        """Every trial of the run, by case.

        Their calls were paid for in an earlier session, so in this one they count as replayed.
        """
        found = trials_by_case(self.run).items()
        return {case: tuple(map(_taken_over, trials)) for case, trials in found}

    @cached_property
    def standing(self) -> dict[str, tuple[Trial, ...]]:
        """The trials that are not run again, by case."""
        return {
            case: tuple(t for t in trials if t.outcome is not Outcome.ERRORED)
            for case, trials in self.recorded.items()
        }

    @property
    def taken_over(self) -> Run:
        """The whole run, its calls as replayed ones: this session paid for none of them."""
        return replace(self.run, trials=tuple(map(_taken_over, self.run.trials)), attempts=0)

    @property
    def unfinished(self) -> tuple[Case, ...]:
        """The cases of which some trial is run again."""
        return tuple(c for c in self.run.cases if len(self.standing.get(c.id, ())) < c.repeats)

    @property
    def is_done(self) -> bool:
        """Whether no trial is to be run again."""
        return self.again == 0

    @property
    def again(self) -> int:
        """The number of trials that are run again."""
        standing = sum(len(trials) for trials in self.standing.values())
        return sum(case.repeats for case in self.run.cases) - standing

    def check_cases(self, cases: Sequence[Case]) -> None:
        """Check that the collected cases are those of the run.

        Raises:
            SettingsError: they are not the same ones.
        """
        collected = {case.id: case for case in cases}
        recorded = {case.id: case for case in self.run.cases}
        for wanted, known, which in (
            (recorded, collected, "are not collected here"),
            (collected, recorded, "are not in that run"),
        ):
            odd = [name for name in wanted if name not in known]
            if odd:
                raise self._refused(
                    f"{len(odd)} case(s) {which}, {odd[0]} first of all. "
                    "Select the very tests of that run, or run everything:  pytest"
                )
        for case in cases:
            self._check_case(case, recorded[case.id])

    def _check_case(self, case: Case, recorded: Case) -> None:
        if case.repeats != recorded.repeats:
            same = {known.repeats for known in self.run.cases} == {recorded.repeats}
            todo = f"Say --llm-repeats={recorded.repeats}" if same else "Leave --llm-repeats out"
            raise self._refused(
                f"{case.id} has {case.repeats} repeats here and {recorded.repeats} there. "
                f"{todo}, or run everything:  pytest"
            )
        if case.parameters != recorded.parameters:
            raise self._refused(f"{case.id} has other parameters here. {EVERYTHING}")

    def _refused(self, what: str) -> SettingsError:
        return SettingsError(f"{OPTION}: run {self.run.id} cannot be completed: {what}")


def find_retry(
    store: RunStore, *, git: GitState, root: str, selection: Sequence[str], model: str | None
) -> Retry:
    """Find the newest run, and check that it has this commit, selection and model.

    Args:
        store: where runs are kept.
        git: the state at session start.
        root: rootpath relative to git's top level.
        selection: the session's, see ``records.Run``.
        model: what the session asks, None if it named none.

    Raises:
        SettingsError: there is no run, or it is one of something else.
    """
    try:
        found = store.newest()
    except BaselineUnreadable as exc:
        raise SettingsError(f"{OPTION}: {exc}") from None
    if found is None:
        raise SettingsError(f"{OPTION}: no run is recorded in {store.folder}. Record one:  pytest")
    run = found.run
    asked = {call.model for trial in run.trials for call in trial.calls if call.model is not None}
    is_dirty = git.dirty or bool(run.unseen)
    facts = [
        (f"rootdir {run.root!r}", f"rootdir {root!r}"),
        (_stand(run.commit, dirty=run.dirty), _stand(git.commit, dirty=is_dirty)),
        (_selected(run.selection), _selected(selection)),
    ]
    if asked and model and model not in asked:
        facts.append((f"model {', '.join(sorted(asked))}", f"model {model}"))
    for recorded, current in facts:
        if recorded != current:
            raise SettingsError(
                f"{OPTION}: the last run ({run.id}) is of {recorded}, this session of {current}: "
                f"what it found does not hold here. {EVERYTHING}"
            )
    return Retry(run, found.path)


def lineage(run: Run, store: RunStore) -> frozenset[str]:
    """List the ids of a run, of the run that it completed, and so on."""
    ids = {run.id}
    while run.completes is not None and run.completes not in ids:
        ids.add(run.completes)
        path = store.by_id(run.completes)
        if path is None:
            break
        run = store.load(path)
    return frozenset(ids)


def _taken_over(trial: Trial) -> Trial:
    calls = (replace(c, replayed=True) if c.was_paid else c for c in trial.calls)
    return replace(trial, calls=tuple(calls))


def _stand(commit: str | None, *, dirty: bool) -> str:
    if commit is None:
        return "no commit"
    return f"commit {short_hash(commit)}{' with changes' if dirty else ''}"


def _selected(paths: Sequence[str]) -> str:
    return ", ".join(paths) or "all tests"
