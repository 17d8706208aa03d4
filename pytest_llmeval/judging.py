"""Judge a run: compare it with its baseline and anchor, or describe it if there is no baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

from pytest_llmeval.cache.case_parameters import Parameters
from pytest_llmeval.cache.queries import DATABASE
from pytest_llmeval.cache.why import origins_asked
from pytest_llmeval.errors import SettingsError, listed_names
from pytest_llmeval.gate.accepted import notes_on_accepted
from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.describe import describe, missed_throughout, oddities
from pytest_llmeval.gate.results import (
    MOST_NAMED,
    Comparison,
    Fact,
    FunctionComparison,
    FunctionDescription,
    Row,
    Why,
)
from pytest_llmeval.judgement import Judgement, pricing
from pytest_llmeval.records import Run
from pytest_llmeval.runs.keyless import find_keyless, gone_unjudged, without_keyless
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.reshaping import renames_to_nothing, under_new_names
from pytest_llmeval.settings import is_to_be_gated
from pytest_llmeval.transcripts.common_change import RequestChange, request_changes
from pytest_llmeval.transcripts.transcript import Moved, StoredTexts, excerpts
from pytest_llmeval.transcripts.varying import differ_in_varying

_EXCERPTS = 20  # of a function: cases that fell most, and cases that rose most
_ALL_EXCERPTS = 200
_LOOKED_FOR = 100  # draws of a function


def judged(planned: Judgement, run: Run, *, not_run: Mapping[str, int] | None = None) -> Judgement:
    """Judge a run.

    Args:
        planned: the facts from before the run: the settings, the baseline, the anchor.
        run: that ended.
        not_run: how many cases of a function have no trial, where all should; such a run fails.
    """
    judging = _Judging(planned, run)
    why = None
    try:
        why = judging.judge()
    except Exception as exc:  # the run is recorded, and the results so far are worth having
        why = Fact(Why.RAISED, (type(exc).__name__, str(exc)))
    return replace(
        planned,
        run=run,
        baseline=judging.baseline,
        anchor=judging.anchor,
        keyless=judging.keyless,
        comparison=_failing(judging.comparison, not_run),
        anchored=_failing(judging.anchored, not_run),
        could_not_judge=why,
        descriptions=judging.descriptions,
        excerpts=judging.excerpts,
        request_changes=judging.request_changes,
        absent=judging.absent,
        edited=judging.edited,
        notes=tuple(judging.notes),
    )


def _failing(comparison: Comparison | None, not_run: Mapping[str, int] | None) -> Comparison | None:
    """Let a comparison fail where cases were not run that should have been."""
    if comparison is None or not not_run:
        return comparison
    return replace(comparison, fails=True, not_run=not_run)


class _Judging:
    """The results on a run, step by step; see ``Judgement`` for the attributes."""

    def __init__(self, planned: Judgement, run: Run) -> None:
        self.run = run
        self.settings = planned.settings
        self._typed, self._lost = planned.typed, planned.lost
        self.notes: list[Fact | str] = [*planned.notes]
        self.baseline, self.anchor = planned.baseline, planned.anchor
        if self.settings.renamed and any(planned.recorded):
            self._rename(planned.recorded)
        self.keyless = None
        if is_to_be_gated(self.settings):  # else each keyless case is an error of its own
            stored = partial(origins_asked, self.settings.directory / "cache" / DATABASE)
            is_rerun = self.baseline is not None and self.baseline.how == "rerun"
            self.keyless = find_keyless(
                run,
                self._main,
                aliases=self.settings.origin_aliases,
                stored=stored if is_rerun else None,
            )
        self.comparison: Comparison | None = None
        self.anchored: Comparison | None = None
        self.descriptions: tuple[FunctionDescription, ...] = ()
        self.excerpts: Mapping[str, tuple[str | None, str | None]] = {}
        self.request_changes: tuple[RequestChange, ...] = ()
        self.absent: frozenset[str] = frozenset()
        self.edited: Mapping[str, tuple[Parameters | None, Parameters | None]] = {}

    @property
    def _main(self) -> Run | None:
        return None if self.baseline is None else self.baseline.run

    def _rename(self, recorded: tuple[Baseline | None, Baseline | None]) -> None:
        """Rename the baselines' cases, now that the cases that are still here are known."""
        here = {case.id for case in self.run.cases}
        renamed = self.settings.renamed
        try:
            self.baseline, self.anchor = (
                one and under_new_names(one, renamed, here=here) for one in recorded
            )
        except SettingsError as exc:
            self.notes.append(str(exc))

    def judge(self) -> Fact | None:
        """Compare the run, or describe it; return why nothing can be judged, if that is so."""
        main = self._main
        if self.keyless and main and (gone := gone_unjudged(main, self.run, self.keyless)):
            fact = Fact(Why.GONE_UNJUDGED, (len(gone), listed_names(gone, MOST_NAMED)))
            self.notes.append(fact)
        self.notes += oddities(self.run)
        if self.anchor is not None:
            # The anchor is another question, so a family of its own: both answers must hold.
            self.anchored = self._compared(self.anchor.run, main=main)
        if main is None:
            return self._describe()
        self.comparison = self._compared(main)
        self._look_up_texts(main)
        return None

    def _describe(self) -> Fact | None:
        answered = without_keyless(self.run, self.run, self.keyless)
        cost_of, alpha = pricing(self.settings.prices), self.settings.gate.alpha
        self.descriptions = describe(answered, alpha=alpha, cost_of=cost_of)
        self.notes += missed_throughout(self.run)
        return next((one.why for one in self.descriptions if one.why), None)

    def _compared(self, baseline: Run, *, main: Run | None = None) -> Comparison | None:
        """Compare the run with another one; None if every case of both lacks a key.

        Args:
            baseline: the other one.
            main: where the other one is the anchor, the baseline proper.
        """
        sides = baseline, self.run
        before, answered = (without_keyless(side, self.run, self.keyless) for side in sides)
        if self.keyless and not (before.cases or answered.cases):
            return None
        return compare(
            before,
            answered,
            self.settings.gate,
            cost_of=pricing(self.settings.prices),
            typed=self._typed,
            lost=self._lost,
            main=main,
        )

    @property
    def _functions(self) -> tuple[FunctionComparison, ...]:
        return self.comparison.functions if self.comparison else ()

    def _look_up_texts(self, main: Run) -> None:
        """Look in the cache for replies and parameters that explain the comparison."""
        with StoredTexts(self.settings.directory) as stored:
            if self.settings.show_texts:
                self.excerpts = self._excerpts(main, stored)
                self.request_changes = self._request_changes(main, stored)
            self.absent = frozenset(self._absent(stored))
            self.edited = self._edited(main, stored)
            self.notes += self._notes_on_lines()
            self.notes += self._varying(stored)

    def _excerpts(
        self, main: Run, stored: StoredTexts
    ) -> Mapping[str, tuple[str | None, str | None]]:
        """Look up one line of a reply of each side, for the cases that moved most."""
        moved: list[tuple[float, Moved]] = []
        for one in self._functions:
            changed = sorted((case.difference, case.case) for case in one.compared)
            changed = [each for each in changed if each[0]]
            fell, rose = changed[:_EXCERPTS], changed[_EXCERPTS:][-_EXCERPTS:]
            moved += [
                (-abs(difference), Moved(case, one.metric, one.better, difference < 0))
                for difference, case in (*fell, *rose)
            ]
        most = [each for _, each in sorted(moved)[:_ALL_EXCERPTS]]
        return excerpts(main, self.run, most, stored)

    def _request_changes(self, main: Run, stored: StoredTexts) -> tuple[RequestChange, ...]:
        """Find what changed in the requests, over the changed cases of all functions."""
        changed = sorted(
            (case.difference, case.case, one.function)
            for one in self._functions
            for case in one.compared
            if case.kind == "request"
        )
        cases = dict[str, str]()
        for _, case, function in changed:
            cases.setdefault(case, function)
        return request_changes(main, self.run, cases, stored)

    def _absent(self, stored: StoredTexts) -> Iterator[str]:
        """Look for the replies that were replaced by others."""
        sides = [one for one in (self.comparison, self.anchored) if one is not None]
        for function in (function for side in sides for function in side.functions):
            calls = (call for case in function.compared for call in case.replaced_calls)
            for call in islice(calls, _LOOKED_FOR):
                if not stored.has(call):
                    yield str(call.draw)

    def _edited(
        self, main: Run, stored: StoredTexts
    ) -> dict[str, tuple[Parameters | None, Parameters | None]]:
        """Look up the parameters of the edited cases, in the baseline and here."""
        cases = [case for one in self._functions for case in one.edited]
        if not cases:
            return {}
        old, new = ({case.id: case.parameters for case in run.cases} for run in (main, self.run))
        return {
            one.case: (stored.parameters(old[one.was]), stored.parameters(new[one.case]))
            for one in cases
        }

    def _varying(self, stored: StoredTexts) -> Iterator[Fact]:
        """Name the functions whose requests all differ from the baseline's in a date or an id."""
        names = dict[str, None]()
        for one in self._functions:
            if not one.compared or any(case.kind != "request" for case in one.compared):
                continue
            case = one.compared[0]
            sides = [side.trials[0].calls for side in (case.every_baseline, case.every_current)]
            pairs = ((old.key, new.key) for old, new in zip(*sides, strict=False))
            parted = next((pair for pair in pairs if pair[0] != pair[1]), ())
            asked = [found for key in parted if (found := stored.request(key))]
            if len(asked) > 1 and differ_in_varying(*asked):
                names[one.name] = None
        if names:
            yield Fact(Why.VARYING, (listed_names([*names], MOST_NAMED),))

    def _notes_on_lines(self) -> Iterator[Fact | str]:
        """Tell which lines of the ini file did nothing in the comparisons."""
        both = (self.baseline, self.comparison), (self.anchor, self.anchored)
        compared = [(side.run, found) for side, found in both if side and found]
        if self.comparison is not None:
            missing = {
                one.function
                for one in self._functions
                if one.row is Row.ONLY_IN_BASELINE and one.fails
            }
            yield from renames_to_nothing(sorted(missing), self.settings.renamed)
            yield from notes_on_accepted(self.settings.gate.accept, compared)
