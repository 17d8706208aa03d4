from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache.disk import SharedCache, open_cache
from pytest_llmeval.cache.replies import Replies


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The directory that a user knows as .llmeval."""
    return tmp_path / ".llmeval"


@pytest.fixture
def folder(home: Path) -> Path:
    home.mkdir()
    return home / "cache"


@pytest.fixture
def cache(folder: Path) -> Iterator[SharedCache]:
    cache = open_cache(folder)
    cache.add_all([("name", b"value")])
    yield cache
    cache.close()


@pytest.fixture
def warned() -> list[str]:
    return []


@pytest.fixture
def make_replies(home: Path, warned: list[str]) -> Iterator[Callable[..., Replies]]:
    """Open replies on the one directory, as often as a test likes."""
    opened = []

    def make(mode: str = "auto", *, session: str = "s1", **more: float) -> Replies:
        opened.append(Replies(home, mode=mode, session=session, warn=warned.append, **more))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for replies in opened:
        replies.close()


@pytest.fixture
def sql(home: Path) -> Callable[..., list[Any]]:
    """Run a statement on the database behind the back of the cache."""

    def run(statement: str, *values: object) -> list[Any]:
        database = home / "cache" / "cache.db"
        with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as connection:
            return connection.execute(statement, values).fetchall()

    return run


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start processes that run a script, and end those that still run."""
    started: list[subprocess.Popen[str]] = []

    def run(script: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", script, *map(str, arguments)]
        root = Path(__file__).parents[2]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()
