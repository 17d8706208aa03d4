from __future__ import annotations

import contextlib
import gzip
import json
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache import reply
from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import StoredReply
from pytest_llmeval.cache.transfer import (
    ImportRefused,
    Merging,
    export,
    merge,
    read_export,
    read_folder,
)
from pytest_llmeval.records import Slot
from tests.cache.calls import KEY, SLOT, answered, asks, never, overtaken, says, wanted

Make = Callable[..., Replies]
Sql = Callable[..., list[Any]]


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with contextlib.closing(Store(home, warn=print)) as store:
        yield store


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with contextlib.closing(Store(tmp_path / "other", warn=print)) as store:
        yield store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.jsonl"


def taken(store: Store, path: Path) -> Merging:
    return store.rewrite(partial(merge, foreign=read_export(path)))


def rows(store: Store) -> dict[str, bytes | None]:
    return {row.name: row.value for row in store.rows()}


def fill(make_replies: Make) -> None:
    request = asks()

    def pay(session: str, call: Callable[[], StoredReply]) -> None:
        replies = make_replies("refresh", session=session)
        replies.pay(wanted(request.key(), call, canonical=request), SLOT)

    pay("s1", says("Lima s1"))
    pay("s2", overtaken(partial(pay, "s2", says("Lima s2")), "a spare"))
    make_replies().pay(wanted(KEY, says(b"\xff\x00" + secrets.token_bytes(50))), Slot(None, 3))


@pytest.mark.parametrize("name", ["replies.jsonl", "replies.jsonl.gz"])
def test_all_of_a_cache_travels(
    make_replies: Make, store: Store, other: Store, tmp_path: Path, name: str
) -> None:
    fill(make_replies)
    done = export(store, tmp_path / name)
    assert (done.draws, done.requests, done.left_out) == (4, 1, 0)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    came = taken(other, tmp_path / name)
    assert (came.new, came.spare, came.known) == (3, 1, 0)
    assert rows(other) == rows(store)


def test_what_is_here_already_is_not_taken_again(
    make_replies: Make, store: Store, path: Path
) -> None:
    fill(make_replies)
    export(store, path)
    before = rows(store)
    came = taken(store, path)
    assert (came.new, came.spare, came.known) == (0, 0, 4)
    assert rows(store) == before


def test_a_draw_that_is_here_is_never_overwritten(
    make_replies: Make, store: Store, other: Store, path: Path, tmp_path: Path
) -> None:
    make_replies().pay(wanted(KEY, says("theirs")), SLOT)
    export(store, path)
    with contextlib.closing(
        Replies(tmp_path / "other", mode="auto", session="s", warn=print)
    ) as ours:
        paid = ours.pay(wanted(KEY, says("ours")), SLOT)
        came = taken(other, path)
        assert (came.new, came.spare) == (0, 1)
        assert answered(ours, KEY, SLOT, never).draw == paid.draw


def test_rows_that_we_did_not_write_do_not_travel(
    make_replies: Make, store: Store, path: Path, sql: Sql
) -> None:
    fill(make_replies)
    store.add("whatever", b"value")
    sql("UPDATE Cache SET mode = 4 WHERE key LIKE '%/0/0/0'")
    sql("UPDATE Cache SET value = x'00' WHERE key LIKE '%/0/0/1'")
    done = export(store, path)
    assert (done.draws, done.left_out) == (2, 3)


def test_a_slot_that_holds_a_planted_row_is_not_written_into(
    make_replies: Make, store: Store, path: Path, sql: Sql
) -> None:
    make_replies().pay(wanted(KEY, says("theirs")), SLOT)
    export(store, path)
    sql("UPDATE Cache SET mode = 4")
    assert taken(store, path).spare == 1


