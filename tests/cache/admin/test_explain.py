from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache.admin.explain import explain
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.storage.store import Store
from pytest_llmeval.records import Call, Slot
from tests.cache.calls import SLOT, asks, says

Make = Callable[..., Replies]
Ask = Callable[..., Call]


@pytest.fixture
def ask(make_replies: Make) -> Ask:
    def ask(text: str, *, session: str, slot: Slot = SLOT, mode: str = "auto") -> Call:
        request = asks(text)
        replies = make_replies(mode, session=session)
        reply = replies.lookup(request.key(), slot, request=request)
        reply = reply or replies.pay(request.key(), slot, says("x"), request=request)
        return Call(key=request.key(), slot=slot, draw=reply.draw, replayed=reply.replayed)

    return ask


@pytest.fixture
def cause(home: Path) -> Callable[[Call], str]:
    def cause(call: Call) -> str:
        with contextlib.closing(Store(home, warn=print)) as store:
            [explained] = explain(store, [call])
        return explained.cause

    return cause


def test_a_replay_is_one(ask: Ask, cause: Callable[[Call], str]) -> None:
    ask("Peru?", session="s1")
    assert cause(ask("Peru?", session="s2")) == "replayed"


def test_a_call_without_a_reply_tells_its_reason(cause: Callable[[Call], str]) -> None:
    call = Call(key="ab" * 32, slot=SLOT, draw=None, reason="ReplayMiss")
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
    assert cause(ask("Peru?", session="s1")) == "asked anew: no older request is stored"


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
    reply = make_replies().pay(asks().key(), SLOT, says("x"))
    call = Call(key=asks().key(), slot=SLOT, draw=reply.draw)
    assert "nothing is kept of this request" in cause(call)


def test_equal_requests_are_looked_for_once(ask: Ask, home: Path, monkeypatch: Any) -> None:
    from pytest_llmeval.cache.admin import explain as explaining

    calls = [ask("Peru?", session="s1", slot=Slot(trial, 0)) for trial in range(3)]
    looked: list[Call] = []
    original = explaining._Library.cause
    monkeypatch.setattr(
        explaining._Library, "cause", lambda self, call: looked.append(call) or original(self, call)
    )
    with contextlib.closing(Store(home, warn=print)) as store:
        assert len(list(explain(store, calls))) == 3
    assert len(looked) == 1
