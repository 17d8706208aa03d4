"""One session: gather the trials that ran, record them as a run, and judge it at the end.

This module imports nothing of pytest. The plugin hands in the results that reports carried, from
this process or from workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

from pytest_llmeval import records
from pytest_llmeval.errors import BaselineNotFound, BaselineUnreadable, files_unknown, listed_names
from pytest_llmeval.gate.between_runs import without_drift
from pytest_llmeval.gate.distinct_tries import distinct_tries
from pytest_llmeval.gate.results import MOST_NAMED, Fact, Why
from pytest_llmeval.gate.rules import stricter_rules
from pytest_llmeval.gate.scoring import cases_not_run
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.judging import Confirm, judged
from pytest_llmeval.runs.lookup.best_run import covers
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.pooled import further_trials, pooled
from pytest_llmeval.runs.reshaping import idle_renames, under_new_names
from pytest_llmeval.runs.store import RunStore, tries_against
from pytest_llmeval.settings import Settings


class EvalSession:
    """Gathers the trials of one session and judges them at its end.

    Attributes:
        planned: the judgement as far as it is known before the first test.
        saw_collection_error: some file could not be collected, so the run is incomplete.
    """

    def __init__(self, planned: Judgement) -> None:
        self.planned = planned
        self.saw_collection_error = False
        self._untracked: tuple[str, ...] = ()
        self._store = RunStore(planned.settings.directory)
        self._opening: records.Run | None = None
        self._cases: dict[str, records.CaseResult] = {}
        self._notes = [*planned.notes]
        self._slowdowns: dict[str, records.Slowdown] = {}
        self._connections: Counter[tuple[str, str, str]] = Counter()
        self._outside_calls = 0
        self._attempts = 0
        self._taken_in: set[str] = set()  # ids of results

    def add(self, result: records.CaseResult) -> None:
        """Take in the result on a report; the trials of a rerun replace the earlier ones.

        A result that came after the last report has no case. After an interruption a result may
        come twice.
        """
        if result.id in self._taken_in:
            return
        self._opening = self._opening or result.opening
        if result.case:
            known = {trial.index: trial for trial in result.trials}
            trials = tuple(known[index] for index in sorted(known))
            self._cases[result.case] = replace(result, trials=trials, opening=None)
        self._taken_in.add(result.id)  # Ctrl-C may come at any line, so the trials are first
        self._notes += [note for note in result.news.notes if note not in self._notes]
        for slowdown in result.news.slowdowns:
            self._slow_down(slowdown)
        for host, function, library, count in result.news.connections:
            self._connections[host, function, library] += count
        self._outside_calls += result.news.outside_calls
        self._attempts += result.news.attempts

    @property
    def has_results(self) -> bool:
        """Whether it took in anything."""
        return self._opening is not None or bool(self._taken_in)

    def _first_lines(self) -> dict[str, str]:
        """Return the first line of each case's first failure; only its place without texts."""
        failed = {case: one for case, one in self._cases.items() if one.headline}
        if self.planned.settings.show_texts:
            return {case: one.headline for case, one in failed.items()}
        places = ((case, records.first_failed(one.trials)) for case, one in failed.items())
        return {case: first.message for case, first in places if first}

    def look_for_untracked(self, find: Callable[[], Iterable[str]]) -> None:
        """Note the files that the session used and that git neither tracks nor ignores.

        A search that fails, for any reason, costs a note, as the trials are paid for.
        """
        try:
            self._untracked = tuple(find())
        except Exception as exc:
            self._notes.append(files_unknown(exc))

    def _ordinary_tests(self) -> tuple[Fact, ...]:
        ordinary = {case: one.function for case, one in self._cases.items() if one.is_ordinary}
        if not ordinary or self._opening is None:
            return ()
        shown = records.distinct_names(case.function for case in self._opening.cases)
        names = [shown[of] + case.removeprefix(of) for case, of in ordinary.items()]
        return (Fact(Why.ORDINARY_TESTS, (len(names), listed_names(names, MOST_NAMED))),)

    def record(self) -> None:
        """Record the trials that have ended, without a judgement."""
        run = self._run()
        if run is not None:
            self._store.save(run)

    def judge(
        self,
        *,
        seconds: float,
        is_green: bool,
        notes: Iterable[str],
        confirm: Confirm | None = None,
    ) -> Judgement:
        """Record the run, then compare it, so that no later failure can lose it.

        Args:
            seconds: wall time of the session so far.
            is_green: pytest came to the end without a failure, so every case must have run.
            notes: further sentences for the section.
            confirm: has a fall looked at again, see ``judging.judged``.
        """
        run = self._run()
        path, unsaved = None, None
        if run is not None:
            try:
                path = self._store.save(run)
            except Exception as exc:  # the verdict and the section are still worth having
                unsaved = Fact(Why.NOT_SAVED, (str(exc),))
        serial = (one.serial for one in self._cases.values())
        planned = replace(
            self.planned,
            path=path,
            unsaved=unsaved,
            headlines=self._first_lines(),
            notes=(*self._notes, *notes, *self._ordinary_tests(), *self._note_on_part(run)),
            serial=dict(Counter(filter(None, serial)).most_common()),
            seconds=seconds,
            slowdowns=tuple(self._slowdowns.values()),
            connections=dict(self._connections),
            tries=self._tries(run),
        )
        if run is None:
            found = planned.baseline
            nothing = Fact(Why.NOTHING_RAN, (found.reference,)) if found else None
            return replace(planned, could_not_judge=nothing)
        not_run = cases_not_run(run) if is_green else None
        return judged(planned, run, is_green=is_green, not_run=not_run, confirm=confirm)

    def _tries(self, run: records.Run | None) -> int:
        """Count the tries against this baseline, if this run is one."""
        if run is None or run.compared_with is None or not run.attempts:
            return 0
        tries = tries_against(self._store, run.compared_with, branch=run.ref)
        others = [one.path for one in tries if one.header.run.id != run.id]
        if len(others) == len(tries):
            return 0
        earlier = []
        for path in others:
            with suppress(BaselineUnreadable):
                earlier.append(self._store.load(path))
        return len(distinct_tries([*earlier, run]))

    def _note_on_part(self, run: records.Run | None) -> Iterator[Fact]:
        """Note if a job of CI judges a part of the suite, as other jobs judge the other parts."""
        baseline = self.planned.baseline
        if baseline is None or run is None or run.ci is None:
            return
        cases = 0 if run.collected is None else run.collected.cases
        if not covers(run.selection, narrow=baseline.run.selection):
            cases = max(cases, len(baseline.run.cases))
        if cases > len(run.cases):
            reference = self.planned.settings.baseline or ""
            yield Fact(Why.PART_IN_CI, (len(run.cases), cases, reference))

    def _slow_down(self, more: records.Slowdown) -> None:
        known = self._slowdowns.get(more.provider)
        if known is not None:
            more = replace(
                more,
                times=known.times + more.times,
                lowest=min(known.lowest, more.lowest),
                seconds=known.seconds + more.seconds,
            )
        self._slowdowns[more.provider] = more

    def _run(self) -> records.Run | None:
        opening = self._opening
        if opening is None:
            return None
        looks = {one.function: one.looks for one in self._cases.values() if one.looks is not None}
        ran = (self._cases.get(case.id) for case in opening.cases)
        # a skipped case may have been reported before its function stopped, with more trials
        trials = [() if one is None else one.trials[: looks.get(one.function)] for one in ran]
        counts, planned = list(map(len, trials)), [case.repeats for case in opening.cases]
        wanted = [looks.get(case.function, case.repeats) for case in opening.cases]
        is_whole = opening.complete and counts == wanted and not self.saw_collection_error
        ended, first = chain.from_iterable(trials), self.planned.settings.asked.first
        baseline = self.planned.baseline
        return replace(
            opening,
            complete=is_whole and counts == planned,
            stopped=is_whole and counts != planned,
            dirty=opening.dirty or bool(self._untracked),
            unseen=(*opening.unseen, *self._untracked),
            outside_calls=self._outside_calls,
            attempts=self._attempts,
            # cases in a file that could not be read were not counted
            collected=None if self.saw_collection_error else opening.collected,
            compared_with=baseline.run.id if baseline and baseline.run.cases else None,
            asked_by=self.planned.settings.asked.asked_by,
            looks=looks,
            # with the indices of their draws
            trials=tuple(replace(t, index=first + t.index) if first else t for t in ended),
        )


