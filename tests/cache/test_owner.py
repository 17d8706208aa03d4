"""A directory that somebody else may have put in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_llmeval.cache.directory import refuse_foreign
from pytest_llmeval.errors import SettingsError
from tests.platforms import needs

pwd = needs("pwd", "users have no numbers")

NOBODY = 4242


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let a path belong to another user than the one who runs this; returns the other one."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        return NOBODY
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    return os.geteuid()


def test_what_is_ones_own_or_not_there_will_do(tmp_path: Path) -> None:
    refuse_foreign(tmp_path, rootpath=Path("/"))
    refuse_foreign(tmp_path / "none", rootpath=Path("/"))


@pytest.mark.parametrize("has_name", [True, False])
def test_a_directory_of_somebody_else_is_refused_by_the_owners_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_name: bool
) -> None:
    uid = give_away(tmp_path, monkeypatch)

    def look_up(_: int) -> pwd.struct_passwd:
        if not has_name:
            raise KeyError
        return pwd.struct_passwd(("mallory", "x", uid, uid, "", "/", "/"))

    monkeypatch.setattr(pwd, "getpwuid", look_up)

    with pytest.raises(SettingsError) as refused:
        refuse_foreign(tmp_path, rootpath=Path("/"))
    assert f"belongs to {'mallory' if has_name else f'user {uid}'}, " in str(refused.value)
    assert "--llm-dir" in str(refused.value)


def test_the_owner_of_the_project_may_own_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_away(tmp_path, monkeypatch)
    refuse_foreign(tmp_path, rootpath=tmp_path)


def test_a_link_of_somebody_else_is_refused_wherever_it_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to("/")
    (tmp_path / "loose").symlink_to("nowhere")
    for name in ("link", "loose"):
        refuse_foreign(tmp_path / name, rootpath=Path("/"))
        give_away(tmp_path / name, monkeypatch)
        with pytest.raises(SettingsError):
            refuse_foreign(tmp_path / name, rootpath=Path("/"))
        monkeypatch.undo()
