"""Quantiles and tails in plain Python, for figures that are shown without a comparison.

So a session that compares nothing needs neither numpy nor scipy, whose import takes longer than
everything else at its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

PRECISION = 1e-9  # of the last step, which squares the error: 1e-15 is left
LARGE = 100.0  # from here on Stirling's series is exact, and math.gamma soon overflows


@lru_cache(maxsize=64)
def normal_quantile(alpha: float) -> float:
    """Return the value that a standard normal variable exceeds with a chance of alpha.

    Args:
        alpha: in (0, 0.5).
    """
    return _root(lambda z: (normal_tail(z) - alpha) / _normal_density(z), start=0.0)


@lru_cache(maxsize=256)
def student_quantile(dof: float, alpha: float) -> float:
    """Return the value that Student's t exceeds with a chance of alpha.

    Args:
        dof: degrees of freedom, >= 1, whole or not.
        alpha: in (0, 0.5).

    Source:
        The tail is half an incomplete beta function, of dof/2 and 1/2 at dof/(dof + t^2), or what
        its symmetry makes of it (DLMF 8.17.4). Same as -scipy.special.stdtrit(dof, alpha).
    """
    peak = _ratio_of_gammas(dof / 2) / math.sqrt(math.pi * dof)

    def step(t: float) -> float:
        square = t * t
        density = peak * math.exp(-(dof + 1) / 2 * math.log1p(square / dof))
        if square > 3:  # noqa: PLR2004 - on its side of it each fraction converges fast
            tail = density * t / dof * _beta_fraction(dof / 2, 0.5, dof / (dof + square))
        else:
            tail = 0.5 - density * t * _beta_fraction(0.5, dof / 2, square / (dof + square))
        return (tail - alpha) / density

    return _root(step, start=normal_quantile(alpha))


def chi_square_tail(dof: int, value: float) -> float:
    """Return the chance of a chi-square above a value.

    Args:
        dof: degrees of freedom, >= 1.
        value: >= 0.

    Source:
        Q(dof/2, value/2), from Q(1/2, x) = erfc(sqrt(x)) or Q(1, x) = exp(-x) on by
        Q(a + 1, x) = Q(a, x) + x^a exp(-x) / gamma(a + 1). Same as scipy.special.chdtrc.
    """
    half = value / 2
    if half == 0:
        return 1.0
    order, tail = (0.5, math.erfc(math.sqrt(half))) if dof % 2 else (1.0, math.exp(-half))
    for _ in range((dof - 1) // 2):
        tail += math.exp(order * math.log(half) - half - math.lgamma(order + 1))
        order += 1
    return min(1.0, tail)


def normal_tail(z: float) -> float:
    """Return the chance that a standard normal variate lies above z."""
    return math.erfc(z / math.sqrt(2)) / 2


def _normal_density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _root(step: Callable[[float], float], *, start: float) -> float:
    """Find where a tail has a given chance, by Newton's method from below.

    Above 0 these tails are convex, so no step goes past the root.

    Args:
        step: what Newton's method adds to a value.
        start: >= 0, not beyond the root.
    """
    value, added = start, math.inf
    while added > PRECISION * max(value, PRECISION):
        added = step(value)
        value += added
    return value


def root_between(
    function: Callable[[float], float], low: float, high: float, *, tolerance: float = 1e-12
) -> float:
    """Find where a continuous function is 0, by regula falsi; an end that stays weighs half.

    Args:
        function: its signs at the two ends differ.
        low: an end.
        high: the other one.
        tolerance: of the root.
    """
    (stays, height), (found, at_found) = ((end, function(end)) for end in (low, high))
    while abs(found - stays) > tolerance and at_found:
        nearer = found - at_found * (found - stays) / (at_found - height)
        at_nearer = function(nearer)
        if at_nearer * at_found < 0:
            stays, height = found, at_found
        else:
            height /= 2
        found, at_found = nearer, at_nearer
    return found


def _ratio_of_gammas(a: float) -> float:
    """Return gamma(a + 1/2) / gamma(a).

    Source:
        Stirling's series, DLMF 5.11.1, for large values: the difference of two logarithms of
        gamma would lose as many digits as they have before the point.
    """
    if a < LARGE:
        return math.gamma(a + 0.5) / math.gamma(a)
    rest = [1 / (12 * x) - 1 / (360 * x**3) for x in (a + 0.5, a)]
    return math.sqrt(a) * math.exp(a * math.log1p(0.5 / a) - 0.5 + rest[0] - rest[1])


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method.

    Args:
        a: > 0.
        b: > 0.
        x: in [0, 1], not far above (a + 1) / (a + b + 2).

    Source:
        Press et al., Numerical Recipes in C (2nd ed.), equation 6.4.5.
    """
    above, below, change, m = 1.0, 1 / (1 - (a + b) * x / (a + 1)), math.inf, 0
    value = below
    while abs(change - 1) > 1e-15:  # noqa: PLR2004 - no double says more
        m += 1
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            above, below = 1 + term / above, 1 / (1 + term * below)
            change = above * below
            value *= change
    return value
