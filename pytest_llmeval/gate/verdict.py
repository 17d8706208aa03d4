"""The decision table: the first row that fits gives the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_llmeval.gate.comparison import RuledOutBy, Verdict
from pytest_llmeval.gate.figures import FEWEST_UNITS_FOR_T, Extent, Significance, are_enough
from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.scoring import lacks
from pytest_llmeval.gate.sides import Side
from pytest_llmeval.ranges import AnyTest
from pytest_llmeval.records import (
    COST_METRIC,
    MEASURED_METRICS,
    PASS_METRIC,
    SECONDS_METRIC,
    TOKENS_METRIC,
    Outcome,
    Trial,
    too_many_errored,
)
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.planning.power import chance_of_so_few
from pytest_llmeval.stats.significance.repeats import fewest_repeats
from pytest_llmeval.stats.significance.sample import CaseScores

# shares of trials and cases that may be lost before nothing can be said any more
MOST_SKIPPED = 0.05
MOST_WITHOUT_VALUE = 0.05
MOST_UNSCORED = 0.10
# 10 % of 30 is a little more than 3 in floating point
ROUNDING = 1e-9

ALWAYS_FAILS = (Verdict.REGRESSED, Verdict.NOT_COMPARABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A verdict, the row that gave it, and where it needs one a plain sentence.

    Attributes:
        ruled_out_by: which part of row 10 held.
    """

    row: int
    verdict: Verdict
    why: str = ""
    ruled_out_by: RuledOutBy | None = None

    def fails(self, rules: GateRules) -> bool:
        """Tell whether the build is to be turned red."""
        return self.verdict in ALWAYS_FAILS or (
            rules.strict and self.verdict is Verdict.INCONCLUSIVE
        )


def nothing_in_common(pairing: Pairing) -> Decision:
    """Say row 3 of a pairing without a common case."""
    return _not_comparable(3, _why_nothing_in_common(pairing))


def never_recorded(sides: Sequence[Side], metric: str) -> Decision | None:
    """Say row 3 of a gated metric that no trial has a value for, None if one has."""
    if not lacks(sides, metric):
        return None
    trials = (trial for side in sides for trial in side.every_trial())
    recorded = {name for trial in trials for name in trial.scores}
    known = ", ".join(sorted(recorded.difference(MEASURED_METRICS)))
    why = f"{metric} is gated and was never recorded, only {known}: {_how_to_have(metric)}"
    return _not_comparable(3, why)


def does_not_fit(test: AnyTest, why: str) -> Decision:
    """Say row 4 of a test that was chosen and does not fit the data.

    Args:
        test: its name.
        why: in plain words.
    """
    return _not_comparable(4, f"the test {test} does not fit: {why}")


def too_much_lost(pairing: Pairing, *, rules: GateRules) -> Decision | None:
    """Go through rows 4 and 5: are enough trials and cases left to be compared.

    Args:
        pairing: with at least one common case.
        rules: how many cases may be gone.
    """
    trials_lost = _why_trials_lost(pairing)
    if trials_lost:
        return _not_comparable(4, trials_lost)
    cases_lost = _why_cases_lost(pairing, rules=rules)
    return _not_comparable(5, cases_lost) if cases_lost else None


