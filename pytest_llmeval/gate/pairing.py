"""Pairs of cases: which trials are compared with which, and by how much they differ."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property

from pytest_llmeval.gate.changes import (
    CallsOfBoth,
    all_repeats_identical,
    common_trials,
    kind_of_change,
)
from pytest_llmeval.gate.edited import Edits
from pytest_llmeval.gate.results import CaseComparison
from pytest_llmeval.gate.scoring import FunctionScores, Scale, Scored, Side, TrialCounts
from pytest_llmeval.gate.units import chained, draws_of
from pytest_llmeval.records import MEASURED_METRICS, Better, Case, Outcome
from pytest_llmeval.settings import AnyTest, GateRules
from pytest_llmeval.stats.exact import ExactTails, exact_within_case
from pytest_llmeval.stats.intervals import UnitMean, negligible, unit_mean
from pytest_llmeval.stats.sample import CaseScores, Sample, are_binary, totals_of_repeats
from pytest_llmeval.stats.t_tests import FEWEST_UNITS_FOR_T

# the most cases for a p that is only shown, of scores other than 0 and 1: 9999 shuffles of a case
# take .2 ms
MOST_CASES_SPLIT = 200


class Pairing:
    """One metric of a test function that both runs have, case by case.

    Attributes:
        baseline: the scores of the baseline; ``current`` of this run, in the cases it came to.
        collected: the function in this run, every case that was collected.
        in_full: nothing of the function was left out of this run on purpose.
        calls: of both sides, which all metrics of the function share.
        test: the one for the metric with 6 independent changed cases or more.
        rules: of the gate, with margin and target on the scale of comparison.
        pairs: the common cases, ordered by id.
        touched: ids of the cases that were asked again, with or without a score.
        lost: ids scored in the baseline of cases that this run lacks, or skipped in all trials, or
            that were edited and ask otherwise.
        edits: the cases that were edited; only those of ``edits.compared`` are among the pairs.
        replaced: fixtures of ours that the project replaces here, and did not in the baseline.
    """

    def __init__(
        self,
        baseline: Side,
        current: Side,
        metric: str,
        *,
        calls: CallsOfBoth,
        better: Better,
        rules: GateRules,
        in_full: bool = True,
        edits: Edits | None = None,
        replaced: Collection[str] = (),
    ) -> None:
        """Match the cases of two runs of a function and say how they differ on a metric.

        ``current`` has every case that was collected; the class describes the other arguments.
        """
        test: AnyTest = "log-ratio" if metric in MEASURED_METRICS else rules.test
        scale: Scale = "log" if test == "log-ratio" else "linear"
        before = FunctionScores(baseline, metric, better=better, scale=scale, beside=current)
        ran = current.as_far_as_run()
        after = FunctionScores(ran, metric, better=better, scale=scale, beside=baseline)
        self.baseline, self.current, self.collected = before, after, current
        self.metric, self.calls, self.test, self.in_full = metric, calls, test, in_full
        self.edits, self.replaced, self.rules = edits or Edits(), replaced, rules
        if scale == "log":
            margin, target = math.log1p(rules.margin), math.log1p(rules.target)
            self.rules = replace(rules, margin=margin, target=target)
        known = {name for name in before.scored_cases if name in current.cases}
        known -= self.edits.left_out
        present = known.intersection(after.side.cases)
        ended = {name: {one.outcome for one in after.side.trials[name]} for name in present}
        skipped = {name for name in present if ended[name] == {Outcome.SKIPPED}}
        common = [name for name in after.scored_cases if name in present]
        in_step = self._sharing_replayed_draws(common) if calls.shared else frozenset()
        self.pairs = tuple(self._pair(name, in_step=name in in_step) for name in common)
        replays = {pair.case for pair in self.pairs if pair.kind is None}
        self.touched = frozenset(present - skipped - replays)
        expected = set(before.scored_cases) - self.edits.not_lost
        self.lost = frozenset(expected - known | skipped)

    def _pair(self, case: str, *, in_step: bool) -> CaseComparison:
        """Compare a case by the trials that enter its difference.

        Where both sides have the same draws, only common trials enter: a trial that one side alone
        has would add the chance of its draw again.
        """
        before, after = self.baseline.of_case[case], self.current.of_case[case]
        kind = kind_of_change(before, after, self.calls)
        entering = before, after
        if in_step or kind in (None, "score"):
            common = common_trials(before, after)
            entering = common if common[0] else entering
        mean, current_mean = entering[0].mean, entering[1].mean
        gain = current_mean - mean if self.sign > 0 else mean - current_mean
        is_zero = kind is None or abs(gain) <= negligible((mean, current_mean))
        return CaseComparison(
            case=case,
            kind=kind,
            difference=0.0 if is_zero else gain,
            scale=self.scale,
            every_baseline=before,
            every_current=after,
            baseline=entering[0],
            current=entering[1],
        )

    def _sharing_replayed_draws(self, cases: Collection[str]) -> frozenset[str]:
        """Return the cases with a draw that another case has too and that is in both runs."""
        before, after = (
            {case: draws_of(side.of_case[case].trials) for case in cases}
            for side in (self.baseline, self.current)
        )
        in_both_runs = frozenset().union(*before.values()) & frozenset().union(*after.values())
        owners: dict[str, set[str]] = {}
        for case in cases:
            for draw in (before[case] | after[case]) & in_both_runs:
                owners.setdefault(draw, set()).add(case)
        return frozenset().union(*(names for names in owners.values() if len(names) > 1))

    def imagined(self, pairs: Sequence[CaseComparison], units: Sequence[int]) -> Pairing:
        """Return a comparison of these cases; the changed ones form these units."""
        other = copy(self)
        for name, attribute in vars(Pairing).items():
            if isinstance(attribute, cached_property):
                other.__dict__.pop(name, None)
        other.pairs = tuple(pairs)
        other.__dict__["units"] = tuple(units)
        if self.calls.shared:  # imagined cases have no draws, so no whole repeats
            other.__dict__["exact"] = None
        return other

    @property
    def name(self) -> tuple[str, str]:
        """The function and the metric."""
        return self.baseline.function, self.metric

    @property
    def scale(self) -> Scale:
        """Whether values or their logarithms are compared."""
        return self.baseline.scale

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is."""
        return 1 if self.baseline.better == "higher" else -1

    @property
    def partial(self) -> bool:
        """Whether this run does not hold the whole function, by choice or by a stop."""
        return not (self.in_full and self.collected.ran_in_full)

    def baseline_counts(self) -> TrialCounts:
        """Count how the baseline's trials ended, of the cases that may be compared."""
        return self.baseline.counts(self.current.side.cases if self.partial else None)

    @cached_property
    def changed(self) -> tuple[CaseComparison, ...]:
        """The common cases that do not replay the baseline."""
        return tuple(pair for pair in self.pairs if pair.kind is not None)

    @cached_property
    def differences(self) -> list[float]:
        """The differences of the changed cases."""
        return [pair.difference for pair in self.changed]

    @cached_property
    def units(self) -> tuple[int, ...]:
        """The unit of each changed case; units are chained through unchanged ones, too.

        Cases share chance in three ways: by a draw that each has on one side only (on both sides it
        cancels), by a label of their markers, or by one question in several wordings.
        """
        draws = [one_sided_draws(pair) if self.calls.shared else () for pair in self.pairs]
        cases = [(self.case(pair), own) for pair, own in zip(self.pairs, draws, strict=True)]
        units = chained([(case.cluster, case.topic, own) for case, own in cases])
        named = zip(self.pairs, units, strict=True)
        return tuple(unit for pair, unit in named if pair.kind is not None)

    @cached_property
    def spread(self) -> UnitMean | None:
        """The mean difference of the changed cases and its error, None without one."""
        return unit_mean(self.differences, self.units) if self.changed else None

    @property
    def whole_units(self) -> int:
        """The effective number of units that hold changed cases, rounded down."""
        return self.spread.dof + 1 if self.spread else 0

    @property
    def lacks_units(self) -> bool:
        """Whether the effective units are too few for a t-test."""
        return self.whole_units < FEWEST_UNITS_FOR_T

    @property
    def is_one_unit(self) -> bool:
        """Whether several changed cases share their chance, so that no test can judge them."""
        return len(self.changed) > 1 and len(set(self.units)) == 1

    @property
    def are_units(self) -> bool:
        """Whether every changed case is a unit of its own."""
        return len(set(self.units)) == len(self.changed)

    @property
    def share(self) -> float:
        """The share of changed cases, k/m: the factor from their scale to the suite's."""
        return len(self.changed) / len(self.pairs)

    @cached_property
    def difference(self) -> float:
        """The suite effect D, negative is worse."""
        mean = math.fsum(self.differences) / len(self.pairs)
        return 0.0 if abs(mean) <= self.zero else mean

    @cached_property
    def zero(self) -> float:
        """What counts as no difference."""
        return negligible(self.differences)

    @cached_property
    def identical_repeats(self) -> bool:
        """Whether all repeats are one draw."""
        pairs = ((pair.every_baseline, pair.every_current) for pair in self.changed)
        return all_repeats_identical(itertools.chain.from_iterable(pairs), self.metric)

    @cached_property
    def samples(self) -> tuple[CaseScores, ...]:
        """The scores of the changed cases; only the first of each if all repeats are one draw."""
        used = slice(1) if self.identical_repeats else slice(None)
        return tuple(
            CaseScores(baseline=pair.baseline.values[used], current=pair.current.values[used])
            for pair in self.changed
        )

    @property
    def sample(self) -> Sample:
        """The changed cases as a test takes them."""
        return Sample(cases=self.samples, units=self.units, sign=self.sign)

    @cached_property
    def are_hits(self) -> bool:
        """Whether every score of both sides is a hit or a miss, whatever the metric is called."""
        return self.baseline.are_hits and self.current.are_hits

    @cached_property
    def has_unequal_trials(self) -> bool:
        """Whether a changed case is compared by unlike numbers of trials on the two sides."""
        return any(len(case.baseline) != len(case.current) for case in self.samples)

    @property
    def moved(self) -> int:
        """How many of the changed cases fell or rose."""
        return sum(abs(each) > self.zero for each in self.differences)

    @cached_property
    def exact(self) -> ExactTails | None:
        """The p-values of the exact test; None where it does not fit.

        The test deals out the trials of each case. Cases that share draws are dealt out together,
        by whole repeats; labels tie no draws.
        """
        owned = [one_sided_draws(pair) if self.calls.shared else set() for pair in self.pairs]
        units = chained([(None, None, draws) for draws in owned])
        sharing: dict[int, list[CaseComparison]] = {}
        for pair, unit in zip(self.pairs, units, strict=True):
            if pair.kind is not None:
                sharing.setdefault(unit, []).append(pair)
        if len(sharing) == len(self.changed):
            return exact_within_case(self.samples, sign=self.sign)
        if self.identical_repeats or _share_draws_over_repeats(self.changed):
            return None
        totals = [_totals_of(tied) for tied in sharing.values()]
        known = [one for one in totals if one is not None]
        return exact_within_case(known, sign=self.sign) if len(known) == len(totals) else None

    @cached_property
    def within_case(self) -> ExactTails | None:
        """The p-values of the exact test; None where units hold several cases, or at high cost."""
        is_cheap = len(self.changed) <= MOST_CASES_SPLIT or are_binary(self.samples)
        return self.exact if self.are_units and (self.has_unequal_trials or is_cheap) else None

    @cached_property
    def whole_repeats(self) -> CaseScores | None:
        """The scores of the changed cases, at least one, added up repeat by repeat.

        A draw belongs to one trial index. So the draws of one repeat are independent of the draws
        of another, however cases share draws. None where repeats are not independent of each other
        or too few. None, too, where labels tie cases: a label asks about clusters like these, not
        about these very cases.
        """
        if self._share_a_label() or _share_draws_over_repeats(self.changed):
            return None
        return _totals_of(self.changed)

    def case(self, pair: CaseComparison) -> Case:
        """Return a common case as the baseline has it, because the baseline's labels count."""
        return self.baseline.side.cases[pair.case]

    def _share_a_label(self) -> bool:
        cases = [self.case(pair) for pair in self.changed]
        for labels in ([case.cluster for case in cases], [case.topic for case in cases]):
            named = [label for label in labels if label is not None]
            if len(set(named)) < len(named):
                return True
        return False


