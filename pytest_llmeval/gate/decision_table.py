"""The decision table: the first row that fits gives the verdict."""

from __future__ import annotations

import math
from typing import NamedTuple

from pytest_llmeval.gate.describe import never_recorded
from pytest_llmeval.gate.looks import Looked
from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.results import Fact, Interval, Row, RuledOutBy, Verdict, Why
from pytest_llmeval.gate.scoring import FunctionScores
from pytest_llmeval.gate.significance import (
    Examined,
    Limits,
    are_enough,
    least_p,
    limits_of,
    smallest_drop,
)
from pytest_llmeval.records import (
    MEASURED_METRICS,
    Outcome,
    crashed_too_soon,
    ended_unasked,
    too_many_errored,
)
from pytest_llmeval.settings import MARGIN_TESTS, GateRules
from pytest_llmeval.stats.ends import highest_rate
from pytest_llmeval.stats.exact import fewest_repeats
from pytest_llmeval.stats.methods import TESTS
from pytest_llmeval.stats.sample import CaseScores, Tails

# shares of trials and cases that may be lost before nothing can be said any more
MOST_SKIPPED = 0.05
MOST_WITHOUT_VALUE = 0.05
MOST_UNSCORED = 0.10
# 10 % of 30 is a little more than 3 in floating point
ROUNDING = 1e-9

VERDICTS = {
    Row.NEW: Verdict.NEW,
    Row.NOTHING_IN_COMMON: Verdict.NOT_COMPARABLE,
    Row.TRIALS_LOST: Verdict.NOT_COMPARABLE,
    Row.CASES_LOST: Verdict.NOT_COMPARABLE,
    Row.UNTOUCHED: Verdict.UNCHANGED,
    Row.ONE_UNIT: Verdict.INCONCLUSIVE,
    Row.REGRESSED: Verdict.REGRESSED,
    Row.IMPROVED: Verdict.IMPROVED,
    Row.RULED_OUT: Verdict.NO_SIGNIFICANT_CHANGE,
    Row.OPEN: Verdict.INCONCLUSIVE,
}

# a row of the table, and the reason where its verdict needs one
Decision = tuple[Row, Fact | None]


def turns_red(verdict: Verdict, rules: GateRules) -> bool:
    """Tell whether a verdict fails the build."""
    always = verdict in (Verdict.REGRESSED, Verdict.NOT_COMPARABLE)
    open_ = verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_CONFIRMED)
    return always or (rules.strict and open_)


def nothing_to_compare(pairing: Pairing) -> Decision | None:
    """Go through row 3: does a case have a score on both sides, which the test can take?"""
    unrecorded = never_recorded((pairing.baseline.side, pairing.collected), pairing.metric)
    if unrecorded:
        return Row.NOTHING_IN_COMMON, unrecorded
    bad = _without_logarithm(pairing)
    if bad:
        return Row.TRIALS_LOST, Fact(Why.NOT_POSITIVE, (pairing.test, bad, pairing.metric))
    is_known = pairing.pairs or (pairing.edits.own and not pairing.touched)
    return None if is_known else (Row.NOTHING_IN_COMMON, _why_nothing_in_common(pairing))


def too_much_lost(pairing: Pairing) -> Decision | None:
    """Go through rows 4 and 5: are enough trials and cases left to be compared?

    Args:
        pairing: with at least one common case, or one that was edited.
    """
    trials_lost = (
        _why_baseline_crashed(pairing)
        or _why_nothing_is_asked(pairing)
        or _why_errored_or_without_value(pairing)
        or _why_trials_skipped(pairing)
    )
    if trials_lost:
        return Row.TRIALS_LOST, trials_lost
    cases_lost = _why_cases_lost(pairing)
    return (Row.CASES_LOST, cases_lost) if cases_lost else None


def cannot_test(pairing: Pairing, *, repeats: CaseScores | None) -> Decision | None:
    """Go through rows 6 and 7, and through row 10 for a single unit of several cases.

    Args:
        pairing: one that passed rows 3 to 5. (A case that was asked again in vain is not a changed
            one, but row 5 takes a comparison that has no other touched cases.)
        repeats: whole repeats that can be tested in the place of units.
    """
    if not pairing.changed:
        return Row.UNTOUCHED, None
    if pairing.is_one_unit and not are_enough(repeats, alpha=pairing.rules.alpha):
        if _too_small_to_matter(pairing):
            return Row.RULED_OUT, None
        cases, fewest = len(pairing.changed), fewest_repeats(pairing.rules.alpha)
        if repeats is None:
            return Row.ONE_UNIT, Fact(Why.ONE_UNIT, (cases,))
        return Row.ONE_UNIT, Fact(Why.ONE_UNIT_FEW_REPEATS, (cases, fewest))
    if pairing.test not in MARGIN_TESTS:
        unfit = TESTS[pairing.test].why_not(pairing.sample)
        return (Row.TRIALS_LOST, Fact(Why.DOES_NOT_FIT, (pairing.test, unfit))) if unfit else None
    return None


