"""Everything that was written somewhere, unpacked, so that a test can look for what must not be."""

from __future__ import annotations

import contextlib
import gzip
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path


def files_with(secret: str, folder: Path) -> list[str]:
    """Name the files that hold a text, as it is or packed."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_file() and any(secret.encode() in content for content in _contents(path)):
            found.add(path.name)
    return sorted(found)


def _contents(path: Path) -> Iterator[bytes]:
    yield str(path).encode()
    raw = path.read_bytes()
    yield raw
    if path.suffix == ".gz":
        yield gzip.decompress(raw)
    if path.name == "cache.db":  # its values are packed: a search of the file finds nothing
        with contextlib.closing(sqlite3.connect(path)) as database:
            yield from (
                zlib.decompress(row) for (row,) in database.execute("SELECT value FROM Cache")
            )
