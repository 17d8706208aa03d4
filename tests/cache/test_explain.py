from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache import requests, why
from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.queries import DATABASE
from pytest_llmeval.cache.replies import EXPLAINED, Replies
from pytest_llmeval.cache.requests import parts_to_keep
from pytest_llmeval.cache.why import difference_from_nearest, explain_calls, origins_asked
from pytest_llmeval.errors import CacheError, Lost, ReplayMiss
from pytest_llmeval.records import Call, Slot
from tests.cache.calls import SLOT, asks, says, wanted

Make = Callable[..., Replies]
Sql = Callable[..., list[Any]]


def difference(here: Any, *stored: Any) -> str | None:
    return difference_from_nearest(parts_to_keep(here), map(parts_to_keep, stored))


def told_apart(here: Any, stored: Any) -> str:
    return difference(here, stored) or ""


def test_nothing_is_nearest_where_nothing_is_stored() -> None:
    assert difference(asks()) is None


def test_the_nearest_shares_the_most_words_though_both_ends_were_edited() -> None:
    stored = [asks(f"Name the capital of {name} in a word.") for name in ("Chad", "Peru")]
    text = difference(asks("What is the capital of Peru? One word!"), *stored)
    assert '"Name the capital of Peru in a word." stored' in str(text)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"path": "/v1/responses"},
        {"provider": "ollama"},
        {"body": {"model": "n", "messages": [{"role": "user", "content": "Peru?"}]}},
        {"body": ["Peru?"]},
    ],
)
def test_the_same_model_and_path_come_first(elsewhere: dict[str, Any]) -> None:
    stored = [asks("Peru?", **elsewhere), asks("quite another text altogether")]
    assert "quite another text altogether" in str(difference(asks("Peru?"), *stored))


def test_the_field_that_differs_is_named_with_both_texts() -> None:
    assert told_apart(asks("Say yes to case-3."), asks("Say yes to case-4.")) == (
        'messages[0].content: "Say yes to case-3." here, "Say yes to case-4." stored'
    )


def test_long_texts_are_shown_around_the_place_where_they_differ() -> None:
    text = told_apart(asks("a" * 500 + "X" + "b" * 500), asks("a" * 500 + "Y" + "b" * 500))
    assert "aaaXbbb" in text
    assert "aaaYbbb" in text
    assert len(text) < 200


def test_a_text_that_only_goes_on_differs_at_its_end() -> None:
    text = told_apart(asks("a" * 500), asks("a" * 500 + " today"))
    assert 'a today" stored' in text


def test_a_field_that_one_side_lacks_is_named() -> None:
    warm = asks(body={**asks().body, "temperature": 0.7})  # type: ignore[dict-item]
    assert told_apart(warm, asks()) == "temperature: 0.7 here, nothing stored"
    assert told_apart(asks(), warm) == "temperature: nothing here, 0.7 stored"


def test_further_fields_are_named_and_counted() -> None:
    here = asks(body={"a": 1, "b": 2, "c": 3, "d": 4, "e": {}})
    stored = asks(body={"a": 0, "b": 0, "c": 0, "d": 0, "e": []})
    assert told_apart(here, stored) == "a: 1 here, 0 stored; also b, c and 2 more"
    assert told_apart(asks("x", beta="b"), asks("y")).endswith("; also beta")


def test_an_edited_function_model_is_told_in_words() -> None:
    assert "code of the model" in told_apart(asks(source="abc"), asks(source="def"))


def test_requests_that_differ_in_a_secret_alone_say_so() -> None:
    here, stored = (asks(body={"api_key": secret}) for secret in ("hunter2", "hunter3"))
    assert "a secret" in told_apart(here, stored)


def test_what_is_stored_cannot_write_escape_codes_to_the_terminal() -> None:
    text = told_apart(asks(body="here"), asks(body="\x1b[2J\x9b2J\ud800"))
    assert text.isprintable()


# A miss


def paid(replies: Replies, text: str, *, slot: Slot = SLOT) -> None:
    request = asks(text)
    replies.pay(wanted(request.key(), says("Lima"), canonical=request), slot)


def missed(replies: Replies, text: str, *, slot: Slot = SLOT) -> str:
    request = asks(text)
    with pytest.raises(ReplayMiss) as caught:
        replies.lookup(wanted(request.key(), canonical=request), slot)
    return str(caught.value)


def test_a_miss_names_the_nearest_request_and_the_field_that_differs(make_replies: Make) -> None:
    for n in range(5):
        paid(make_replies(), f"Say yes to case-{n}.")
    assert (
        'the nearest stored one differs in messages[0].content: "Please say yes to case-3." here, '
        '"Say yes to case-3." stored.'
    ) in missed(make_replies("replay"), "Please say yes to case-3.")


def test_a_miss_of_long_requests_still_tells_what_pays_for_it(make_replies: Make) -> None:
    def body(text: str) -> dict[str, Any]:
        return {"model": "m", "metadata": {"a" * 90: text, "b" * 90: text}}

    stored, here = asks(body=body("Peru " * 90)), asks(body=body("Chad " * 90))
    make_replies().pay(wanted(stored.key(), says("Lima"), canonical=stored), SLOT)
    with pytest.raises(ReplayMiss, match=r"\.\.\.\. Pay for it once:  pytest --llm-cache=auto"):
        make_replies("replay").lookup(wanted(here.key(), canonical=here), SLOT)


def test_a_miss_of_a_further_draw_says_that_the_request_is_known(make_replies: Make) -> None:
    paid(make_replies(), "Peru?")
    assert "but not for this call" in missed(make_replies("replay"), "Peru?", slot=Slot(7, 0))


def test_a_miss_in_an_empty_cache_names_nothing(make_replies: Make) -> None:
    assert "nearest" not in missed(make_replies("replay"), "Peru?")


