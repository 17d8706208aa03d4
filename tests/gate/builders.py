"""Short ways to write down runs.

>>> baseline = a_run(a_case("Peru", "ppp"), a_case("Lima", "ppm"))
>>> branch = a_run(a_case("Peru", "ppp"), a_case("Lima", "mmm", request="v2"))

Each letter is a trial: passed, missed, crashed, errored, skipped. Unless told otherwise
a trial makes one call; two runs hold the same draws of a request if neither ``request``
nor ``draws`` differs.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from unittest.mock import patch

from pytest_llmeval.errors import Lost
from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Comparison, FunctionComparison
from pytest_llmeval.records import Better, Call, Case, Outcome, Run, Slot, Trial
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.settings import GateRules

FILE = "test_suite.py"
OUTCOMES = {outcome.value[0]: outcome for outcome in Outcome}

CallsOfTrial = Callable[[int], Iterable[Call]]


@dataclasses.dataclass(frozen=True)
class CaseAndTrials:
    """One case with all of its trials."""

    case: Case
    trials: tuple[Trial, ...]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def a_call(
    key: str,
    draw: str | None,
    *,
    trial: int | None = 0,
    occurrence: int = 0,
    reply: str | None = None,
) -> Call:
    """A call; ``trial=None`` is a shared one, ``draw=None`` one that got no reply."""
    if draw is None:
        slot = Slot(trial, occurrence)
        return Call(key=key, slot=slot, draw=None, lost=Lost.TIMEOUT, lost_for=("600",))
    sha = digest(f"reply to {draw}" if reply is None else reply)
    return Call(key=key, slot=Slot(trial, occurrence), draw=draw, reply_sha256=sha)


def one_call(
    request: str, draws: str, *, replies: Sequence[str] | str | None = None
) -> CallsOfTrial:
    """Every trial makes one call of this request, a draw of its own for each index."""

    def calls(index: int) -> tuple[Call, ...]:
        reply = replies if replies is None or isinstance(replies, str) else replies[index]
        return (a_call(request, f"{draws}/{request}/{index}", trial=index, reply=reply),)

    return calls


def a_case(
    name: str,
    outcomes: str = "",
    *,
    function: str = "test_f",
    request: str = "v1",
    draws: str = "main",
    replies: Sequence[str] | str | None = None,
    calls: CallsOfTrial | None = None,
    scores: Sequence[float | None] | None = None,
    metric: str = "score",
    first: int = 0,
    gate: tuple[str, ...] = (),
    better: Better = "higher",
    cluster: str | None = None,
    parameters: str | None = None,
    positional: bool = False,
) -> CaseAndTrials:
    """A case and its trials.

    Args:
        name: what stands between the brackets of the node id.
        outcomes: a letter a trial; all passed if only scores are given.
        function: name of the test function.
        request: what is asked; another one is a changed request.
        draws: which world the draws come from; another one is a redrawn case.
        replies: texts of the replies, by trial, or one for all; unlike ones if not given.
        calls: gives the calls of a trial by its index, instead of the three above.
        scores: what each trial records under ``metric``, None for nothing.
        metric: see there.
        first: index of the first trial.
        gate: as the marker says; ``better`` and ``cluster`` likewise.
        better: see ``gate``.
        cluster: see ``gate``.
        parameters: digest of the parameters.
        positional: whether the name counts positions.
    """
    id_ = f"{FILE}::{function}[{name}]"
    outcomes = outcomes or "p" * len(scores or ())
    calls = calls or one_call(f"{name} {request}", draws, replies=replies)
    trials = tuple(
        Trial(
            case=id_,
            index=first + at,
            outcome=OUTCOMES[letter],
            scores=_recorded(OUTCOMES[letter], metric, scores[at] if scores else None),
            calls=tuple(calls(first + at)),
        )
        for at, letter in enumerate(outcomes)
    )
    case = Case(
        id=id_,
        function=f"{FILE}::{function}",
        repeats=max(1, len(outcomes)),
        parameters=parameters,
        positional=positional,
        gate=gate,
        better=better,
        cluster=cluster,
    )
    return CaseAndTrials(case, trials)


def a_run(
    *cases: CaseAndTrials,
    complete: bool = True,
    partial: tuple[str, ...] = (),
    selection: tuple[str, ...] = (),
) -> Run:
    """A run of these cases; ``partial`` holds names of functions."""
    return Run(
        id="20261121T084100-1a2b3c",
        created="2026-11-21T08:41:00+00:00",
        commit="c" * 40,
        tree="t" * 40,
        dirty=False,
        ref="main",
        root=".",
        versions={},
        selection=selection,
        complete=complete and not partial,
        partial=tuple(f"{FILE}::{function}" for function in partial),
        cases=tuple(one.case for one in cases),
        trials=tuple(trial for one in cases for trial in one.trials),
        outside_calls=0,
    )


def runs(changed: Sequence[tuple[str, str]], *, replayed: int = 0) -> tuple[Run, Run]:
    """A baseline and a run: changed cases, each by its outcomes before and after, and replays."""
    baseline = [a_case(f"c{at}", one) for at, (one, _) in enumerate(changed)]
    current = [a_case(f"c{at}", other, request="v2") for at, (_, other) in enumerate(changed)]
    replays = [a_case(f"r{at}", "ppppp") for at in range(replayed)]
    return a_run(*baseline, *replays), a_run(*current, *replays)


def scored_runs(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]
) -> tuple[Run, Run]:
    """A baseline and a run: the scores of each changed case, before and after."""
    baseline = a_run(*(a_case(f"c{at}", scores=one) for at, one in enumerate(before)))
    run = a_run(*(a_case(f"c{at}", scores=one, request="v2") for at, one in enumerate(after)))
    return baseline, run


def joined(one: Run, other: Run) -> Run:
    """The cases of both, as one run."""
    return dataclasses.replace(one, cases=one.cases + other.cases, trials=one.trials + other.trials)


def compared(baseline: Run, run: Run, rules: GateRules | None = None) -> FunctionComparison:
    """The comparison of the only function and metric of two runs."""
    (function,) = compare(baseline, run, rules or GateRules()).functions
    return function


def judged(baseline: Run, run: Run, rules: GateRules | None = None) -> FunctionComparison:
    """Compare like ``compared``, without the advice: it takes nine tenths of the time."""
    with patch("pytest_llmeval.gate.conclusion.remedies", return_value=(None, None)):
        return compared(baseline, run, rules)


def notes(comparison: Comparison) -> tuple[str, ...]:
    """What is noted of a comparison, as the reports word it."""
    return tuple(map(worded, comparison.notes))


def _recorded(outcome: Outcome, metric: str, score: float | None) -> Mapping[str, float]:
    if outcome in (Outcome.ERRORED, Outcome.SKIPPED):
        return {}
    scores = {"pass": 1.0 if outcome is Outcome.PASSED else 0.0}
    if score is not None:
        scores[metric] = score
    return scores