def planned_judgement(
    settings: Settings,
    *,
    find: Callable[..., Baseline],
    rootpath: Path,
    typed: Sequence[str],
    may_defer: bool = False,
) -> Judgement:
    """Find the baseline and the anchor, before the first test or paid call.

    Args:
        settings: of the session.
        find: finds a run by its name, for an ``option``.
        rootpath: pytest's.
        typed: what the user typed of the selection.
        may_defer: see ``Judgement``.

    Raises:
        BaselineError: there is none, or it does not fit.
    """
    goes_on = settings.on_missing == "warn"
    baseline, not_gated = _found(find, settings.baseline, "--llm-baseline", goes_on=goes_on)
    anchor, not_anchored = _found(find, settings.anchor, "--llm-anchor", goes_on=goes_on)
    notes: list[Fact | str] = [Fact(Why.NOT_ANCHORED, (not_anchored,))] if not_anchored else []
    if baseline is not None:
        rules, loosened = stricter_rules(settings.gate, baseline.run.rules, typed=settings.typed)
        settings, notes = replace(settings, gate=rules), [*notes, *loosened]
    if baseline is not None and baseline.older:
        further = further_trials(baseline.run, baseline.older)
        further, drifted = without_drift(baseline.run, further)
        run = pooled(baseline.run, further, most=settings.baseline_repeats)
        baseline = replace(baseline, run=run, older=())
        notes += [Fact(Why.DRIFTED, (records.bare(name), p)) for name, p in drifted.items()]
    recorded = baseline, anchor
    notes += idle_renames([one.run for one in recorded if one], settings.renamed)
    baseline, anchor = (one and under_new_names(one, settings.renamed) for one in recorded)
    sides = [one for one in (*recorded, baseline, anchor) if one]
    cases = [case for one in sides for case in one.run.cases]
    files = {case.function.partition("::")[0] for case in cases}
    return Judgement(
        settings=settings,
        baseline=baseline,
        anchor=anchor,
        recorded=recorded,
        not_gated=not_gated,
        notes=tuple(notes),
        typed=typed,
        may_defer=may_defer,
        lost=frozenset(file for file in files if not (rootpath / file).exists()),
    )


def _found(
    find: Callable[..., Baseline], reference: str | None, option: str, *, goes_on: bool
) -> tuple[Baseline | None, str]:
    """Find a run, or say why a session goes on without it."""
    if reference is None:
        return None, ""
    try:
        return find(reference, option=option), ""
    except BaselineNotFound as exc:
        if exc.stops and not goes_on:
            raise
        return None, exc.line
