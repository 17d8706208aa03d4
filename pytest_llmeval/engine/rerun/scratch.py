"""The folder for temporary files in which another session runs, and what killed sessions left."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "llmeval-"
A_DAY = 24 * 60 * 60.0  # the pytest that a killed session has started may go on


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder without links in its path, and remove it at the end.

    A session that was killed could not do so: after a day its folder goes, too.
    """
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with suppress(OSError, OverflowError):
            if _is_left(old):
                shutil.rmtree(old)
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Tell whether a folder is old, our own, and of a process that has ended."""
    pid = folder.name.removeprefix(PREFIX).partition("-")[0]
    found = folder.lstat()
    if os.name == "nt" or not pid.isdecimal() or found.st_uid != os.getuid():
        return False  # Windows has no signal that only asks
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return time.time() - found.st_mtime > A_DAY
    return False
