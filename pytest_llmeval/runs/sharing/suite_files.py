"""The files of a commit in which a session without paths would find evals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from pytest_llmeval.records import filters_of, paths_of
from pytest_llmeval.runs.git import ask
from pytest_llmeval.settings import MARKER

TEST_FILES = ("test_*.py", "*_test.py")


def suite_files(
    commit: str,
    *,
    top: Path,
    root: str,
    testpaths: Sequence[str] = (),
    patterns: Sequence[str] = TEST_FILES,
) -> tuple[str, ...] | None:
    """List the files that may hold evals: test files in which the marker is named.

    Below a conftest.py that names the marker every test file may hold one.

    Args:
        commit: full hash.
        top: folder of the working tree.
        root: pytest's rootpath relative to it, ``.`` for the same.
        testpaths: as in the ini file; folders alone, everything without any.
        patterns: ``python_files`` of the ini file.

    Returns:
        Paths relative to rootpath, sorted; None if the commit is not here.
    """
    tree = f"{commit}:{'' if root == '.' else root}"
    everything = ask(top, "ls-tree", "-r", "--name-only", "-z", tree)
    if everything is None:
        return None
    # A grep that finds nothing fails.
    naming = (ask(top, "grep", "-l", "-z", "-F", "-e", MARKER, tree) or "").split("\0")
    named = {PurePosixPath(name.removeprefix(f"{tree}:")) for name in naming}
    marked = [path.parent for path in named if path.name == "conftest.py"]
    found = (
        str(path)
        for path in map(PurePosixPath, filter(None, everything.split("\0")))
        if any(path.match(one) if "/" in one else fnmatch(path.name, one) for one in patterns)
        and _reaches(testpaths or (".",), path)
        and (path in named or _reaches(marked, path))
    )
    return tuple(sorted(found))


def unreached(files: Iterable[str], *, selection: Sequence[str]) -> tuple[str, ...]:
    """List the files that no path of a selection reaches and that it does not ignore."""
    ignored = [one.partition("=")[2] for one in filters_of(selection) if one.startswith("--ignore")]
    paths = paths_of(selection)
    return tuple(
        name
        for name in files
        if not _reaches(paths or (".",), PurePosixPath(name))
        and not _reaches(ignored, PurePosixPath(name))
        and not any(fnmatch(name, pattern) for pattern in ignored)
    )


def _reaches(places: Iterable[str | PurePosixPath], path: PurePosixPath) -> bool:
    return any(map(path.is_relative_to, places))
