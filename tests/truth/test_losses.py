"""Trials that crash, are run again by other plugins, or lose a reply: what they count for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.records import Outcome
from tests.truth.kinds import Kind
from tests.truth.sessions import RatedServer, Sessions
from tests.truth.test_kinds import check

SCORES = """
@evaluated()
def test_a(llm, llm_score, i):
    body()
    said = llm.ask(f"WORD {i} rate=0.3").text
    if "WORD" == "crashes" and said == "yes":
        raise KeyError("parse")
    llm_score(-3.0)
"""
COIN_BESIDE = Kind(
    name="a coin beside the replies",
    trials=400,
    source="""
@evaluated(cases=200, repeats=2)
def test_a(llm, i):
    body()
    assert llm.ask(f"q {i} rate=1").text == "yes"
    if not coin(i):
        raise KeyError("unseen")
""",
)
FALLBACK = """
@evaluated()
def test_a(llm, i):
    body()
    try:
        said = llm.ask(f"q {i} rate=0.5").text
    except Exception:
        said = "FALLBACK"
    assert said == "yes"
"""


def test_a_branch_that_crashes_is_no_improvement_below_0(
    pytester: pytest.Pytester, server: RatedServer
) -> None:
    sessions = Sessions(Kind(name="below 0", source=SCORES), pytester, server)
    sessions.run()
    sessions.project.git("switch", "-qc", "branch")
    text = (sessions.project.path / "test_a.py").read_text()
    sessions.project.write(test_a=text.replace("WORD", "crashes"))
    sessions.project.commit("branch")

    branch = sessions.run("--llm-baseline=main")

    assert branch.report["verdict"] not in ("improved", "no_significant_change", "unchanged")
    assert branch.status == 1


@pytest.mark.parametrize("reruns", [1, 3])
def test_the_first_attempt_of_a_trial_counts(
    pytester: pytest.Pytester,
    server: RatedServer,
    reruns_plugin: None,
    reruns: int,
) -> None:
    session = Sessions(COIN_BESIDE, pytester, server).run(f"--reruns={reruns}")

    assert session.bodies > COIN_BESIDE.trials, "something was run again"
    check(replace(session, bodies=COIN_BESIDE.trials), COIN_BESIDE)


@pytest.mark.parametrize("fallback", ["yes", "no"])
def test_a_trial_with_a_lost_reply_counts_for_nothing(
    pytester: pytest.Pytester, server: RatedServer, fallback: str
) -> None:
    """A provider fails at 15 % of calls, and the application guesses."""
    kind = Kind(
        name="fallback",
        source=FALLBACK.replace("FALLBACK", fallback),
        model="unreliable",
        is_scored_throughout=False,
    )

    session = Sessions(kind, pytester, server).run()

    lost = [one for one in session.run.trials if any(call.draw is None for call in one.calls)]
    assert 15 < len(lost) < 45
    assert {one.outcome for one in lost} == {Outcome.ERRORED}
    check(session, kind)
