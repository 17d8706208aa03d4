"""The order of a trial's calls, and their pairs in another trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.models.message import Message
from pytest_llmeval.records import Call, Slot
from pytest_llmeval.transcripts.call_texts import CallTexts, in_order, judged_last, pairs
from pytest_llmeval.transcripts.messages import Asked


def call(
    *asked: str, reply: str = "", strand: tuple[int, ...] = (), occurrence: int = 0, **more: str
) -> CallTexts:
    """Make a call; of what was asked each second message is the model's."""
    roles = ("user", "assistant")
    messages = tuple(Message(roles[at % 2], text) for at, text in enumerate(asked))
    model = more.pop("model", "openai/m")
    key = f"{model} {asked} {more}"
    made = Call(
        key=key, slot=Slot(0, occurrence), draw=f"{key} {occurrence}", model=model, strand=strand
    )
    return CallTexts(made, Asked(messages, more), (Message("assistant", reply),), is_here=True)


def paired(baseline: Sequence[CallTexts], current: Sequence[CallTexts]) -> list[tuple[str, str]]:
    return [
        ("-" if old is None else _name(old), "-" if new is None else _name(new))
        for old, new in pairs(baseline, current)
    ]


def _name(one: CallTexts) -> str:
    assert one.asked is not None
    return f"{one.call.model}: " * (one.call.model != "openai/m") + one.asked.messages[-1].text


def test_an_equal_request_is_a_pair_before_a_like_one() -> None:
    baseline = [call("name the department"), call("is it urgent")]
    current = [call("is it urgent"), call("is it the department")]

    assert paired(baseline, current) == [
        ("name the department", "is it the department"),
        ("is it urgent", "is it urgent"),
    ]


def test_edited_requests_are_paired_by_their_words() -> None:
    baseline = [call("name the department: fire"), call("is it urgent: fire")]
    current = [call("is it urgent: fire!"), call("name the one department: fire!")]

    assert paired(baseline, current) == [
        ("name the department: fire", "name the one department: fire!"),
        ("is it urgent: fire", "is it urgent: fire!"),
    ]


def test_where_models_are_swapped_the_words_make_the_pair() -> None:
    baseline = [call("name the department", model="a/x"), call("is it urgent", model="a/y")]
    current = [call("name the department", model="a/y"), call("is it urgent", model="a/x")]

    assert [(old[5:], new[5:]) for old, new in paired(baseline, current)] == [
        ("name the department", "name the department"),
        ("is it urgent", "is it urgent"),
    ]


@pytest.mark.parametrize("fact", ["model", "tools", "temperature"])
def test_where_the_words_are_the_same_all_else_makes_the_pair(fact: str) -> None:
    baseline = [call("say yes", **{fact: f"{fact}/{name}"}) for name in "ab"]
    current = [call("say yes!", **{fact: f"{fact}/{name}"}) for name in "ba"]

    for old, new in pairs(baseline, current):
        assert old is not None
        assert new is not None
        assert old.call.key.replace("yes", "yes!") == new.call.key


def test_a_turn_has_its_pair_in_the_same_turn() -> None:
    baseline = [
        call("where"),
        call("where", "here", "when"),
        call("where", "here", "when", "x", "y"),
    ]
    current = [call("where?"), call("where?", "in there", "when")]

    assert paired(baseline, current) == [("where", "where?"), ("when", "when"), ("y", "-")]


def test_equal_requests_are_paired_by_their_occurrence() -> None:
    baseline = [call("say yes", occurrence=at) for at in (0, 1)]
    current = [call("say yes", occurrence=at) for at in (1, 0, 2)]

    found = [
        tuple(None if one is None else one.call.slot.occurrence for one in pair)
        for pair in pairs(baseline, current)
    ]

    assert found == [(0, 0), (1, 1), (None, 2)]


def test_what_goes_on_with_a_conversation_is_told_without_what_was_said() -> None:
    first, second, other = in_order(
        [call("where", reply="here"), call("where", "here", "when", reply="now"), call("what")]
    )

    assert [message.text for message in first.begins] == ["where"]
    assert (second.begins, [message.text for message in second.said]) == ((), ["when", "now"])
    assert [message.text for message in other.begins] == ["what"]


def test_calls_that_came_one_after_the_other_stay_in_that_order() -> None:
    calls = [call("b"), call("a"), call("c")]

    assert [_name(one) for one in in_order(calls, like=[call("a"), call("b"), call("c")])] == [
        *"bac"
    ]


def test_calls_of_other_trials_have_the_order_of_the_first() -> None:
    first = in_order([call("b", strand=(0, 0)), call("a", strand=(0, 1))])
    other = [call("z, b", strand=(0, 0)), call("more", strand=(0, 1)), call("a too", strand=(0, 2))]

    assert [_name(one) for one in first] == ["a", "b"]
    assert [_name(one) for one in in_order(other, like=first)] == ["a too", "z, b", "more"]


def test_of_a_chain_beside_a_call_both_ends_are_judged() -> None:
    calls = [
        call("label", strand=(0, 0)),
        call("urgent", strand=(0, 1)),
        call("letter", strand=(0, 0)),
    ]

    assert [[_name(one) for one in chain] for chain in judged_last(in_order(calls))] == [
        ["letter"],
        ["urgent"],
    ]


WORDS = st.lists(st.sampled_from(["name", "is", "urgent", "the", "mail"]), min_size=1, max_size=4)
asked = st.lists(WORDS.map(" ".join), min_size=1, max_size=5)
orders = st.randoms(use_true_random=False)


@given(asked, asked, orders)
def test_nothing_depends_on_which_of_several_calls_was_answered_first(
    there: list[str], here: list[str], order: object
) -> None:
    def noted(texts: list[str], *, shuffled: bool) -> tuple[CallTexts, ...]:
        seen: Counter[str] = Counter()
        strands = list(range(len(texts)))
        if shuffled:
            order.shuffle(strands)  # type: ignore[attr-defined]
        calls = []
        for text, strand in zip(texts, strands, strict=True):
            occurrence, seen[text] = seen[text], seen[text] + 1
            calls.append(call(text, strand=(0, strand), occurrence=occurrence))
        if shuffled:
            order.shuffle(calls)  # type: ignore[attr-defined]
        return tuple(calls)

    def told(*, shuffled: bool) -> object:
        baseline = in_order(noted(there, shuffled=shuffled))
        current = in_order(noted(here, shuffled=shuffled), like=baseline)
        return (
            [one.call.draw for one in (*baseline, *current)],
            [tuple(one and one.call.draw for one in pair) for pair in pairs(baseline, current)],
            [[one.call.draw for one in chain] for chain in judged_last(current)],
        )

    assert told(shuffled=True) == told(shuffled=False)
