"""The sentence for the verdict on one test function.

Never "equal", "stable" or "safe": no suite can show that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from pytest_llmeval.errors import counted
from pytest_llmeval.gate.results import (
    CaseComparison,
    Confirmation,
    Effect,
    FunctionComparison,
    Interval,
    Method,
    Verdict,
    ratio_of,
)
from pytest_llmeval.gate.scoring import Scale
from pytest_llmeval.records import Better
from pytest_llmeval.reports import notation, reasons
from pytest_llmeval.reports.report import CaseEntry, ComparedFunction
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.distributions import normal_tail
from pytest_llmeval.stats.t_tests import FEWEST_UNITS_FOR_T

SMALLEST_DROP = "smallest drop this run can find"
CAUGHT = "in 4 of 5 builds if all cases fall alike"
CAUGHT_IN_A_THIRD = "in 2 to 3 of 5 if only a third of them falls"
ONE_DRAW = "all repeats got equal replies: as long as they do, repeating adds nothing"
FEWEST_WITH_A_THIRD = 3
MORE = "; if it has that key already, put what stands after = in a line of its own below"
MANY_CASES = 30  # from this share on it is found about as often
NOT_THE_MODEL = "the test or the application changed, not the model"
ALL_REPLAYED = "unchanged (all replayed, nothing new was measured)"
COMPARED_REPLAYED = "unchanged (all that was compared was replayed)"
_AS_LIKELY_AS_NOT = 0.5
_VERDICTS = {
    "regressed": "REGRESSED",
    "not_comparable": "NOT COMPARABLE",
    "not_gated": "not compared with a baseline",
    "deferred": "deferred to the merge queue",
}
_OF_THESE_CASES: tuple[Method, ...] = ("exact-within-case", "whole-repeats", "welch", "cmh")
_OF_ALL_TRIALS: tuple[Method, ...] = ("chi-square", "chi-square-plain", "two-proportion-z")


def sentence(comparison: FunctionComparison, rules: GateRules) -> str:
    """Write the meaning of the verdict on one function."""
    verdict, name = comparison.verdict, notation.label(comparison)
    if comparison.accepted:
        return f"{sentence(replace(comparison, accepted=False), rules)} (accepted by llm_accept)"
    if scored_otherwise(comparison) and verdict is not Verdict.NOT_COMPARABLE:
        return _of_same_replies(comparison, rules)
    match verdict:
        case Verdict.REGRESSED | Verdict.IMPROVED:
            found, text = comparison.confirmation, f"{name} {_moved(comparison)}"
            text += f"{_beyond(comparison, rules)}; "
            if found and found.why is None:
                text += f"confirmed: {_asked_again(found)}; "
            text += _odds(comparison)
            if found and found.why:
                text += f" (could not be confirmed: {reasons.worded(found.why)})"
        case Verdict.NOT_CONFIRMED:
            text = f"not confirmed: it {_moved(comparison)}{_why_not_confirmed(comparison)}"
        case Verdict.UNCHANGED:
            text = unchanged_words([comparison])
            text += _uncompared(comparison)
        case Verdict.NO_SIGNIFICANT_CHANGE:
            text = f"no significant change: {_ruled_out(comparison, rules)}"
        case Verdict.INCONCLUSIVE:
            text = f"inconclusive: {_open(comparison, rules)}"
        case Verdict.NOT_COMPARABLE:
            text = f"not comparable: {reasons.worded(comparison.why)}"
        case Verdict.NEW:
            mean = _mean(comparison, comparison.effect.mean, comparison.effect.mean_interval)
            lacks = "gate" if comparison.effect.baseline_cases else "have"
            text = f"new: the baseline does not {lacks} it{mean}"
        case _:
            text = "gone: the baseline has it, and llm_accept_gone says that it was removed"
    return text


def _asked_again(found: Confirmation) -> str:
    means = (found.baseline_mean, found.mean)
    before, here = (notation.decimals(mean) for mean in means if mean is not None)
    return f"{found.reference}, asked again, scored {before}; all trials of this branch {here}"


def _why_not_confirmed(comparison: FunctionComparison) -> str:
    found = comparison.confirmation
    assert found is not None  # noqa: S101 - this verdict has one
    if found.outcome == "chance":
        return f", and the fall is not there again: {_asked_again(found)}"
    main = found.reference
    return (
        f", and {main} fell as well: {_asked_again(found)}. The provider changed, or {main} was "
        f"recorded on a lucky day: on {main}, record it again:  pytest --llm-cache=refresh"
    )


def with_name(text: str, name: str) -> str:
    """Put the name of a function before its sentence, unless the sentence begins with it."""
    return text if text.startswith(name) else f"{name}: {text}"


def verdict_words(verdict: str, *, accepted: bool = False) -> str:
    """Write a verdict in words, on a function or on all of them."""
    return f"{verdict}, accepted" if accepted else _VERDICTS.get(verdict, verdict.replace("_", " "))


def scored_otherwise(comparison: FunctionComparison) -> bool:
    """Tell whether nothing changed but the scores of the very same replies."""
    effect = comparison.effect
    return effect.changed > 0 and effect.changed_kinds.get("score") == effect.changed


def _of_same_replies(comparison: FunctionComparison, rules: GateRules) -> str:
    """Write the meaning of a verdict on scores alone: no chance, and nothing to settle."""
    verdict = comparison.verdict
    change = _moved(comparison) if comparison.effect.difference else "no change overall"
    text = f"{verdict_words(verdict)}: {change}"
    if verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
        text = f"{notation.label(comparison)} {change}{_beyond(comparison, rules)}"
    cases = counted(comparison.effect.changed, "case")
    return f"{text}; the same replies got other scores ({cases}): {NOT_THE_MODEL}"


def _moved(comparison: FunctionComparison) -> str:
    effect, ratio = comparison.effect, comparison.evidence.ratio
    assert effect.difference is not None  # noqa: S101 - every judged function has one
    direction = verb(comparison.better, improved=effect.difference >= 0)
    distance, write = notation.decimals(abs(effect.difference)), notation.decimals
    if ratio is not None:
        distance, write = f"a factor of {notation.digits(ratio)}", partial(notation.digits, count=3)
    means = [write(mean) for mean in (effect.baseline_mean, effect.mean) if mean is not None]
    return f"{direction} by {distance} ({' -> '.join(means)})"


def one_of(p: float) -> str:
    """Write a chance as ``1 of 20``."""
    return f"1 of {round(1 / p)}" if p >= 0.001 else "fewer than 1 of 1000"  # noqa: PLR2004


def unchanged_words(functions: Iterable[FunctionComparison]) -> str:
    """Say that nothing changed; cases with new replies, which were not compared, are left out."""
    has_new = any(
        one.only_here or not all(case.is_replayed for case in one.edited) for one in functions
    )
    return COMPARED_REPLAYED if has_new else ALL_REPLAYED


def verb(better: Better, *, improved: bool) -> str:
    """Return the word for a move: scores fall and rise, metrics that should be low worsen."""
    if better == "higher":
        return "rose" if improved else "fell"
    return "improved" if improved else "worsened"


def count_moved(differences: Sequence[float], better: Better, *, scale: Scale = "linear") -> str:
    """Count the cases that moved: ``of 100 cases 19 fell, 15 rose; the 4 ... by 0.037``.

    If few cases fell about as far as the worst, these may be the whole effect, so it is added by
    how much they change the mean.

    Args:
        differences: of all cases of a function; negative is worse.
        better: which direction is good.
        scale: of the differences; a sum of logarithms is told as a factor.
    """
    fell = sorted(each for each in differences if each < 0)
    rose = sum(each > 0 for each in differences)
    down, up = (verb(better, improved=way) for way in (False, True))
    text = f"of {counted(len(differences), 'case')} {len(fell)} {down}, {rose} {up}"
    far = [each for each in fell if 2 * each <= fell[0]]
    if not 1 < len(far) <= len(fell) / 2:
        return text
    drop, whole = sum(far) / len(differences), sum(differences) / len(differences)
    if notation.number(drop) == notation.number(whole):
        return text  # nothing is left for the others, which fell, too
    share = drop_as_factor(-drop, better) if scale == "log" else f"by {notation.number(-drop)}"
    do = "lower" if better == "higher" else "worsen"
    return f"{text}; the {len(far)} that {down} furthest {do} the mean {share}"


def _beyond(comparison: FunctionComparison, rules: GateRules) -> str:
    is_told = comparison.verdict is Verdict.REGRESSED and rules.margin > 0
    return f", more than the margin of {rules.margin:g}" if is_told else ""


def _odds(comparison: FunctionComparison) -> str:
    """Write the p-value as how often chance alone would do the same."""
    p, effect = p_of(comparison), comparison.effect
    if comparison.confirmation and comparison.confirmation.p is not None:
        p = comparison.confirmation.p  # the second look decided, by this one
    assert p is not None  # noqa: S101 - whatever was tested has one
    text = f"chance alone would do this in {one_of(p)} comparisons"
    if effect.method in _OF_THESE_CASES:
        return f"{text} ({these_cases(effect.changed)} only)"
    return f"{text} (if all trials were independent)" if effect.method in _OF_ALL_TRIALS else text


def p_of(comparison: FunctionComparison) -> float | None:
    """Return the adjusted p-value of the way that the verdict names."""
    improved, evidence = comparison.verdict is Verdict.IMPROVED, comparison.evidence
    return evidence.p_improved_adjusted if improved else evidence.p_adjusted


def these_cases(cases: int) -> str:
    """Write ``this case``, ``these 3 cases``."""
    return "this case" if cases == 1 else f"these {cases} cases"


def _uncompared(comparison: FunctionComparison) -> str:
    parts = []
    if added := len(comparison.only_here):
        parts.append(f"{counted(added, 'case')} only here{mean_of_new(comparison)}")
    if gone := len(comparison.only_in_baseline):
        parts.append(f"{counted(gone, 'case')} only in the baseline")
    return f", with {' and '.join(parts)}: not compared" if parts else ""


def mean_of_new(comparison: FunctionComparison) -> str:
    """Write the mean of the cases that only this run has: `` (mean 0.800 [0.61, 0.91])``."""
    return _mean(comparison, comparison.only_here_mean, comparison.only_here_interval)


def _mean(comparison: FunctionComparison, mean: float | None, interval: Interval | None) -> str:
    text = notation.mean_with_ends(mean, interval, log=comparison.scale == "log")
    return f" (mean {text})" if text else ""


def stopped_words(comparison: FunctionComparison, rules: GateRules, *, repeats: int) -> str:
    """Say after how many of its repeats a function stopped early, and why.

    Args:
        comparison: of a function that stopped.
        rules: the target.
        repeats: of each case that were planned.
    """
    after = f"after {comparison.stopped_at} of {repeats} repeats"
    if comparison.verdict is Verdict.REGRESSED and comparison.looks:
        p, z = comparison.looks[-1].p, comparison.looks[-1].limit
        shown = f"p {p:.2g}" if p >= 0.0001 else "p <0.0001"  # noqa: PLR2004
        alone = " if alone" if comparison.evidence.family_size > 1 else ""
        return f"regressed {after} ({shown}, limit {normal_tail(z):.2g}{alone})"
    if comparison.verdict is Verdict.NO_SIGNIFICANT_CHANGE:
        return f"stopped {after}: {_target(comparison, rules, noun='fall')} is ruled out"
    return f"stopped {after}"


def _target(comparison: FunctionComparison, rules: GateRules, noun: str = "drop") -> str:
    if comparison.scale == "log":
        return f"a change for the worse by a factor of {1 + rules.target:g}"
    return f"a {noun} of {notation.limit(rules.target)}"


def _ruled_out(comparison: FunctionComparison, rules: GateRules) -> str:
    drop = _target(comparison, rules)
    ruled_out = f"{drop} or more is ruled out ({notation.percent(1 - rules.alpha)} sure)"
    if comparison.evidence.interval and comparison.evidence.ruled_out_by == "interval":
        worst = max(0.0, -comparison.evidence.interval[0])
        if not worst:
            return f"{ruled_out}, and so is any smaller one"
        if comparison.scale == "log":
            return (
                f"{ruled_out}, one by a factor of up to {notation.digits(ratio_of(worst))} is not"
            )
        at_most = notation.decimals(worst, notation.places_beside(worst, rules.target))
        return f"{ruled_out}, a drop of up to {at_most} is not"
    if comparison.evidence.ruled_out_by == "ends":
        return f"{ruled_out}: too little was right in the baseline, or is wrong here"
    if comparison.evidence.ruled_out_by == "smallest_drop":
        return f"{drop} would have been caught {how_often_caught(comparison.effect.changed)}"
    asked = f"only {comparison.effect.changed} of {comparison.effect.cases} cases changed"
    return f"{asked}: {drop} is impossible"


def _open(comparison: FunctionComparison, rules: GateRules) -> str:
    """Say how large the drop may be, and what would settle the question."""
    evidence = comparison.evidence
    if comparison.why or evidence.interval is None:
        text = reasons.worded(comparison.why) or _why_open(comparison)
    else:
        worst = max(0.0, -evidence.interval[0])
        drop = notation.decimals(worst, notation.places_beside(worst, rules.target, 2))
        text = f"{_few_that_fell(comparison, rules)}the drop may be as large as {drop}"
        if comparison.scale == "log":
            text = f"it may be worse by a factor of up to {notation.digits(ratio_of(worst))}"
    further = (evidence.settle_cases, "more case"), (evidence.settle_repeats, "repeat")
    needed = [counted(count, noun) for count, noun in further if count]
    if needed:
        text += f"; about {' or '.join(needed)} would settle it"
        if not evidence.settle_repeats:
            # few labels may be equal by chance
            are_equal = evidence.identical_repeats
            how = "would not, as long as their replies are equal" if are_equal else "hardly would"
            text += f", more repeats {how}"
    return text


def _few_that_fell(comparison: FunctionComparison, rules: GateRules) -> str:
    """Count the cases that moved, if these are so few that the exact test was asked."""
    effect, p = comparison.effect, comparison.evidence.p_within_case
    differences = [case.difference for case in comparison.compared]
    fell, rose = (sum(sign * each > 0 for each in differences) for sign in (-1, 1))
    is_few = effect.effective_units >= FEWEST_UNITS_FOR_T > fell + rose
    # below the level it is a margin, or other cases like these, that leaves it open
    if p is None or not rules.alpha <= p < _AS_LIKELY_AS_NOT or not is_few or fell <= rose:
        return ""
    down, up = (verb(comparison.better, improved=way) for way in (False, True))
    moved = f"{counted(fell, 'case')} {down}, {rose or 'none'} {up}"
    return f"{moved}: chance alone does this in {one_of(p)}; "


def _why_open(comparison: FunctionComparison) -> str:
    """Say what is open where there is no interval."""
    effect = comparison.effect
    if effect.method == "same-shift":
        why = moved_alike(effect)
    elif effect.method == "whole-repeats":
        why = "cases share replies, and too few repeats were made to tell"
    else:
        why = f"{notation.too_few_units(comparison)} to tell"
    smallest = comparison.evidence.smallest_detectable_drop
    if smallest is None:
        return why
    drop = f"a drop of {notation.decimals(smallest, 2)}"
    if comparison.scale == "log":
        drop = f"a change by a factor of {drop_as_factor(smallest, comparison.better)[1:]}"
    return f"{why}; {drop} or more would have been caught {how_often_caught(effect.changed)}"


def moved_alike(effect: Effect) -> str:
    """Say why differences that are all alike do not show how far they scatter."""
    return "all cases moved alike" if effect.difference else "no case moved"


def how_often_caught(changed: int) -> str:
    """Say how often a comparison finds the smallest drop that it promises to find.

    If a third of the cases bears the whole drop, it is .41 to .69 with 4 to 29 cases
    (docs/statistics.md).

    Args:
        changed: how many cases were asked again.
    """
    has_thirds = FEWEST_WITH_A_THIRD <= changed < MANY_CASES
    return CAUGHT + (f", {CAUGHT_IN_A_THIRD}" if has_thirds else "")


def drop_as_factor(drop: float, better: Better) -> str:
    """Write a drop of logarithms as the factor that it means."""
    return notation.factor(ratio_of(drop if better == "lower" else -drop))


def difference_interval(
    interval: Interval, ratios: Interval | None, *, target: float = math.nan
) -> str:
    """Write the interval of a difference, or of a ratio where there is one.

    Args:
        interval: of the difference.
        ratios: its ends as ratios.
        target: the drop; no other lower end may read like it.
    """
    places = notation.places_beside(interval[0], -target)
    write = partial(notation.decimals, places=places, signed=True)
    return notation.ends(ratios, notation.factor) if ratios else notation.ends(interval, write)


def between(interval: str) -> str:
    """Write an interval in words: ``between -0.010 and +0.050`` for ``[-0.010, +0.050]``."""
    low, high = interval.strip("[]").split(", ")
    return f"between {low} and {high}"


def partial_words(comparison: FunctionComparison) -> str:
    """Say how many cases of a function were judged, where that are not all."""
    cases = f"{comparison.effect.cases} of {comparison.effect.baseline_cases}"
    return f"partial: {cases} cases of {notation.label(comparison)}"


def within_case_remark(comparison: FunctionComparison, rules: GateRules) -> str:
    """Point at cases that fell beyond chance where the suite as a whole did not."""
    p, looks = comparison.evidence.p_within_case, comparison.looks
    level = normal_tail(looks[-1].limit) if looks else rules.alpha
    is_told = comparison.verdict in (Verdict.REGRESSED, Verdict.NOT_CONFIRMED)
    if p is None or p >= level or is_told or scored_otherwise(comparison):
        return ""
    worst = most_moved(comparison, len(comparison.compared))
    furthest = [case for case in worst if case.difference == worst[0].difference]
    mostly = f", mostly {moved_case(furthest[0], comparison)}" if len(furthest) == 1 else ""
    fell = verb(comparison.better, improved=False)
    shown = f"these cases {fell} by more than chance explains ({notation.p_value(p, after='p')})"
    shown, alone = f"{shown}{mostly}", comparison.evidence.p
    # a remark names the shared level, and a margin is why a fall of all cases is none
    if rules.margin or (alone is not None and alone < rules.alpha):
        return shown
    return f"{shown}; that says nothing about other cases, so it is not called worse"


def most_moved(
    comparison: FunctionComparison, count: int, *, improved: bool = False
) -> list[CaseComparison]:
    """Return the cases that fell most, or rose most; the case that moved most is the first."""
    sign = -1 if improved else 1
    moved = [case for case in comparison.compared if sign * case.difference < 0]
    return sorted(moved, key=lambda case: (sign * case.difference, case.case))[:count]


def shortfall(better: Better, mean: float) -> tuple[bool, float]:
    """The sort key of cases that are compared with nothing, the worst first.

    A metric of which less is better has a scale of its own, so its cases come last.
    """
    return better == "lower", mean if better == "higher" else -mean


def all_lost(function: ComparedFunction) -> list[CaseEntry]:
    """Return the changed cases that went from all passed to all missed."""
    if not function.of.are_hits:
        return []
    good = float(function.of.better == "higher")
    changed = (case for case in function.compared if case.kind is not None)
    lost = ({good}, {1 - good})
    return [case for case in changed if ({*case.baseline_scores}, {*case.scores}) == lost]


def moved_case(case: CaseComparison | CaseEntry, of: FunctionComparison) -> str:
    """Write how the scores of a case changed: ``test_x[Peru]  5/5 -> 1/5``."""
    moved = " -> ".join(scores_of_both(case, of.metric, are_hits=of.are_hits))
    return f"{notation.case_name(case.case, of)}  {moved}"


def scores_of_both(
    case: CaseComparison | CaseEntry, metric: str, *, are_hits: bool, is_brief: bool = False
) -> tuple[str, str]:
    """Write the scores of a case on each side; hits out of unlike counts as percentages, too.

    Args:
        case: that has scores on both sides.
        metric: of the scores.
        are_hits: all scores are 0 or 1.
        is_brief: of percentages leave out the counts.
    """
    sides = case.baseline_scores, case.scores
    old, new = (notation.hits(one, metric, are_hits=are_hits) for one in sides)
    if are_hits and len(sides[0]) != len(sides[1]) and all(sides):
        shares = (f"{100 * sum(one) / len(one):.0f}%" for one in sides)
        counts = zip(shares, (old, new), strict=True)
        old, new = (share if is_brief else f"{share} ({text})" for share, text in counts)
    return old, new
