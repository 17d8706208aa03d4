from __future__ import annotations

import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.engine.earlier_runs import source_of_forecast
from pytest_llmeval.errors import Lost
from pytest_llmeval.records import Case, Outcome, Run, Usage
from pytest_llmeval.reports.cost import forecast
from pytest_llmeval.runs.store import RunStore
from pytest_llmeval.settings import Settings, TokenPrice
from tests.runs.builders import make_call, make_run

D = Decimal
PRICES = {"openai/foo": TokenPrice(input=D(0), output=D(10))}


@pytest.fixture(autouse=True)
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)


def run_of(*tokens: int | None, model: str = "openai/foo") -> Run:
    """Two cases with two trials each, which write so many tokens."""
    run = make_run()
    calls = [
        make_call(model=model, usage=Usage(input_tokens=1, output_tokens=count)) for count in tokens
    ]
    trials = zip(run.trials, calls, strict=True)
    return replace(run, trials=tuple(replace(trial, calls=(call,)) for trial, call in trials))


def opening(*, repeats: int = 2, new: int = 0) -> Run:
    run = make_run(trials=())
    cases = [replace(case, repeats=repeats) for case in run.cases]
    cases += [Case(id=f"new[{n}]", function="new", repeats=repeats) for n in range(new)]
    return replace(run, cases=tuple(cases))


def told(
    source: Run | None, *, is_baseline: bool = True, begins: Run | None = None, **settings: Any
) -> list[str]:
    known = {"model": "openai/foo", "prices": PRICES, **settings}
    lines = forecast(
        begins or opening(),
        source,
        settings=Settings(directory=Path(), session="s", **known),
        is_baseline=is_baseline,
    )
    assert all(line.startswith("llm evals: ") for line in lines)
    return [line.removeprefix("llm evals: ") for line in lines]


def test_the_most_is_what_the_dearest_trial_of_each_case_takes_in_every_repeat() -> None:
    # 1000 tokens are a cent: 5 x 3 cents and 5 x 2 cents.
    lines = told(run_of(1000, 3000, 2000, 500), begins=opening(repeats=5))

    assert lines[:2] == [
        "up to 10 calls to openai/foo",
        "at most about $0.25, if nothing comes from the cache and no trial costs more than the "
        "dearest one of its case in run 20261121T084100-1a2b3c",
    ]


def test_an_earlier_run_serves_where_there_is_no_baseline() -> None:
    lines = told(run_of(*[1000] * 4), is_baseline=False, begins=opening(repeats=5))

    assert [line.partition(" if ")[0] for line in lines] == [
        "up to 10 calls to openai/foo",
        "at most about $0.10,",
    ]


@pytest.mark.parametrize("settings", [{"intercept": True}, {"model": None}])
def test_the_models_of_an_application_are_those_of_an_earlier_run(settings: dict[str, Any]) -> None:
    """Where no model is set, clients of the application alone decide whom they ask."""
    line = told(run_of(*[1000] * 4), **settings)[0]

    assert line == "up to 4 calls to openai/foo, as in an earlier run"


def test_without_any_run_only_the_trials_are_known() -> None:
    assert told(None) == ["4 trials of 2 cases ask openai/foo"]


def test_the_cost_of_new_cases_is_not_known() -> None:
    assert told(run_of(*[1000] * 4), begins=opening(new=3))[1].endswith(
        ", and not known for 3 cases that it did not run"
    )


def test_the_cost_of_a_case_of_which_nothing_was_answered_is_not_known() -> None:
    run = run_of(*[1000] * 4)
    failed = make_call(model="openai/foo", draw=None, lost=Lost.STATUS, lost_for=("500",))
    lost = [replace(one, outcome=Outcome.ERRORED, calls=(failed,)) for one in run.trials[2:]]

    assert told(replace(run, trials=(*run.trials[:2], *lost)))[1].endswith(
        ", and not known for 1 case of which each trial was errored"
    )


def test_a_model_without_a_price_is_named_with_what_to_type() -> None:
    line = told(run_of(*[1] * 4, model="openai/bar"), model=None)[1]

    assert line.startswith("cost not known: no price for openai/bar. Say ")


def test_token_counts_that_are_missing_are_said_to_be() -> None:
    line = told(run_of(1, 1, None, 1))[1]

    assert line == "cost not known: no token counts in the replies of openai/foo"


def test_another_model_is_not_priced_by_what_this_one_took() -> None:
    line = told(run_of(*[1] * 4), model="openai/other")[1]

    assert line == "cost not known: run 20261121T084100-1a2b3c did not ask openai/other"


@pytest.mark.parametrize("source", [None, run_of(*[1] * 4)])
def test_a_local_model_costs_nothing_worth_a_word(source: Run | None) -> None:
    assert len(told(source, model="ollama/llama")) == 1


def test_the_newest_run_is_read_for_a_forecast_alone(tmp_path: Path) -> None:
    RunStore(tmp_path).save(run_of(*[1] * 4))

    def source(cache: Any) -> Run | None:
        settings = Settings(directory=tmp_path, session="s", cache=cache)
        return source_of_forecast(settings, None)[0]

    assert source("auto") == run_of(*[1] * 4)
    assert source("replay") is None


