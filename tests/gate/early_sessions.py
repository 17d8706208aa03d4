"""Sessions that may stop early, built from whole runs and judged by the gate's own functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pytest_llmeval.gate.early_stopping import examined_after, family_size, settled
from pytest_llmeval.gate.family import adjusted_together
from pytest_llmeval.gate.looks import looked
from pytest_llmeval.gate.results import Name
from pytest_llmeval.gate.significance import Examined
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.early_looks import planned_looks
from tests.gate.simulation import Suite

RULES = GateRules()


@dataclass(frozen=True)
class Session:
    """The end of a session with early looks, and of the same session without them.

    Attributes:
        stops: after how many repeats each function stopped.
        red: the functions that regressed; ``red_without`` those after all repeats.
        repeats: that were planned.
    """

    stops: dict[str, int]
    red: frozenset[str]
    red_without: frozenset[str]
    repeats: int

    @property
    def share_of_calls(self) -> float:
        return sum(self.stops.values()) / (self.repeats * len(self.stops))

    def left(self, baseline: Run, run: Run) -> Run:
        """The run as this session leaves it."""
        stops = {case.id: self.stops[case.function] for case in run.cases}
        trials = (trial for trial in run.trials if trial.index < stops[trial.case])
        return replace(run, trials=tuple(trials), looks=self.stops, compared_with=baseline.id)


def session(baseline: Run, run: Run, *, only_calm: bool = False) -> Session:
    """Look at each function after each planned round, as a session does, until it is settled.

    Args:
        baseline: of the session.
        run: with all trials that it may make, as many of each case.
        only_calm: what fell goes on, as it is where falls are confirmed.
    """
    repeats = run.cases[0].repeats
    # as ``is_settled`` does: a second look may be had at twice the level
    family = 0.5 if only_calm else family_size(baseline, run, RULES)
    planned = planned_looks(repeats)
    seen: dict[Name, dict[int, Examined | None]] = {}  # what each look examined
    stops: dict[str, int] = {}
    for at in planned:
        for name, tested in examined_after(baseline, run, RULES, repeats=at).items():
            if name[0] in stops:
                continue
            seen.setdefault(name, {})[at] = tested
            decision = settled(seen[name], planned=planned, rules=RULES, family=family)
            if decision == "calm" or (decision and not only_calm) or at == repeats:
                stops[name[0]] = at
    last = examined_after(baseline, run, RULES, repeats=repeats)
    found = {
        name: looked(looks, planned=planned, alpha=RULES.alpha) for name, looks in seen.items()
    }
    ends = {name: [*looks.values()][-1] for name, looks in seen.items()}
    fell = {name for name, end in ends.items() if end and end.pairing.difference < 0}
    red = _red({name: one.tails for name, one in found.items() if one})
    return Session(
        stops=stops,
        red=red & {name[0] for name in fell},
        red_without=_red({name: one.found.tails for name, one in last.items() if one}),
        repeats=repeats,
    )


def _red(tails: dict[Name, object]) -> frozenset[str]:
    adjusted = adjusted_together(tails, RULES)  # type: ignore[arg-type]
    return frozenset(name[0] for name, one in adjusted.items() if one.worse < RULES.alpha)


@dataclass(frozen=True)
class Tally:
    """What many sessions came to.

    Attributes:
        builds: how many sessions.
        calls: mean share of the planned calls that were made.
        red: share of sessions in which a function regressed; ``red_without`` without early looks.
        lost: share that was red without early looks alone, less the reverse.
    """

    builds: int
    calls: float
    red: float
    red_without: float

    @property
    def lost(self) -> float:
        return self.red_without - self.red

    def __str__(self) -> str:
        return (
            f"{self.builds} sessions: calls {self.calls:.3f}, red {self.red:.4f}, "
            f"without {self.red_without:.4f}"
        )


def tally(suite: Suite, builds: int) -> Tally:
    """Run so many seeded sessions of a suite."""
    return tally_of(session(*suite.build(seed)) for seed in range(builds))


def tally_of(sessions: Iterable[Session]) -> Tally:
    ended = [*sessions]
    return Tally(
        builds=len(ended),
        calls=sum(one.share_of_calls for one in ended) / len(ended),
        red=sum(bool(one.red) for one in ended) / len(ended),
        red_without=sum(bool(one.red_without) for one in ended) / len(ended),
    )
