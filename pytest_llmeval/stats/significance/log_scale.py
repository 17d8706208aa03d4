"""Positive metrics without a bound (seconds, tokens, cost), compared by their ratio."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_llmeval.stats.significance.exact import CaseScores
from pytest_llmeval.stats.significance.paired import PairedTest, paired_test


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioTest:
    """The result of ``log_ratio_test``.

    Attributes:
        ratio: here / baseline, the geometric mean over cases, > 0; 1 is no change.
        interval: of the ratio, level 1 - 2 alpha; None without spread.
        test: the paired test of the log ratios, sign turned where lower is better.
    """

    ratio: float
    interval: tuple[float, float] | None
    test: PairedTest


def log_ratio_test(
    cases: Sequence[CaseScores],
    units: Sequence[int] | None = None,
    *,
    sign: int = 1,
    alpha: float = 0.05,
) -> RatioTest:
    """Test the ratio of a positive metric by the paired t-test on logarithms.

    Logarithms are taken trial by trial and averaged inside each case, so that an unlike
    number of repeats on the two sides does not look like a change.

    Args:
        cases: scores > 0, at least one case.
        units: the unit of each case; a case each if not given.
        sign: 1 where higher is better, -1 where lower is.
        alpha: what may lie beyond each end of the interval, in (0, 0.5).

    Source:
        Student's paired t-test on log ratios. Measured: false alarms .048 to .052, and
        power .763 against .466 of the raw scale (docs/statistics.md).
    """
    logs = [
        CaseScores(there=tuple(map(math.log, case.there)), here=tuple(map(math.log, case.here)))
        for case in cases
    ]
    found = paired_test([case.difference(sign) for case in logs], units, alpha=alpha)
    ratio = math.exp(math.fsum(case.difference(1) for case in logs) / len(logs))
    if found.interval is None:
        return RatioTest(ratio=ratio, interval=None, test=found)
    low, high = sorted(math.exp(sign * end) for end in found.interval)
    return RatioTest(ratio=ratio, interval=(low, high), test=found)
