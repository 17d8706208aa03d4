"""What would settle a comparison that was left inconclusive: more cases, or more repeats.

One number, decided once: repeating the look until it pleases adds false alarms.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pytest_llmeval.gate.drops import Sensitivity, dof_of
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.planning.power import fewest

MOST_TIMES_THE_CASES = 100
MOST_REPEATS = 1000


def settling_cases(
    seen: Sensitivity, *, cases: int, difference: float, rules: GateRules
) -> int | None:
    """Return about how many more cases would settle it, None if that is no remedy.

    The further cases are thought to be like those at hand, as many of them changed.

    Args:
        seen: what the comparison could catch as it was.
        cases: how many it had.
        difference: the suite effect, thought to stay as it is.
        rules: level, margin and target.
    """

    def settles(number: int) -> bool:
        grown = _with_cases(seen, times=number / cases)
        return _would_settle(grown, difference=difference, rules=rules)

    number = fewest(settles, above=cases, limit=MOST_TIMES_THE_CASES * cases)
    return None if number is None else number - cases


def settling_repeats(seen: Sensitivity, *, difference: float, rules: GateRules) -> int | None:
    """Return about how many repeats a case would settle it, None if that is no remedy.

    On both sides: more repeats here than the baseline has are not used.

    Args:
        seen: what the comparison could catch as it was.
        difference: the suite effect, thought to stay as it is.
        rules: level, margin and target.
    """

    def settles(number: int) -> bool:
        grown = _with_repeats(seen, number)
        return _would_settle(grown, difference=difference, rules=rules)

    return fewest(settles, above=int(np.max(seen.plan.current)), limit=MOST_REPEATS)


def _would_settle(grown: Sensitivity, *, difference: float, rules: GateRules) -> bool:
    """Tell whether the target would be caught, and this difference be judged either way."""
    drop = grown.smallest_drop()
    if drop is None or rules.margin + drop > rules.target:
        return False
    if grown.standard_error is None:
        return True
    reach = grown.plan.quantiles[0] * grown.standard_error
    return max(rules.target + difference, -difference - rules.margin) > reach


def _with_cases(seen: Sensitivity, *, times: float) -> Sensitivity:
    error = seen.standard_error
    units = int(seen.whole_units * times)
    dof = dof_of(units)
    return replace(
        seen,
        whole_units=units,
        standard_error=None if error is None else error / math.sqrt(times),
        dof=dof,
        plan=replace(seen.plan, copies=times, dof=dof),
    )


def _with_repeats(seen: Sensitivity, repeats: int) -> Sensitivity:
    plan = replace(
        seen.plan,
        baseline=np.maximum(seen.plan.baseline, repeats),
        current=np.maximum(seen.plan.current, repeats),
    )
    error = seen.standard_error
    if error is not None:
        between = error**2 - _within(seen)
        error = math.sqrt(max(0.0, between) + _within(replace(seen, plan=plan)))
    return replace(seen, plan=plan, standard_error=error)


def _within(seen: Sensitivity) -> float:
    """Return what the chance of single trials adds to the squared standard error."""
    plan = seen.plan
    per_case = (seen.variance or 0.0) * float(np.mean(1 / plan.baseline + 1 / plan.current))
    return seen.share**2 * per_case / len(plan.baseline)
