"""The directory ``.llmeval``: check its owner, make it, and set a damaged cache aside."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from secrets import token_hex

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.originals import Files

Identity = tuple[int, int]
ROOM = 10**6  # bytes; an empty cache and the log beside it take a tenth of that


def refuse_foreign(directory: Path, *, rootpath: Path) -> None:
    """Refuse a directory that another user may have put in the way.

    Args:
        directory: ``.llmeval``, found, or named in a file that a branch may change.
        rootpath: the owner of this folder may own the directory, too.

    Raises:
        SettingsError: it belongs to neither this user, root nor the owner of rootpath.
    """
    if os.name == "nt" or not os.path.lexists(directory):
        return
    known = {os.getuid(), 0, rootpath.stat().st_uid}
    looks = (directory.lstat(), directory.stat() if directory.exists() else directory.lstat())
    strangers = [look.st_uid for look in looks if look.st_uid not in known]
    if strangers:
        raise SettingsError(
            f"{directory} belongs to {_user(strangers[0])}, not to you, root or the owner of "
            f"{rootpath}. If it is to be trusted, type --llm-dir={directory} (--dir of llmeval): a "
            "file of settings cannot say so"
        )


def refuse_unwritable(file: Path, *, named: str, todo: str) -> None:
    """Refuse a place where a file could not be written at the end of a session.

    Args:
        file: that may be there, or be made with its folders.
        named: what names the place.
        todo: what helps.

    Raises:
        SettingsError: it cannot be written.
    """
    nearest = next(one for one in (file, *file.parents) if os.path.lexists(one))
    if nearest == file or os.path.isdir(nearest):  # noqa: PTH112 - raises nothing
        why = _why_nothing_fits(nearest) if os.access(nearest, os.W_OK) else "is read-only"
        if not why:
            return
    else:
        why = "is no folder"
    raise SettingsError(f"{named} cannot be written: {nearest} {why}. {todo}")


def _why_nothing_fits(place: Path) -> str:
    """Say that the disk of a place is full; nothing where some room is left, or nobody knows."""
    try:
        total, _, free = shutil.disk_usage(place)
    except OSError:
        return ""
    return f"is on a disk with {free // 1000} kB left" if total and free < ROOM else ""


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def prepare_directory(directory: Path) -> None:
    """Make ``.llmeval`` with a ``.gitignore`` of its own that keeps all of it out of git.

    A directory that already holds something is left as it is: with ``--llm-dir=.`` a
    ``.gitignore`` of ours would hide the whole project.

    Raises:
        OSError: it cannot be made.
    """
    Files.makedirs(directory, exist_ok=True)
    if not Files.listdir(directory):
        with contextlib.suppress(FileExistsError):
            Files.add(directory / ".gitignore", b"*\n", os.O_EXCL)


def refuse_link(folder: Path) -> None:
    """Refuse a planted link, so that nothing is written or deleted in the place behind it.

    Args:
        folder: one in ``.llmeval``, which may be a link of the user's itself.

    Raises:
        OSError: it is a symbolic link.
    """
    try:
        is_link = stat.S_ISLNK(Files.lstat(folder).st_mode)
    except OSError:
        is_link = False
    if is_link:
        raise OSError(
            f"{folder} is a symbolic link, which is not followed. Remove it: rm {folder} "
            "(what it leads to stays). To keep things elsewhere name that place with --llm-dir"
        )


def open_plain(path: Path) -> BufferedReader:
    """Open a regular file to read it; an open pipe would wait for a writer.

    Raises:
        OSError: it is a folder, a pipe or a device, or it cannot be opened.
    """
    return open(path, "rb", opener=_plain)


def _plain(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows lacks this flag
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no plain file", path)


def identity(database: Path) -> Identity | None:
    """Return the identity of a cache: inodes of folder and database, None if missing.

    The folder's inode alone would not do: a folder that is removed and made again often gets the
    old one. The inode of a database that we hold open is never given to another file.
    """
    try:
        folder = Files.stat(database.parent).st_ino
    except OSError:
        return None
    try:
        return folder, Files.lstat(database).st_ino
    except OSError:
        return folder, 0


def set_aside(database: Path, *, seen: Identity) -> Path | None:
    """Rename the folder of a damaged database, unless another process did so first.

    Only one of the processes that find the damage may rename, or the second would rename the fresh
    cache of the first. The right to rename is a file with the inodes in its name, made exclusively
    inside the folder. A process that made this file and *then* still sees those inodes has the
    damaged folder, because no other process may have moved the folder meanwhile.

    Args:
        database: the file that was found damaged.
        seen: ``identity(database)`` at that time.

    Returns:
        Where the folder went; None if another process has moved it or is about to.

    Raises:
        OSError: it cannot be renamed.
    """
    folder = database.parent
    claim = folder / f"set-aside-{seen[0]}-{seen[1]}"
    try:
        claim.touch(exist_ok=False)
    except (FileExistsError, FileNotFoundError):
        return None
    try:
        if identity(database) != seen:
            return None
        now = f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
        target = folder.with_name(f"{folder.name}.damaged-{now}-{token_hex(3)}")
        folder.rename(target)
    finally:
        claim.unlink(missing_ok=True)
    (target / claim.name).unlink()
    return target
