"""Complete a worktree of the base: files of git-lfs, submodules, ignored files.

All of it is taken from this checkout, where it is the base's own; nothing is fetched.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from pytest_llmeval.engine.rerun.relocation import Relocation
from pytest_llmeval.errors import BaselineError, GitFailed
from pytest_llmeval.runs.git import ask, change, short_hash, tracked_below

_LFS = "version https://git-lfs.github.com/spec/v1"
_OID = re.compile(rb"^oid sha256:([0-9a-f]{64})$", re.MULTILINE)


def prepare(relocation: Relocation, files: Iterable[Path], filters: Mapping[str, str]) -> None:
    """Give a worktree what git does not check out into it.

    Args:
        relocation: of the worktree.
        files: files and folders of the checkout that git does not keep, absolute.
        filters: variables that tell git how files are filtered here.

    Raises:
        BaselineError: something that the base needs is not here.
    """
    _fill_pointers(relocation, filters)
    _fill_submodules(relocation)
    for file in files:
        _copy(file, relocation)


def _fill_pointers(relocation: Relocation, filters: Mapping[str, str]) -> None:
    """Put the files that git-lfs keeps where the commit has pointers to them.

    What is a pointer here, too, is left: both sides read the same.
    """
    base = relocation.worktree
    found = ask(base, "grep", "-l", "-z", "--fixed-strings", "-e", _LFS) or ""
    store = ask(relocation.checkout, "rev-parse", "--path-format=absolute", "--git-common-dir")
    for name in filter(None, found.split("\0")):
        pointer = (base / name).read_bytes()
        oid = _OID.search(pointer)
        if oid is None or not pointer.startswith(_LFS.encode()):
            continue
        here, digest = relocation.checkout / name, oid[1].decode()
        kept = Path(store or "") / "lfs" / "objects" / digest[:2] / digest[2:4] / digest
        source = next((file for file in (here, kept) if _digest(file) == digest), None)
        if source is not None:
            shutil.copyfile(source, base / name)
            # By the size alone git would take it for changed.
            change(base, "add", "--", name, environ=filters)
        elif not here.is_file() or here.read_bytes() != pointer:
            commit = short_hash(ask(base, "rev-parse", "HEAD") or "")
            raise BaselineError(
                f"git-lfs keeps {name}, and what {commit} has of it is not here. Fetch it:  "
                f"git lfs fetch origin {commit}"
            )


def _digest(file: Path) -> str | None:
    if not file.is_file():
        return None
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _fill_submodules(relocation: Relocation) -> None:
    """Check out the commits of submodules that are checked out here, too."""
    for name in empty_submodules(relocation):
        source, place = relocation.checkout / name, relocation.worktree / name
        commit = ask(relocation.worktree, "rev-parse", "--verify", "--quiet", f"HEAD:{name}")
        if commit is None or not (source / ".git").exists():
            continue
        quiet = ("--quiet", "--shared", "--no-checkout", "--template=")
        try:
            change(relocation.worktree, "clone", *quiet, "--", str(source), str(place))
            change(place, "checkout", "--quiet", "--detach", commit)
        except GitFailed as exc:
            raise BaselineError(
                f"submodule {name} of that commit is at {short_hash(commit)}, which cannot be "
                f"checked out: {exc}. Fetch it:  git -C {name} fetch origin"
            ) from exc


def empty_submodules(relocation: Relocation) -> tuple[str, ...]:
    """Name the submodules of a worktree in whose folders nothing is."""
    found = ask(
        relocation.worktree, "config", "--file", ".gitmodules", "--get-regexp", r"\.path$"
    )  # fails where there is no such file
    names = (line.partition(" ")[2] for line in (found or "").splitlines())
    return tuple(name for name in names if not any((relocation.worktree / name).glob("*")))


def _copy(file: Path, relocation: Relocation) -> None:
    place = relocation.place(file)
    name = os.path.relpath(file, relocation.checkout)
    if place is None or not file.exists():
        raise BaselineError(
            f"llm_base_files names {name}, which is not in this checkout: make it in an earlier "
            "step of the job, or take the line out"
        )
    if place.exists() or tracked_below((file,), top=relocation.checkout):
        # Else a branch could bring a conftest.py of its own, which the base has not.
        raise BaselineError(
            f"llm_base_files names {name}, which git keeps, here or in the base's commit. Take it "
            "out: it is for files that git does not keep"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    if file.is_dir():
        shutil.copytree(file, place)
    else:
        shutil.copyfile(file, place)


def run_setup(config: pytest.Config) -> None:
    """Run what the base's own ini file says is to be run before its evals.

    Raises:
        BaselineError: it failed.
    """
    command = (config.getini("llm_base_setup") or "").strip()
    if not command:
        return
    done = subprocess.run(  # noqa: S602 - a line of the base's ini file, as a Makefile is
        command, shell=True, cwd=config.rootpath, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise BaselineError(f"llm_base_setup = {command}  ended with {done.returncode}")
