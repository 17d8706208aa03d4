"""Advice on a suite by one of its runs: what is wrong, with figures, and how much it would bring.

All that can be advised is put on one scale: the share of the calls of a run that bring nothing, and
would bring something once the advice was followed.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pytest_llmeval.gate.changes import (
    CallsOfBoth,
    all_repeats_identical,
    asked_the_same,
    common_trials,
    kind_of_change,
)
from pytest_llmeval.gate.scoring import FunctionScores
from pytest_llmeval.records import Trial, too_many_errored
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats import suite_size
from pytest_llmeval.stats.arrays import np
from pytest_llmeval.stats.detection import POWER
from pytest_llmeval.stats.expected import DRIFT_LEVEL, pooled_prediction
from pytest_llmeval.stats.multiplicity import holm
from pytest_llmeval.stats.sample import FEWEST_REPEATS, HITS
from pytest_llmeval.stats.selfcheck import SelfCheck
from pytest_llmeval.stats.t_tests import FEWEST_UNITS_FOR_T

# so many trials of a case that end alike are no chance; two of them would tell as much
_TELLING_TRIALS = 3
_STILL_NEEDED = 2
_TELLING_SHARE = 0.2  # of the calls of a function; a tenth passes throughout by chance
_TELLING_ERRORED = 0.01  # of its trials
_MOST_OF_THE_NOISE = 0.5
_ALIKE = 0.9  # a correlation
_FEWEST_TO_CORRELATE = 10  # trials that differ from the mean of their case

Figures = Mapping[str, Any]  # counts, shares and names, as --json has them
# the share of the function's calls that count for nothing, and what to tell
Finding = tuple[float, Figures]


class Trouble(StrEnum):
    """A reason to advise something. Reasons that save equally much are told in this order."""

    ERRORED = "errored"
    DRIFTS = "drifts"
    FALSE_ALARMS = "false alarms"
    UNEXPECTED = "beyond its expected range"
    IDENTICAL = "identical replies"
    UNREPEATED = "not repeated"
    BLIND = "cannot find the target"
    SETTLED = "cases that show nothing"
    NOISE_OF_ONE = "one carries the noise"
    TOGETHER = "metrics move together"


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice.

    Attributes:
        scores: the function and metric for which it brings most; ``figures`` are of it.
        others: the further ones that have the same trouble.
        gain: the share of the calls of the run that count for nothing now, in [0, 1].
    """

    trouble: Trouble
    scores: FunctionScores
    gain: float
    figures: Figures
    others: tuple[FunctionScores, ...] = ()


def advise(
    functions: Sequence[FunctionScores],
    checks: Sequence[SelfCheck | None],
    rules: GateRules,
    *,
    before: Sequence[FunctionScores] = (),
) -> tuple[Advice, ...]:
    """Say what would help, the piece of advice that brings most first.

    Args:
        functions: of a run, each on each gated metric.
        checks: of each of these, compared with itself.
        rules: level and target.
        before: the functions of an earlier run, with the cases alone that are as they were.
    """
    earlier = {(one.function, one.metric): one for one in before}
    p_values = [1.0 if one is None or one.drift_p is None else one.drift_p for one in checks]
    costs = {one.function: _cost(one.side.every_trial()) for one in functions}
    found: defaultdict[Trouble, list[Advice]] = defaultdict(list)
    adjusted = holm(p_values)
    for at, (scores, check) in enumerate(zip(functions, checks, strict=True)):
        weight = costs[scores.function] / max(1, sum(costs.values()))
        old = earlier.get((scores.function, scores.metric))
        beside = [one for one in functions[at + 1 :] if one.function == scores.function]
        findings = {
            Trouble.ERRORED: _errored(scores),
            Trouble.DRIFTS: (1.0, {"p": p_values[at]}) if adjusted[at] < DRIFT_LEVEL else None,
            Trouble.FALSE_ALARMS: _false_alarms(scores, check, alpha=rules.alpha),
            Trouble.UNEXPECTED: _unexpected(scores, old, level=DRIFT_LEVEL / len(checks)),
            Trouble.IDENTICAL: _identical(scores),
            Trouble.SETTLED: _settled(scores),
            Trouble.NOISE_OF_ONE: _noise_of_one(scores),
            Trouble.TOGETHER: next(_together(scores, beside), None),
            **_blind(scores, rules),
        }
        for trouble, finding in findings.items():
            if finding:
                share, figures = finding
                found[trouble].append(Advice(trouble, scores, share * weight, figures))
    pieces = [_folded(found[trouble]) for trouble in Trouble if trouble in found]
    return tuple(sorted(pieces, key=lambda one: -one.gain))


