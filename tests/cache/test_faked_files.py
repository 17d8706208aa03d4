"""The cache works while a test fakes the clock and the files, and is given up by nobody for it."""

from __future__ import annotations

import builtins
import io
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.originals import Clock
from tests.cache.calls import KEY, SLOT, answered, never, says

OTHER = "cd" * 32
FILES = ("open", "close", "read", "write", "stat", "lstat", "fstat", "listdir", "mkdir", "unlink")
CLOCKS = ("time", "monotonic", "perf_counter", "sleep")


def fake(patch: pytest.MonkeyPatch) -> None:
    """Fake what libraries fake, so that whoever asks is told of a world that is not there."""

    def refuse(*_arguments: Any, **_more: Any) -> Any:
        raise FileNotFoundError(2, "only what the test has put there")

    for name in FILES:
        patch.setattr(os, name, refuse)
    for name in CLOCKS:
        patch.setattr(time, name, refuse)
    patch.setattr(builtins, "open", refuse)
    patch.setattr(io, "open", refuse)


def test_draws_are_found_and_kept_while_files_and_clocks_are_fakes(
    make_replies: Callable[..., Replies], warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = make_replies()
    before = Clock.now()
    assert not answered(replies, KEY, SLOT, says("Lima")).replayed

    with monkeypatch.context() as patch:
        fake(patch)
        found = answered(replies, KEY, SLOT, never)
        bought = answered(replies, OTHER, SLOT, says("Rome"))

    assert found.replayed
    assert not bought.replayed
    assert bought.created >= f"{before:%Y-%m-%dT%H:%M:%S}"
    assert answered(replies, OTHER, SLOT, never).body == b"Rome"
    assert warned == []


def test_a_cache_that_could_not_be_opened_among_fakes_is_tried_again(
    make_replies: Callable[..., Replies], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = make_replies()
    with monkeypatch.context() as patch:
        fake(patch)
        assert not answered(replies, KEY, SLOT, says("Lima")).replayed

    assert not answered(replies, OTHER, SLOT, says("Rome")).replayed
    assert answered(replies, OTHER, SLOT, never).replayed
