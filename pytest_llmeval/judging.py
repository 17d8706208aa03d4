"""Judge a run: compare it with its baseline and anchor, or describe it if there is no baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_llmeval.cache.case_parameters import Parameters
from pytest_llmeval.cache.queries import DATABASE
from pytest_llmeval.cache.why import origins_asked
from pytest_llmeval.errors import SettingsError, listed_names
from pytest_llmeval.gate.accepted import may_accept, notes_on_accepted
from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.confirmation import without_asking
from pytest_llmeval.gate.describe import describe, missed_throughout, oddities
from pytest_llmeval.gate.early_stopping import family_size, is_settled
from pytest_llmeval.gate.marks import held_to_marks
from pytest_llmeval.gate.results import MOST_NAMED, Comparison, Fact, FunctionComparison, Row, Why
from pytest_llmeval.gate.rules import stricter_rules
from pytest_llmeval.gate.scoring import measured_if_gated
from pytest_llmeval.judgement import Judgement, pricing
from pytest_llmeval.records import POOLED, Run, only_functions
from pytest_llmeval.runs.keyless import find_keyless, gone_unjudged, without_keyless
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.reshaping import renames_to_nothing, under_new_names
from pytest_llmeval.runs.run_file import read_run
from pytest_llmeval.settings import Settings, is_to_be_gated
from pytest_llmeval.transcripts.common_change import RequestChange, request_changes
from pytest_llmeval.transcripts.transcript import Moved, StoredTexts, excerpts
from pytest_llmeval.transcripts.varying import differ_in_varying

_EXCERPTS = 20  # of a function: cases that fell most, and cases that rose most
_ALL_EXCERPTS = 200
_LOOKED_FOR = 100  # draws of a function


# Has a comparison of a baseline and a run looked at again, where something seems to have fallen.
Confirm = Callable[[Judgement, Run, Run, Comparison], Comparison]


def judged(
    planned: Judgement,
    run: Run,
    *,
    is_green: bool | None = None,
    not_run: Mapping[str, int] | None = None,
    confirm: Confirm | None = None,
) -> Judgement:
    """Judge a run.

    Args:
        planned: the facts from before the run: the settings, the baseline, the anchor.
        run: that ended.
        is_green: nothing failed so far in the session, or its shards; None where two runs are
            compared by hand, and the marks of the baseline do not hold.
        not_run: how many cases of a function have no trial, where all should; such a run fails.
        confirm: has a fall looked at again; None where the first look is the last one.
    """
    judging = _Judging(planned, run, confirm)
    try:
        why = judging.judge(is_green=is_green)
    except Exception as exc:  # the run is recorded, and the results so far are worth having
        why = Fact(Why.RAISED, (type(exc).__name__, str(exc)))
    comparison, anchored = judging.found.comparison, judging.found.anchored
    if not_run:  # a comparison fails where cases were not run that should have been
        comparison, anchored = (
            one and replace(one, fails=True, not_run=not_run) for one in (comparison, anchored)
        )
    return replace(judging.found, could_not_judge=why, comparison=comparison, anchored=anchored)


class EarlyJudge:
    """The judge of the functions of a session, while their trials are made.

    A function is settled where each comparison of it is, that with the anchor too.

    Args:
        planned: the facts from before the run.
        opening: the run that begins.

    Attributes:
        functions: those of the baseline and of the anchor, by their names here.
    """

    def __init__(self, planned: Judgement, opening: Run) -> None:
        self._planned, self._opening = planned, opening
        self._rules = planned.settings.gate
        others = _Judging(planned, opening).others
        # before a function has trials, the other run tells which metrics it records
        self._families = {
            one.id: family_size(one, replace(opening, trials=one.trials), self._rules)
            for one in others
        }
        self.functions = {case.function for one in others for case in one.cases}

    def is_settled(self, run: Run, *, repeats: Sequence[int]) -> bool:
        """Tell whether one function needs no more trials.

        Args:
            run: with the cases of the function, and their trials so far.
            repeats: the planned looks up to this one.
        """
        judging = _Judging(self._planned, replace(self._opening, trials=run.trials))
        function, rules, found = run.cases[0].function, self._rules, []
        for other in judging.others:
            sides = (only_functions(side, {function}) for side in judging.sides(other))
            before, after = measured_if_gated(*sides, cost_of=judging.cost_of)
            if not before.cases:  # it has no such function, so it has no say
                continue
            # a second look is of all trials, and so is the mean that a line accepts
            is_accepted = may_accept(function, rules.accept, baseline=other)
            calm, family = self._planned.settings.confirm or is_accepted, self._families[other.id]
            found.append(
                is_settled(before, after, rules, repeats=repeats, family=family, only_calm=calm)
            )
        return bool(found) and all(found)


def early_judge(settings: Settings, opening: Run, paths: Iterable[Path]) -> EarlyJudge:
    """Make the judge of a worker, which is told the files of the baseline and the anchor.

    Args:
        settings: of the worker.
        opening: the run that begins.
        paths: of the runs that this one is compared with, one or two.
    """
    baseline, *anchors = (
        Baseline(run=read_run(path), path=path, reference=str(path), how="file") for path in paths
    )
    anchor = anchors[0] if anchors else None
    rules, _ = stricter_rules(settings.gate, baseline.run.rules, typed=settings.typed)
    planned = Judgement(
        settings=replace(settings, gate=rules),
        baseline=baseline,
        anchor=anchor,
        recorded=(baseline, anchor),
    )
    return EarlyJudge(planned, opening)


class _Judging:
    """The judgement on a run, as far as it is found, step by step.

    Attributes:
        found: the judgement.
        cost_of: dollars of a call.
    """

    def __init__(self, planned: Judgement, run: Run, confirm: Confirm | None = None) -> None:
        self._confirm = confirm
        self.found = replace(planned, run=run)
        self._run, self._settings = run, planned.settings
        self.cost_of = pricing(self._settings.prices)
        if self._settings.renamed and any(planned.recorded):
            self._rename(planned.recorded)
        if is_to_be_gated(self._settings):  # else each keyless case is an error of its own
            stored = partial(origins_asked, self._settings.directory / "cache" / DATABASE)
            baseline, aliases = self.found.baseline, self._settings.origin_aliases
            asked = stored if baseline is not None and baseline.how == "rerun" else None
            self._take(keyless=find_keyless(run, self._main, aliases=aliases, stored=asked))

    def _take(self, *notes: Fact | str, **found: Any) -> None:
        self.found = replace(self.found, notes=(*self.found.notes, *notes), **found)

    @property
    def _main(self) -> Run | None:
        return self.found.runs[0]

    @property
    def others(self) -> list[Run]:
        """The runs that this one is compared with."""
        return [one.run for one in (self.found.baseline, self.found.anchor) if one]

    def _rename(self, recorded: tuple[Baseline | None, Baseline | None]) -> None:
        """Rename the baselines' cases, now that the cases that are still here are known."""
        here = {case.id for case in self._run.cases}
        renamed = self._settings.renamed
        try:
            baseline, anchor = (
                one and under_new_names(one, renamed, here=here) for one in recorded
            )
            self._take(baseline=baseline, anchor=anchor)
        except SettingsError as exc:
            self._take(str(exc))

    def judge(self, *, is_green: bool | None) -> Fact | None:
        """Compare the run, or describe it; return why nothing can be judged, if that is so."""
        main, keyless = self._main, self.found.keyless
        if keyless and main and (gone := gone_unjudged(main, self._run, keyless)):
            self._take(Fact(Why.GONE_UNJUDGED, (len(gone), listed_names(gone, MOST_NAMED))))
        self._take(*oddities(self._run))
        if self.found.anchor is not None:
            # The anchor is another question, so a family of its own: both answers must hold.
            self._take(anchored=self._compared(self.found.anchor.run, main=main))
        if main is None:
            answered = without_keyless(self._run, self._run, keyless)
            alpha = self._settings.gate.alpha
            found = describe(answered, alpha=alpha, cost_of=self.cost_of)
            self._take(*missed_throughout(self._run), descriptions=found)
            return next((one.why for one in found if one.why), None)
        self._take(*self._note_on_pooled())
        comparison = self._compared(main)
        if comparison and is_green is not None:
            comparison = held_to_marks(comparison, main, self._run, is_green=is_green)
        self._take(comparison=comparison)
        self._look_up_texts(main)
        return None

    def _compared(self, baseline: Run, *, main: Run | None = None) -> Comparison | None:
        """Compare the run with another one; None if every case of both lacks a key.

        Args:
            baseline: the other one.
            main: where the other one is the anchor, the baseline proper.
        """
        before, answered = self.sides(baseline)
        if self.found.keyless and not (before.cases or answered.cases):
            return None
        found = compare(
            before,
            answered,
            self._settings.gate,
            cost_of=self.cost_of,
            typed=self.found.typed,
            lost=self.found.lost,
            main=main,
        )
        if self._confirm is None:
            return found
        if main is not None:
            return without_asking(found, Fact(Why.ANCHOR))
        return self._confirm(self.found, before, answered, found)

    def sides(self, other: Run) -> tuple[Run, Run]:
        """Return another run and this one without the cases that lack a key."""
        run, keyless = self._run, self.found.keyless
        return without_keyless(other, run, keyless), without_keyless(run, run, keyless)

    @property
    def _functions(self) -> tuple[FunctionComparison, ...]:
        return self.found.comparison.functions if self.found.comparison else ()

    def _look_up_texts(self, main: Run) -> None:
        """Look in the cache for replies and parameters that explain the comparison."""
        with StoredTexts(self._settings.directory) as stored:
            if self._settings.show_texts:
                self._take(excerpts=self._excerpts(main, stored))
                self._take(request_changes=self._request_changes(main, stored))
            self._take(absent=frozenset(self._absent(stored)))
            self._take(edited=self._edited(main, stored))
            self._take(*self._notes_on_lines())
            self._take(*self._varying(stored))

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
        return excerpts(main, self._run, most, stored)

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
        return request_changes(main, self._run, cases, stored)

    def _absent(self, stored: StoredTexts) -> Iterator[str]:
        """Look for the replies that were replaced by others."""
        sides = filter(None, (self.found.comparison, self.found.anchored))
        for function in (function for side in sides for function in side.functions):
            calls = (call for case in function.compared for call in case.replaced_calls)
            missing = (call for call in islice(calls, _LOOKED_FOR) if not stored.has(call))
            yield from (str(call.draw) for call in missing)

    def _edited(
        self, main: Run, stored: StoredTexts
    ) -> dict[str, tuple[Parameters | None, Parameters | None]]:
        """Look up the parameters of the edited cases, in the baseline and here."""
        old, new = ({case.id: case.parameters for case in run.cases} for run in (main, self._run))
        return {
            one.case: (stored.parameters(old[one.was]), stored.parameters(new[one.case]))
            for function in self._functions
            for one in function.edited
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

    def _note_on_pooled(self) -> Iterator[Fact]:
        """Tell how many trials of the cases here the baseline has, if several runs made them."""
        here, found = {case.id for case in self._run.cases}, self.found.baseline
        trials = [trial for trial in found.run.trials if trial.case in here] if found else []
        runs = {trial.index // POOLED for trial in trials}
        if found and len(runs) > 1:
            counts = Counter(trial.case for trial in trials).values()
            sizes = " to ".join(map(str, sorted({min(counts), max(counts)})))
            yield Fact(Why.POOLED, (found.reference, sizes, len(runs)))

    def _notes_on_lines(self) -> Iterator[Fact | str]:
        """Tell which lines of the ini file did nothing in the comparisons."""
        found = self.found
        both = (found.baseline, found.comparison), (found.anchor, found.anchored)
        compared = [(side.run, one) for side, one in both if side and one]
        if found.comparison is not None:
            gone = [one for one in self._functions if one.row is Row.ONLY_IN_BASELINE and one.fails]
            had = {case.function for one in found.recorded if one for case in one.run.cases}
            missing = sorted({one.function for one in gone} - had)
            yield from renames_to_nothing(missing, self._settings.renamed)
            yield from notes_on_accepted(self._settings.gate.accept, compared)
