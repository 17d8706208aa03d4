"""The repository at a host: bare, with commits of a small project of evals, made by real git."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.project import APP, EVALS, GIT_CONFIG, INI, MODEL

PROJECT = {
    "app.py": APP,
    "model.py": MODEL,
    "test_evals.py": EVALS.replace("range(20)", "range(8)"),  # enough for a drop of 0.6
    "pytest.ini": INI,
    ".gitignore": "__pycache__/\n.llmeval/\nout/\ncalls.log\n",
}
WORSE = {"app.py": 'PROMPT = "Say yes to {case}. rate=0.2"\n'}

_EPOCH = 1_760_000_000


def git_environ() -> dict[str, str]:
    """Return this process's variables, with git as it is out of the box."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    people = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"))
    }
    config = {"GIT_CONFIG_GLOBAL": str(GIT_CONFIG), "GIT_CONFIG_NOSYSTEM": "1"}
    return {**others, **people, **config}


def run_git(
    folder: Path, *arguments: str, given: str = "", environ: Mapping[str, str] | None = None
) -> str:
    """Run git in a folder; its output, or an AssertionError with what it complains of."""
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        env=git_environ() | dict(environ or {}),
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"git {arguments}: {done.stderr}"
    return done.stdout.strip()


def has_commit(folder: Path, commit: str) -> bool:
    """Tell whether a commit is in a repository."""
    known = run_git(folder, "cat-file", "--batch-check", given=commit)
    return known.endswith(tuple("0123456789"))


@dataclass(frozen=True, slots=True)
class _Original:
    """A repository as it was made first.

    Attributes:
        folder: a copy of it.
        main: its commits.
        ticks: what its clock said.
    """

    folder: tempfile.TemporaryDirectory[str]
    main: tuple[str, ...]
    ticks: int


_ORIGINALS: dict[tuple[object, ...], _Original] = {}


