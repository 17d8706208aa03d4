"""Evals with a known pass rate: the mean that is printed is the true one.

Each kind of eval is run, then run again over the same commit, then without what is kept.
Chance comes from the draws alone, which are seeded: where a bound of three standard errors
holds, it holds in every session.
"""

from __future__ import annotations

from math import sqrt
from statistics import fmean

import pytest

from tests.truth.around import AROUND
from tests.truth.asking import ASKING
from tests.truth.clients import CLIENTS
from tests.truth.ending import ENDING
from tests.truth.habits import HABITS
from tests.truth.kinds import Again, Kind
from tests.truth.late import LATE
from tests.truth.sessions import RatedServer, Session, Sessions

KINDS = [*ASKING, *ENDING, *AROUND, *CLIENTS, *LATE, *HABITS]
AFRESH = [
    ("-n", "2"),
    ("--llm-concurrency=1",),
    ("--llm-concurrency=64",),
    ("-p", "no:randomly", "--llm-cache=off"),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_printed_is_true(
    kind: Kind, pytester: pytest.Pytester, server: RatedServer
) -> None:
    sessions = Sessions(kind, pytester, server)

    first = sessions.run()

    check(first, kind)
    assert first.recorded_calls == first.asked, "calls recorded, calls that reached the model"

    second = sessions.run("--llm-baseline=last")

    assert second.bodies == kind.trials
    assert (second.asked, second.printed_calls) == (0, 0), "calls made again"
    if kind.again is Again.EQUAL:
        assert differing(first, second) == []
        assert second.report["verdict"] == "unchanged", second.output

    sessions.forget_replies()
    afresh = sessions.run(*AFRESH[KINDS.index(kind) % len(AFRESH)])

    check(afresh, kind)
    if kind.is_alike_afresh:
        assert differing(first, afresh) == []
        assert afresh.asked == first.asked


def check(session: Session, kind: Kind) -> None:
    """Compare means, bodies and trials with what is true."""
    assert session.bodies == kind.trials
    assert len(session.run.trials) == kind.trials
    if not kind.has_clients:  # these may send a request again before it reaches the server
        assert session.printed_calls == session.asked
    for metric, rate in kind.rates.items():
        cases = session.values(metric).values()
        scored = sum(map(len, cases))
        assert scored == kind.trials if kind.is_scored_throughout else 0 < scored < kind.trials
        mean = fmean(map(fmean, cases))
        printed = session.means[metric]
        assert printed == pytest.approx(mean, abs=0.0006), "what is printed, and the run file"
        assert session.reported_means[metric] == pytest.approx(mean), "the report, and the run file"
        spread = sqrt(rate * (1 - rate)) if kind.spread is None else kind.spread
        error = spread * sqrt(sum(1 / len(case) for case in cases)) / len(cases)
        assert abs(mean - rate) <= kind.errors * error, (
            f"{metric}: {mean:.3f}, but {rate:.3f} is true"
        )


def differing(first: Session, other: Session) -> list[str]:
    """List the trials that ended in another way in another session."""
    assert first.outcomes.keys() == other.outcomes.keys()
    return [
        f"{case} trial {index}: {outcome} -> {other.outcomes[case, index]}"
        for (case, index), outcome in first.outcomes.items()
        if outcome != other.outcomes[case, index]
    ]