def test_under_replay_nothing_can_be_spent() -> None:
    assert told(run_of(*[1] * 4), cache="replay") == []


@pytest.mark.parametrize("mode", ["auto", "refresh", "off"])
def test_nothing_is_said_of_replies_before_requests_are_known(mode: str) -> None:
    assert told(run_of(*[1] * 4), cache=mode)[0] == "up to 4 calls to openai/foo"


def without_calls(run: Run, *cases: str) -> Run:
    trials = [replace(one, calls=() if one.case in cases else one.calls) for one in run.trials]
    return replace(run, trials=tuple(trials))


def test_a_run_that_saw_no_call_forecasts_none() -> None:
    run = run_of(*[1000] * 4)

    lines = told(without_calls(run, *(case.id for case in run.cases)))

    (line,) = lines
    assert line == f"calls to openai/foo: not known: run {run.id} saw no call of these cases"


def test_cases_of_which_no_call_was_seen_are_no_part_of_the_forecast() -> None:
    run = run_of(*[1000] * 4)

    lines = told(without_calls(run, run.cases[0].id))

    more = f"and more for 1 case that made none in run {run.id}"
    assert lines[0] == f"up to 2 calls to openai/foo, {more}"
    assert lines[1].endswith(", and not known for 1 case of which it saw no call")


def test_what_other_cases_asked_is_no_part_of_the_cost() -> None:
    both = run_of(*[1000] * 4)
    dear = run_of(*[1000] * 4, model="openai/without-a-price").trials
    first = both.cases[0]
    pairs = zip(both.trials, dear, strict=True)
    trials = [one if one.case == first.id else other for one, other in pairs]

    lines = told(replace(both, trials=tuple(trials)), begins=replace(both, cases=(first,)))

    assert lines[0] == "up to 2 calls to openai/foo"
    assert lines[1].startswith("at most about $")


def test_new_cases_may_make_more_calls_than_the_forecast_says() -> None:
    run = run_of(*[1] * 4)

    line = told(run, begins=opening(new=3))[0]

    more = f"and more for 3 cases that made none in run {run.id}"
    assert line == f"up to 4 calls to openai/foo, {more}"


def test_the_models_that_a_suite_asks_are_named() -> None:
    of_judge = run_of(*[1] * 4, model="openai/judge").trials
    both = run_of(*[1] * 4)
    trials = zip(both.trials, of_judge, strict=True)
    asked = replace(
        both, trials=tuple(replace(one, calls=one.calls + two.calls) for one, two in trials)
    )
    assert told(asked)[0] == "up to 8 calls to openai/foo, openai/judge"
    alone = told(asked, model=None, intercept=False)[0]
    assert alone == "up to 8 calls to openai/foo, openai/judge"
    assert told(asked, model="openai/new")[0] == (
        "up to 8 calls to openai/new; the last run asked openai/foo, openai/judge"
    )


def test_after_a_swap_the_model_that_is_asked_now_is_named_alone() -> None:
    assert told(run_of(*[1] * 4), model="openai/new")[0] == "up to 4 calls to openai/new"


def test_a_model_that_was_typed_is_the_one_that_another_takes_the_place_of() -> None:
    of_judge = run_of(*[1] * 4, model="openai/judge").trials
    both = replace(run_of(*[1] * 4), typed_model="openai/foo")
    trials = zip(both.trials, of_judge, strict=True)
    asked = replace(
        both, trials=tuple(replace(one, calls=one.calls + two.calls) for one, two in trials)
    )
    assert told(asked, model="openai/new")[0] == "up to 8 calls to openai/judge, openai/new"


def test_where_no_model_is_known_none_is_named() -> None:
    assert told(None, model=None)[0] == "4 trials of 2 cases begin"
    assert told(without_calls(run_of(*[1] * 4), "test_a[Chad]"), model=None)


def test_a_run_that_failed_throughout_forecasts_no_cost() -> None:
    failed = run_of(*[1000] * 4)
    trials = tuple(replace(trial, outcome=Outcome.ERRORED) for trial in failed.trials)
    lines = told(replace(failed, trials=trials))
    assert lines[1].startswith(
        "cost not known: each trial of run 20261121T084100-1a2b3c was errored"
    )


def test_cases_whose_trials_were_all_errored_did_run() -> None:
    failed = run_of(*[1000] * 4)
    case = failed.cases[0].id
    trials = tuple(
        replace(trial, outcome=Outcome.ERRORED) if trial.case == case else trial
        for trial in failed.trials
    )
    _, line, *_ = told(replace(failed, trials=trials), begins=opening(new=1))
    errored = ", and not known for 1 case of which each trial was errored"
    assert line.endswith(f"{errored}, and not known for 1 case that it did not run")


def test_what_is_free_is_never_told_to_cost_nothing() -> None:
    free = {"openai/foo": TokenPrice(input=D(0), output=D(0))}
    assert len(told(run_of(*[1000] * 4), prices=free)) == 1