def one_sided_draws(pair: CaseComparison) -> set[str]:
    """Return the draws that a case has in one run only; the chance of a draw in both cancels."""
    return draws_of(pair.baseline.trials) ^ draws_of(pair.current.trials)


def _share_draws_over_repeats(changed: Sequence[CaseComparison]) -> bool:
    """Tell whether a draw that is not on both sides of its case is one of several repeats."""
    index_of: dict[str, int] = {}
    for pair in changed:
        one_sided = one_sided_draws(pair)
        for trial in (*pair.baseline.trials, *pair.current.trials):
            for draw in one_sided.intersection(call.draw for call in trial.calls):
                if index_of.setdefault(draw, trial.index) != trial.index:
                    return True
    return False


def _totals_of(tied: Sequence[CaseComparison]) -> CaseScores | None:
    """Add the scores of some cases up repeat by repeat."""
    before, after = _table([pair.baseline for pair in tied]), _table([p.current for p in tied])
    return totals_of_repeats(before, after)


def _table(side: Sequence[Scored]) -> list[list[float]]:
    """Put the values of a side in rows by case and columns by trial index."""
    indices = sorted({index for scored in side for index in scored.indices})
    values = [dict(zip(scored.indices, scored.values, strict=True)) for scored in side]
    return [[of_case.get(index, math.nan) for index in indices] for of_case in values]
