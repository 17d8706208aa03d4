"""One-sided p-values, and the result that every test gives."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import special


@dataclass(frozen=True, slots=True, kw_only=True)
class Tails:
    """One-sided p-values of a statistic: as low as seen or lower, as high or higher."""

    worse: float
    better: float


# the p-values of a test that found nothing at all to judge by: neither direction is shown
NOTHING_SHOWN = Tails(worse=1.0, better=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignificanceResult:
    """The result of a test of the current run against the baseline.

    Attributes:
        tails: the p-values, each in [0, 1].
        statistic: t, z, or the total of a permutation test, negative is worse; chi-square
            for the tests that are named so. None where nothing varies, so that no t exists:
            the p-values are then those of so many like signs (``same-shift``).
        dof: degrees of freedom of the statistic; None where it has none.
        standard_error: of the mean difference, by the paired and the crossed test; 0 where
            nothing varies.
        interval: of the mean difference, two-sided, level 1 - 2 alpha, by the paired and the
            crossed test; None where nothing varies.
    """

    tails: Tails
    statistic: float | None = None
    dof: float | None = None
    standard_error: float = 0.0
    interval: tuple[float, float] | None = None


def student_tails(t: float, dof: float) -> Tails:
    """Return the one-sided p-values of a t, negative is worse.

    Args:
        t: finite.
        dof: degrees of freedom, > 0, whole or not.
    """
    return Tails(worse=float(special.stdtr(dof, t)), better=float(special.stdtr(dof, -t)))


def student_interval(mean: float, error: float, *, dof: float, alpha: float) -> tuple[float, float]:
    """Return the t interval of a mean, two-sided, level 1 - 2 alpha.

    Args:
        mean: finite.
        error: its standard error, > 0.
        dof: degrees of freedom, > 0, whole or not.
        alpha: what may lie beyond each end, in (0, 0.5).
    """
    half = float(special.stdtrit(dof, 1 - alpha)) * error
    return mean - half, mean + half


def normal_tails(z: float) -> Tails:
    """Return the one-sided p-values of a standard normal z, negative is worse."""
    return Tails(worse=float(special.ndtr(z)), better=float(special.ndtr(-z)))


def tails_without_spread(difference: float, *, negligible: float, least: float) -> Tails:
    """Return the one-sided p-values where every value moved alike, so that no t exists.

    Args:
        difference: of the means, negative is worse.
        negligible: up to which size a difference counts as none, >= 0.
        least: the p-value of the direction that was seen, in (0, 1).
    """
    return Tails(
        worse=least if difference < -negligible else 1.0,
        better=least if difference > negligible else 1.0,
    )
