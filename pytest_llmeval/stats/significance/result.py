"""What every test gives, so that any of them can take the place of another."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import special


@dataclass(frozen=True, slots=True, kw_only=True)
class Tails:
    """One-sided p-values of a total: as low as seen or lower, as high or higher."""

    worse: float
    better: float


# a test that found nothing at all to judge by: neither direction is shown
NOTHING_SHOWN = Tails(worse=1.0, better=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignificanceResult:
    """The result of a test of this run against the baseline.

    Attributes:
        method: the name of the test, or of the written answer that took its place where
            there is no spread at all (``same-shift``).
        statistic: t, z, or the total of a permutation test, negative is worse; chi-square
            for the tests that are named so. None where there is none.
        dof: its degrees of freedom; None where it has none.
        p_worse: one-sided, for a drop, in [0, 1].
        p_improved: one-sided, for an improvement, in [0, 1].
        p_two_sided: for any difference, in [0, 1].
        effect: the difference that is tested, in units of the score, negative is worse;
            for a test on the log scale the ratio here / baseline, 1 for none.
        interval: of the effect, two-sided, level 1 - 2 alpha; None if the test has none.
    """

    method: str
    statistic: float | None
    dof: float | None
    p_worse: float
    p_improved: float
    p_two_sided: float
    effect: float
    interval: tuple[float, float] | None


def student_tails(t: float, dof: float) -> Tails:
    """Return the one-sided p-values of a t, negative is worse.

    Args:
        t: finite.
        dof: degrees of freedom, > 0, whole or not.
    """
    return Tails(worse=float(special.stdtr(dof, t)), better=float(special.stdtr(dof, -t)))


def normal_tails(z: float) -> Tails:
    """Return the one-sided p-values of a standard normal z, negative is worse."""
    return Tails(worse=float(special.ndtr(z)), better=float(special.ndtr(-z)))


def two_sided(tails: Tails) -> float:
    """Return the p-value of either direction: twice the smaller tail, at most 1."""
    return min(1.0, 2 * min(tails.worse, tails.better))
