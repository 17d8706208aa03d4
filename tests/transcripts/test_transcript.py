from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_llmeval.errors import Lost
from pytest_llmeval.models.message import Message
from pytest_llmeval.records import Trial
from pytest_llmeval.transcripts.transcript import (
    Parting,
    StoredTexts,
    Transcript,
    Utterance,
    parting,
    transcripts,
)
from tests.transcripts.recorded import Exchange, Recorder, said, system, user

CALL = {"id": "1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
ASKING = {"role": "assistant", "reasoning_content": "Well", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "late"}


def read(recorder: Recorder, trials: Sequence[Trial]) -> tuple[Transcript, ...]:
    with StoredTexts(recorder.home) as stored:
        return transcripts(stored, trials)[0]


def agent(final: str) -> list[Exchange]:
    """Word a trial that looks something up, then answers; its thoughts are not sent back."""
    sent_back = {name: value for name, value in ASKING.items() if name != "reasoning_content"}
    asked = [system("Be brief."), user("Where is it?")]
    return [
        (asked, {"choices": [{"message": ASKING}]}),
        ([*asked, sent_back, RESULT], said(final)),
    ]


def test_each_turn_of_several_calls_is_there_once_and_in_order(recorder: Recorder) -> None:
    _, trials = recorder.case("a", "p", lambda _: agent("It is late."))
    (found,) = read(recorder, trials)

    assert found.asked is not None
    assert [message.text for message in found.asked.messages] == ["Be brief.", "Where is it?"]
    assert found.utterances == (
        Utterance(1, Message("assistant", "Well", "thought")),
        Utterance(1, Message("assistant", "look_up({})", "call")),
        Utterance(2, Message("tool", "late", "result")),
        Utterance(2, Message("assistant", "It is late.")),
    )
    assert found.is_here


def test_a_call_that_goes_on_with_nothing_is_told_in_full(recorder: Recorder) -> None:
    exchanges = [([user("Peru?")], said("Lima")), ([user("Rate it: Lima")], said("5"))]
    _, trials = recorder.case("a", "p", lambda _: exchanges)
    (found,) = read(recorder, trials)

    assert [(one.call, one.message.role, one.message.text) for one in found.utterances] == [
        (1, "assistant", "Lima"),
        (2, "user", "Rate it: Lima"),
        (2, "assistant", "5"),
    ]


def test_what_is_not_here_is_told_so(recorder: Recorder) -> None:
    _, (trial,) = recorder.case("a", "p", lambda _: [([user("Peru?")], said("Lima"))])
    call = trial.calls[0]
    lost = replace(call, draw="e" * 32)
    failed = replace(call, draw=None, lost=Lost.STATUS, lost_for=("500",))
    foreign = replace(call, key="0" * 64, draw="d" * 32)
    other = replace(failed, key="1" * 64)

    found = read(
        recorder,
        [replace(trial, calls=calls) for calls in [(lost,), (failed,), (foreign, other), ()]],
    )

    assert [[each.message.text for each in one.utterances] for one in found] == [
        ["the reply is not here"],
        ["no reply: HTTP 500"],
        ["the reply is not here", "not here", "no reply: HTTP 500"],
        [],
    ]
    assert [one.is_here for one in found] == [False, True, False, True]
    assert [one.asked is None for one in found] == [False, False, True, True]


def test_the_sides_part_where_the_first_trial_that_differs_does(recorder: Recorder) -> None:
    def side(*finals: str) -> tuple[Transcript, ...]:
        case = recorder.case("a", "p" * len(finals), lambda index: agent(finals[index]))
        return read(recorder, case[1])

    baseline = side("late", "late", "late")

    assert parting(baseline, side("late", "early", "never")) == Parting(
        1, Utterance(2, Message("assistant", "late")), Utterance(2, Message("assistant", "early"))
    )
    assert parting(baseline, side("late")) is None


def test_a_side_that_ends_earlier_has_nothing_more(recorder: Recorder) -> None:
    _, long = recorder.case("a", "p", lambda _: agent("late"))
    _, short = recorder.case("a", "p", lambda _: agent("late")[:1])

    found = parting(read(recorder, long), read(recorder, short))

    assert found == Parting(0, Utterance(2, Message("tool", "late", "result")), None)


def test_no_side_is_said_to_part_where_a_reply_is_not_here(recorder: Recorder) -> None:
    _, trials = recorder.case("a", "p", lambda _: agent("late"))
    _, others = recorder.case("a", "p", lambda _: agent("early"))
    lost = replace(others[0].calls[0], draw="e" * 32)
    others = (replace(others[0], calls=(lost, *others[0].calls[1:])),)

    assert parting(read(recorder, trials), read(recorder, others)) is None