def test_a_file_that_is_there_is_not_overwritten(store: Store, path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        export(store, path)
    assert path.read_text() == "mine"


def test_a_file_that_cannot_be_finished_is_removed(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_llmeval.cache import transfer

    monkeypatch.setattr(transfer, "HEAD", {"kind": object()})
    with pytest.raises(TypeError):
        export(store, path)
    assert not path.exists()


def edited(
    make_replies: Make, store: Store, path: Path, edit: Callable[[list[Any]], object]
) -> None:
    fill(make_replies)
    export(store, path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    edit(lines)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


# Lines: 1 head, 2 to 5 draws (2 of bytes, or 2 to 4 of text), then the request, then the end.
EDITS: dict[str, tuple[Callable[[list[Any]], object], str]] = {
    "kind": (lambda all_: all_[0].update(kind="x"), "line 1: this is no file of"),
    "schema": (lambda all_: all_[0].update(schema=2), "line 1: it has schema 2"),
    "no-object": (lambda all_: all_.insert(1, []), "line 2: it does not fit the format"),
    "no-name": (lambda all_: all_[1].pop("name"), "line 2: it has no name"),
    "name": (lambda all_: all_[1].update(name="../x"),
             "line 2: its name is not the name of a reply"),
    "no-body": (lambda all_: (all_[1].pop("body", 0), all_[1].pop("body_base64", 0)),
                "line 2: it has no proper body"),
    "base64": (lambda all_: all_[1].update(body_base64="!"), "line 2: it has no proper body"),
    "digest": (lambda all_: all_[1]["reply"].update(sha256="0" * 64), "line 2: its body does not"),
    "draw": (lambda all_: all_[1]["reply"].update(draw="x"), "its header does not fit"),
    "request": (lambda all_: all_[-2].update(request={}), "it is no request of a known"),
    "place": (lambda all_: all_[-2].update(name="request/x"), "its name is not that of a request"),
    "missing": (lambda all_: all_.pop(2), "the last line does not count"),
    "tail": (lambda all_: all_.append({}), "the last line does not count"),
    "cut-off": (lambda all_: all_.pop(), "is cut off after line 6"),
    "empty": (lambda all_: all_.clear(), "is cut off after line 0"),
}  # fmt: skip


@pytest.mark.parametrize(("edit", "message"), EDITS.values(), ids=EDITS)
def test_a_malformed_line_is_refused_by_its_number(
    make_replies: Make,
    store: Store,
    path: Path,
    edit: Callable[[list[Any]], object],
    message: str,
) -> None:
    edited(make_replies, store, path, edit)
    with pytest.raises(ImportRefused, match=message) as caught:
        read_export(path)
    assert str(path) in str(caught.value)
    assert "Nothing was imported" in str(caught.value)


def test_a_spare_under_the_name_of_another_draw_is_refused(
    make_replies: Make, store: Store, path: Path
) -> None:
    def edit(lines: list[Any]) -> None:
        spare = next(line for line in lines if "spare" in line.get("name", ""))
        spare["reply"]["draw"] = "0" * 32

    edited(make_replies, store, path, edit)
    with pytest.raises(ImportRefused, match="its name and its reply differ"):
        read_export(path)


def test_a_request_that_is_too_long_is_refused(
    make_replies: Make, store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(make_replies)
    export(store, path)
    monkeypatch.setattr(reply, "pack_object", lambda _: None)
    with pytest.raises(ImportRefused, match="its request is too long"):
        read_export(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"request":{"schema"', '"request":{"odd":1e999,"schema"'),
        ('"request":{"schema"', '"request":{"odd":["\\ud800",1e999],"schema"'),
        ('"reply":{"schema"', '"reply":{"odd":1e999,"schema"'),
    ],
    ids=["request", "half of a pair", "reply"],
)
def test_a_number_that_only_python_can_write_is_refused(
    make_replies: Make, store: Store, path: Path, old: str, new: str
) -> None:
    fill(make_replies)
    export(store, path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ImportRefused, match="Nothing was imported"):
        read_export(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"SQLite format 3\0", "line 1: it is no JSON"),
        (gzip.compress(b'{"kind": "x"}')[:-4], "after line"),
        (b"\x1f\x8bnoise", "after line 0"),
    ],
    ids=["database", "cut-off", "noise"],
)
def test_another_file_is_refused(path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    with pytest.raises(ImportRefused, match=message):
        read_export(path)


def test_the_cache_of_another_folder_is_read_as_its_export(
    make_replies: Make, store: Store, other: Store, path: Path, home: Path
) -> None:
    fill(make_replies)
    export(store, path)

    found = read_folder(home, warn=pytest.fail)

    assert found == read_export(path)
    other.rewrite(partial(merge, foreign=found))
    assert rows(other) == dict(found)


def test_a_row_of_another_folder_that_is_not_whole_is_left_out(
    make_replies: Make, store: Store, home: Path
) -> None:
    fill(make_replies)
    whole = read_folder(home, warn=pytest.fail)
    (name, value) = next(one for one in whole if one[0].endswith("/0"))
    store.add(f"{name}/spare/{'0' * 32}", value)  # of another draw
    store.add("no name of ours", b"x")

    assert read_folder(home, warn=pytest.fail) == whole


def test_a_folder_without_a_cache_has_no_replies(tmp_path: Path) -> None:
    assert read_folder(tmp_path, warn=pytest.fail) == []
    assert list(tmp_path.iterdir()) == []
