"""What a comparison is: the figures for one test function and metric, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pytest_llmeval.records import Better

ChangeKind = Literal["request", "redrawn", "score", "unseen"]
Method = Literal[
    "paired-t",
    "log-ratio",
    "crossed",
    "sign-flip",
    "mcnemar",
    "mcnemar-exact",
    "mcnemar-mid-p",
    "same-shift",
    "exact-within-case",
    "whole-repeats",
    "welch",
    "cmh",
    "chi-square",
    "chi-square-plain",
    "two-proportion-z",
    "none",
]
Scale = Literal["linear", "log"]
RuledOutBy = Literal["interval", "smallest_drop", "share"]


class Verdict(StrEnum):
    """The word for a comparison."""

    REGRESSED = "regressed"
    NOT_COMPARABLE = "not_comparable"
    INCONCLUSIVE = "inconclusive"
    IMPROVED = "improved"
    NO_SIGNIFICANT_CHANGE = "no_significant_change"
    UNCHANGED = "unchanged"
    GONE = "gone"
    NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCounts:
    """The denominators of one side, over the function's cases on that side.

    ``scored`` counts every scored trial; ``missed`` and ``crashed`` are among them,
    ``without_value`` too (scored, but no value for the metric).
    """

    scored: int = 0
    missed: int = 0
    crashed: int = 0
    errored: int = 0
    skipped: int = 0
    without_value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseComparison:
    """One common case.

    Attributes:
        kind: what made it a changed case; None for an unchanged one.
        difference: d_i, negative is worse; exactly 0 if unchanged. Of logarithms where
            ratios are compared; the means are geometric ones then.
        baseline_scores: all values of the baseline's scored trials, by trial index.
        scores: all values of this run's scored trials, by trial index.
        baseline_mean: mean of the values of the baseline that enter d_i.
        mean: mean of the values of this run that enter d_i.
    """

    case: str
    kind: ChangeKind | None
    difference: float
    baseline_scores: tuple[float, ...]
    scores: tuple[float, ...]
    baseline_mean: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionComparison:
    """The comparison of one test function on one gated metric.

    Every figure is on the scale of the whole suite of common cases unless it says
    otherwise; what could not be computed is None, never 0. On the scale ``log`` differences,
    interval and smallest drop are of natural logarithms, means are geometric ones.

    Attributes:
        row: the row of the decision table that gave the verdict, 1 to 11.
        why: one plain sentence for the verdicts that need one (rows 3, 4, 5, 7), else "".
        fails: this comparison turns the build red (strictness included).
        cases: m, the common cases. ``changed`` is k, ``touched`` the touched cases.
        baseline_cases: cases of this function in the baseline.
        partial: not every case of the function was collected here.
        units: u, the independent units that hold changed cases; ``effective_units`` is u*.
        difference: the suite effect D, negative is worse; None without common cases.
        difference_changed: mean difference of the changed cases.
        baseline_mean_interval: of the mean by itself, for cases like these, at level
            1 - 2 alpha; None where chance cannot be judged. ``mean_interval`` likewise.
        smallest_detectable_drop: the drop beyond the margin found in 4 of 5 builds.
        statistic: of the test ``method``: t, z, chi-square, or the total of a permutation
            test; ``t`` is that of a t-test over cases alone. ``dof`` are its degrees of
            freedom, None where it has none.
        ruled_out_by: which half of row 10 held, else None.
        wordings: in how many wordings the common cases put their questions, 0 where the
            test names none. With the method ``crossed`` the claim is one about wordings in
            general, else about these.
        ratio: here / baseline, of the geometric means; None on the linear scale.
        ratio_interval: of the ratio, at ``interval_level``.
        identical_repeats: all repeats were one draw (a fixed seed, say).
        settle_cases: about how many more cases would settle an inconclusive comparison.
        settle_repeats: about how many repeats a case would settle it instead.
        only_here: ids collected here and not in the baseline; ``only_in_baseline`` the reverse.
        only_here_mean: mean of those that have a value, with its interval as ``mean_interval``.
        mismatched: ids on both sides that are made from positions and whose parameters differ.
        compared: one for each common case, in the order of the baseline.
    """

    function: str
    metric: str
    better: Better
    scale: Scale = "linear"
    verdict: Verdict
    row: int
    why: str = ""
    fails: bool = False
    partial: bool = False
    cases: int = 0
    baseline_cases: int = 0
    changed: int = 0
    touched: int = 0
    changed_kinds: Mapping[ChangeKind, int]
    units: int = 0
    effective_units: float = 0.0
    method: Method = "none"
    difference: float | None = None
    difference_changed: float | None = None
    baseline_mean: float | None = None
    mean: float | None = None
    baseline_mean_interval: tuple[float, float] | None = None
    mean_interval: tuple[float, float] | None = None
    t: float | None = None
    statistic: float | None = None
    dof: float | None = None
    p: float | None = None
    p_improved: float | None = None
    p_adjusted: float | None = None
    p_improved_adjusted: float | None = None
    family_size: int = 0
    interval: tuple[float, float] | None = None
    interval_level: float | None = None
    smallest_detectable_drop: float | None = None
    ruled_out_by: RuledOutBy | None = None
    ratio: float | None = None
    ratio_interval: tuple[float, float] | None = None
    wordings: int = 0
    p_within_case: float | None = None
    identical_repeats: bool = False
    settle_cases: int | None = None
    settle_repeats: int | None = None
    baseline_trials: TrialCounts = TrialCounts()
    trials: TrialCounts = TrialCounts()
    only_here: tuple[str, ...] = ()
    only_here_mean: float | None = None
    only_here_interval: tuple[float, float] | None = None
    only_in_baseline: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()
    compared: tuple[CaseComparison, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UngatedComparison:
    """A metric of a test function that decides nothing: described, without a verdict.

    The attributes are those of ``FunctionComparison``; the interval is not adjusted, and
    None with fewer than 6 independent changed cases.
    """

    function: str
    metric: str
    better: Better
    scale: Scale
    cases: int
    changed: int
    difference: float
    baseline_mean: float
    mean: float
    interval: tuple[float, float] | None
    interval_level: float | None
    ratio: float | None
    ratio_interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotJudged:
    """A test function of the baseline of which nothing was run here.

    Attributes:
        cases: how many the baseline has.
        why: ``deselected`` by what the user typed; ``not run`` before the session ended.
    """

    function: str
    cases: int
    why: Literal["deselected", "not run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run held against a baseline.

    Attributes:
        verdict: the first present of the verdicts, in the order of ``Verdict``.
        fails: the build is to be turned red.
        why: one plain sentence if the whole comparison fails for a reason of its own
            (nothing was compared), else "".
        functions: in the order of collection, those only in the baseline last.
        ungated: the metrics that are described beside them, in the same order.
        not_judged: the functions of the baseline that did not run, in its order.
        notes: what is odd about the rules.
    """

    verdict: Verdict
    fails: bool
    why: str = ""
    functions: tuple[FunctionComparison, ...] = ()
    ungated: tuple[UngatedComparison, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()
    notes: tuple[str, ...] = ()
