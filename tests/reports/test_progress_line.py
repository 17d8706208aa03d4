from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.records import Progress
from pytest_llmeval.reports.terminal.section import progress_line

FULL = Progress(done=412, total=1000, made=398, replayed=14, in_flight=32, seconds_left=125.0)


def test_the_line_tells_everything_that_is_known() -> None:
    assert progress_line(FULL, width=120) == (
        "llm evals: 412/1000 trials · about 2 min left · 32 under way · 398 calls made, 14 replayed"
    )


def test_what_is_not_known_is_left_out() -> None:
    line = progress_line(Progress(done=1, total=2, made=1), width=120)

    assert line == "llm evals: 1/2 trials · 1 calls made, 0 replayed"


def test_a_provider_that_wants_fewer_calls_is_named_before_the_counts() -> None:
    progress = replace(FULL, holding_back={"openai": 429})

    assert progress_line(progress, width=90) == (
        "llm evals: 412/1000 trials · about 2 min left · waiting for openai: too many calls"
    )


def test_a_provider_that_is_down_is_not_said_to_want_fewer_calls() -> None:
    progress = replace(FULL, holding_back={"openai": 503, "mistral": 429})

    assert progress_line(progress, width=160) == (
        "llm evals: 412/1000 trials · about 2 min left · waiting for openai: unavailable (HTTP 503)"
        " · waiting for mistral: too many calls · 32 under way"
    )


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (80, "llm evals: 412/1000 trials · about 2 min left · 32 under way"),
        (50, "llm evals: 412/1000 trials · about 2 min left"),
        (30, "llm evals: 412/1000 trials"),
        (15, "llm evals: 412/"),
        (-1, ""),
    ],
)
def test_what_does_not_fit_is_left_out_from_the_end(width: int, line: str) -> None:
    assert progress_line(FULL, width=width) == line


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.2, "1 s"),
        (40.4, "40 s"),
        (59.9, "60 s"),
        (61, "1 min"),
        (3570, "60 min"),
        (3600, "1 h 0 min"),
        (4210, "1 h 10 min"),
    ],
)
def test_durations_are_no_more_exact_than_an_estimate(seconds: float, shown: str) -> None:
    line = progress_line(Progress(done=0, total=9, seconds_left=seconds), width=120)

    assert f" · about {shown} left · " in line


def test_a_session_that_may_stop_early_runs_at_most_so_many_trials() -> None:
    progress = Progress(done=1, total=60, may_stop=True)

    assert progress_line(progress, width=120).startswith("llm evals: 1/at most 60 trials · ")
