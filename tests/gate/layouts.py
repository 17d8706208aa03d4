"""Layouts and rates of simulated builds: which cases ask what, and how well it is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.gate.simulation import NEW, OLD, Layout, Rates
from tests.stats.ab_post import RATES, SHARES

Mix = Callable[[np.random.Generator, int], NDArray[np.float64]]


def asked_anew(cases: int, *, changed: int | None = None) -> Layout:
    """The first cases ask a new request, or all do; the others replay the baseline's draws."""
    changed = cases if changed is None else changed
    return Layout(
        baseline=[((OLD, at),) for at in range(cases)],
        current=[((NEW if at < changed else OLD, at),) for at in range(cases)],
    )


def sharing(sizes: Sequence[int]) -> Layout:
    """The cases of a group all ask the very same request: one draw, one luck."""
    topics = np.repeat(np.arange(len(sizes)), sizes).tolist()
    return Layout(
        baseline=[((OLD, topic),) for topic in topics],
        current=[((NEW, topic),) for topic in topics],
    )


def one_of_each_pair_replayed(pairs: int) -> Layout:
    """Two cases shared a draw; here one of them asks anew and the other replays it."""
    return Layout(
        baseline=[((OLD, pair),) for pair in range(pairs) for _ in range(2)],
        current=[((wording, pair),) for pair in range(pairs) for wording in (NEW, OLD)],
    )


def sharing_first_calls(groups: int, size: int, *, replayed: bool) -> Layout:
    """The cases of a group begin with the same call, and go on with one of their own."""
    own = [(group, groups + group * size + at) for group in range(groups) for at in range(size)]
    first = OLD if replayed else NEW
    return Layout(
        baseline=[((OLD, shared), (OLD, topic)) for shared, topic in own],
        current=[((first, shared), (NEW, topic)) for shared, topic in own],
    )


def in_clusters(clusters: int, size: int) -> Layout:
    """Cases that were made from the same document, and say so."""
    cases = clusters * size
    labels = [f"document {at // size}" for at in range(cases)]
    plain = asked_anew(cases)
    return Layout(baseline=plain.baseline, current=plain.current, clusters=labels)


def everywhere(rate: float) -> Rates:
    """Every wording of every topic is answered equally well."""
    return lambda _, topics: np.full((2, topics), rate)


def constant(rate: float) -> Mix:
    """Every topic is equally hard."""
    return lambda _, topics: np.full(topics, rate)


def ab_post(random: np.random.Generator, topics: int) -> NDArray[np.float64]:
    """Hard, open and easy cases in the proportions of the A/B post."""
    return random.choice(RATES, p=SHARES, size=topics)


def ceiling(random: np.random.Generator, topics: int) -> NDArray[np.float64]:
    """Half of the cases never fail, a tenth always do, the rest lie anywhere between."""
    of_kinds = [np.ones(topics), np.zeros(topics), random.beta(1.5, 1, topics)]
    return np.choose(random.choice(3, p=[0.5, 0.1, 0.4], size=topics), of_kinds)


def alike(mix: Mix) -> Rates:
    """Cases are unlike, but nothing happened to any of them."""
    return lambda random, topics: np.tile(mix(random, topics), (2, 1))


def unlike(mix: Mix, shift: float = 0.1) -> Rates:
    """Some cases gained and some lost, by chance, so that such cases did not change on average.

    Args:
        mix: gives rates from ``shift`` to 1 - ``shift``.
        shift: by how much.
    """

    def rates(random: np.random.Generator, topics: int) -> NDArray[np.float64]:
        before = mix(random, topics)
        return np.stack([before, before + random.choice([-shift, shift], size=topics)])

    return rates


def documents_move(size: int) -> Rates:
    """Each document got better or worse by chance, and its cases with it."""

    def rates(random: np.random.Generator, topics: int) -> NDArray[np.float64]:
        shifts = np.repeat(random.normal(0, 0.15, topics // size), size)
        return np.stack([np.full(topics, 0.6), 0.6 + shifts])

    return rates


def fallen(mix: Mix, factor: float) -> Rates:
    """Every case lost the same part of its rate."""

    def rates(random: np.random.Generator, topics: int) -> NDArray[np.float64]:
        before = mix(random, topics)
        return np.stack([before, before * (1 - factor)])

    return rates


def gained(mix: Mix, by: float) -> Rates:
    """Every case gained as much, as far as it can."""

    def rates(random: np.random.Generator, topics: int) -> NDArray[np.float64]:
        before = mix(random, topics)
        return np.stack([before, np.minimum(before + by, 1.0)])

    return rates