class Judged(NamedTuple):
    """The result of rows 8 to 11 for a tested comparison, with fields as its record has them."""

    row: Row
    why: Fact | None
    interval: Interval | None
    ruled_out_by: RuledOutBy | None
    smallest_drop: float | None


def judge(
    tested: Examined, adjusted: Tails, *, penalty: int, looks: Looked | None = None
) -> Judged:
    """Go through rows 8 to 11.

    Args:
        tested: a comparison that passed rows 3 to 7.
        adjusted: its p-values among all comparisons.
        penalty: by what a p-value is multiplied where all others show nothing.
        looks: at the comparison, of which the result is the last; None without early ones.
    """
    pairing, method, found = tested
    least, alpha = least_p(pairing, method), pairing.rules.alpha
    beyond, at_end = (looks.beyond, looks.beyond_at_end) if looks else (alpha, alpha)
    # below six units sign-flip lacks independent units, however small its p
    is_blunt = (method, found.interval) == ("sign-flip", None)
    if least is not None:
        is_blunt = is_blunt or penalty * least >= alpha
    drop = None if is_blunt else smallest_drop(tested, alpha=at_end)
    row = _moved(pairing, adjusted, is_looked_at=looks is not None)
    interval = _agreeing(limits_of(tested, alpha=beyond), row, margin=pairing.rules.margin)
    reason = None
    if row != Row.REGRESSED:
        reason = _ruled_out_by(tested, interval, drop)
    if row == Row.RULED_OUT and reason is None:
        row = Row.OPEN
    why = None
    if row == Row.OPEN and is_blunt and least is not None and method == "exact-within-case":
        made = max(len(case.current.values) for case in pairing.changed)
        repeats = 1 if pairing.identical_repeats else made
        figures = (made, repeats, len(pairing.changed), round(1 / least), penalty)
        why = Fact(Why.TOO_FEW_TRIALS, figures)
    return Judged(row=row, why=why, interval=interval, ruled_out_by=reason, smallest_drop=drop)


def _moved(pairing: Pairing, adjusted: Tails, *, is_looked_at: bool) -> Row:
    rules = pairing.rules
    if adjusted.worse < rules.alpha and (
        pairing.difference + rules.margin < -pairing.zero
        # the test was at the margin itself; but after an early look the difference may turn
        or not (pairing.lacks_units or is_looked_at)
    ):
        return Row.REGRESSED
    rose = pairing.difference > pairing.zero or not is_looked_at
    return Row.IMPROVED if adjusted.better < rules.alpha and rose else Row.RULED_OUT


def _agreeing(limits: Limits | None, row: Row, *, margin: float) -> Interval | None:
    """Let the interval end where the verdict says so: no fall found means the margin is in it."""
    if limits is None:
        return None
    lower, upper = min(limits.lower, 0.0), max(limits.upper, 0.0 - margin)
    if row == Row.REGRESSED:
        upper = min(limits.upper, 0.0 - margin)
    elif row == Row.IMPROVED:
        lower = max(limits.lower_by_spread, 0.0)
    return lower, upper


def _ruled_out_by(
    tested: Examined, interval: Interval | None, drop: float | None
) -> RuledOutBy | None:
    """Tell what rules out a drop as large as the target, None if nothing does."""
    pairing, rules = tested.pairing, tested.pairing.rules
    if interval is not None:  # a target that would show may lie in it
        return "interval" if interval[0] > -rules.target else None
    is_unseen = (
        pairing.difference + rules.target > pairing.zero and tested.found.tails.worse >= rules.alpha
    )
    if drop is not None and rules.margin + drop <= rules.target and is_unseen:
        return "smallest_drop"
    if _too_small_to_matter(pairing):
        return "share"
    return "ends" if _cannot_fall_so_far(pairing) else None


def _cannot_fall_so_far(pairing: Pairing) -> bool:
    """Tell whether so few trials passed in the baseline, or miss here, that no drop is the target.

    A mean cannot fall by more than its value in the baseline, nor by more than the misses here.
    """
    if not pairing.are_hits:
        return False
    worst = 0.0 if pairing.sign > 0 else 1.0
    hits = [abs(pair.baseline.mean - worst) for pair in pairing.changed]
    misses = [1 - abs(pair.current.mean - worst) for pair in pairing.changed]
    trials = (sum(map(len, side)) for side in pairing.sample.sides)
    highest = (
        highest_rate(rates, pairing.units, trials=number, alpha=pairing.rules.alpha)
        for rates, number in zip((hits, misses), trials, strict=True)
    )
    return pairing.share * min(highest) < pairing.rules.target


def _too_small_to_matter(pairing: Pairing) -> bool:
    """Tell whether even a total failure of the changed cases would stay below the target."""
    return pairing.are_hits and pairing.share < pairing.rules.target


def _without_logarithm(pairing: Pairing) -> int:
    """Count the scores that have no logarithm where ratios are compared."""
    if pairing.scale == "linear" or pairing.metric in MEASURED_METRICS:
        return 0
    sides = (pairing.baseline.side, pairing.collected)
    both = (FunctionScores(side, pairing.metric, better=pairing.baseline.better) for side in sides)
    return sum(value <= 0 for one in both for sample in one.samples for value in sample)


