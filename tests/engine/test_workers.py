"""What the engine tells the session arrives from a worker as it was."""

from __future__ import annotations

from dataclasses import replace

from pytest_llmeval.engine.workers import read_result, written_result
from pytest_llmeval.errors import Lost
from pytest_llmeval.records import (
    Call,
    Case,
    CaseOutcome,
    CaseResult,
    CiJob,
    News,
    Outcome,
    Slot,
    Slowdown,
    Trial,
    bare_run,
)

CALLS = (
    Call(key="a" * 64, slot=Slot(None, 1), draw="b" * 32, parameters={"seed": 1, "top_p": 1.0}),
    Call(
        key="a" * 64,
        slot=Slot(3, 0),
        lost=Lost.CONTENT,
        lost_for=("400", "long"),
        strand=(0, 1),
        seconds=0.0,
    ),
)
NEWS = News(
    notes=("careful",),
    outside_calls=2,
    attempts=7,
    slowdowns=(Slowdown(provider="openai", times=1, lowest=4, seconds=1.5),),
    connections=(("api.example.com", "test_a.py::test_x", "", 3),),
)
RESULT = CaseResult(
    id="1-0",
    case="test_a.py::test_x[\udcff]",  # of a file whose name is no UTF-8
    function="test_a.py::test_x",
    outcome=CaseOutcome.FAILED,
    trials=(
        Trial(case="c", index=0, outcome=Outcome.MISSED, scores={"pass": 0.0, "n": 2}, calls=CALLS),
        Trial(case="c", index=1, outcome=Outcome.ERRORED, message="Boom \udcff.py:3"),
    ),
    means={"pass": 0.0, "tone": None},
    score="0/1 passed",
    fell_short=True,
    headline="é: nothing",
    serial="-s",
    is_ordinary=True,
    opening=replace(
        bare_run("20261121T084100-1a2b3c", created="2026-11-21T08:41:00+00:00"),
        cases=(Case(id="c", function="f", repeats=2, lower=("ms",)),),
        rules={"accept": ("f:pass >= 0.1",), "alpha": 0.05, "strict": False},
        fixtures={"f": {"wide": "123"}},
        ci=CiJob(provider="github", fork=False),
    ),
    total=2,
    news=NEWS,
)


def test_a_result_is_read_as_it_was_written() -> None:
    written = written_result(RESULT)

    assert written.isascii()
    assert read_result(written) == RESULT


def test_a_result_of_news_alone_has_no_case() -> None:
    read = read_result(written_result(CaseResult(id="1-1", news=NEWS)))

    assert (read.case, read.opening, read.news) == ("", None, NEWS)


def test_news_of_two_times_add_up() -> None:
    both = NEWS + News(notes=("more",), attempts=1)

    assert (both.notes, both.attempts, both.outside_calls) == (("careful", "more"), 8, 2)
    assert NEWS + News() == NEWS