class Origin:
    """A bare repository at a host, whose commits are made in a detached working tree of it.

    Each commit is a minute younger than the one before.

    Attributes:
        path: the bare repository, ``url`` its address.
        project: folder of the evals in it, ``.`` for its top.
        main: the commits of main that ``advance`` made, oldest first.
    """

    def __init__(
        self,
        folder: Path,
        *,
        project: str = ".",
        commits: int = 3,
        changed: Mapping[str, str] | None = None,
    ) -> None:
        """Make it with the project of ``tests/project.py`` on main.

        Args:
            folder: where it goes; its parent must exist.
            project: folder of the project in the repository.
            commits: how many commits main has; the first brings the project, each of the others
                changes a file that no eval reads.
            changed: files of the project that are others, by name.
        """
        self.path = folder / "origin.git"
        self.project = project
        self.main: list[str] = []
        self._tree = folder / "author"
        self._made = 0
        files = {**PROJECT, **(changed or {})}
        made = (project, commits, *files.values())
        original = _ORIGINALS.get(made)
        if original is not None:
            self._copy(original)
            return
        self._begin(commits, files)
        copied = tempfile.TemporaryDirectory()
        shutil.copytree(folder, copied.name, dirs_exist_ok=True)
        _ORIGINALS[made] = _Original(copied, tuple(self.main), self._made)

    def _copy(self, original: _Original) -> None:
        """Be as the original, whose commits have the same hashes."""
        shutil.copytree(original.folder.name, self.path.parent)
        self.main += original.main
        self._made = original.ticks
        # Repository and working tree find each other by absolute paths.
        known_there = self.path / "worktrees" / self._tree.name
        (self._tree / ".git").write_text(f"gitdir: {known_there}\n")
        (known_there / "gitdir").write_text(f"{self._tree / '.git'}\n")

    def _begin(self, commits: int, files: Mapping[str, str]) -> None:
        """Make the repository with the commits of main."""
        folder = self.path.parent
        folder.mkdir()
        run_git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.path))
        nothing = run_git(self.path, "hash-object", "-w", "-t", "tree", "--stdin")
        root = run_git(self.path, "commit-tree", "-m", "root", nothing, environ=self._clock())
        run_git(self.path, "worktree", "add", "--quiet", "--detach", str(self._tree), root)
        self.set("main", root)
        self.advance(files)
        for number in range(2, commits + 1):
            self.advance({"README.md": f"{number}\n"})

    @property
    def url(self) -> str:
        """The address for clones, which unlike a path lets them be shallow."""
        return self.path.as_uri()

    @property
    def tip(self) -> str:
        """The newest commit of main."""
        return self.main[-1]

    def advance(self, files: Mapping[str, str]) -> str:
        """Commit to main."""
        parent = self.main[-1] if self.main else self.at("main")
        self.main.append(self.commit(files, on=parent))
        self.set("main", self.tip)
        return self.tip

    def commit(self, files: Mapping[str, str], *, on: str) -> str:
        """Commit files of the project on top of a commit; return the new one.

        Args:
            files: texts by name, relative to ``project``.
            on: the parent.
        """
        self._go_to(on)
        for name, text in files.items():
            path = self._tree / self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self._commit("change")

    def commits(self, number: int, *, on: str) -> list[str]:
        """Commit that often to a file outside of the project; return the new commits."""
        stream = []
        for index in range(number):
            self._made += 1
            parent = on if index == 0 else f":{index}"
            stream.append(
                f"commit refs/heads/elsewhere\nmark :{index + 1}\n"
                f"committer Ada <ada@example.org> {_EPOCH + 60 * self._made} +0000\n"
                f"data 9\nelsewhere\nfrom {parent}\n"
                f"M 100644 inline elsewhere/notes.txt\ndata {len(str(index))}\n{index}\n"
            )
        run_git(self.path, "fast-import", "--quiet", given="".join(stream))
        made = run_git(self.path, "rev-list", "--reverse", f"{on}..refs/heads/elsewhere")
        run_git(self.path, "update-ref", "-d", "refs/heads/elsewhere")
        return made.split()

    def merge(self, into: str, commit: str) -> str:
        """Merge a commit into another one, without conflict; return the merge."""
        self._go_to(into)
        self._git("merge", "--quiet", "--no-ff", "--no-edit", commit)
        return self._head

    def squash(self, onto: str, commit: str) -> str:
        """Put all that a branch changes into one commit on top of another one."""
        self._go_to(onto)
        self._git("merge", "--quiet", "--squash", commit)
        return self._commit("squashed")

    def rebase(self, onto: str, *commits: str) -> str:
        """Put commits anew on top of another one, oldest first; return the last."""
        self._go_to(onto)
        self._git("cherry-pick", "--allow-empty", *commits)
        return self._head

    def revert(self, commit: str, *, on: str) -> str:
        """Take back what a commit changed."""
        self._go_to(on)
        self._git("revert", "--no-edit", commit)
        return self._head

    def set(self, branch: str, commit: str) -> None:
        """Let a branch, or a ref that begins with ``refs/``, be at a commit, wherever it was."""
        ref = branch if branch.startswith("refs/") else f"refs/heads/{branch}"
        run_git(self.path, "update-ref", ref, commit)

    def rename(self, old: str, new: str) -> None:
        """Rename the default branch."""
        run_git(self.path, "branch", "--move", old, new)
        run_git(self.path, "symbolic-ref", "HEAD", f"refs/heads/{new}")

    def at(self, name: str) -> str:
        """Return the commit of a name."""
        return run_git(self.path, "rev-parse", f"{name}^{{commit}}")

    def add_submodule(self, url: str, commit: str, *, on: str) -> str:
        """Commit a submodule ``bot`` at a commit; return the new commit of this repository."""
        self._go_to(on)
        if not (self._tree / "bot" / ".git").exists():
            self._git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "bot")
        run_git(self._tree / "bot", "checkout", "--quiet", "--detach", commit)
        return self._commit("submodule")

    @property
    def _head(self) -> str:
        return self._git("rev-parse", "HEAD")

    def _go_to(self, commit: str) -> None:
        self._git("checkout", "--quiet", "--force", "--detach", commit)

    def _commit(self, message: str) -> str:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", f"--message={message}")
        return self._head

    def _git(self, *arguments: str) -> str:
        return run_git(self._tree, *arguments, environ=self._clock())

    def _clock(self) -> dict[str, str]:
        self._made += 1
        now = f"{_EPOCH + 60 * self._made} +0000"
        return {"GIT_AUTHOR_DATE": now, "GIT_COMMITTER_DATE": now}
