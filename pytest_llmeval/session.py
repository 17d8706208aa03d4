"""One session: gather the trials that ran, record them as a run, and judge it at the end.

Nothing of pytest is imported here. The plugin hands in the payloads of the reports, whether they
came from this process or from workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_llmeval.errors import BaselineNotFound
from pytest_llmeval.gate.results import Comparison
from pytest_llmeval.gate.scoring import CostOf, cases_not_run
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.models.prices import Prices
from pytest_llmeval.records import Call, Run, Slowdown, TokenPrice, Trial
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.reshaping import idle_renames, renames_to_nothing, under_new_names
from pytest_llmeval.runs.retry import Retry
from pytest_llmeval.runs.store import RunStore
from pytest_llmeval.settings import Settings

GONE = 2  # the row of the decision table


class EvalSession:
    """Gathers the trials of one session and judges them at its end.

    Attributes:
        baseline: what to compare with; None for an ungated session, ``not_gated`` then
            says why.
        anchor: a second, older baseline, None without one.
        retry: the run that this one completes, None for a run of its own.
        untracked: files that the session used and that git neither tracks nor ignores.
        saw_collection_error: some file could not be collected, so the run is incomplete.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        baseline: Baseline | None = None,
        anchor: Baseline | None = None,
        not_gated: str = "",
        not_anchored: str = "",
        retry: Retry | None = None,
        typed: Sequence[str] | None = None,
        lost: Collection[str] = (),
        notes: Sequence[str] = (),
    ) -> None:
        self.settings = settings
        self.baseline = baseline
        self.anchor = anchor
        self.not_gated = not_gated
        self.retry = retry
        self.saw_collection_error = False
        self.untracked: tuple[str, ...] = ()
        self._opening: Run | None = None
        self._recorded = {} if retry is None else retry.recorded
        self._trials: dict[str, tuple[Trial, ...]] = dict(self._recorded)
        self._headlines: dict[str, str] = {}
        self._typed = typed
        self._lost = lost
        self._notes = [*([f"no anchor: {not_anchored}"] if not_anchored else []), *notes]
        self._serial: dict[str, str] = {}
        self._slowdowns: dict[str, Slowdown] = {}
        self._outside_calls = 0
        self._attempts = 0
        self._taken_in: set[str] = set()  # ids of payloads

    def add(self, payload: Mapping[str, Any]) -> None:
        """Take in the payload of a report; the trials of a rerun replace the earlier ones.

        A payload that came after the last report has no case. After an interruption one may
        come twice.
        """
        if payload["id"] in self._taken_in:
            return
        if "opening" in payload and self._opening is None:
            self._opening = payload["opening"]
        if "case" in payload:
            self._add_case(payload["case"], payload)
        self._taken_in.add(payload["id"])  # Ctrl-C may come at any line, so the trials are first
        self._notes += [note for note in payload.get("notes", ()) if note not in self._notes]
        for slowdown in payload["slowdowns"]:
            self._slow_down(slowdown)
        self._outside_calls += payload.get("outside_calls", 0)
        self._attempts += payload.get("attempts", 0)

    def _add_case(self, case: str, payload: Mapping[str, Any]) -> None:
        # A trial that was to run again and did not end keeps its earlier outcome.
        trials = (*self._recorded.get(case, ()), *payload["trials"])
        known = {trial.index: trial for trial in trials}
        self._trials[case] = tuple(known[index] for index in sorted(known))
        self._headlines[case] = payload["headline"]
        self._serial[case] = payload["serial"]

    def record(self) -> None:
        """Record the trials that have ended, without a judgement."""
        run = self._run()
        if run is not None:
            RunStore(self.settings.directory).save(run)

    def judge(self, *, seconds: float, ended: bool = False) -> Judgement:
        """Record the run, then compare it: nothing after the recording can lose it.

        Args:
            seconds: wall time of the session so far.
            ended: pytest came to the end without a failure, so every case must have run.
        """
        run = self._run()
        judgement = Judgement(
            settings=self.settings,
            run=run,
            baseline=self.baseline,
            anchor=self.anchor,
            not_gated=self.not_gated,
            headlines={case: line for case, line in self._headlines.items() if line},
            notes=tuple(self._notes),
            serial=dict(Counter(filter(None, self._serial.values())).most_common()),
            seconds=seconds,
            slowdowns=tuple(self._slowdowns.values()),
        )
        if run is None:
            return self._nothing_ran(judgement)
        judged = compared(self._saved(judgement, run), run, typed=self._typed, lost=self._lost)
        not_run = cases_not_run(run) if ended else {}
        if not not_run:
            return judged
        return replace(
            judged,
            comparison=_failing(judged.comparison, not_run),
            anchored=_failing(judged.anchored, not_run),
        )

    def _slow_down(self, more: Slowdown) -> None:
        known = self._slowdowns.get(more.provider, more)
        if known is not more:
            more = replace(
                more,
                times=known.times + more.times,
                lowest=min(known.lowest, more.lowest),
                seconds=known.seconds + more.seconds,
            )
        self._slowdowns[more.provider] = more

    def _run(self) -> Run | None:
        if self._opening is None:
            return None
        cases = self._opening.cases
        ended = all(len(self._trials.get(case.id, ())) == case.repeats for case in cases)
        return replace(
            self._opening,
            complete=self._opening.complete and ended and not self.saw_collection_error,
            dirty=self._opening.dirty or bool(self.untracked),
            unseen=(*self._opening.unseen, *self.untracked),
            outside_calls=self._outside_calls,
            attempts=self._attempts,
            trials=tuple(trial for case in cases for trial in self._trials.get(case.id, ())),
        )

    def _saved(self, judgement: Judgement, run: Run) -> Judgement:
        try:
            return replace(judgement, path=RunStore(self.settings.directory).save(run))
        except (OSError, ValueError) as exc:  # ValueError: two cases with one id, say
            return replace(judgement, unsaved=f"this run could not be recorded: {exc}")

    def _nothing_ran(self, judgement: Judgement) -> Judgement:
        is_done = self.retry is not None and self.retry.is_done and not self.saw_collection_error
        if self.retry is not None and is_done:
            note = f"no trial of run {self.retry.run.id} is errored: nothing to run again"
            judgement = replace(judgement, notes=(*judgement.notes, note))
        if self.baseline is None:
            return judgement
        if self.retry is not None and is_done:  # what was asked for is there already
            run = self.retry.taken_over
            return compared(replace(judgement, run=run), run, typed=self._typed, lost=self._lost)
        reason = "nothing was compared: no eval case finished in this session"
        return replace(judgement, could_not_judge=reason)