def _cost(trials: Iterable[Trial]) -> int:
    """Count the calls of some trials; one that tells of none counts as one call."""
    return sum(len(trial.calls) or 1 for trial in trials)


def _folded(pieces: Sequence[Advice]) -> Advice:
    """Make one piece of advice for all functions that have the same trouble."""
    most, *others = sorted(pieces, key=lambda one: -one.gain)
    gains: dict[str, float] = {}
    for one in (most, *others):  # the metrics of a function share its calls
        gains.setdefault(one.scores.function, one.gain)
    return replace(most, gain=sum(gains.values()), others=tuple(one.scores for one in others))


def _errored(scores: FunctionScores) -> Finding | None:
    counts = scores.counts()
    errored, ran = counts["errored"], counts["scored"] + counts["errored"]
    if errored < 2 or errored < _TELLING_ERRORED * ran:  # noqa: PLR2004 - one alone is no pattern
        return None
    calls = (call for trial in scores.side.every_trial() for call in trial.calls)
    reasons = Counter(call.reason for call in calls if call.lost).most_common(1)
    figures = {"errored": errored, "trials": ran, "reason": reasons[0][0] if reasons else None}
    return 1.0 if too_many_errored(errored, ran=ran) else errored / ran, figures


def _false_alarms(
    scores: FunctionScores, check: SelfCheck | None, *, alpha: float
) -> Finding | None:
    if check is None or check.interval[0] <= alpha:
        return None
    return 1.0, {"rate": check.rate, "level": alpha, "repeats": 2 * scores.repeats}


def _unexpected(
    scores: FunctionScores, old: FunctionScores | None, *, level: float
) -> Finding | None:
    """Look whether the mean lies in the range that an earlier run of the same requests predicts."""
    if old is None:
        return None
    here, before = scores.of_case, old.of_case
    calls = CallsOfBoth(old.side.trials, scores.side.trials)
    again = [
        name
        for name in scores.scored_cases
        if before.get(name)
        and kind_of_change(before[name], here[name], calls) == "redrawn"
        and asked_the_same(before[name], here[name])
    ]
    if not again:
        return None
    samples = _by_unit([before[name].values for name in again], scores.units_of(again))
    future, size = min(len(here[name]) for name in again), len(again)
    expected = pooled_prediction(samples, future=future, confidence=1 - level)
    mean = math.fsum(here[name].mean for name in again) / size
    if expected is None:
        return None
    low, high = (end * len(samples) / size for end in expected.interval)
    figures = {"mean": mean, "low": low, "high": high, "cases": size}
    return None if low <= mean <= high else (size / len(scores.scored_cases), figures)


def _by_unit(samples: Sequence[Sequence[float]], units: Sequence[int]) -> list[Sequence[float]]:
    """Add the scores of the cases of each unit up, repeat by repeat, units in order."""
    of_unit: defaultdict[int, list[Sequence[float]]] = defaultdict(list)
    for unit, sample in zip(units, samples, strict=True):
        of_unit[unit].append(sample)
    return [list(map(math.fsum, zip(*several, strict=False))) for several in of_unit.values()]


def _identical(scores: FunctionScores) -> Finding | None:
    is_one_draw = all_repeats_identical(scores.of_case.values(), scores.metric)
    if len(scores.samples) < FEWEST_UNITS_FOR_T or not is_one_draw:  # few get one label by chance
        return None
    waste = 1 - 1 / scores.repeats
    return waste, {"repeats": scores.repeats, "waste": waste}


def components_at(scores: FunctionScores, drop: float) -> suite_size.Components | None:
    """Estimate the variances of a function that would fall by a drop, all cases alike.

    Args:
        scores: with some score.
        drop: on the scale of comparison.

    Returns:
        The variances; None without repeats of two cases.
    """
    found = suite_size.recorded_components(scores.gains, drop=drop, pass_scores=scores.are_hits)
    # a ratio is one factor for all cases
    return replace(found, between=0.0) if found and scores.compares_ratios else found