def cannot_test(
    extent: Extent, *, repeats: CaseScores | None, metric: str, rules: GateRules
) -> Decision | None:
    """Go through rows 6 and 7, and for a single unit of several cases to the end.

    Args:
        extent: the measures of a comparison that passed rows 3 to 5. (A case that was
            asked anew in vain is no changed one, but row 5 takes a comparison of none
            but those.)
        repeats: whole repeats that can be tested in the place of units.
        metric: what was scored.
        rules: the target.
    """
    if not extent.changed:
        return Decision(row=6, verdict=Verdict.UNCHANGED)
    if not extent.is_one_unit or are_enough(repeats, alpha=rules.alpha):
        return None
    if _too_small_to_matter(extent, metric=metric, rules=rules):
        return _no_significant_change("share")
    why = (
        f"the {extent.changed} cases asked anew are a single independent unit "
        "(they share draws or a cluster): no test can tell chance from a drop"
    )
    if repeats is not None:
        why += f" from fewer than {fewest_repeats(rules.alpha)} repeats on both sides"
    return Decision(row=7, verdict=Verdict.INCONCLUSIVE, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The test of a comparison among those of all others.

    Attributes:
        p_adjusted: for a drop, adjusted for the number of comparisons.
        p_improved_adjusted: for an improvement, likewise.
        smallest_drop: that could have been caught, beyond the margin.
    """

    significance: Significance
    p_adjusted: float
    p_improved_adjusted: float
    smallest_drop: float | None


def decide(finding: Finding, *, metric: str, rules: GateRules) -> Decision:
    """Go through rows 8 to 11.

    Args:
        finding: the test of a comparison that passed rows 3 to 7.
        metric: what was scored.
        rules: level, margin and target.
    """
    extent = finding.significance.extent
    if finding.p_adjusted < rules.alpha and _beyond_margin(extent, rules=rules):
        return Decision(row=8, verdict=Verdict.REGRESSED)
    if finding.p_improved_adjusted < rules.alpha:
        return Decision(row=9, verdict=Verdict.IMPROVED)
    if _interval_excludes_target(finding, rules=rules) and (
        metric != PASS_METRIC or _so_few_misses_exclude_target(finding, rules=rules)
    ):
        return _no_significant_change("interval")
    if _target_would_show(finding, rules=rules):
        return _no_significant_change("smallest_drop")
    if _too_small_to_matter(extent, metric=metric, rules=rules):
        return _no_significant_change("share")
    return Decision(row=11, verdict=Verdict.INCONCLUSIVE)


def _beyond_margin(extent: Extent, *, rules: GateRules) -> bool:
    """Hold the margin against the difference where the test could not do so itself."""
    if extent.whole_units >= FEWEST_UNITS_FOR_T:
        return True
    return extent.difference + rules.margin < -extent.zero


def _interval_excludes_target(finding: Finding, *, rules: GateRules) -> bool:
    interval = finding.significance.interval
    return interval is not None and interval[0] > -rules.target


def _so_few_misses_exclude_target(finding: Finding, *, rules: GateRules) -> bool:
    """Tell whether a drop as large as the target would have shown as more misses.

    Near the ceiling a handful of trials without a miss has no spread, and so an interval
    that is far too narrow: ten cases of three trials "rule out" a true drop of 0.10 in
    .15 of builds.
    """
    found = finding.significance
    cases = found.samples.cases
    missed_there = math.fsum(c.baseline.count(0.0) / len(c.baseline) for c in cases) / len(cases)
    here = [score for case in cases for score in case.current]
    chance = chance_of_so_few(
        here.count(0.0),
        trials=len(here),
        rate=min(1.0, missed_there + rules.target / found.extent.share),
    )
    return chance <= rules.alpha


def _target_would_show(finding: Finding, *, rules: GateRules) -> bool:
    """Tell whether a drop as large as the target would have been caught, and was not seen."""
    found = finding.significance
    # an interval says more: it may reach below a target that would show
    if found.interval is not None or finding.smallest_drop is None:
        return False
    return (
        rules.margin + finding.smallest_drop <= rules.target
        and found.extent.difference + rules.target > found.extent.zero
        and found.p >= rules.alpha
    )


def _no_significant_change(ruled_out_by: RuledOutBy) -> Decision:
    verdict = Verdict.NO_SIGNIFICANT_CHANGE
    return Decision(row=10, verdict=verdict, ruled_out_by=ruled_out_by)


def _too_small_to_matter(extent: Extent, *, metric: str, rules: GateRules) -> bool:
    """Tell whether even a total failure of the changed cases would stay below the target."""
    return metric == PASS_METRIC and extent.share < rules.target


def _not_comparable(row: int, why: str) -> Decision:
    return Decision(row=row, verdict=Verdict.NOT_COMPARABLE, why=why)


def _why_nothing_in_common(pairing: Pairing) -> str:
    there, here = pairing.there, pairing.here
    if pairing.mismatched:
        return (
            f"{len(pairing.mismatched)} ids are made from positions and stand for other "
            "parameters than in the baseline: give ids="
        )
    if not set(there.cases) & set(here.cases):
        return (
            f"no id of the {len(here.cases)} cases here is among the {len(there.cases)} of "
            "the baseline: if they were renamed say so in the ini file, a line each, as in "
            f"llm_renamed = {min(there.cases)} -> {min(here.cases)}"
        )
    metric = pairing.subject.metric
    if metric in MEASURED_METRICS:
        return f"no case has {metric} on both sides: {_how_to_have(metric)}"
    if lacks([here], metric):
        return (
            f"{metric} is gated in the baseline and no trial recorded it here: record it, or give "
            f"it up by  llm_accept_gone = {pairing.subject.function}:{metric}  in the ini file"
        )
    scored_here = sum(len(scored) for scored in pairing.scores_here.values())
    scored_there = sum(len(scored) for scored in pairing.scores_there.values())
    return (
        "no case has a scored trial on both sides: "
        f"{scored_here} of {len(here.every_trial())} trials have a score here, "
        f"{scored_there} of {len(there.every_trial())} in the baseline"
    )


def _why_trials_lost(pairing: Pairing) -> str:
    """Check row 4: trials that errored, that have no value, that were skipped."""
    return _why_errored_or_without_value(pairing) or _why_trials_skipped(pairing)


def _why_errored_or_without_value(pairing: Pairing) -> str:
    """Check both over all cases of each side, errors over those that were asked anew too."""
    sides = (
        ("here", pairing.counts_here, "run again, only what got no reply is asked anew"),
        ("in the baseline", pairing.counts_there, "record the baseline again"),
    )
    metric = pairing.subject.metric
    for where, count, remedy in sides:
        every = count()
        touched = count(pairing.touched) if every.errored else every
        for counts, of_what in ((every, ""), (touched, " of the cases asked anew")):
            if too_many_errored(counts.errored, ran=counts.scored + counts.errored):
                share = f"{counts.errored} of {counts.scored + counts.errored} trials{of_what}"
                return f"{share} errored {where}, more than 5 %: {remedy}"
        if every.without_value > MOST_WITHOUT_VALUE * every.scored + ROUNDING:
            return (
                f"{every.without_value} of {every.scored} scored trials {where} have no value "
                f"for {metric}, more than 5 %: {_how_to_have(metric)}"
            )
    return ""


def _why_trials_skipped(pairing: Pairing) -> str:
    """Check whether common cases skip trials that the baseline did not skip.

    A trial that skips itself chooses by what its case is judged. Trials are counted that
    both runs came to, so that more repeats on one side do not weigh.
    """
    there, here = pairing.there.trials, pairing.here.trials
    ends = [
        (baseline.outcome is Outcome.SKIPPED, current.outcome is Outcome.SKIPPED)
        for pair in pairing.pairs
        for baseline, current in _in_both(there[pair.case], here[pair.case])
    ]
    skipped_there, skipped_here = (sum(end[side] for end in ends) for side in (0, 1))
    if skipped_here - skipped_there <= max(1, MOST_SKIPPED * len(ends) + ROUNDING):
        return ""
    return (
        f"{skipped_here} of {len(ends)} trials of the common cases are skipped here and "
        f"{skipped_there} in the baseline, over 5 % more: what is skipped is not judged, "
        "so let such trials fail, or skip the whole case"
    )


def _in_both(there: Sequence[Trial], here: Sequence[Trial]) -> Iterator[tuple[Trial, Trial]]:
    """Yield the trials of a case that both runs came to, however they ended."""
    baseline = {trial.index: trial for trial in there}
    return ((baseline[trial.index], trial) for trial in here if trial.index in baseline)


def _how_to_have(metric: str) -> str:
    """Say what it takes for every trial to have a value."""
    if metric not in MEASURED_METRICS:
        return f'record it in every trial, by llm_score(value, "{metric}"), or gate on another'
    needs = {
        SECONDS_METRIC: "it is that of calls which the plugin sees",
        TOKENS_METRIC: "it takes replies that count their tokens",
        COST_METRIC: "it takes replies that count their tokens, and a price above 0 for their "
        "model, as a line of llm_prices",
    }
    return f"{needs[metric]}, and trials that did not crash"


def _why_cases_lost(pairing: Pairing, *, rules: GateRules) -> str:
    scored_there = sum(bool(scored) for scored in pairing.scores_there.values())
    in_full = pairing.subject.collected_in_full
    if in_full and len(pairing.lost) > rules.max_gone * scored_there + ROUNDING:
        return (
            f"{len(pairing.lost)} of the {scored_there} cases scored in the baseline are gone or "
            f"skipped here, more than the {100 * rules.max_gone:g} % of llm_max_gone: "
            "raise it in the ini file if that is meant"
        )
    unscored = [id_ for id_ in pairing.touched if not pairing.scores_here[id_]]
    if len(unscored) > MOST_UNSCORED * len(pairing.touched) + ROUNDING:
        return (
            f"{len(unscored)} of the {len(pairing.touched)} cases asked anew have no scored "
            "trial here, more than 10 %: run again, only what got no reply is asked anew"
        )
    return ""
