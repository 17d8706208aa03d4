"""Records of a comparison with a baseline, and of a run that is compared with nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Literal, NamedTuple

from pytest_llmeval.gate.changes import ChangeKind, asked_the_same
from pytest_llmeval.gate.scoring import NO_TRIALS, PassHat, Scale, Scored, TrialCounts, pass_hat
from pytest_llmeval.gate.units import draws_of
from pytest_llmeval.records import POOLED, Better, Call, distinct_names
from pytest_llmeval.settings import AnyTest
from pytest_llmeval.stats.sample import HITS

Name = tuple[str, str]  # a test function and a metric of it
Interval = tuple[float, float]
Method = Literal[AnyTest, "crossed", "same-shift", "whole-repeats", "none"]
ConfirmationOutcome = Literal["confirmed", "chance", "base_fell", "impossible"]
RuledOutBy = Literal["interval", "smallest_drop", "share", "ends"]
MOST_NAMED = 5  # cases in a note
LARGEST_LOGARITHM = 709.0


class Verdict(StrEnum):
    """The word for a comparison; a run has the first of these words that a comparison has."""

    REGRESSED = "regressed"
    NOT_COMPARABLE = "not_comparable"
    NOT_CONFIRMED = "not_confirmed"
    INCONCLUSIVE = "inconclusive"
    IMPROVED = "improved"
    NO_SIGNIFICANT_CHANGE = "no_significant_change"
    UNCHANGED = "unchanged"
    GONE = "gone"
    NEW = "new"
    NOT_GATED = "not_gated"


class Row(IntEnum):
    """The rows of the decision table, in the order in which they are gone through."""

    UNGATED = 0  # of a metric that is only described
    NEW = 1
    ONLY_IN_BASELINE = 2
    NOTHING_IN_COMMON = 3
    TRIALS_LOST = 4
    CASES_LOST = 5
    UNTOUCHED = 6
    ONE_UNIT = 7
    REGRESSED = 8
    IMPROVED = 9
    RULED_OUT = 10
    OPEN = 11

    @property
    def is_compared(self) -> bool:
        """Whether something was compared."""
        return self >= Row.UNTOUCHED


class Why(StrEnum):
    """A reason that the gate or the session gives, or an oddity that one of both notes."""

    GONE = "gone"
    GONE_WITH = "gone, as its other metrics are"
    MISMATCHED = "mismatched"
    NO_COMMON_ID = "no common id"
    NOT_MEASURED = "not measured"
    NOT_RECORDED = "not recorded"
    NEVER_RECORDED = "never recorded"
    NO_COMMON_SCORE = "no common score"
    ERRORED = "errored"
    ERRORED_ANEW = "errored, of those that changed"
    BASELINE_ERRORED = "errored in the baseline"
    BASELINE_ERRORED_ANEW = "errored in the baseline, of those that changed"
    BASELINE_CRASHED = "crashed in the baseline"
    WITHOUT_VALUE = "without value"
    BASELINE_WITHOUT_VALUE = "without value in the baseline"
    ASKS_NOTHING = "asks nothing"
    TRIALS_SKIPPED = "trials skipped"
    ERRORED_AGAIN = "errored, of those asked again to confirm a fall"
    NOT_ASKED_AGAIN = "not asked again to confirm a fall"
    NOT_COMPARED_AGAIN = "asked again to confirm a fall, and not comparable"
    ANCHOR = "an anchor, which is not asked again to confirm a fall"
    DOES_NOT_FIT = "the test does not fit"
    NOT_POSITIVE = "no ratios of scores that are not positive"
    CASES_GONE = "cases gone"
    CASES_EDITED = "cases edited"
    CASES_UNSCORED = "cases unscored"
    ONE_UNIT = "one unit"
    ONE_UNIT_FEW_REPEATS = "one unit, few repeats"
    TOO_FEW_TRIALS = "too few trials"
    METRIC_GIVEN_UP = "metric given up"
    METRIC_STILL_GATED = "metric still gated"
    OTHER_DIRECTION = "another direction"
    TIED_OTHERWISE = "tied otherwise"
    POOLED = "trials of older runs"
    DRIFTED = "older runs that drifted"
    KNOWN_ENTRY = "an entry that the baseline had"
    FITS_EVERY_FUNCTION = "an entry for every function"
    FITS_EVERY_METRIC = "an entry for every metric"
    ENTRY_FOR_NOTHING = "an entry for nothing"
    ENTRY_FOR_A_CASE = "an entry for a case"
    ACCEPTED_LESS = "accepted no such drop"
    ACCEPTED_TURNED = "accepted in the other direction"
    ACCEPTED_NOTHING = "accepted for nothing"
    ACCEPTED_SEVERAL = "accepted for several functions"
    MISSED_THROUGHOUT = "missed in every trial"
    VARYING = "requests vary by themselves"
    TURNS_NOTHING = "turns nothing"
    GONE_UNJUDGED = "gone, and not judged"
    FIXTURE_REPLACED = "fixture replaced"
    LOOSENED = "a rule that is laxer than the baseline's"
    LOWER_MIN_SCORE = "a min_score that is lower than the baseline's"
    FEWER_REPEATS = "fewer repeats than in the baseline"
    BELOW_MIN_SCORE = "below the min_score of the baseline"
    # of a function: left out by what the user typed, or not reached before the session ended
    DESELECTED = "deselected"
    NOT_RUN = "not run"
    # of a session
    ORDINARY_TESTS = "ordinary tests"
    NOT_ANCHORED = "not anchored"
    NOT_SAVED = "not saved"
    NOTHING_RAN = "nothing ran"
    RAISED = "raised"
    REFUSED = "refused"
    PART_IN_CI = "a part of the suite gates alone in CI"
    # of runs that were merged
    CASES_MISSING = "cases missing"
    FILES_MISSING = "files missing"


@dataclass(frozen=True, slots=True)
class Fact:
    """A reason and its figures and names, in the order in which its sentence has them."""

    why: Why
    figures: tuple[str | float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseComparison:
    """One common case.

    Attributes:
        kind: what made it a changed case; None for an unchanged one.
        difference: d_i, negative is worse; exactly 0 if unchanged. Where ratios are compared it is
            of logarithms, and the means are geometric ones.
        scale: of the values.
        every_baseline: all scored trials of the baseline; ``every_current`` of this run.
        baseline: the trials of the baseline that enter d_i; ``current`` of this run.
    """

    case: str
    kind: ChangeKind | None
    difference: float
    scale: Scale
    every_baseline: Scored
    every_current: Scored
    baseline: Scored
    current: Scored

    @property
    def baseline_scores(self) -> tuple[float, ...]:
        """All values of the baseline, by trial index."""
        return tuple(off_scale(value, self.scale) for value in self.every_baseline.values)

    @property
    def scores(self) -> tuple[float, ...]:
        """All values of this run, by trial index."""
        return tuple(off_scale(value, self.scale) for value in self.every_current.values)

    @property
    def baseline_mean(self) -> float:
        """The mean of the values of the baseline that enter d_i."""
        return off_scale(self.baseline.mean, self.scale)

    @property
    def mean(self) -> float:
        """The mean of the values of this run that enter d_i."""
        return off_scale(self.current.mean, self.scale)

    @property
    def is_asked_again(self) -> bool:
        """Whether the case sent the baseline's requests, and no others, and got new replies."""
        return self.kind == "redrawn" and asked_the_same(self.baseline, self.current)

    @property
    def replaced_calls(self) -> list[Call]:
        """The calls of the baseline that the case repeated without getting their replies."""
        if self.kind != "redrawn":
            return []
        drawn = draws_of(self.every_current.trials)
        trials = (trial for trial in self.every_baseline.trials if trial.index < POOLED)
        calls = (call for trial in trials for call in trial.calls)
        return [call for call in calls if call.draw not in drawn and call.failure is None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedCase:
    """One case that is out of the test because its parameters are others than in the baseline.

    Attributes:
        case: its id here; ``was`` is the one in the baseline.
        is_replayed: its requests and draws are the baseline's own; else the case counts as gone.
        baseline_mean: of its scores in the baseline, ``mean`` in this run; None without a score. Of
            a replayed case only the trials count that both runs have.
    """

    case: str
    was: str
    is_replayed: bool
    baseline_mean: float | None
    mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How much was compared, by which method, and by how much the two runs differ.

    Attributes:
        cases: m, the common cases. ``changed`` is k, ``touched`` the touched cases.
        baseline_cases: cases of this function in the baseline.
        units: u, the independent units that hold changed cases; ``effective_units`` is u*.
        difference: the suite effect D, negative is worse; None without common cases.
        difference_changed: mean difference of the changed cases.
        baseline_mean_interval: of the mean by itself, for cases like these, at level
            1 - 2 alpha; None where chance cannot be judged. ``mean_interval`` likewise.
    """

    cases: int = 0
    baseline_cases: int = 0
    changed: int = 0
    touched: int = 0
    changed_kinds: Mapping[ChangeKind, int] = field(default_factory=dict)
    units: int = 0
    effective_units: float = 0.0
    method: Method = "none"
    difference: float | None = None
    difference_changed: float | None = None
    baseline_mean: float | None = None
    mean: float | None = None
    baseline_mean_interval: Interval | None = None
    mean_interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence on an effect: how far chance explains it, and how small a drop would show.

    Attributes:
        statistic: of the test: t, z, chi-square, or the total of a permutation test. ``dof`` are
            its degrees of freedom, None where it has none. ``t`` is the statistic of a t-test over
            cases alone.
        p: one-sided, for a drop beyond the margin; ``p_improved`` for an improvement. With early
            looks both are the sequential ones, of all looks.
        p_adjusted: for the ``family_size`` comparisons that share the error rate.
        smallest_detectable_drop: the drop beyond the margin found in 4 of 5 builds.
        ruled_out_by: why the target is ruled out, or would have been caught, else None. An
            improvement may rule the target out, too.
        ratio: current / baseline, of the geometric means; None on the linear scale.
        ratio_interval: of the ratio, at ``interval_level``.
        wordings: in how many wordings the common cases put their questions, 0 where the test names
            none. With the method ``crossed`` the claim is about wordings in general, else about
            these wordings.
        p_within_case: the exact test's p for a drop, None where units hold several cases.
        identical_repeats: all repeats were one draw (a fixed seed, say).
        settle_cases: about how many more cases would settle an inconclusive comparison.
        settle_repeats: about how many repeats a case would settle it instead.
    """

    t: float | None = None
    statistic: float | None = None
    dof: float | None = None
    p: float | None = None
    p_improved: float | None = None
    p_adjusted: float | None = None
    p_improved_adjusted: float | None = None
    family_size: int = 0
    interval: Interval | None = None
    interval_level: float | None = None
    smallest_detectable_drop: float | None = None
    ruled_out_by: RuledOutBy | None = None
    ratio: float | None = None
    ratio_interval: Interval | None = None
    wordings: int = 0
    p_within_case: float | None = None
    identical_repeats: bool = False
    settle_cases: int | None = None
    settle_repeats: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """What came of asking both sides again where a comparison seemed to have fallen.

    Attributes:
        outcome: the fall was confirmed; or it was ``chance``, or the base fell too; or nothing
            could be compared a second time, ``why`` says the reason.
        reference: what the user calls the baseline.
        repeats: fresh ones of each case that was asked again, on each side.
        p: of all trials here against the fresh ones of the base alone, at this ``level``.
        p_base: of the fresh trials of the base against the baseline.
        baseline_mean: of the fresh base, over the common cases; ``mean`` of all trials here.
    """

    outcome: ConfirmationOutcome
    reference: str = ""
    repeats: int = 0
    p: float | None = None
    p_base: float | None = None
    level: float | None = None
    baseline_mean: float | None = None
    mean: float | None = None
    why: Fact | None = None


class Look(NamedTuple):
    """A look at a comparison after so many repeats of each case.

    Attributes:
        p: of the drop, by the trials so far; ``z`` is its quantile.
        limit: the z from which the look could have stopped, were nothing else compared.
        sequential_p: of all looks so far.
    """

    repeats: int
    p: float
    z: float
    limit: float
    sequential_p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionComparison:
    """The comparison of one test function on one metric.

    Every figure is on the scale of the whole suite of common cases, unless its line says otherwise.
    A figure that could not be computed is None, never 0. On the scale ``log`` differences, interval
    and smallest drop are of natural logarithms, and means are geometric ones.

    Attributes:
        name: as much of the end of ``function`` as no other function of either run has; the
            last name where it is empty.
        row: the row of the decision table that gave the verdict.
        why: the reason of the verdicts that need one (rows 2 to 5, 7, at times 11), else None.
        fails: this comparison turns the build red (strictness included).
        accepted: the function regressed, and a line of ``llm_accept`` accepts that: it does not
            fail.
        confirmation: what came of asking again; None where nothing was to be confirmed.
        partial: this run did not collect every case of the function.
        only_here: ids collected here and not in the baseline; ``only_in_baseline`` the reverse,
            and ``deselected`` in its place where what was typed left cases of the function out.
        only_here_mean: mean of those ids that have a value, with its interval as ``mean_interval``.
        mismatched: ids on both sides that are made from positions and whose parameters differ.
        test_changed: the code of the test differs from the baseline's.
        fixtures_changed: names of the test's fixtures whose code, or a constant of that code,
            differs from the baseline's.
        inputs_changed: ids whose parameters differ, and that are compared all the same.
        edited: the cases that are not compared because their parameters differ.
        compared: one for each common case, in the order of the baseline.
        looks: what the session saw on the way, the last one too; empty without early looks.
        stopped_at: after how many repeats of each case the function stopped early; None if not.
    """

    function: str
    name: str = ""
    metric: str
    better: Better
    scale: Scale = "linear"
    verdict: Verdict
    row: Row
    why: Fact | None = None
    fails: bool = False
    accepted: bool = False
    confirmation: Confirmation | None = None
    partial: bool = False
    effect: Effect = field(default_factory=Effect)
    evidence: Evidence = field(default_factory=Evidence)
    baseline_trials: TrialCounts = field(default_factory=lambda: NO_TRIALS)
    trials: TrialCounts = field(default_factory=lambda: NO_TRIALS)
    only_here: tuple[str, ...] = ()
    only_here_mean: float | None = None
    only_here_interval: Interval | None = None
    only_in_baseline: tuple[str, ...] = ()
    deselected: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()
    test_changed: bool = False
    fixtures_changed: tuple[str, ...] = ()
    inputs_changed: tuple[str, ...] = ()
    edited: tuple[EditedCase, ...] = ()
    compared: tuple[CaseComparison, ...] = ()
    looks: tuple[Look, ...] = ()
    stopped_at: int | None = None

    @property
    def lacks_cases(self) -> bool:
        """Whether cases of the baseline are missing because the user left them out."""
        return self.partial and bool(self.only_in_baseline or self.deselected)

    @property
    def are_hits(self) -> bool:
        """Whether every score of both sides is a hit or a miss, whatever the metric is called."""
        sides = (
            side for case in self.compared for side in (case.every_baseline, case.every_current)
        )
        return self.scale == "linear" and all(HITS.issuperset(side.values) for side in sides)

    @property
    def pass_hat(self) -> PassHat | None:
        """The chance that all trials of a case are hits, on both sides; None of other scores.

        For an unchanged case only the trials that both sides have count, so that nothing moves.
        """
        if not self.are_hits:
            return None
        sides = [
            (case.scores, case.baseline_scores)
            if case.kind is not None
            else (case.current.values, case.baseline.values)
            for case in self.compared
            if case.every_baseline and case.every_current
        ]
        good = float(self.better == "higher")
        here, before = (
            [[float(value == good) for value in side[at]] for side in sides] for at in (0, 1)
        )
        return pass_hat(here, before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of a run with a baseline.

    Attributes:
        verdict: the first present of the verdicts, in the order of ``Verdict``.
        fails: the build is to be turned red.
        functions: in the order of collection, those only in the baseline last.
        ungated: metrics that are described beside the functions, in the same order. The interval of
            such a metric is not adjusted, and None with fewer than 6 independent changed cases.
        not_judged: the functions of the baseline that did not run, in its order: each with
            how many cases the baseline has of it.
        notes: what is odd about the rules.
        not_run: how many collected cases of a function have no trial, where all should.
        below: the cases that do not reach the ``min_score`` of the baseline, if that fails.
    """

    verdict: Verdict
    fails: bool
    functions: tuple[FunctionComparison, ...] = ()
    ungated: tuple[FunctionComparison, ...] = ()
    not_judged: tuple[Fact, ...] = ()
    notes: tuple[Fact, ...] = ()
    not_run: Mapping[str, int] = field(default_factory=dict)
    below: Fact | None = None

    @property
    def names(self) -> dict[str, str]:
        """What to call each function of both runs, by its node id."""
        missing = (str(one.figures[0]) for one in self.not_judged)
        return distinct_names([*(one.function for one in self.functions), *missing, *self.not_run])

    @property
    def compared_nothing(self) -> bool:
        """Whether no function could be compared, though one is not new."""
        if any(one.row.is_compared for one in self.functions):
            return False
        return not self.functions or any(one.verdict is not Verdict.NEW for one in self.functions)

    @property
    def judged_in_part(self) -> tuple[FunctionComparison, ...]:
        """The functions that lack cases here which the baseline has."""
        return tuple(one for one in self.functions if one.lacks_cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDescription:
    """One case with a score, in a run that is compared with nothing.

    Attributes:
        mean: of its scores; hits / trials where all scores are 0 or 1.
        scores: all values of its scored trials, by trial index.
        interval: Wilson's of hits, two-sided, at the level of the function's interval; None for
            other scores.
    """

    case: str
    mean: float
    scores: tuple[float, ...]
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDescription:
    """One test function on one gated metric, in a run that is compared with nothing.

    Attributes:
        name: as of a ``FunctionComparison``.
        cases: cases collected; ``scored_cases`` those with a value.
        units: independent units among the scored cases.
        mean: over the scored cases of their means, None without one.
        interval: of that mean for cases like these, two-sided, at ``interval_level``. None
            where chance cannot be judged: fewer than two units, or scores other than 0
            and 1 without any spread. Never a point.
        prediction: where the mean of a later run of these very cases, with as many repeats,
            is expected, two-sided, at ``prediction_level``; None where nothing can be said.
        prediction_by_repeats: the same from the means of whole repeats alone (equation 3 of
            Blackwell et al.); None without any spread.
        drift_p: chance that the repeats differ as much without drift, None where nobody can tell.
            Below .01 the prediction is by repeats.
        drifts: it is below .01 also when adjusted for all functions and metrics of the run.
        identical_repeats: all repeats were one draw (a fixed seed, say).
        why: the reason where the gate could never judge the metric, else None.
        worst: the scored cases that fell short, worst first: cases of hits that did not hit every
            time, and cases of other scores that are worse than the best one.
        pass_hat: the chance that all trials of a case hit; None of other scores than 0 and 1.
    """

    function: str
    name: str = ""
    metric: str
    better: Better
    cases: int
    scored_cases: int
    units: int
    trials: TrialCounts
    mean: float | None
    interval: Interval | None
    interval_level: float | None
    worst: tuple[CaseDescription, ...]
    prediction: Interval | None = None
    prediction_by_repeats: Interval | None = None
    prediction_level: float | None = None
    drift_p: float | None = None
    drifts: bool = False
    identical_repeats: bool = False
    why: Fact | None = None
    pass_hat: PassHat | None = None


def ratio_of(logarithm: float) -> float:
    """Return the factor that a logarithm means, or the largest one that can be written."""
    return math.exp(min(logarithm, LARGEST_LOGARITHM))


def off_scale(value: float, scale: Scale) -> float:
    """Return a value as it was before its logarithm was taken, to 12 digits."""
    return float(f"{ratio_of(value):.12g}") if scale == "log" else value


def ends_off_scale(ends: Interval | None, scale: Scale) -> Interval | None:
    """Return the ends of an interval as they were before logarithms were taken."""
    return (off_scale(ends[0], scale), off_scale(ends[1], scale)) if ends else None