def test_a_session_that_finds_nothing_looks_a_few_times_only(make_replies: Make) -> None:
    paid(make_replies(), "Peru?")
    replies = make_replies("replay")
    told = ["nearest" in missed(replies, f"Chad {n}?") for n in range(EXPLAINED + 2)]
    assert told == [True] * EXPLAINED + [False] * 2
    assert "nearest" in missed(replies, "Chad 0?")


@pytest.mark.parametrize("attack", ["mode = 4", "value = x'00ff'", "value = NULL"])
def test_a_planted_request_is_passed_over(make_replies: Make, sql: Sql, attack: str) -> None:
    paid(make_replies(), "Peru?")
    sql(f"UPDATE Cache SET {attack} WHERE key LIKE 'request/%'")  # noqa: S608 - a test
    assert "nearest" not in missed(make_replies("replay"), "Chad?")
    paid(make_replies(), "Peru?", slot=Slot(1, 0))


@pytest.mark.parametrize("attack", ["mode = 4", "value = NULL"])
def test_a_request_whose_row_is_refused_is_not_known(
    make_replies: Make, sql: Sql, attack: str
) -> None:
    paid(make_replies(), "Peru?")
    sql(f"UPDATE Cache SET {attack} WHERE key LIKE 'request/%'")  # noqa: S608 - a test
    assert "is stored, but" not in missed(make_replies("replay"), "Peru?", slot=Slot(1, 0))


@pytest.mark.parametrize("error", [CacheError("full"), RecursionError("planted, and deep")])
def test_a_cache_that_cannot_be_looked_through_explains_nothing(
    make_replies: Make, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(requests, "stored_requests", fail)
    assert "no reply is stored" in missed(make_replies("replay"), "Chad?")


# The calls of a run

Ask = Callable[..., Call]


@pytest.fixture
def ask(make_replies: Make) -> Ask:
    def ask(text: str, *, session: str, slot: Slot = SLOT, mode: str = "auto") -> Call:
        request = asks(text)
        replies = make_replies(mode, session=session)
        reply = replies.lookup(wanted(request.key(), canonical=request), slot)
        reply = reply or replies.pay(wanted(request.key(), says("x"), canonical=request), slot)
        return Call(key=request.key(), slot=slot, draw=reply.draw, replayed=reply.replayed)

    return ask


@pytest.fixture
def cause(home: Path) -> Callable[[Call], str]:
    def cause(call: Call) -> str:
        with contextlib.closing(Store(home, warn=print)) as store:
            [(_, text)] = explain_calls(store, [call])
        return text

    return cause


def test_a_replay_is_one(ask: Ask, cause: Callable[[Call], str]) -> None:
    ask("Peru?", session="s1")
    assert cause(ask("Peru?", session="s2")) == "replayed"


def test_a_call_without_a_reply_tells_its_reason(cause: Callable[[Call], str]) -> None:
    call = Call(key="ab" * 32, slot=SLOT, draw=None, lost=Lost.MISS)
    assert "got no reply (ReplayMiss)" in cause(call)


def test_an_edited_request_is_held_against_the_nearest_older_one(
    ask: Ask, cause: Callable[[Call], str]
) -> None:
    ask("Name the capital of Peru.", session="s1")
    ask("Name the capital of Chad.", session="s1")
    ask("Please name the capital of Chad!", session="s2")  # nearer, but of the same session
    call = ask("Please name the capital of Peru!", session="s2")
    ask("Please name the capital of Peru.", session="s3")  # nearer, but newer
    assert '"Name the capital of Peru." stored' in cause(call)


def test_the_first_request_of_all_has_no_older_one(ask: Ask, cause: Callable[[Call], str]) -> None:
    assert cause(ask("Peru?", session="s1")) == "asked again: no older request is stored"


@pytest.mark.parametrize(("slot", "mode"), [(Slot(1, 0), "auto"), (SLOT, "refresh")])
def test_a_further_draw_of_a_known_request_says_so(
    ask: Ask, cause: Callable[[Call], str], slot: Slot, mode: str
) -> None:
    ask("Peru?", session="s1")
    call = ask("Peru?", session="s2", slot=slot, mode=mode)
    assert "the same request was stored before" in cause(call)


def test_a_request_of_an_older_version_is_not_kept(
    make_replies: Make, cause: Callable[[Call], str]
) -> None:
    reply = make_replies().pay(wanted(asks().key(), says("x")), SLOT)
    call = Call(key=asks().key(), slot=SLOT, draw=reply.draw)
    assert "nothing is kept of this request" in cause(call)


def test_equal_requests_are_looked_for_once(ask: Ask, home: Path, monkeypatch: Any) -> None:
    calls = [ask("Peru?", session="s1", slot=Slot(trial, 0)) for trial in range(3)]
    looked: list[Call] = []
    original = why._cause

    def look(call: Call, *arguments: Any) -> str:
        looked.append(call)
        return original(call, *arguments)

    monkeypatch.setattr(why, "_cause", look)
    with contextlib.closing(Store(home, warn=print)) as store:
        assert len(list(explain_calls(store, calls))) == 3
    assert len(looked) == 1


def test_the_origins_that_were_asked_are_read_from_what_is_stored(
    home: Path, make_replies: Make
) -> None:
    database = home / "cache" / DATABASE
    assert list(origins_asked(database)) == []
    for request in (asks(), asks(provider="anthropic", origin="https://api.example.com")):
        make_replies().pay(wanted(request.key(), says("Lima"), canonical=request), SLOT)
    assert list(origins_asked(database)) == [
        ("anthropic", "https://api.example.com"),
        ("openai", "http://127.0.0.1:8000"),
    ]
