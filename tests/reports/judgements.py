"""Fixed judgements, one for each form that a result can take, for the goldens of all reports.

Each is made of two recorded runs by the real gate, so a golden shows what a session would print.
The runs are of a suite of three functions; nothing of them is random, and nothing is on a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_llmeval.errors import Lost
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.judging import judged
from pytest_llmeval.records import Call, Case, CiJob, Outcome, Run, Slot, Trial, Usage
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.notation import Line
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.terminal.section import section
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import GateRules, Settings, TokenPrice
from pytest_llmeval.transcripts.common_change import RequestChange
from pytest_llmeval.transcripts.word_diff import MessageDiff, Piece
from tests.gate.builders import OUTCOMES, digest

SUPPORT, SEARCH = "evals/test_support.py", "evals/test_search.py"
LABEL, REFUND, ORDER = (
    f"{SUPPORT}::test_label",
    f"{SUPPORT}::test_refund_policy",
    f"{SEARCH}::test_finds_order",
)
TICKETS = ("lost-parcel", "double-charge", "late-refund", "wrong-size", "app-crash", "cancel-order")
TICKETS += ("change-address", "gift-card", "broken-seal", "login-loop", "price-match", "vat-number")
POLICIES = ("opened-box", "after-40-days", "sale-item", "no-receipt", "gift", "damaged")
ORDERS = ("by-number", "by-email", "by-name", "by-date")
# outcomes of the trials of each case, a letter a trial
LABELLED = ("ppppp", "ppppp", "ppppp", "ppppp", "ppppm", "ppppp")
LABELLED += ("ppppp", "pppmp", "ppppp", "pmppp", "ppppp", "ppppp")
BROKEN = ("mmmmm", "mmmpm", "mmmmm", "pmmmm", "ppppm", "ppppp")
BROKEN += ("ppppp", "ppppp", "ppppp", "ppmpp", "ppppp", "ppppp")
WOBBLED = ("ppppm", "ppppp", "ppppp", "ppppp", "ppppp", "ppppp")
WOBBLED += ("ppppp", "pppmp", "ppppp", "pmpmp", "ppppp", "ppppp")
SHAKEN = ("mmppm", "ppppp", "ppppp", "mmmpp", "ppppp", "ppppp")
SHAKEN += ("ppppp", "ppppp", "ppppp", "ppppp", "ppppp", "ppppp")
PRICES = {"openai/gpt-6-luna": TokenPrice(Decimal("0.10"), Decimal("0.50"))}
MISSED = "AssertionError: assert 'other' == 'billing'"
LOST = "OpenAI API 503: overloaded"


@dataclass(frozen=True)
class Commit:
    """A commit, and the run that is recorded for it."""

    hash: str
    run_id: str
    created: str
    ref: str


MAIN = Commit("4f1c20aa" * 5, "20261120T091500-a1b2c3", "2026-11-20T09:15:00+00:00", "main")
BRANCH = Commit("9d3e77b1" * 5, "20261121T084100-d4e5f6", "2026-11-21T08:41:00+00:00", "shorter")
RELEASE = Commit("0a9b8c7d" * 5, "20260901T100000-777777", "2026-09-01T10:00:00+00:00", "v1.4")


def section_of(judgement: Judgement, page: Page) -> list[Line]:
    """The lines of the section of a judgement."""
    return [*section(make_report(judgement), judgement, page)]


def function_of(
    function: str,
    names: Sequence[str],
    outcomes: Sequence[str],
    *,
    prompt: str = "v1",
    replayed: bool = True,
    scores: Mapping[str, float] | None = None,
    gate: tuple[str, ...] = (),
    model: str = "openai/gpt-6-luna",
) -> tuple[list[Case], list[Trial]]:
    """The cases and trials of a test function.

    Args:
        function: its node id without brackets.
        names: what stands in the brackets, by case.
        outcomes: a letter a trial, by case.
        prompt: another one is another request, and has other draws.
        replayed: the draws came from the cache.
        scores: what each scored trial records besides.
        gate: as the marker says.
        model: that is asked; another one is another request.
    """
    cases, trials = [], []
    for name, letters in zip(names, outcomes, strict=True):
        id_ = f"{function}[{name}]"
        case = Case(id=id_, function=function, repeats=len(letters), gate=gate)
        cases.append(replace(case, parameters=digest(name)))
        for index, letter in enumerate(letters):
            outcome = OUTCOMES[letter]
            call = _call(f"{id_} {prompt}", index, outcome=outcome, replayed=replayed)
            call = replace(call, model=model, served=f"{model.partition('/')[2]}-2026-09-22")
            trials.append(_trial(id_, index, outcome=outcome, call=call, scores=scores or {}))
    return cases, trials


def _call(request: str, index: int, *, outcome: Outcome, replayed: bool) -> Call:
    known: dict[str, Any] = {
        "key": digest(request),
        "slot": Slot(index, 0),
        "model": "openai/gpt-6-luna",
        "host": "https://api.openai.com",
        "parameters": {"seed": 7},
    }
    if outcome is Outcome.ERRORED:
        return Call(**known, lost=Lost.OTHER, lost_for=(LOST,))
    return Call(
        **known,
        draw=digest(f"{request} {index}")[:32],
        reply_sha256=digest(f"reply to {request} {index}"),
        replayed=replayed,
        served="gpt-6-luna-2026-09-22",
        usage=Usage(input_tokens=184, output_tokens=6),
        seconds=0.4 + 0.05 * index,
    )


def _trial(
    case: str, index: int, *, outcome: Outcome, call: Call, scores: Mapping[str, float]
) -> Trial:
    message = f"AssertionError: {case.partition('::')[0]}:21" if outcome is Outcome.MISSED else ""
    own = {"pass": float(outcome is Outcome.PASSED), **scores} if outcome.is_scored else {}
    return Trial(
        case=case,
        index=index,
        outcome=outcome,
        scores=own,
        calls=(call,),
        message=message,
        seconds=0.5,
    )


def suite(
    commit: Commit = MAIN,
    *others: tuple[list[Case], list[Trial]],
    label: tuple[list[Case], list[Trial]] | None = None,
    **changes: Any,
) -> Run:
    """A run of the whole suite, with other functions in place of some or beside them."""
    label = label or function_of(LABEL, TICKETS, LABELLED, replayed=commit != MAIN)
    functions = [label, *(others or untouched(replayed=commit != MAIN))]
    known: dict[str, Any] = {
        "id": commit.run_id,
        "created": commit.created,
        "commit": commit.hash,
        "tree": digest(commit.hash)[:40],
        "dirty": False,
        "ref": commit.ref,
        "root": ".",
        "versions": {"openai": "2.8.0", "pytest": "9.0.0", "pytest-llmeval": "1.0", "python": "3"},
        "selection": (),
        "complete": True,
        "partial": (),
        "cases": tuple(chain.from_iterable(cases for cases, _ in functions)),
        "trials": tuple(chain.from_iterable(trials for _, trials in functions)),
        "outside_calls": 0,
        "places": {LABEL: f"{SUPPORT}:21", REFUND: f"{SUPPORT}:38", ORDER: f"{SEARCH}:14"},
        "ci": CiJob(provider="github", event="push", url="https://github.com/o/r/actions/runs/7"),
    }
    known["attempts"] = sum(call.was_paid for one in known["trials"] for call in one.calls)
    return Run(**{**known, **changes})


def untouched(*, replayed: bool = True) -> list[tuple[list[Case], list[Trial]]]:
    """The two functions that no branch changes."""
    refund = function_of(REFUND, POLICIES, ("ppppp",) * 5 + ("ppmpp",), replayed=replayed)
    return [refund, function_of(ORDER, ORDERS, ("ppppp",) * 4, replayed=replayed)]


def relabelled(outcomes: Sequence[str], *, prompt: str = "v2") -> tuple[list[Case], list[Trial]]:
    """``test_label`` with another prompt."""
    return function_of(LABEL, TICKETS, outcomes, prompt=prompt, replayed=False)


def judgement_of(
    run: Run,
    *,
    baseline: Run | None = None,
    anchor: Run | None = None,
    accept: tuple[str, ...] = (),
    prices: Mapping[str, TokenPrice] = PRICES,
    **known: Any,
) -> Judgement:
    """What the gate makes of a run, as a session would have it at its end."""
    reference = None if baseline is None else "main"
    settings = Settings(
        directory=Path(".llmeval"),
        session="fixed",
        baseline=reference,
        anchor=None if anchor is None else "v1.4",
        gate=GateRules(accept=accept),
        prices=prices,
    )
    run = replace(run, compared_with=None if baseline is None else baseline.id)
    planned = Judgement(
        settings=settings,
        path=Path(f".llmeval/runs/{run.id}.jsonl.gz"),
        baseline=baseline and _found(baseline, "main"),
        anchor=anchor and replace(_found(anchor, "v1.4"), how="commit"),
        headlines=_headlines(run),
        seconds=6.2,
        **known,
    )
    found = judged(planned, run)
    return replace(found, excerpts=_excerpts(run), request_changes=_changes(found))


def _found(run: Run, reference: str) -> Baseline:
    path = Path(f".llmeval/runs/{run.id}.jsonl.gz")
    return Baseline(run=run, path=path, reference=reference, how="merge-base", wanted=run.commit)


def _headlines(run: Run) -> dict[str, str]:
    missed = (trial.case for trial in run.trials if trial.outcome is Outcome.MISSED)
    lost = (trial.case for trial in run.trials if trial.outcome is Outcome.ERRORED)
    return dict.fromkeys(missed, MISSED) | dict.fromkeys(lost, f"RateLimited: {LOST}")


def _excerpts(run: Run) -> dict[str, tuple[str | None, str | None]]:
    """A line of a reply of both sides; the one of this run is longer than a terminal is wide."""
    here = "other — I am not sure which team should answer this one, so I leave it open"
    cases = [case.id for case in run.cases if case.function == LABEL]
    return dict.fromkeys(cases, ("billing", here))


def _changes(judgement: Judgement) -> tuple[RequestChange, ...]:
    """A sentence of the system prompt that every changed case of the first function lost."""
    functions = judgement.comparison.functions if judgement.comparison else ()
    cases = [
        case.case
        for one in functions
        if one.function == LABEL
        for case in one.compared
        if case.kind == "request"
    ]
    if not cases:
        return ()
    pieces = (
        Piece(" ", "Answer with the name of one team."),
        Piece("-", " A refund that was promised goes to billing."),
        Piece(" ", "\nTicket:"),
    )
    part = MessageDiff("system", pieces)
    return (RequestChange(len(cases), len(cases), (LABEL,), cases[0], (part,)),)


def no_baseline() -> Judgement:
    return judgement_of(suite(BRANCH, label=relabelled(BROKEN)))


def unchanged() -> Judgement:
    return judgement_of(suite(BRANCH), baseline=suite())


def regressed() -> Judgement:
    return judgement_of(suite(BRANCH, label=relabelled(BROKEN)), baseline=suite())


def accepted() -> Judgement:
    line = "test_label:pass >= 0.5"
    run = suite(BRANCH, label=relabelled(BROKEN))
    return judgement_of(run, baseline=suite(), accept=(line,))


def improved() -> Judgement:
    before = suite(label=relabelled(BROKEN, prompt="v1"))
    return judgement_of(suite(BRANCH, label=relabelled(LABELLED)), baseline=before)


def improved_with_two_broken() -> Judgement:
    """Ten cases were mostly wrong and are right; two were right and are wrong."""
    before, after = ("pmmmm",) * 10 + ("ppppp",) * 2, ("ppppp",) * 10 + ("mmmmm",) * 2
    run = suite(BRANCH, label=relabelled(after))
    return judgement_of(run, baseline=suite(label=relabelled(before, prompt="v1")))


def no_significant_change() -> Judgement:
    return judgement_of(suite(BRANCH, label=relabelled(WOBBLED)), baseline=suite())


def inconclusive() -> Judgement:
    return judgement_of(suite(BRANCH, label=relabelled(SHAKEN)), baseline=suite())


def not_comparable() -> Judgement:
    """A provider that lost 8 of 60 calls, and 2 of 6 cases of another function gone."""
    lost = ("eeeep", "eeeem", *LABELLED[2:])
    refund = function_of(REFUND, POLICIES[:4], ("ppppp",) * 4)
    run = suite(BRANCH, refund, untouched()[1], label=relabelled(lost))
    return judgement_of(run, baseline=suite())


def could_not_judge() -> Judgement:
    """A gated metric that no trial ever recorded."""
    asked = function_of(REFUND, POLICIES, ("ppppp",) * 6, scores={"score": 0.8}, gate=("f1",))
    return judgement_of(suite(BRANCH, asked, untouched()[1]))


def partial() -> Judgement:
    """``-k charge`` and ``-k refund``: a part of two functions, one not run at all."""
    label = function_of(LABEL, TICKETS[1:3], LABELLED[1:3])
    run = suite(BRANCH, untouched()[0], label=label, complete=False, partial=(LABEL, ORDER))
    run = replace(run, selection=("-k charge or refund",))
    return judgement_of(run, baseline=suite(), typed=("-k charge or refund",))


def new() -> Judgement:
    """A new function, and two new cases of one that the baseline has."""
    tone = function_of(f"{SUPPORT}::test_tone", ("angry", "calm"), ("ppmpm", "ppppp"))
    names, outcomes = (*ORDERS, "by-phone", "by-card"), (*("ppppp",) * 5, "mmppp")
    order = function_of(ORDER, names, outcomes)
    return judgement_of(suite(BRANCH, untouched()[0], order, tone), baseline=suite())


def gone() -> Judgement:
    """A function that was renamed, which the gate cannot know."""
    renamed = function_of(f"{SUPPORT}::test_refunds", POLICIES, ("ppppp",) * 6, replayed=False)
    return judgement_of(suite(BRANCH, renamed, untouched()[1]), baseline=suite())


def anchor() -> Judgement:
    """Nothing fell since main, and something since the last release."""
    label = relabelled(BROKEN, prompt="v1")
    return judgement_of(
        suite(BRANCH, label=function_of(LABEL, TICKETS, BROKEN)),
        baseline=suite(label=label),
        anchor=suite(RELEASE, label=relabelled(LABELLED, prompt="v0")),
    )


def another_model() -> Judgement:
    """The whole suite asks another model, which costs more and takes as long."""
    sides = []
    for commit, model, outcomes in (
        (MAIN, "openai/gpt-6-luna", SHAKEN),
        (BRANCH, "openai/gpt-6.1-terra", LABELLED),
    ):
        functions = [
            function_of(name, cases, letters, prompt=model, replayed=False, model=model)
            for name, cases, letters in (
                (LABEL, TICKETS, outcomes),
                (REFUND, POLICIES, ("ppppp",) * 5 + (outcomes[0],)),
                (ORDER, ORDERS, ("ppppp",) * 4),
            )
        ]
        sides.append(suite(commit, *functions[1:], label=functions[0]))
    before, after = sides
    prices = {
        "openai/gpt-6-luna": TokenPrice(Decimal("0.10"), Decimal("0.50")),
        "openai/gpt-6.1-terra": TokenPrice(Decimal("0.27"), Decimal("1.35")),
    }
    found = judgement_of(after, baseline=before, prices=prices)
    pieces = (Piece("-", '"gpt-6-luna"'), Piece("+", '"gpt-6.1-terra"'))
    parts = (MessageDiff("model", pieces),)
    change = RequestChange(22, 22, (LABEL, REFUND, ORDER), after.cases[0].id, parts)
    return replace(found, request_changes=(change,))


def stopped() -> Judgement:
    """A function that fell, and stopped after two of its five repeats."""
    run = suite(BRANCH, label=relabelled(("mmmmm",) * 8 + ("ppppp",) * 4))
    trials = tuple(one for one in run.trials if one.index < 2 or not one.case.startswith(LABEL))
    run = replace(run, trials=trials, complete=False, looks={LABEL: 2}, stopped=True)
    return judgement_of(run, baseline=suite())


FORMS: Mapping[str, Callable[[], Judgement]] = {
    form.__name__: form
    for form in (
        *(no_baseline, unchanged, regressed, accepted, improved, no_significant_change),
        *(inconclusive, not_comparable, could_not_judge, partial, new, gone, anchor),
        another_model,
        stopped,
    )
}
