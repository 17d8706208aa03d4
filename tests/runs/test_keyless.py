"""Which cases lack a key, whether that is all they lack, and what is left without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_llmeval.errors import Lost
from pytest_llmeval.records import Call, Outcome, Run, Slot, Trial
from pytest_llmeval.runs.keyless import (
    ElsewhereAsked,
    Keyless,
    find_keyless,
    gone_unjudged,
    lacks_only_a_key,
    without_keyless,
)
from tests.gate.builders import CaseAndTrials, a_case, a_run

Loss = tuple[Any, ...]  # and what stands beside it
NO_KEY: Loss = (Lost.NO_KEY, "OPENAI_API_KEY")
REFUSED: Loss = (Lost.KEY_REFUSED, "401", "invalid_api_key")
FAILED: Loss = (Lost.STATUS, "500")
CANCELLED: Loss = (Lost.CANCELLED,)
HERE, THERE = "https://api.openai.com", "https://gateway.example.com"


def lost(loss: Loss | None, *, host: str | None = HERE, model: str = "openai/gpt") -> Call:
    why, *beside = loss or (None,)
    return Call(key="k", slot=Slot(0, 0), lost=why, lost_for=tuple(beside), host=host, model=model)


def a_trial(*losses: Loss | None, outcome: Outcome = Outcome.ERRORED) -> Trial:
    return Trial(case="c", index=0, outcome=outcome, calls=tuple(map(lost, losses)))


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([a_trial(NO_KEY)], True),
        ([a_trial(None, NO_KEY, CANCELLED)], True),
        ([a_trial(NO_KEY), a_trial(outcome=Outcome.SKIPPED)], True),
        ([a_trial(NO_KEY), a_trial(None, outcome=Outcome.PASSED)], True),
        ([a_trial(REFUSED)], True),
        ([a_trial(NO_KEY, REFUSED)], True),
        ([a_trial(REFUSED, FAILED)], False),
        ([a_trial(NO_KEY, FAILED)], False),
        ([a_trial(NO_KEY), a_trial(FAILED)], False),
        ([a_trial(CANCELLED)], False),
        ([a_trial()], False),
        ([a_trial(outcome=Outcome.SKIPPED)], False),
        ([], False),
    ],
)
def test_a_case_lacks_only_a_key(trials: list[Trial], expected: bool) -> None:
    assert lacks_only_a_key(trials) is expected


def case(name: str, *calls: Call, function: str = "test_f") -> CaseAndTrials:
    return a_case(name, "e", function=function, calls=lambda _: calls)


def found(
    run: Run, baseline: Run | None = None, aliases: Sequence[tuple[str, str]] = ()
) -> Keyless:
    keyless = find_keyless(run, baseline, aliases=aliases)
    assert keyless is not None
    return keyless


def test_a_run_that_lacked_no_key_has_none() -> None:
    assert find_keyless(a_run(case("a", lost(FAILED)), a_case("b", "p")), None, aliases=()) is None


def test_cases_are_named_in_order_with_the_variables() -> None:
    other = lost((Lost.NO_KEY, "ANTHROPIC_API_KEY"), model="anthropic/claude")
    keyless = found(a_run(case("b", lost(NO_KEY)), a_case("c", "p"), case("a", other)))
    assert [name.partition("[")[2] for name in keyless.cases] == ["b]", "a]"]
    assert keyless.variables == ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    assert not keyless.lost_more
    assert found(a_run(case("a", lost(NO_KEY), lost(FAILED)))).lost_more


def test_a_key_that_is_refused_is_told_with_what_the_provider_said() -> None:
    other = lost((Lost.KEY_REFUSED, "403"), model="anthropic/claude")
    keyless = found(a_run(case("a", lost(REFUSED), lost(NO_KEY)), case("b", lost(REFUSED), other)))
    assert keyless.variables == ("OPENAI_API_KEY",)
    assert keyless.refused == ("openai: HTTP 401 (invalid_api_key)", "anthropic: HTTP 403")
    assert (len(keyless.cases), keyless.lost_more) == (2, False)


NO_HOST: Loss = (*NO_KEY, "OPENAI_BASE_URL")


@pytest.mark.parametrize(
    ("call", "hosts", "aliases", "expected"),
    [
        (lost(NO_HOST), [THERE], [], True),
        (lost(NO_KEY), [THERE], [], False),
        (lost(NO_HOST), [HERE], [], False),
        (lost(NO_HOST), [HERE, THERE], [], False),
        (lost(NO_HOST), [None], [], False),
        (lost(NO_HOST), [THERE], [(HERE, THERE)], False),
        (lost(NO_HOST, model="anthropic/claude"), [THERE], [], False),
    ],
    ids=["unset", "set", "same", "both", "unknown", "alias", "another provider"],
)
def test_another_host_is_the_reason_only_where_its_variable_is_not_set(
    call: Call, hosts: list[str | None], aliases: list[tuple[str, str]], expected: bool
) -> None:
    baseline = a_run(case("a", *(lost(None, host=host) for host in hosts)))
    keyless = found(a_run(case("a", call)), baseline, aliases)
    asked = ElsewhereAsked(variable="OPENAI_BASE_URL", here=HERE, baseline=THERE)
    assert keyless.elsewhere == ((asked,) if expected else ())


def test_a_function_is_left_out_as_a_whole_where_no_case_of_it_is_left() -> None:
    refused = lost(NO_KEY)
    run = a_run(case("a", refused), a_case("b", "p"), case("c", refused, function="test_g"))
    baseline = a_run(
        a_case("a", "p"),
        a_case("b", "p"),
        a_case("gone", "p"),
        a_case("gone", "p", function="test_g"),
        a_case("d", "p", function="test_h"),
    )
    keyless = found(run)
    kept = [
        [one.id.partition("::")[2] for one in without_keyless(side, run, keyless).cases]
        for side in (run, baseline)
    ]
    assert kept == [["test_f[b]"], ["test_f[b]", "test_f[gone]", "test_h[d]"]]
    trials = without_keyless(baseline, run, keyless).trials
    assert [trial.case.partition("::")[2] for trial in trials] == kept[1]
    assert without_keyless(run, run, None) is run


@pytest.mark.parametrize(("partial", "gone"), [((), ["test_g[gone]"]), (("test_g",), [])])
def test_what_is_gone_is_listed_where_no_comparison_says_it(
    partial: tuple[str, ...], gone: list[str]
) -> None:
    refused = lost(NO_KEY)
    run = a_run(
        case("a", refused),
        a_case("b", "p"),
        case("c", refused, function="test_g"),
        partial=partial,
    )
    before = [a_case("gone", "p"), *(a_case(one, "p", function="test_g") for one in ("c", "gone"))]
    found_gone = gone_unjudged(a_run(*before), run, found(run))
    assert [name.partition("::")[2] for name in found_gone] == gone


def test_a_base_that_was_run_in_this_job_lacked_the_same_key() -> None:
    run, baseline = a_run(a_case("a", "p")), a_run(case("a", lost(NO_KEY)), a_case("gone", "p"))
    keyless = find_keyless(run, baseline, aliases=(), stored=tuple)
    assert keyless is not None
    assert (len(keyless.cases), keyless.lost_more) == (1, False)
    assert find_keyless(run, baseline, aliases=()) is None


def test_such_a_base_asked_the_same_host_so_the_replies_tell_the_other() -> None:
    run = a_run(case("a", lost(NO_HOST)))
    kept = [("anthropic", HERE), ("openai", THERE)]
    keyless = find_keyless(run, run, aliases=(), stored=lambda: kept)
    assert keyless is not None
    asked = ElsewhereAsked(variable="OPENAI_BASE_URL", here=HERE, baseline=THERE)
    assert keyless.elsewhere == (asked,)
