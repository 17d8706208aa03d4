from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_llmeval.cache.directory import (
    identity,
    open_plain,
    prepare_directory,
    refuse_unwritable,
    set_aside,
)
from pytest_llmeval.errors import SettingsError


@pytest.fixture
def database(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "cache.db").write_text("damaged")
    return folder / "cache.db"


def test_git_sees_nothing_of_the_directory(home: Path) -> None:
    prepare_directory(home)
    (home / "cache").mkdir()
    (home / "cache" / "cache.db").touch()
    subprocess.run(["git", "init", "-q", home.parent], check=True)
    status = subprocess.run(
        ["git", "-C", home.parent, "status", "--porcelain"], check=True, capture_output=True
    )
    assert status.stdout == b""


def test_what_is_no_plain_file_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="it is no plain file"):
        open_plain(tmp_path)


def test_missing_parents_are_made(tmp_path: Path) -> None:
    prepare_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / ".gitignore").read_text() == "*\n"


def test_a_directory_that_holds_other_things_gets_no_gitignore(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    prepare_directory(tmp_path)
    assert not (tmp_path / ".gitignore").exists()


def test_a_gitignore_of_the_user_is_left_alone(home: Path) -> None:
    home.mkdir()
    (home / ".gitignore").write_text("mine")
    prepare_directory(home)
    assert (home / ".gitignore").read_text() == "mine"


def test_a_file_in_its_place_is_an_error(home: Path) -> None:
    home.touch()
    with pytest.raises(OSError, match=r"\.llmeval"):
        prepare_directory(home)


def test_identity_of_nothing_is_none(tmp_path: Path) -> None:
    assert identity(tmp_path / "none" / "cache.db") is None


def test_identity_changes_with_the_database(database: Path) -> None:
    before = identity(database)
    database.rename(database.with_name("old"))
    without = identity(database)
    database.touch()
    assert len({before, without, identity(database)}) == 3


def test_identity_changes_with_the_folder(database: Path) -> None:
    before = identity(database)
    database.parent.rename(database.parent.with_name("old"))
    database.parent.mkdir()
    assert identity(database) != before


def test_a_damaged_folder_is_renamed_with_all_it_holds(database: Path) -> None:
    seen = identity(database)
    assert seen is not None
    target = set_aside(database, seen=seen)
    assert target is not None
    assert target.name.startswith("cache.damaged-")
    assert [file.name for file in target.iterdir()] == ["cache.db"]
    assert [folder.name for folder in target.parent.iterdir()] == [target.name]


def test_the_fresh_folder_of_another_process_is_not_renamed(database: Path) -> None:
    seen = identity(database)
    assert seen is not None
    database.parent.rename(database.parent.with_name("set aside by the other"))
    database.parent.mkdir()
    database.write_text("fresh")
    assert set_aside(database, seen=seen) is None
    assert [file.name for file in database.parent.iterdir()] == ["cache.db"]


def test_a_folder_that_is_gone_already_is_no_error(database: Path) -> None:
    seen = identity(database)
    assert seen is not None
    database.parent.rename(database.parent.with_name("set aside by the other"))
    assert set_aside(database, seen=seen) is None


def test_only_one_of_those_that_find_the_damage_may_rename(database: Path) -> None:
    seen = identity(database)
    assert seen is not None
    (database.parent / f"set-aside-{seen[0]}-{seen[1]}").touch()
    assert set_aside(database, seen=seen) is None
    assert database.exists()


def test_a_rename_that_fails_leaves_no_claim(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(self: Path, target: Path) -> None:
        raise PermissionError(13, "in use", str(self))

    monkeypatch.setattr(Path, "rename", rename)
    seen = identity(database)
    assert seen is not None
    with pytest.raises(PermissionError):
        set_aside(database, seen=seen)
    assert [file.name for file in database.parent.iterdir()] == ["cache.db"]


def test_a_place_where_nothing_can_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, below = tmp_path / "report.md", tmp_path / "report.md" / "page.html"
    there.touch()

    def refuse(file: Path) -> None:
        refuse_unwritable(file, named=f"--llm-report={file.name}", todo="Name another file")

    for file in (there, tmp_path / "new" / "folder" / "page.html"):
        refuse(file)  # can be written, once its folders are made
    with pytest.raises(SettingsError, match=r"page.html cannot be written: .*md is no folder"):
        refuse(below)
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    for file, nearest in ((there, there), (tmp_path / "new" / "page.html", tmp_path)):
        with pytest.raises(SettingsError, match=f"{nearest} is read-only. Name another file"):
            refuse(file)


def test_a_disk_without_room_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*, total: int, free: int) -> None:
        monkeypatch.setattr("shutil.disk_usage", lambda place: (total, total - free, free))
        refuse_unwritable(tmp_path / "runs" / "run", named=".llmeval", todo="Make room")

    refuse(total=10**9, free=10**6)
    refuse(total=0, free=0)  # a file system that does not know
    with pytest.raises(SettingsError, match=r"\.llmeval cannot be .* with 12 kB left\. Make room"):
        refuse(total=10**9, free=12_345)


def test_a_disk_that_does_not_tell_its_room_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(place: Path) -> None:
        raise OSError(38, "not implemented", str(place))

    monkeypatch.setattr("shutil.disk_usage", fail)
    refuse_unwritable(tmp_path / "run", named=".llmeval", todo="Make room")
