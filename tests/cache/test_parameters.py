"""Parameters of cases, kept by their digest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_llmeval.cache.case_parameters import keep_parameters, parameters_name, read_parameters
from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.errors import CacheUnusable, RowRefused
from tests.cache.calls import KEY, SLOT, wanted


@dataclass
class Ticket:
    label: str


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, warn=print)


def kept(store: Store, digest: str) -> object:
    return read_parameters(store.find(parameters_name(digest))[0])


def test_parameters_are_read_as_they_were_kept(store: Store) -> None:
    keep_parameters(store, {"a": {"row": Ticket("legal"), "n": (1, None)}, "b": {"x": 2.5}})
    assert kept(store, "a") == {"row": {"label": "legal"}, "n": [1, None]}
    assert kept(store, "b") == {"x": 2.5}
    assert kept(store, "c") is None
    store.close()


def test_what_is_kept_already_stays(store: Store) -> None:
    keep_parameters(store, {"a": {"x": 1}})
    keep_parameters(store, {"a": {"x": 2}, "b": {"x": 3}})
    keep_parameters(store, {"a": {"x": 4}})
    assert (kept(store, "a"), kept(store, "b")) == ({"x": 1}, {"x": 3})
    store.close()


def test_more_than_one_query_takes_are_kept(store: Store) -> None:
    keep_parameters(store, {str(at): {"x": at} for at in range(250)})
    assert [kept(store, str(at)) for at in (0, 99, 100, 249)] == [
        {"x": at} for at in (0, 99, 100, 249)
    ]
    store.close()


def test_secrets_are_blanked_and_long_texts_are_cut(store: Store) -> None:
    keep_parameters(store, {"a": {"api_key": "sk-secret", "text": "x" * 20_000}})
    found = kept(store, "a")
    assert isinstance(found, dict)
    assert found["api_key"] == "***"
    assert len(found["text"]) < 11_000
    store.close()


def test_what_cannot_be_kept_is_left_out(store: Store) -> None:
    long = {"x": [["y" * 10_000] * 60] * 2}
    keep_parameters(store, {"a": {"x": object()}, "b": long, "c": {"x": 1}})
    assert [kept(store, digest) for digest in "abc"] == [None, None, {"x": 1}]
    store.close()


@pytest.mark.parametrize("value", [None, RowRefused("planted"), b"no zlib"])
def test_rows_that_are_not_ours_are_none(value: bytes | RowRefused | None) -> None:
    assert read_parameters(value) is None


@pytest.mark.parametrize("mode", ["auto", "refresh", "off"])
def test_they_are_kept_with_the_first_look_into_the_cache(tmp_path: Path, mode: str) -> None:
    replies = Replies(tmp_path, mode=mode, session="s", warn=print)  # type: ignore[arg-type]
    replies.keep_parameters({"a": {"x": 1}})
    assert not (tmp_path / "cache").exists()
    replies.lookup(wanted(KEY), SLOT)
    replies.close()
    if mode == "off":
        assert not (tmp_path / "cache").exists()
    else:
        store = Store(tmp_path, warn=print)
        assert kept(store, "a") == {"x": 1}
        store.close()


def test_a_cache_that_cannot_be_written_costs_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> bool:
        raise CacheUnusable("full")

    monkeypatch.setattr(Store, "_write", full)
    replies = Replies(tmp_path, mode="auto", session="s", warn=print)
    replies.keep_parameters({"a": {"x": 1}})
    assert replies.lookup(wanted(KEY), SLOT) is None
    replies.close()
