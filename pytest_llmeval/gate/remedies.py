"""Remedies for an open comparison: how many more cases or repeats would settle it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pytest_llmeval.gate.decision_table import judge
from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.results import Row
from pytest_llmeval.gate.scoring import Scored
from pytest_llmeval.gate.significance import significance
from pytest_llmeval.stats.detection import POWER, fewest, within_case_variance
from pytest_llmeval.stats.distributions import normal_quantile, student_quantile
from pytest_llmeval.stats.sample import Tails

MOST_TIMES_THE_CASES = 50
MOST_CASES = 2000
MOST_REPEATS = 200
LEAST_P = 1e-12
ROOM_FOR_RATES = 0.9
Chosen = TypeVar("Chosen")


def remedies(pairing: Pairing, *, penalty: int) -> tuple[int | None, int | None]:
    """Say about how many more cases, or repeats of each instead, would settle a comparison.

    The gate judges more cases like these, or more trials of them, with the difference that was
    seen, and with room for what chance adds to it in four of five builds.

    Each remedy is one number that is decided once: looking again and again adds false alarms.

    Args:
        pairing: the comparison, which no test could settle.
        penalty: by what a p-value is multiplied for the other comparisons.
    """
    cases, repeats = len(pairing.pairs), None
    error = _error_within_cases(pairing)

    settles = partial(_settles, error=error, penalty=penalty)
    wanted = fewest(
        lambda number: settles(_of_cases(pairing, number)),
        above=cases,
        limit=min(MOST_TIMES_THE_CASES * cases, max(MOST_CASES, 4 * cases)),
    )
    if not pairing.identical_repeats:
        repeats = fewest(
            lambda number: settles(_of_repeats(pairing, number)),
            above=max(len(pair.current) for pair in pairing.changed),
            limit=MOST_REPEATS,
        )
    return None if wanted is None else wanted - cases, repeats


def _settles(imagined: Pairing, *, error: float, penalty: int) -> bool:
    """Tell whether the gate would judge, also where chance takes from the difference.

    Args:
        imagined: the comparison with more of the same.
        error: of the difference that was seen, by chance within its cases.
        penalty: by what a p-value is multiplied.
    """
    tested, rules = significance(imagined, repeats=None), imagined.rules
    found = tested.found
    # a few cases may move alike by luck, and their trials scatter all the same
    spread = max(found.standard_error or 0.0, _error_within_cases(imagined))
    worse, better = (min(1.0, penalty * p) for p in (found.tails.worse, found.tails.better))
    judged = judge(tested, Tails(worse=worse, better=better), penalty=penalty)
    if judged.row == Row.OPEN:
        return False
    if not spread or judged.interval is None:
        if judged.ruled_out_by == "smallest_drop" and judged.smallest_drop is not None:
            # a few trials do not tell how far the rates of cases scatter
            return rules.margin + judged.smallest_drop <= ROOM_FOR_RATES * rules.target
        p = {Row.REGRESSED: worse, Row.IMPROVED: better}.get(judged.row)
        if p is None or not imagined.difference:
            return True
        kept = 1 - normal_quantile(1 - POWER) * error / abs(imagined.difference)
        return kept * normal_quantile(max(p, LEAST_P)) >= normal_quantile(rules.alpha)
    room = normal_quantile(1 - POWER) * spread
    alone, shared = (
        student_quantile(imagined.whole_units - 1, alpha) * spread
        for alpha in (rules.alpha, rules.alpha / penalty)
    )
    # how far the interval reaches below the difference, which may be 0 in truth
    if max(imagined.difference - judged.interval[0], alone) + room < rules.target:
        return True
    reach = shared + room
    return max(imagined.difference, -imagined.difference - rules.margin) > reach


def _error_within_cases(pairing: Pairing) -> float:
    """Return by how much chance within the cases may have moved the difference that was seen."""
    pairs = pairing.changed
    variance = within_case_variance(
        [side.values for pair in pairs for side in (pair.baseline, pair.current)]
    )
    per_case = math.fsum(1 / len(pair.baseline) + 1 / len(pair.current) for pair in pairs)
    return math.sqrt((variance or 0.0) * per_case) / len(pairing.pairs)


def _of_cases(pairing: Pairing, number: int) -> Pairing:
    """Imagine a number of cases like the present ones: the same share of them changed as far."""
    of_case = dict(zip((pair.case for pair in pairing.changed), pairing.units, strict=True))
    ordered = sorted(pairing.pairs, key=lambda pair: (pair.kind is None, pair.difference))
    chosen, copies, units = spaced(ordered, number), Counter[str](), []
    for pair in chosen:
        if pair.kind is not None:
            units.append(of_case[pair.case] + copies[pair.case] * len(ordered))
        copies[pair.case] += 1
    return pairing.imagined(chosen, units)


def _of_repeats(pairing: Pairing, number: int) -> Pairing:
    """Imagine so many trials of each changed case on both sides, or as many as it has."""
    sides = [side for pair in pairing.changed for side in (pair.baseline, pair.current)]
    sizes = [len(side) for side in sides]
    now, then = (
        math.fsum(1 / max(size, least) for size in sizes) / len(pairing.changed)
        for least in (1, number)
    )
    error = pairing.spread.standard_error if pairing.spread else None
    spread = len(pairing.changed) * (error or 0.0) ** 2
    variance = within_case_variance([side.values for side in sides])
    if variance is None and pairing.are_hits:
        variance = spread / now  # of cases with one hit or miss each all may be chance
    noise = variance or 0.0
    kept = max(0.0, spread - noise * now) + noise * then
    shrunk = math.sqrt(kept / spread) if spread else 1.0
    mean = math.fsum(pairing.differences) / len(pairing.changed)
    pairs = [
        pair
        if pair.kind is None
        else replace(
            pair,
            difference=mean + shrunk * (pair.difference - mean),
            baseline=_repeated(pair.baseline, number),
            current=_repeated(pair.current, number),
        )
        for pair in pairing.pairs
    ]
    return pairing.imagined(pairs, pairing.units)


def _repeated(scored: Scored, number: int) -> Scored:
    if len(scored) >= number:
        return scored
    places = sorted(range(len(scored)), key=scored.values.__getitem__)
    chosen = spaced(places, number)
    return Scored(
        tuple(scored.trials[at] for at in chosen), tuple(scored.values[at] for at in chosen)
    )


def spaced(values: Sequence[Chosen], number: int) -> list[Chosen]:
    """Choose so many of some values, evenly spaced, each about as often as another."""
    return [values[int((at + 0.5) * len(values) / number)] for at in range(number)]
