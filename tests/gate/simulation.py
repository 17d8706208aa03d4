"""Builds in which nothing happened, or a known drop did, as whole runs for the real gate.

A build is drawn from a ``Layout``: which requests the trials of each case make on either
side. A request is about a topic, in its old or its new wording, and each wording of each
topic has a rate at which replies are right; a trial passes if all of its replies are.
Whoever asks the same request in the same trial gets the same draw, be it another case or
the other run: so replays and shared draws need no words of their own.

>>> rewritten = Layout(baseline=[((OLD, 0),), ((OLD, 1),)], current=[((NEW, 0),), ((OLD, 1),)])

Replies are two labels, so that their digests collide all the time: deciding by texts what
is a replay raised false alarms from .05 to .93.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Comparison
from pytest_llmeval.records import Call, Case, Outcome, Run, Slot, Trial
from pytest_llmeval.settings import GateRules
from tests.gate.builders import a_run, digest

LABEL = {True: digest("yes"), False: digest("no")}
BATCH = 500

OLD, NEW = 0, 1

# draws the rate of each wording, shape (2, topics)
Rates = Callable[[np.random.Generator, int], NDArray[np.float64]]
Request = tuple[int, int]
Requests = tuple[Request, ...]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Who asks what.

    Attributes:
        baseline: the requests that a trial of each case makes in the baseline.
        current: likewise, in the run that is judged.
        clusters: the label of each case; none if not given.
    """

    baseline: Sequence[Requests]
    current: Sequence[Requests]
    clusters: Sequence[str | None] = ()

    @property
    def topics(self) -> int:
        """How many topics there are; they count from 0."""
        return 1 + max(topic for asked in (*self.baseline, *self.current) for _, topic in asked)


@dataclass(frozen=True, kw_only=True)
class Share:
    """How often something was the case.

    Attributes:
        found: in so many builds, of ``builds``.
    """

    found: int
    builds: int

    @property
    def value(self) -> float:
        return self.found / self.builds

    @property
    def error(self) -> float:
        """The standard error of the simulation; never 0, not even after no find at all."""
        shrunk = (self.found + 1) / (self.builds + 2)
        return math.sqrt(shrunk * (1 - shrunk) / self.builds)

    def is_beyond(self, bound: float) -> bool:
        """Tell whether two standard errors lie between the share and the bound."""
        return abs(self.value - bound) > 2 * self.error

    def __str__(self) -> str:
        return f"{self.value:.3f} +- {self.error:.3f} ({self.builds} builds)"


class Side:
    """One run of a function: every trial that may come out, made once."""

    def __init__(
        self,
        function: str,
        requests: Sequence[Requests],
        clusters: Sequence[str | None],
        *,
        repeats: int,
    ) -> None:
        self._wordings, self._topics = np.moveaxis(np.array(requests), 2, 0)
        self._repeats = repeats
        self.cases = tuple(
            Case(id=f"{function}[{number}]", function=function, repeats=repeats, cluster=cluster)
            for number, cluster in enumerate(clusters or [None] * len(requests))
        )
        self._either_way = [
            tuple(_trial(case, index, asked, hit=hit) for hit in (False, True))
            for case, asked in zip(self.cases, requests, strict=True)
            for index in range(repeats)
        ]

    def trials(self, right: NDArray[np.bool_]) -> tuple[Trial, ...]:
        """Return what comes out of these draws, shape (2, topics, draws)."""
        replies = right[self._wordings, self._topics, : self._repeats]
        hits = replies.all(axis=1).ravel().tolist()
        return tuple([way[hit] for way, hit in zip(self._either_way, hits, strict=True)])


class Function:
    """A test function that is run twice.

    Args:
        layout: who asks what.
        rates: of right replies, drawn for each build.
        repeats: in the baseline and in the run that is judged.
        name: of the function.
    """

    def __init__(
        self, layout: Layout, rates: Rates, *, repeats: tuple[int, int], name: str = "test_f"
    ) -> None:
        id_ = f"test_suite.py::{name}"
        self.baseline = Side(id_, layout.baseline, layout.clusters, repeats=repeats[0])
        self.current = Side(id_, layout.current, layout.clusters, repeats=repeats[1])
        self._rates, self._topics, self._draws = rates, layout.topics, max(repeats)

    def draw(self, random: np.random.Generator) -> NDArray[np.bool_]:
        """Draw which replies are right, shape (2, topics, draws)."""
        rates = self._rates(random, self._topics)
        right: NDArray[np.bool_] = random.random((*rates.shape, self._draws)) < rates[..., None]
        return right


class Suite:
    """Some functions that are judged together, build after build."""

    def __init__(self, *functions: Function) -> None:
        self._functions = functions
        self._baseline = _run(function.baseline for function in functions)
        self._current = _run(function.current for function in functions)

    def comparison(self, seed: int) -> Comparison:
        """Draw a build and judge it as it would be judged by default."""
        return compare(*self.build(seed), GateRules())

    def build(self, seed: int) -> tuple[Run, Run]:
        """Draw a build: the baseline, and the run that is judged."""
        return self.built(self.draw(seed))

    def draw(self, seed: int) -> Sequence[NDArray[np.bool_]]:
        """Draw which replies of each function are right."""
        random = np.random.default_rng(seed)
        return [one.draw(random) for one in self._functions]

    def built(self, right: Sequence[NDArray[np.bool_]]) -> tuple[Run, Run]:
        """Return the build that comes out of these draws."""
        both = [*zip(self._functions, right, strict=True)]
        baseline = itertools.chain(*(one.baseline.trials(draws) for one, draws in both))
        current = itertools.chain(*(one.current.trials(draws) for one, draws in both))
        return (
            dataclasses.replace(self._baseline, trials=tuple(baseline)),
            dataclasses.replace(self._current, trials=tuple(current)),
        )

    def share(
        self,
        is_so: Callable[[Comparison], bool],
        *,
        builds: int,
        bounds: Sequence[float] = (),
        most: int = 0,
    ) -> Share:
        """Count over seeded builds.

        Args:
            is_so: what to count.
            builds: how many builds at least.
            bounds: builds are added until each of these is two standard errors away.
            most: but no more than these.
        """
        share = self._share_of(is_so, range(builds))
        while share.builds < most and not all(map(share.is_beyond, bounds)):
            more = self._share_of(is_so, range(share.builds, share.builds + BATCH))
            share = Share(found=share.found + more.found, builds=share.builds + more.builds)
        return share

    def _share_of(self, is_so: Callable[[Comparison], bool], seeds: range) -> Share:
        found = sum(is_so(self.comparison(seed)) for seed in seeds)
        return Share(found=found, builds=len(seeds))


def _run(sides: Iterable[Side]) -> Run:
    return dataclasses.replace(a_run(), cases=tuple(case for side in sides for case in side.cases))


def _trial(case: Case, index: int, asked: Requests, *, hit: bool) -> Trial:
    """Make a trial; the reply to its last request reads right or wrong, as it came out."""
    keys = [f"wording {wording} of topic {topic}" for wording, topic in asked]
    replies = [digest(f"{key}/{index}") for key in keys[:-1]] + [LABEL[hit]]
    calls = tuple(
        Call(key=key, slot=Slot(index, 0), draw=f"{key}/{index}", reply_sha256=reply)
        for key, reply in zip(keys, replies, strict=True)
    )
    outcome = Outcome.PASSED if hit else Outcome.MISSED
    return Trial(
        case=case.id, index=index, outcome=outcome, scores={"pass": float(hit)}, calls=calls
    )
