from __future__ import annotations

import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.errors import Lost
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Call, Outcome, Run, Trial, Usage
from pytest_llmeval.reports.cost import dollars
from pytest_llmeval.reports.json_report import dumped
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.settings import Settings, TokenPrice
from tests.reports.judgements import section_of
from tests.runs.builders import make_call, make_run

D = Decimal
# A call of 1000 and 100 tokens costs 0.2 cents.
PRICES = {"openai/foo": TokenPrice(input=D(1), output=D(10))}


@pytest.fixture(autouse=True)
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)


def call(model: str | None = "openai/foo", **changes: Any) -> Call:
    counted = Usage(input_tokens=1000, output_tokens=100)
    return make_call(model=model, **{"usage": counted, **changes})


def run_with(*calls: Call, outcome: Outcome = Outcome.PASSED) -> Run:
    run = make_run()
    trial = Trial(case=run.cases[0].id, index=0, outcome=outcome, calls=calls)
    return replace(run, trials=(trial,))


def judged(run: Run, tmp_path: Path) -> Judgement:
    return Judgement(settings=Settings(directory=tmp_path, session="s", prices=PRICES), run=run)


def lines(run: Run, tmp_path: Path) -> list[str]:
    """The last lines of the section: what was run, and what it cost."""
    texts = [line.text for line in section_of(judged(run, tmp_path), Page(500))]
    return "\n".join(texts).split("\n\n")[-1].splitlines()


def cost_in_json(run: Run, tmp_path: Path) -> dict[str, Any]:
    cost: dict[str, Any] = dumped(make_report(judged(run, tmp_path)))["run"]["cost"]
    return cost


def test_what_was_spent_and_what_was_saved_are_told_apart(tmp_path: Path) -> None:
    run = run_with(*[call()] * 2, *[call(replayed=True)] * 10)

    assert lines(run, tmp_path)[0].endswith(", 10 replayed · $0.0040 (saved $0.02)")
    assert cost_in_json(run, tmp_path) == {
        "currency": "USD",
        "spent": 0.004,
        "saved": 0.02,
        "unknown": [],
    }


def test_where_nothing_was_saved_nothing_is_said_of_it(tmp_path: Path) -> None:
    assert lines(run_with(call()), tmp_path)[0].endswith(" · $0.0020")


def test_a_session_of_local_models_speaks_of_no_money(tmp_path: Path) -> None:
    run = run_with(
        call("ollama/llama"), call("function/app:answer", usage=Usage(output_tokens=100))
    )

    assert "$" not in "\n".join(lines(run, tmp_path))
    assert cost_in_json(run, tmp_path)["spent"] == 0


def test_a_model_without_a_price_is_named_and_never_counted_as_free(tmp_path: Path) -> None:
    run = run_with(*[call("openai/bar")] * 12, call())

    texts = lines(run, tmp_path)
    assert texts[0].endswith(" · $0.0020 and n/a")
    assert texts[1].startswith("cost n/a: no price for openai/bar (12 calls). Say ")
    assert "openai/bar = INPUT, OUTPUT" in texts[1]
    assert cost_in_json(run, tmp_path) == {
        "currency": "USD",
        "spent": None,
        "saved": 0,
        "unknown": [{"model": "openai/bar", "calls": 12, "why": "price"}],
    }


def test_a_reply_without_token_counts_has_no_cost(tmp_path: Path) -> None:
    run = run_with(call(usage=Usage(input_tokens=1000), replayed=True))

    texts = lines(run, tmp_path)
    assert texts[0].endswith(" · $0 (saved n/a)")
    assert texts[1] == "cost n/a: no token counts in the replies of openai/foo (1 call)"
    assert cost_in_json(run, tmp_path)["saved"] is None
    assert cost_in_json(run, tmp_path)["unknown"][0]["why"] == "tokens"


def test_a_request_that_names_no_model_has_no_price(tmp_path: Path) -> None:
    run = run_with(call(None))

    assert "no price for requests that name no model (1 call)" in lines(run, tmp_path)[1]
    assert cost_in_json(run, tmp_path)["unknown"][0]["model"] is None


def test_a_call_that_failed_costs_nothing(tmp_path: Path) -> None:
    failed = call("openai/bar", lost=Lost.STATUS, lost_for=("500",))

    assert lines(run_with(failed, call()), tmp_path)[0].endswith(" · $0.0020")


def test_the_trials_that_a_cap_left_without_a_reply_are_counted(tmp_path: Path) -> None:
    capped = call(draw=None, lost=Lost.CAP, lost_for=("--llm-max-calls=1",))
    run = run_with(call(), capped, capped, outcome=Outcome.ERRORED)

    assert "stopped at --llm-max-calls=1: 1 trial got no reply" in lines(run, tmp_path)
    assert dumped(make_report(judged(run, tmp_path)))["run"]["calls"]["capped"] == 2


def test_a_trial_that_passed_in_spite_of_a_cap_is_not_counted(tmp_path: Path) -> None:
    capped = call(draw=None, lost=Lost.CAP, lost_for=("--llm-max-calls=1",))

    assert "stopped" not in "\n".join(lines(run_with(capped), tmp_path))


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "$0"),
        ("0.00001234", "$0.000012"),
        ("0.0099", "$0.0099"),
        ("0.014", "$0.01"),
        ("12.345", "$12.34"),
    ],
)
def test_a_sum_is_written_with_cents_or_two_digits(amount: str, text: str) -> None:
    assert dollars(D(amount)) == text