def _why_nothing_in_common(pairing: Pairing) -> Fact:
    baseline, current, metric = pairing.baseline, pairing.current, pairing.metric
    if mismatched := pairing.edits.mismatched:
        return Fact(Why.MISMATCHED, (len(mismatched),))
    old, new = baseline.side.cases, current.side.cases
    if not set(old) & set(new):
        return Fact(Why.NO_COMMON_ID, (len(new), len(old), min(old), min(new)))
    if metric in MEASURED_METRICS:
        return Fact(Why.NOT_MEASURED, (metric,))
    if never_recorded([current.side], metric):
        return Fact(Why.NOT_RECORDED, (metric, baseline.function))
    return Fact(Why.NO_COMMON_SCORE, (*_scored_of(current), *_scored_of(baseline)))


def _scored_of(scores: FunctionScores) -> tuple[int, int]:
    return sum(map(len, scores.of_case.values())), len(scores.side.every_trial())


def _why_errored_or_without_value(pairing: Pairing) -> Fact | None:
    """Check each side over all its cases; count errors over the touched cases, too."""
    current, baseline = pairing.current, pairing.baseline
    sides = (
        (current, current.counts(), Why.ERRORED, Why.ERRORED_ANEW, Why.WITHOUT_VALUE),
        (
            baseline,
            pairing.baseline_counts(),
            Why.BASELINE_ERRORED,
            Why.BASELINE_ERRORED_ANEW,
            Why.BASELINE_WITHOUT_VALUE,
        ),
    )
    for scores, every, errored, errored_anew, without_value in sides:
        touched = scores.counts(pairing.touched) if every["errored"] else every
        for counts, why in ((every, errored), (touched, errored_anew)):
            ran = counts["scored"] + counts["errored"]
            if too_many_errored(counts["errored"], ran=ran):
                return Fact(why, (counts["errored"], ran))
        if every["without_value"] > MOST_WITHOUT_VALUE * every["scored"] + ROUNDING:
            return Fact(without_value, (pairing.metric, every["without_value"], every["scored"]))
    return None


def _why_baseline_crashed(pairing: Pairing) -> Fact | None:
    """Check whether the baseline can be one: a user can name any run."""
    trials = pairing.baseline.side.every_trial()
    crashed = crashed_too_soon(trials)
    if not crashed:
        return None
    return Fact(Why.BASELINE_CRASHED, (len(crashed), len(trials), crashed[0].message))


def _why_nothing_is_asked(pairing: Pairing) -> Fact | None:
    """Check whether common cases asked a model in the baseline, and half of them do not here.

    A stub or a mock that somebody left on answers such cases. A single such case is enough where
    the project replaced a fixture of ours. A case of which every trial crashed does not count: a
    crash has a score.
    """
    before, now = pairing.baseline.side.trials, pairing.current.side.trials
    asked = [pair.case for pair in pairing.pairs if any(one.calls for one in before[pair.case])]
    silent = [case for case in asked if ended_unasked(now[case])]
    if not silent or (2 * len(silent) < len(asked) and not pairing.replaced):
        return None
    return Fact(Why.ASKS_NOTHING, (len(silent), len(asked), pairing.baseline.function))


def _why_trials_skipped(pairing: Pairing) -> Fact | None:
    """Check whether common cases skip trials that the baseline did not skip."""
    # a trial that skips itself chooses which trials its case is judged by
    if not any(trial.outcome is Outcome.SKIPPED for trial in pairing.current.side.every_trial()):
        return None
    before, after = (
        {
            (pair.case, trial.index): trial.outcome is Outcome.SKIPPED
            for pair in pairing.pairs
            for trial in side.trials[pair.case]
        }
        for side in (pairing.baseline.side, pairing.current.side)
    )
    # more repeats on one side must change nothing
    common = before.keys() & after.keys()
    skipped, skipped_before = (sum(side[trial] for trial in common) for side in (after, before))
    if skipped - skipped_before <= max(1, MOST_SKIPPED * len(common) + ROUNDING):
        return None
    return Fact(Why.TRIALS_SKIPPED, (skipped, len(common), skipped_before))


def _why_cases_lost(pairing: Pairing) -> Fact | None:
    scored, edits, most = len(pairing.baseline.scored_cases), pairing.edits, pairing.rules.max_gone
    # nobody leaves edited cases out by hand
    lost = pairing.lost if pairing.in_full else pairing.lost & {*edits.asked, *edits.mismatched}
    if len(lost) > most * scored + ROUNDING:
        share = math.ceil(100 * len(lost) / scored) / 100  # the share that would let these cases go
        figures, edited = (len(lost), scored, 100 * most), len(lost & {*edits.asked})
        if edited:
            return Fact(Why.CASES_EDITED, (*figures, edited, share, len(lost) - edited))
        return Fact(Why.CASES_GONE, (*figures, share))
    unscored = [case for case in pairing.touched if not pairing.current.of_case[case]]
    if len(unscored) > MOST_UNSCORED * len(pairing.touched) + ROUNDING:
        return Fact(Why.CASES_UNSCORED, (len(unscored), len(pairing.touched)))
    return None
