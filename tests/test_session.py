from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import CaseResult, News, Slowdown
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.session import EvalSession
from pytest_llmeval.settings import Settings
from tests.reports.judgements import section_of


def slowdown(times: int, lowest: int, seconds: float, provider: str = "openai") -> Slowdown:
    return Slowdown(provider=provider, times=times, lowest=lowest, seconds=seconds)


def test_slowdowns_of_all_reports_add_up_by_provider(tmp_path: Path) -> None:
    session = EvalSession(Judgement(settings=Settings(directory=tmp_path, session="s")))
    reported = [
        [slowdown(1, 16, 3.0)],
        [],
        [slowdown(2, 8, 1.5), slowdown(1, 4, 0.5, "anthropic")],
        [slowdown(1, 12, 0.5)],
    ]
    for number, slowdowns in enumerate(reported):
        session.add(
            CaseResult(
                id=f"1-{number}", case=f"case {number}", news=News(slowdowns=tuple(slowdowns))
            )
        )

    assert session.judge(seconds=1, is_green=False, notes=()).slowdowns == (
        slowdown(4, 8, 5.0),
        slowdown(1, 4, 0.5, "anthropic"),
    )


def test_the_section_tells_what_a_provider_cost(tmp_path: Path) -> None:
    judgement = Judgement(
        settings=Settings(directory=tmp_path, session="s"),
        slowdowns=(replace(slowdown(3, 8, 41.2), status=503), slowdown(1, 1, 0.4, "anthropic")),
    )

    assert [line.text for line in section_of(judgement, Page(500))] == [
        "openai slowed us down 3 times, by HTTP 503: down to 8 calls at once, 41 s waited",
        "anthropic slowed us down 1 time, by HTTP 429: down to 1 call at once, 0.4 s waited",
    ]


def test_the_section_names_the_five_hosts_most_frequented(tmp_path: Path) -> None:
    hosts = {(f"host-{count}", "test_a.py::test_x", ""): count for count in range(1, 8)}
    judgement = Judgement(
        settings=Settings(directory=tmp_path, session="s"),
        connections=hosts | {("host-7", "test_a.py::TestY::test_z", ""): 3},
    )
    notes = [line.text for line in section_of(judgement, Page(width=120)) if "did not" in line.text]
    assert notes[:2] == [
        "note: 10 connections to host-7 that the cache did not see (test_z, test_x)",
        "note: 6 connections to host-6 that the cache did not see (test_x)",
    ]
    assert notes[5:] == ["note: 3 connections to 2 other hosts that the cache did not see"]
