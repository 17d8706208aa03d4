"""Every test of this package behind one door: the scores of both sides in, a result out.

``TESTS[name].why_not(sample)`` tells whether a test fits the data, and
``TESTS[name].run(sample)`` runs it. What each is worth is in docs/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from pytest_llmeval.stats.significance.exact import exact_within_case, sign_flip
from pytest_llmeval.stats.significance.fitness import (
    fits,
    needs_binary,
    needs_independent_cases,
    needs_positive,
    needs_single_draws,
    needs_units,
    needs_whole_repeats,
)
from pytest_llmeval.stats.significance.paired import log_ratio_test, paired_test, unit_sums
from pytest_llmeval.stats.significance.repeats import in_step, welch
from pytest_llmeval.stats.significance.result import SignificanceResult, Tails, two_sided
from pytest_llmeval.stats.significance.sample import CaseScores, Sample
from pytest_llmeval.stats.significance.tables import (
    CountTest,
    Table,
    chi_square,
    cochran_mantel_haenszel,
    mcnemar,
    mcnemar_exact,
    two_proportion_z,
)

Check = Callable[[Sample], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A test that can be chosen.

    Attributes:
        asks: what it asks, and when the answer is valid.
        for_gate: whether its false alarms stay at the level where cases change unlike each
            other; "few units" for a test that speaks of these very cases only, to be
            used where a t-test has too few units.
        takes_margin: whether it can test for a drop of more than a margin.
        needs: what it asks of the data, checked in turn.
        test: the test, for data that fit.
    """

    asks: str
    for_gate: Literal["yes", "few units", "no"]
    takes_margin: bool = False
    needs: tuple[Check, ...]
    test: Callable[[Sample], SignificanceResult]

    def why_not(self, sample: Sample) -> str:
        """Return in one plain sentence why the test does not fit the data, "" if it does."""
        if sample.margin and not self.takes_margin:
            return "it tests for any drop and takes no margin: leave the margin out"
        checks = (check(sample) for check in (fits, *self.needs))
        return next((why for why in checks if why), "")

    def run(self, sample: Sample) -> SignificanceResult:
        """Run the test.

        Raises:
            ValueError: it does not fit the data; the message is that of ``why_not``.
        """
        why = self.why_not(sample)
        if why:
            raise ValueError(why)
        return self.test(sample)


def _paired_t(sample: Sample) -> SignificanceResult:
    differences = sample.differences
    found = paired_test(differences, sample.units, margin=sample.margin, alpha=sample.alpha)
    return _result(
        found.method,
        Tails(worse=found.p_worse, better=found.p_better),
        statistic=found.t,
        dof=found.dof,
        effect=math.fsum(differences) / len(differences),
        interval=found.interval,
    )


def _exact_within_case(sample: Sample) -> SignificanceResult:
    tails = exact_within_case(sample.cases, sign=sample.sign)
    total = math.fsum(sample.differences)
    return _result("exact-within-case", tails, statistic=total, effect=total / len(sample.cases))


def _sign_flip(sample: Sample) -> SignificanceResult:
    differences = sample.differences
    tails = sign_flip(unit_sums(differences, sample.units))
    total = math.fsum(differences)
    return _result("sign-flip", tails, statistic=total, effect=total / len(differences))


def _log_ratio(sample: Sample) -> SignificanceResult:
    found = log_ratio_test(sample.cases, sample.units, sign=sample.sign, alpha=sample.alpha)
    return _result(
        "log-ratio" if found.interval else "same-shift",
        Tails(worse=found.test.p_worse, better=found.test.p_better),
        statistic=found.test.t,
        dof=found.test.dof,
        effect=found.ratio,
        interval=found.interval,
    )


def _welch(sample: Sample) -> SignificanceResult:
    means = [in_step(side).mean(axis=0) * sample.sign for side in sample.sides]
    found = welch(*means, alpha=sample.alpha)
    return _result(
        "welch" if found.interval else "same-shift",
        found.tails,
        statistic=found.t,
        dof=found.dof,
        effect=found.difference,
        interval=found.interval,
    )


def _on_counts(
    name: str, count: Callable[[Sequence[CaseScores]], CountTest], *, dof: int | None = 1
) -> Callable[[Sample], SignificanceResult]:
    """Make a test on counts of hits a test of a sample: what is worse depends on the sign."""

    def test(sample: Sample) -> SignificanceResult:
        found = count(sample.cases)
        turned = Tails(worse=found.tails.better, better=found.tails.worse)
        return _result(
            name,
            found.tails if sample.sign > 0 else turned,
            statistic=found.statistic if dof else sample.sign * found.statistic,
            dof=dof,
            effect=_effect_on_counts(name, sample),
        )

    return test


def _effect_on_counts(name: str, sample: Sample) -> float:
    if name in {"chi-square", "chi-square-plain", "two-proportion-z"}:
        return sample.sign * _pooled(sample.cases).difference
    return sample.effect


