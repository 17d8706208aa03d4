"""The repository in ``.llmeval/git``: bare, our own, with the objects of the user's one.

Whatever is fetched or checked out for a baseline goes there. The user's repository, its config and
its refs stay as they are. The address of origin, and the config by which a checkout reaches it, may
hold a secret. So git gets both by variables, never by an argument or a file. Only a command with
these variables can fetch what it lacks; ``ask`` answers from what is here.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from pytest_llmeval.cache.directory import prepare_directory, refuse_link
from pytest_llmeval.cache.process_locks import file_lock
from pytest_llmeval.errors import USER_IN_URL, GitFailed, without_user
from pytest_llmeval.runs.git import ask, change, cut_commits, has_commit, object_ids, tree_ids
from pytest_llmeval.settings import is_address

Config = Sequence[tuple[str, str]]  # settings of git, each with its value

FOLDER, LOCK = "git", "lock"
ORIGIN = "origin"
ADDRESSED = "llmeval"  # the name of a remote of which the address was given
SECONDS = 60.0
_SECONDS_TO_CHECK_OUT = 600.0
WHOLE_HISTORY = 2**31 - 1  # a depth; --unshallow fails where nothing is left to be fetched

_OLDEST_GIT = (2, 31)  # the first that reads GIT_CONFIG_COUNT
_LONGEST_REASON = 300
_AT_ONCE = 100  # refs that are fetched by one command

# No hook of the user's runs, and git-lfs does not download files.
_WITHOUT_HOOKS = ("-c", "core.hooksPath=/dev/null")
_WITHOUT_DOWNLOADS = {"GIT_LFS_SKIP_SMUDGE": "1"}

# Commits without what they hold; what they hold without the texts of files.
_COMMITS, _PATHS = "--filter=tree:0", "--filter=blob:none"
_CONFIG = (
    ("protocol.version", "2"),  # in which any commit can be asked for by its hash
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.writeCommitGraph", "false"),
)
# With this, git does not write the settings into the config, where each command would see them.
_PROMISOR = (("remote.origin.promisor", "true"), ("remote.origin.partialclonefilter", "tree:0"))
# To all that is here git would count what it holds, which was left out.
_ASK_FOR_ALL = (("fetch.negotiationAlgorithm", "noop"),)

_ADDRESSES = ("url", "pushurl")
# What a file looks like in a working tree.
_TO_CHECK_OUT = re.compile(r"filter\..*|core\.(autocrlf|eol|symlinks|attributesfile)", re.DOTALL)
_TO_REACH_ORIGIN = re.compile(r"(http|credential|url)\..*|core\.sshcommand", re.DOTALL)
_SECRETIVE = re.compile(r"http\..*\.?extraheader|credential\..*", re.DOTALL)
_SHORTEST_SECRET = 8  # shorter ones are words such as "basic" and "store"


class OwnRepository:
    """A bare repository beside the runs, made when it is needed first.

    Attributes:
        path: its folder, which the functions of ``runs/git.py`` take for ``top``.
        fetches: whether it may fetch.
        remote: name of the remote that it speaks to.
        end: by when the remote must have answered all that it is asked, as ``time.monotonic``
            tells; None for no such time.

    Args:
        directory: ``.llmeval``.
        top: folder of the user's working tree.
        fetches: whether what is missing may be fetched from origin.
        remote: another remote of the user's repository to speak to, or its address.
    """

    def __init__(
        self, directory: Path, *, top: Path, fetches: bool = False, remote: str = ORIGIN
    ) -> None:
        self.path = directory.absolute() / FOLDER
        self.fetches = fetches
        self.remote = ADDRESSED if is_address(remote) else remote
        self.end: float | None = None
        self._named = remote
        self._top = top

    def prepare(self) -> None:
        """Make the repository, and let it see the objects that the user's repository has now.

        Raises:
            GitFailed: git cannot make it.
            OSError: it cannot be written.
        """
        prepare_directory(self.path.parent)
        refuse_link(self.path)
        self.path.mkdir(exist_ok=True)
        with file_lock(self.path / LOCK):
            kind = change(self._top, "rev-parse", "--show-object-format")
            how = ("--quiet", "--bare", "--template=", f"--object-format={kind}")
            change(self._top, "init", *how, str(self.path))
            # git may be told to refuse a bare repository that it finds by itself.
            (self.path / ".git").write_text("gitdir: .\n")
            self._alternates.parent.mkdir(exist_ok=True)
            place = ("--path-format=absolute", "--git-path", "objects")
            self._alternates.write_text(f"{change(self._top, 'rev-parse', *place)}\n")
            self._adopt_cuts()
            self._adopt_attributes()

    @property
    def is_made(self) -> bool:
        """Whether the repository is there, though it may not see the user's newest objects."""
        return self._alternates.exists() and not self.path.is_symlink()

    @property
    def _alternates(self) -> Path:
        return self.path / "objects" / "info" / "alternates"

    def set_refs(self, refs: Mapping[str, str | None]) -> None:
        """Set refs to commits that are here, or remove them.

        Args:
            refs: full hashes, or None, by full name.

        Raises:
            GitFailed: a commit is not here.
        """
        lines = (f"update {ref} {new}" if new else f"delete {ref}" for ref, new in refs.items())
        change(self.path, "update-ref", "--stdin", given="".join(f"{line}\n" for line in lines))

    def listed(self, *refs: str, seconds: float = SECONDS) -> Mapping[str, str]:
        """Ask the remote for the commits of refs.

        Args:
            refs: full names, such as ``refs/heads/main``, or patterns.
            seconds: how long it may take.

        Returns:
            Hashes by name, without the refs that the remote does not have; there may be refs whose
            names only end like these.

        Raises:
            GitFailed: the remote gave no answer.
        """
        lines = self._remote("ls-remote", "--refs", self.remote, *refs, seconds=seconds)
        pairs = (line.partition("\t") for line in lines.splitlines())  # U+2028 may end a line
        return {name: commit for commit, _, name in pairs}

    def default_branch(self) -> str | None:
        """Ask origin for its default branch; None if it has none.

        Raises:
            GitFailed: origin gave no answer.
        """
        said = self._remote("ls-remote", "--symref", "origin", "HEAD")
        found = re.match(r"ref: refs/heads/(\S+)\tHEAD$", said, re.MULTILINE)
        return None if found is None else found[1]

    def fetch(self, *wanted: str, depth: int) -> None:
        """Fetch commits without their trees and files.

        Args:
            wanted: full hashes, and refspecs such as ``+refs/heads/a:refs/remotes/origin/a``.
            depth: how many commits of a line of history, each wanted one the first.

        Raises:
            GitFailed: origin gave no answer, or lacks one of them.
        """
        self._fetch(wanted, _COMMITS, f"--depth={depth}")

    def fetch_paths(self, commits: Iterable[str]) -> None:
        """Fetch all that commits hold but the texts of files, in one go.

        Args:
            commits: full hashes; those that are not here are left out.

        Raises:
            GitFailed: origin gave no answer, or lacks one of them.
        """
        trees = [tree for tree in tree_ids(tuple(commits), top=self.path) if tree is not None]
        known = object_ids(trees, top=self.path)
        missing = [tree for tree, here in zip(trees, known, strict=True) if here is None]
        if missing:
            self._fetch(dict.fromkeys(missing), _PATHS, more=_ASK_FOR_ALL)

    def fetch_files(self, commit: str) -> None:
        """Fetch all that a commit holds.

        Args:
            commit: full hash of a commit that is here.

        Raises:
            GitFailed: origin gave no answer, or lacks it.
        """
        trees = [tree for tree in tree_ids((commit,), top=self.path) if tree is not None]
        self._fetch(trees, "--no-filter", more=_ASK_FOR_ALL)

    @contextmanager
    def worktree(self, commit: str, place: Path) -> Iterator[None]:
        """Check a commit out, and remove that working tree at the end, also after Ctrl-C.

        Missing objects are fetched, if that is allowed. Filters of the user's repository act in it.
        Submodules are empty, and a file that git-lfs keeps is the pointer to it.

        Args:
            commit: full hash.
            place: absolute; the folder must not exist.

        Raises:
            GitFailed: the commit, or one of its files, is neither here nor fetched.
        """
        if self.fetches and not has_commit(commit, top=self.path):
            self.fetch(commit, depth=1)
        add = ("worktree", "add", "--quiet", "--force", "--detach", "--", str(place), commit)
        try:
            self._remote(*add, more=self._to_check_out, seconds=_SECONDS_TO_CHECK_OUT)
            yield
        finally:
            shutil.rmtree(place, ignore_errors=True)
            change(self.path, "worktree", "prune")

    def _adopt_attributes(self) -> None:
        """Take over which files the user's repository filters, where no commit has this setting."""
        place = ("--path-format=absolute", "--git-path", "info/attributes")
        theirs, ours = Path(change(self._top, "rev-parse", *place)), self.path / "info/attributes"
        ours.parent.mkdir(exist_ok=True)
        ours.write_bytes(theirs.read_bytes() if theirs.is_file() else b"")

    @property
    def filters(self) -> Mapping[str, str]:
        """The user's settings for how files are checked out, as variables of git."""
        return _as_variables(self._to_check_out)

    @cached_property
    def _to_check_out(self) -> Config:
        return [entry for entry in self._unseen() if _TO_CHECK_OUT.fullmatch(entry[0])]

    def _adopt_cuts(self) -> None:
        """Cut history where the user's is cut, each place once; fetched history lies beyond."""
        adopted = self.path / "adopted"
        new = cut_commits(self._top).difference(_words(adopted))
        for file in (self.path / "shallow", adopted) if new else ():
            file.write_text("".join(f"{cut}\n" for cut in (*_words(file), *sorted(new))))

    def _fetch(self, wanted: Iterable[str], *options: str, more: Config = ()) -> None:
        quiet = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        given = "".join(f"{each}\n" for each in wanted)
        command = ("fetch", *quiet, *options, "--stdin", self.remote)
        self._remote(*command, given=given, more=more)

    def send(self, commit: str, *, ref: str) -> None:
        """Give the remote a commit under a name that it does not have, and nothing else.

        If the remote has that very commit under the name already, nothing is sent.

        Args:
            commit: full hash of a commit that is here.
            ref: full name.

        Raises:
            GitFailed: the remote gave no answer, refuses, or has another commit of that name.
        """
        alone = ("--no-verify", "--no-signed", "--no-recurse-submodules")
        lease = f"--force-with-lease={ref}:"
        self._remote("push", "--quiet", *alone, lease, self.remote, f"{commit}:{ref}")

    def fetch_refs(self, refs: Iterable[str]) -> None:
        """Fetch the commits of refs with all that they hold, many at once.

        Raises:
            GitFailed: the remote gave no answer, or lacks one of them.
        """
        missing = tuple(refs)
        for start in range(0, len(missing), _AT_ONCE):
            self._fetch(missing[start : start + _AT_ONCE], "--no-filter")

    def _remote(
        self, *command: str, given: str = "", more: Config = (), seconds: float = SECONDS
    ) -> str:
        """Run a command that may have to fetch, in so many seconds, or up to ``end``."""
        if self.end is not None:
            seconds = max(0.0, min(seconds, self.end - time.monotonic()))
        config = self._config_of_origin if self.fetches else ()
        promisor = _PROMISOR if self.remote == ORIGIN else ()
        fetching = (*_CONFIG, *promisor, *config) if self.fetches else ()
        environ = _as_variables((*fetching, *more))
        # In the user's folder, as origin may be a relative path.
        whole = (f"--git-dir={self.path}", *_WITHOUT_HOOKS, *command)
        with file_lock(self.path / LOCK):
            try:
                return change(self._top, *whole, given=given, environ=environ, seconds=seconds)
            except GitFailed as exc:
                raise GitFailed(_without_secrets(str(exc), config=config)) from None

    @cached_property
    def _config_of_origin(self) -> Config:
        """The user's settings for how to reach origin that our repository does not see."""
        version = change(self._top, "version")
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST_GIT:
            raise GitFailed(f"{version} is too old: 2.31 is needed")
        addresses = [f"remote.{self.remote}.{of}" for of in _ADDRESSES]
        found = [(f"remote.{self.remote}.url", self._named)] if self.remote == ADDRESSED else []
        for entry in self._unseen():
            if entry[0] in addresses or _TO_REACH_ORIGIN.fullmatch(entry[0]):
                found.append(entry)
        if all(key not in addresses for key, _ in found):
            raise GitFailed(f"this repository has no remote named {self.remote}")
        return found

    def _unseen(self) -> Iterator[tuple[str, str]]:
        """Yield the config of the user's repository that ours does not see.

        A value that both see would count twice, and some hosts refuse a header that comes twice.
        """
        seen = _config(self.path)
        for entry in _config(self._top):
            if entry in seen:
                seen.remove(entry)
            else:
                yield entry


def _words(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def _config(folder: Path) -> list[tuple[str, str]]:
    """Read all that git finds in its config when it runs in a folder."""
    entries = (ask(folder, "config", "--includes", "--list", "-z") or "").split("\0")
    pairs = (entry.partition("\n") for entry in entries if entry)
    return [(key, value if has_value else "true") for key, has_value, value in pairs]


def _as_variables(config: Config) -> dict[str, str]:
    """Write a config into variables, after the values that such variables have already."""
    before = os.environ.get("GIT_CONFIG_COUNT", "")
    first = int(before) if before.isdecimal() else 0
    variables = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": str(first + len(config))}
    for number, (key, value) in enumerate(config, first):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {**_WITHOUT_DOWNLOADS, **variables}


def _without_secrets(reason: str, *, config: Config) -> str:
    """Mask the values of a config that may be secret, and users and passwords in addresses."""
    texts = [value for key, value in config if _SECRETIVE.fullmatch(key)]
    texts += [user for entry in config for text in entry for user in USER_IN_URL.findall(text)]
    words = {word for text in texts for word in re.split(r"[\s:=;'\"]+", text)}
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= _SHORTEST_SECRET:
            reason = reason.replace(word, "***")
    return without_user(reason)[:_LONGEST_REASON]