def _blind(scores: FunctionScores, rules: GateRules) -> dict[Trouble, Finding]:
    target, cases, repeats = rules.target, len(scores.samples), scores.planned
    means = [math.fsum(one) / len(one) for one in scores.gains]
    if not cases or (scores.are_hits and target >= math.fsum(means) / cases):
        return {}  # what cannot fall so far
    drop = math.log1p(target) if scores.compares_ratios else target
    found = components_at(scores, drop)
    if found is None:  # of one case nobody knows how unlike cases are
        is_repeated = any(one[1:] for one in scores.gains)
        return {} if is_repeated else {Trouble.UNREPEATED: (POWER, {"target": target})}
    design = suite_size.Design(
        cases=cases, baseline=repeats, current=repeats, components=found, alpha=rules.alpha
    )
    power = suite_size.power_of(design, drop=drop)
    if power >= POWER:
        return {}
    needed, would = suite_size.cases_needed(design, drop=drop), None
    if not _identical(scores):  # else repeats add nothing
        would = suite_size.repeats_needed(design, drop=drop, baseline_too=True)
    more = None if needed is None else needed - cases
    figures = {"target": target, "power": power, "cases": more, "repeats": would}
    return {Trouble.BLIND: (POWER - power, figures)}


def _settled(scores: FunctionScores) -> Finding | None:
    """Find the cases that ended alike in each trial, at the best or at the worst end."""
    values = {value for sample in scores.samples for value in sample}
    if scores.compares_ratios or not values or min(values) < 0 or max(values) > 1:
        return None
    best = float(scores.better == "higher")
    ends: dict[float, list[str]] = {best: [], 1 - best: []}
    for name in scores.scored_cases:
        sample = scores.of_case[name].values
        if len(sample) >= _TELLING_TRIALS and len({*sample}) == 1 and HITS.issuperset(sample):
            ends[sample[0]].append(name)
    good, bad, trials = ends[best], ends[1 - best], scores.side.trials
    costs = {name: _cost(each) for name, each in trials.items()}
    total, cost = sum(costs.values()), sum(costs[name] for name in good + bad)
    if cost < _TELLING_SHARE * total:
        return None
    # two trials of what always passes still tell when it breaks
    kept = math.fsum(costs[name] * _STILL_NEEDED / len(trials[name]) for name in good)
    return (cost - kept) / total, {
        "cases": len(scores.scored_cases),
        "passed": len(good),
        "missed": len(bad),
        "share": cost / total,
        "first": (bad or good)[0],
    }


def _noise_of_one(scores: FunctionScores) -> Finding | None:
    """Find the unit of whose repeats most of the noise of the mean comes."""
    names, units = scores.scored_cases, scores.units
    samples = _by_unit(scores.gains, units)
    if len(samples) < FEWEST_UNITS_FOR_T or min(map(len, samples)) < FEWEST_REPEATS:
        return None
    parts = [float(np.var(sample, ddof=1)) / len(sample) for sample in samples]
    share = max(parts) / (math.fsum(parts) or 1.0)
    if share <= _MOST_OF_THE_NOISE:
        return None
    unit = [*dict.fromkeys(units)][parts.index(max(parts))]
    cases = [name for name, of in zip(names, units, strict=True) if of == unit]
    figures = {"share": share, "units": len(samples), "first": cases[0], "cases": len(cases)}
    return share * (1 - len(cases) / len(names)), figures


def _together(scores: FunctionScores, beside: Sequence[FunctionScores]) -> Iterator[Finding]:
    """Find the metrics that move as this one does: from the mean of a case, trial by trial."""
    for other in beside:
        moves = []
        for name in scores.scored_cases:
            one, two = common_trials(scores.of_case[name], other.of_case[name])
            values = zip(one.values, two.values, strict=True)
            moves += [(a - one.mean, b - two.mean) for a, b in values]
        moved = [move for move in moves if any(move)]
        if len(moved) >= _FEWEST_TO_CORRELATE and all(map(any, zip(*moved, strict=True))):
            r = float(np.corrcoef(np.transpose(moved))[0, 1])
            if (r if scores.better == other.better else -r) >= _ALIKE:
                # no call is wasted, but the level of one alone would find a little more
                yield 0.0, {"other": other.metric, "kept": scores.metric, "r": r}