def _exact_mcnemar(name: str, *, mid: bool) -> Callable[[Sample], SignificanceResult]:
    def test(sample: Sample) -> SignificanceResult:
        fell, rose = _moved(sample.cases)
        if sample.sign < 0:
            fell, rose = rose, fell
        tails = mcnemar_exact(fell, rose, mid=mid)
        return _result(name, tails, statistic=float(rose - fell), effect=sample.effect)

    return test


def _moved(cases: Sequence[CaseScores]) -> tuple[int, int]:
    """Count the single draws that fell and those that rose."""
    differences = [case.difference(1) for case in cases]
    return differences.count(-1.0), differences.count(1.0)


def _table(case: CaseScores) -> Table:
    return Table(
        baseline_hits=int(sum(case.baseline)),
        baseline_trials=len(case.baseline),
        current_hits=int(sum(case.current)),
        current_trials=len(case.current),
    )


def _pooled(cases: Sequence[CaseScores]) -> Table:
    baseline = [score for case in cases for score in case.baseline]
    current = [score for case in cases for score in case.current]
    return _table(CaseScores(baseline=tuple(baseline), current=tuple(current)))


def _result(
    method: str,
    tails: Tails,
    *,
    statistic: float | None,
    effect: float,
    dof: float | None = None,
    interval: tuple[float, float] | None = None,
) -> SignificanceResult:
    return SignificanceResult(
        method=method,
        statistic=statistic,
        dof=dof,
        p_worse=tails.worse,
        p_improved=tails.better,
        p_two_sided=two_sided(tails),
        effect=effect,
        interval=interval,
    )


_PAIRS = (needs_binary, needs_single_draws, needs_independent_cases)
_COUNTS = (needs_binary, needs_independent_cases)

TESTS: Mapping[str, Method] = MappingProxyType(
    {
        "paired-t": Method(
            asks="Did cases like these fall on average? Valid from 2 independent units, useful "
            "from 6; cluster-robust where cases come in units.",
            for_gate="yes",
            takes_margin=True,
            needs=(needs_units,),
            test=_paired_t,
        ),
        "exact-within-case": Method(
            asks="Did these very cases fall? Exact at any number of cases, and blind to what "
            "others like them would do.",
            for_gate="few units",
            needs=(needs_independent_cases,),
            test=_exact_within_case,
        ),
        "sign-flip": Method(
            asks="Did more and larger units fall than rose? Exact where chance is symmetric: "
            "as many trials here as in the baseline.",
            for_gate="yes",
            needs=(),
            test=_sign_flip,
        ),
        "log-ratio": Method(
            asks="By which factor did a positive metric without a bound change (seconds, tokens, "
            "cost)?",
            for_gate="yes",
            needs=(needs_positive, needs_units),
            test=_log_ratio,
        ),
        "mcnemar": Method(
            asks="Did more single draws fall than rise? Corrected chi-square, one draw a case.",
            for_gate="yes",
            needs=_PAIRS,
            test=_on_counts("mcnemar", lambda cases: mcnemar(*_moved(cases))),
        ),
        "mcnemar-exact": Method(
            asks="Did more single draws fall than rise? Binomial, one draw a case.",
            for_gate="yes",
            needs=_PAIRS,
            test=_exact_mcnemar("mcnemar-exact", mid=False),
        ),
        "mcnemar-mid-p": Method(
            asks="The same, what was seen counted by half: less conservative.",
            for_gate="yes",
            needs=_PAIRS,
            test=_exact_mcnemar("mcnemar-mid-p", mid=True),
        ),
        "welch": Method(
            asks="Do whole repeats of these very cases differ? Blind to effects that differ "
            "from case to case.",
            for_gate="no",
            needs=(needs_whole_repeats,),
            test=_welch,
        ),
        "cmh": Method(
            asks="Did the odds of these very cases shift, case by case? Blind to effects that "
            "differ from case to case.",
            for_gate="no",
            needs=_COUNTS,
            test=_on_counts("cmh", lambda cases: cochran_mantel_haenszel(map(_table, cases))),
        ),
        "chi-square": Method(
            asks="Do two unpaired tables of hits differ? With Yates' correction.",
            for_gate="no",
            needs=_COUNTS,
            test=_on_counts("chi-square", lambda cases: chi_square(_pooled(cases))),
        ),
        "chi-square-plain": Method(
            asks="Do two unpaired tables of hits differ? Without a correction.",
            for_gate="no",
            needs=_COUNTS,
            test=_on_counts(
                "chi-square-plain", lambda cases: chi_square(_pooled(cases), corrected=False)
            ),
        ),
        "two-proportion-z": Method(
            asks="Do two unpaired rates differ? The root of the plain chi-square.",
            for_gate="no",
            needs=_COUNTS,
            test=_on_counts(
                "two-proportion-z", lambda cases: two_proportion_z(_pooled(cases)), dof=None
            ),
        ),
    }
)
