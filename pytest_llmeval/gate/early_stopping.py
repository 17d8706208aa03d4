"""Looks at a comparison while its trials are made: has it fallen, or can it stop without one?

The rule, its simulation and its limits: docs/early-stopping.md. A look takes whole rounds: as many
trials of each case. What a look finds depends on the recorded trials alone, so a run that is judged
again finds the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pytest_llmeval.gate.both_runs import BothRuns, Tested
from pytest_llmeval.gate.family import Name
from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.results import FunctionComparison, Look, Method
from pytest_llmeval.gate.significance import limits_of
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.distributions import normal_quantile
from pytest_llmeval.stats.early_looks import EarlyLooks, information, planned_looks
from pytest_llmeval.stats.sample import Tails
from pytest_llmeval.stats.t_tests import FEWEST_UNITS_FOR_T

LOOKED_AT: tuple[Method, ...] = ("paired-t", "log-ratio", "same-shift")
_HALF = 0.6  # of the information: before it a comparison must not have fallen at all to be calm
_CALM = 0.5  # z below which it is calm later on
_NO_LOOK = -8.0  # z of a look at which nothing could be tested: it spends nothing that matters
_FARTHEST = 8.0  # z of a p that is 0 or 1 in floating point

Settled = Literal["", "red", "calm"]


class Pair(NamedTuple):
    """A function and a metric, examined after so many repeats."""

    repeats: int
    tested: Tested | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What the looks at one comparison found so far.

    Attributes:
        looks: the looks at which it could be tested.
        tails: its p-values over all looks, valid whenever it stops.
        beyond: what may lie beyond the limit of the last look, in (0, 0.5).
        settled: it may stop: it fell, or it did not.
    """

    looks: tuple[Look, ...]
    tails: Tails
    beyond: float
    settled: Settled


def family_size(baseline: Run, run: Run, rules: GateRules) -> int:
    """Count the comparisons among which a session shares its level at early looks.

    Args:
        baseline: the run to compare with.
        run: with every case that was collected, with or without trials.
        rules: of the gate.
    """
    sides = BothRuns(baseline, run, rules, main=None)
    return max(1, sum(1 for _ in sides.gated_names()))


def is_settled(
    baseline: Run, run: Run, rules: GateRules, *, repeats: Sequence[int], family: int
) -> bool:
    """Tell whether one function needs no more trials.

    Args:
        baseline: the run to compare with.
        run: with the cases of one function, and their trials of the rounds so far.
        rules: level, margin and target.
        repeats: the planned looks up to this one.
        family: how many comparisons share the level.
    """
    examined: dict[Name, list[Pair]] = {}
    for count in repeats:
        for name, tested in examined_after(baseline, run, rules, repeats=count).items():
            examined.setdefault(name, []).append(Pair(count, tested))
    planned = {case.function: planned_looks(case.repeats) for case in run.cases}
    found = [
        looked(pairs, planned=planned[name[0]], rules=rules, family=family)
        for name, pairs in examined.items()
    ]
    return bool(found) and all(one is not None and one.settled for one in found)


def examined_after(
    baseline: Run, run: Run, rules: GateRules, *, repeats: int
) -> Mapping[Name, Tested | None]:
    """Examine every comparison by the first trials of each case; None where nothing is tested."""
    first = replace(run, trials=tuple(one for one in run.trials if one.index < repeats))
    found: dict[Name, Tested | None] = {}
    for entry in BothRuns(baseline, first, rules, main=None).collected():
        if isinstance(entry, FunctionComparison):
            found[entry.function, entry.metric] = None
        else:
            found[entry[0].name] = entry if _is_looked_at(*entry[:2]) else None
    return found


def _is_looked_at(pairing: Pairing, method: Method) -> bool:
    return method in LOOKED_AT and pairing.whole_units >= FEWEST_UNITS_FOR_T


def looked(
    pairs: Sequence[Pair], *, planned: Sequence[int], rules: GateRules, family: int
) -> Looked | None:
    """Go through the looks at one comparison so far.

    Args:
        pairs: what each look examined, the first one first.
        planned: after how many repeats there is a look; the last are all.
        rules: level, margin and target.
        family: how many comparisons share the level at early looks.

    Returns:
        The looks; None where the comparison could be tested at none of them.
    """
    tested = [(at, pair.repeats, pair.tested) for at, pair in enumerate(pairs) if pair.tested]
    if not tested:
        return None
    shares = information(_trials_of_baseline(tested[0][2][0]), planned)
    looks = EarlyLooks(shares)
    limits = looks.limits(rules.alpha)
    tails = {at: found.tails for at, _, (_, _, found) in tested}
    worse = looks.sequential_p([*_z_values(tails, len(pairs), lambda one: one.worse)])
    better = looks.sequential_p([*_z_values(tails, len(pairs), lambda one: one.better)])
    told = tuple(
        Look(
            repeats=repeats,
            p=found.tails.worse,
            z=_z_of(found.tails.worse),
            limit=limits[at],
            sequential_p=worse[at],
        )
        for at, repeats, (_, _, found) in tested
    )
    last, _, entry = tested[-1]
    beyond = _tail(limits[last])
    is_last = last == len(pairs) - 1  # else this look could not be tested, and decides nothing
    settled: Settled = ""
    if is_last and _has_fallen(entry[0], worse[last], rules=rules, family=family):
        settled = "red"
    elif is_last and (
        entry[0].identical_repeats or _is_calm(entry, shares[last], beyond=beyond, rules=rules)
    ):
        settled = "calm"
    return Looked(
        looks=told,
        tails=Tails(worse=worse[-1], better=better[-1]),
        beyond=beyond,
        settled=settled,
    )


def _trials_of_baseline(pairing: Pairing) -> float:
    """Return the harmonic mean of the baseline's trials over the changed cases."""
    counts = [len(case.baseline.values) for case in pairing.changed]
    return len(counts) / math.fsum(1 / count for count in counts)


def _z_values(
    tails: Mapping[int, Tails], looks: int, side: Callable[[Tails], float]
) -> Iterator[float]:
    return (_z_of(side(tails[at])) if at in tails else _NO_LOOK for at in range(looks))


def _z_of(p: float) -> float:
    """Return the z of a one-sided p-value, within what floating point can tell from 0 and 1."""
    if p > 0.5:  # noqa: PLR2004 - the quantiles are of the upper half
        return -_z_of(1 - p)
    return 0.0 if p == 0.5 else normal_quantile(max(p, _tail(_FARTHEST)))  # noqa: PLR2004


def _tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2


def _has_fallen(pairing: Pairing, p: float, *, rules: GateRules, family: int) -> bool:
    """Tell whether a comparison is red at a look, however the others end."""
    margin = pairing.on_scale(rules).margin
    return p * family < rules.alpha and pairing.difference + margin < -pairing.zero


def _is_calm(entry: Tested, share: float, *, beyond: float, rules: GateRules) -> bool:
    """Tell whether the target is ruled out at a look, and nothing points to a fall."""
    pairing, method, found = entry
    limits = limits_of(pairing, method, found, alpha=beyond)
    if limits is None or limits.lower <= -pairing.on_scale(rules).target:
        return False
    return _z_of(found.tails.worse) < (0.0 if share < _HALF else _CALM)
