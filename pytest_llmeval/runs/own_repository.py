"""The repository in ``.llmeval/git``: bare, our own, with the objects of the user's one.

Whatever is fetched or checked out for a baseline goes there. The user's repository, its config and
its refs stay as they are.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_llmeval.cache.directory import prepare_directory, refuse_link
from pytest_llmeval.errors import GitFailed
from pytest_llmeval.runs.git import change

FOLDER = "git"

# No hook of the user's runs, and files that git keeps elsewhere are not sought at a host.
_WITHOUT_HOOKS = ("-c", "core.hooksPath=/dev/null")
_WITHOUT_DOWNLOADS = {"GIT_LFS_SKIP_SMUDGE": "1"}


class OwnRepository:
    """A bare repository beside the runs, made when it is needed first.

    Attributes:
        path: its folder.

    Args:
        directory: ``.llmeval``.
        top: folder of the user's working tree.
    """

    def __init__(self, directory: Path, *, top: Path) -> None:
        self.path = directory / FOLDER
        self._top = top

    def prepare(self) -> None:
        """Make it, and let it see the objects that the user's repository has now.

        Raises:
            GitFailed: git cannot make it.
            OSError: it cannot be written.
        """
        prepare_directory(self.path.parent)
        refuse_link(self.path)
        if not (self.path / "HEAD").exists():
            kind = change(self._top, "rev-parse", "--show-object-format")
            how = ("--quiet", "--bare", "--template=", f"--object-format={kind}")
            change(self._top, "init", *how, str(self.path))
        objects = change(self._top, "rev-parse", "--path-format=absolute", "--git-path", "objects")
        alternates = self.path / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_text(f"{objects}\n")

    def has(self, commit: str) -> bool:
        """Tell whether a commit is here; its files need not be.

        Args:
            commit: full hash.
        """
        try:
            self._change("cat-file", "-e", f"{commit}^{{commit}}")
        except GitFailed:
            return False
        return True

    @contextmanager
    def worktree(self, commit: str, place: Path) -> Iterator[None]:
        """Check a commit out, and remove that working tree at the end, also after Ctrl-C.

        Submodules are empty in it, and files that git-lfs keeps are its pointers to them.

        Args:
            commit: full hash.
            place: absolute; the folder must not exist.

        Raises:
            GitFailed: the commit is not here, or not with all its files.
        """
        add = ("worktree", "add", "--quiet", "--force", "--detach", "--", str(place), commit)
        try:
            self._change(*add)
            yield
        finally:
            shutil.rmtree(place, ignore_errors=True)
            self._change("worktree", "prune")

    def _change(self, *arguments: str) -> str:
        # By name: a bare repository that git comes across by itself it may be told to refuse.
        where = (f"--git-dir={self.path}", *_WITHOUT_HOOKS)
        return change(self.path, *where, *arguments, environ=_WITHOUT_DOWNLOADS)
