from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from pytest_llmeval.models.limits.shared_pace import Refusal, SharedPace


def refusal(number: int = 0, pause: float = 1.5) -> Refusal:
    return Refusal(
        provider="openai", origin="https://api", started=float(number), now=2.5, pause=pause
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "not yet made"


@pytest.fixture
def path(directory: Path) -> Path:
    return directory / "pace" / "session.jsonl"


def shared_pace(directory: Path) -> SharedPace:
    return SharedPace(directory, "session")


def test_others_read_what_was_posted_once(directory: Path) -> None:
    reader, writer = shared_pace(directory), shared_pace(directory)
    writer.post(refusal(1))
    writer.post(refusal(2))

    assert [*reader.news()] == [refusal(1), refusal(2)]
    assert [*reader.news()] == []
    writer.post(refusal(3))
    assert [*reader.news()] == [refusal(3)]


def test_without_a_file_there_is_no_news(directory: Path) -> None:
    assert [*shared_pace(directory).news()] == []
    assert not directory.exists()


def test_a_line_in_the_making_is_read_when_it_is_whole(directory: Path, path: Path) -> None:
    reader = shared_pace(directory)
    shared_pace(directory).post(refusal(1))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert [*reader.news()] == []

    path.write_bytes(whole)
    assert [*reader.news()] == [refusal(1)]


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b'["a", "b", "c", "d", "e"]', b"\xff", b"1"])
def test_a_line_that_is_not_ours_is_skipped(directory: Path, path: Path, line: bytes) -> None:
    shared_pace(directory).post(refusal(1))
    path.write_bytes(line + b"\n" + path.read_bytes())

    assert [*shared_pace(directory).news()] == [refusal(1)]


def test_an_endless_pause_can_be_told(directory: Path) -> None:
    shared_pace(directory).post(refusal(pause=float("inf")))

    assert [*shared_pace(directory).news()] == [refusal(pause=float("inf"))]


def test_a_file_that_was_removed_begins_anew(directory: Path) -> None:
    reader, writer = shared_pace(directory), shared_pace(directory)
    for number in range(3):
        writer.post(refusal(number))
    [*reader.news()]
    writer.remove()
    writer.remove()
    writer.post(refusal(4))

    assert [*reader.news()] == [refusal(4)]


def test_it_keeps_out_of_git_and_leaves_no_folder(directory: Path, path: Path) -> None:
    shared_pace(directory).post(refusal())
    assert (directory / ".gitignore").read_text() == "*\n"
    assert path.exists()

    shared_pace(directory).remove()
    assert [entry.name for entry in directory.iterdir()] == [".gitignore"]


def test_a_disk_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    nowhere = shared_pace(tmp_path / "file")

    nowhere.post(refusal())
    nowhere.remove()
    assert [*nowhere.news()] == []


def test_only_its_owner_may_read_it(directory: Path, path: Path) -> None:
    shared_pace(directory).post(refusal())

    assert os.stat(path).st_mode & 0o077 == 0  # noqa: PTH116


def post_many(directory: Path) -> None:
    writer = shared_pace(directory)
    for number in range(200):
        writer.post(refusal(number))


def test_processes_that_post_at_once_lose_no_line(directory: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=post_many, args=(directory,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert len([*shared_pace(directory).news()]) == 400