def planned_session(
    settings: Settings,
    *,
    find: Callable[..., Baseline],
    rootpath: Path,
    retry: Retry | None,
    typed: Sequence[str],
) -> EvalSession:
    """Find the baseline and the anchor now, before anything is run or paid for.

    Args:
        settings: of the session.
        find: finds a run by what the user named, for an ``option``.
        rootpath: pytest's.
        retry: the run that the session completes, if it does.
        typed: what the user typed of the selection.

    Raises:
        BaselineError: there is none, or it does not fit.
    """
    goes_on = settings.on_missing == "warn"
    baseline, not_gated = _found(find, settings.baseline, "--llm-baseline", goes_on=goes_on)
    anchor, not_anchored = _found(find, settings.anchor, "--llm-anchor", goes_on=goes_on)
    notes = idle_renames([one.run for one in (baseline, anchor) if one], settings.renamed)
    baseline = baseline and under_new_names(baseline, settings.renamed)
    anchor = anchor and under_new_names(anchor, settings.renamed)
    cases = [case for one in (baseline, anchor) if one for case in one.run.cases]
    files = {case.function.partition("::")[0] for case in cases}
    return EvalSession(
        settings,
        baseline=baseline,
        anchor=anchor,
        not_gated=not_gated,
        not_anchored=not_anchored,
        retry=retry,
        typed=typed,
        lost=frozenset(file for file in files if not (rootpath / file).exists()),
        notes=notes,
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
        if not goes_on:
            raise
        return None, exc.line


def compared(
    judgement: Judgement,
    run: Run,
    *,
    typed: Sequence[str] | None = None,
    lost: Collection[str] = (),
) -> Judgement:
    """Hold a run against what a judgement names, or describe it if there is no baseline.

    Args:
        judgement: with the baseline and the anchor, if any.
        run: the run that is judged.
        typed: what the user typed of its selection, see ``gate.compare``.
        lost: files of the baseline that are not there any more, see ``gate.compare``.
    """
    rules, cost_of = judgement.settings.gate, pricing(judgement.settings.prices)
    try:
        from pytest_llmeval.gate.compare import compare  # numpy and scipy
        from pytest_llmeval.gate.describe import describe, oddities

        judgement = replace(judgement, notes=(*judgement.notes, *oddities(run)))
        if judgement.anchor is not None:
            # Another question, so a family of its own: both answers must hold.
            main = None if judgement.baseline is None else judgement.baseline.run
            anchored = compare(
                judgement.anchor.run, run, rules, cost_of=cost_of, typed=typed, lost=lost, main=main
            )
            judgement = replace(judgement, anchored=anchored)
        if judgement.baseline is None:
            described = describe(run, alpha=rules.alpha, cost_of=cost_of)
            why = next((one.why for one in described if one.why), "")
            return replace(judgement, descriptions=described, could_not_judge=why)
        comparison = compare(
            judgement.baseline.run, run, rules, cost_of=cost_of, typed=typed, lost=lost
        )
        missing = {one.function for one in comparison.functions if one.row == GONE and one.fails}
        misnamed = renames_to_nothing(sorted(missing), judgement.settings.renamed)
        return replace(judgement, comparison=comparison, notes=(*judgement.notes, *misnamed))
    except Exception as exc:
        return replace(judgement, could_not_judge=f"{type(exc).__name__}: {exc}")


def _failing(comparison: Comparison | None, not_run: Mapping[str, int]) -> Comparison | None:
    return None if comparison is None else replace(comparison, fails=True, not_run=not_run)


def pricing(own: Mapping[str, TokenPrice]) -> CostOf:
    """Price the calls of all runs alike, at today's prices.

    Args:
        own: the user's own prices, by ``provider/model``.
    """
    prices = Prices(own)

    def cost_of(call: Call) -> float | None:
        cost = prices.cost(call)
        return None if cost is None else float(cost)

    return cost_of
