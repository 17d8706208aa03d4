"""Questions to git, which runs as a process: the current commit, and the commit of a name.

Nothing here takes a lock, or lets a name become an option. Only ``change`` changes a repository.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_llmeval.errors import GitFailed, nearest
from pytest_llmeval.runs.run_lines import FULL_HASH

_UNWANTED = frozenset((
    # Set by git for the hooks that it runs. These variables would tie us to the hook's index.
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX",
    # Set by some editors and scripts. These variables would change what our names mean.
    *(f"GIT_{how}_PATHSPECS" for how in ("LITERAL", "GLOB", "NOGLOB", "ICASE")),
    # Set for some hooks, too. These variables would put objects, or cut history, elsewhere.
    "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
))  # fmt: skip
# In a partial clone a question about what is not there would ask origin. Old gits do not know it.
_HERE_ALONE = {"GIT_NO_LAZY_FETCH": "1"}
# A commit means itself, whatever refs/replace says here: our own repository has no such refs.
_ALWAYS = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
# A commit may bring a folder that looks like a bare repository: git takes it for one.
_HERE = ("-c", "safe.bareRepository=explicit")
_SECONDS_TO_TIDY = 2.0  # for a git that is told to stop
# No option, no negation, no range, no path in a commit, no search in messages, no blank.
_NAME = re.compile(r"(?![-^])(?!.*\.\.)[^\s\x00-\x1f\x7f:?*\[\\\ud800-\udfff]+")

# Without regard to .gitmodules; "none" would count files of submodules that nobody imports.
_TRACKED_ALONE = ("--untracked-files=no", "--ignore-submodules=untracked")

IMAGE_TODO = "install git before the checkout, and do not name .git in .dockerignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """The state of the working tree, read once at the start of a session.

    Attributes:
        top: folder of the working tree; None where there is none.
        absent: why there is none, as the end of a sentence; None if there is one.
        is_refused: git does not read it, such as a folder of another user, and says what helps.
        commit: full hash of HEAD; None before the first commit. ``tree`` is its tree.
        branch: None if HEAD is detached.
        dirty: a tracked file differs from the commit, or is staged, or is ``hidden``.
        changed: the dirty files, the hidden ones first, relative to the top.
        hidden: tracked files in which git looks for no changes (``assume-unchanged``, and
            ``skip-worktree`` where the file is there all the same), relative to the top.
        shallow: the history was cut when the repository was cloned.
    """

    top: Path | None
    absent: str | None = None
    is_refused: bool = False
    commit: str | None = None
    tree: str | None = None
    branch: str | None = None
    dirty: bool = False
    changed: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    shallow: bool = False

    @property
    def lack(self) -> str:
        """Why ``commit`` is None, as a sentence without its full stop, and what may help."""
        if self.top is not None:
            return "this repository has no commit yet"
        # Where git refuses to read it, its own advice is the best there is.
        todo = (
            ""
            if self.is_refused
            else f". Without a repository: git init, and commit. In an image: {IMAGE_TODO}"
        )
        return f"{self.absent or ''}{todo}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRef:
    """The meaning of a name.

    Attributes:
        commit: full hash.
        full_name: such as ``refs/heads/main`` or ``refs/tags/v1``; None where a commit
            itself was named, by its hash or an expression such as ``HEAD~2``.
    """

    commit: str
    full_name: str | None


def short_hash(commit: str | None) -> str:
    """Write a hash as people do."""
    return "no commit" if commit is None else commit[:7]


def read_state(folder: Path) -> GitState:
    """Read the state of the working tree that a folder lies in.

    Args:
        folder: absolute, such as pytest's rootpath.

    Returns:
        Its state; one with ``absent`` set without git or outside a working tree.
    """
    question = ("--show-toplevel", "--is-shallow-repository", "HEAD^{commit}", "HEAD^{tree}")
    try:
        found = _git(folder, "rev-parse", *question, "--symbolic-full-name", "HEAD")
    except OSError as exc:
        return GitState(top=None, absent=f"git cannot be run ({exc.strerror or exc})")
    if not found.output:
        if "not a git repository" in found.complaint:
            return GitState(top=None, absent=f"{folder} is in no git repository")
        said = " ".join(found.complaint.split())
        return GitState(top=None, absent=f"git does not read {folder}: {said}", is_refused=True)
    commit = tree = None
    if found.succeeded:
        top, shallow, commit, tree, head = found.text.rsplit("\n", 4)
    else:  # git wrote what it could, and then the name that means nothing before the first commit
        top, shallow, _ = found.text.rsplit("\n", 2)
        head = _git(folder, "symbolic-ref", "--quiet", "HEAD").text
    status = _git(folder, "status", "--porcelain", "-z", *_TRACKED_ALONE)
    # "XY name"; the earlier name of a renamed file stands by itself
    differing = (one[3:] for one in status.text.split("\0") if one[2:3] == " ")
    hidden = _hidden(Path(top))
    return GitState(
        top=Path(top),
        commit=commit,
        tree=tree,
        branch=head.removeprefix("refs/heads/") if head.startswith("refs/") else None,
        dirty=not status.succeeded or status.text != "" or hidden != (),
        changed=(*hidden, *differing),
        hidden=hidden,
        shallow=shallow == "true",
    )


def _hidden(top: Path) -> tuple[str, ...]:
    """List the tracked files whose changes ``git status`` does not show."""
    # "S name" is skip-worktree, lower case assume-unchanged
    tagged = _names(top, "ls-files", "-v", "--recurse-submodules")
    return tuple(
        name
        for tag, _, name in (line.partition(" ") for line in tagged)
        if tag.islower() or (tag == "S" and os.path.lexists(top / name))
    )


def relative_root(rootpath: Path, *, top: Path | None) -> str:
    """Tell where rootpath lies in the working tree: ``.`` for its top, and without git."""
    if top is None:
        return "."
    return Path(os.path.relpath(rootpath.resolve(), top.resolve())).as_posix()


def is_name(text: str) -> bool:
    """Tell whether a text can name a commit, and nothing else on a command line of git."""
    return _NAME.fullmatch(text) is not None


def resolve(name: str, *, top: Path) -> ResolvedRef | None:
    """Find the commit that a name means: branch, branch of origin, tag, then anything else.

    Args:
        name: as the user typed it.
        top: folder of the working tree.

    Returns:
        None if there is nothing of that name, or it can be no name at all.
    """
    if not is_name(name):
        return None
    places = [f"refs/{kind}/{name}" for kind in ("heads", "remotes/origin", "tags", "remotes")]
    existing = refs_of(top, places)
    full_name = next(iter(existing), None)
    # A branch is a commit. Anything else may be an annotated tag.
    commit = existing.get(places[0]) or _rev_parse(top, f"{full_name or name}^{{commit}}")
    if not re.fullmatch(FULL_HASH, commit):
        return None
    # Names such as HEAD, FETCH_HEAD and heads/main are refs too.
    full_name = full_name or _rev_parse(top, name, "--symbolic-full-name") or None
    return ResolvedRef(commit=commit, full_name=full_name)


def _rev_parse(top: Path, name: str, *options: str) -> str:
    return _git(top, "rev-parse", "--verify", "--quiet", *options, "--end-of-options", name).text


def first_parents(commit: str, *, top: Path, at_most: int) -> tuple[str, ...]:
    """List the nearest ancestors along first parents that are here, the parent first."""
    count = f"--max-count={at_most + 1}"
    return tuple(_git(top, "rev-list", "--first-parent", count, commit).text.split("\n")[1:])


def parents(commit: str, *, top: Path) -> tuple[str, ...]:
    """Read the parents of a commit from the commit itself, which has them in a shallow clone too.

    Returns:
        Full hashes; nothing if the commit is not here.
    """
    head, _, _ = _git(top, "cat-file", "-p", commit).text.partition("\n\n")
    return tuple(re.findall(r"^parent (\S+)$", head, re.MULTILINE))


def tree_ids(commits: Sequence[str], *, top: Path) -> tuple[str | None, ...]:
    """Find the trees of commits; a tree need not be here itself, its commit must, or it is None."""
    known = [commit for commit in object_ids(commits, top=top) if commit is not None]
    if not known:
        return (None,) * len(commits)
    listing = ("log", "--no-walk=unsorted", "--format=%H %T", "--stdin")
    lines = _git(top, *listing, given="\n".join(known)).text.split("\n")
    trees = dict(line.split(" ") for line in lines)
    return tuple(trees.get(commit) for commit in commits)


def object_ids(names: Sequence[str], *, top: Path) -> tuple[str | None, ...]:
    """Find the objects of names such as ``COMMIT^{tree}``, ``COMMIT:folder``; None if not here."""
    given = "".join(f"{name}\n" for name in names)
    question = ("cat-file", "--batch-check=%(objectname)")
    answer = _git(top, *question, given=given, environ=_HERE_ALONE)
    lines = answer.text.split("\n")
    return tuple(line if re.fullmatch(FULL_HASH, line) else None for line in lines)


def differing_files(commit: str, other: str, *, top: Path) -> int | None:
    """Count the files that are not the same in two commits; None if one is not here."""
    answer = _git(top, "diff-tree", "-r", "-z", "--name-only", commit, other)
    return answer.text.count("\0") if answer.succeeded else None


def ask(top: Path, *arguments: str) -> str | None:
    """Run a git command that only reads.

    Args:
        top: folder of the working tree.
        arguments: the command and what it takes. A name that a user typed must be resolved to
            a hash or a full ref before, so that it cannot be an option.

    Returns:
        Its output without newlines at the end; None if it fails.
    """
    answer = _git(top, *arguments)
    return answer.text if answer.succeeded else None


def has_commit(commit: str, *, top: Path) -> bool:
    """Tell whether a commit is here, by its full hash; its files need not be here."""
    name = f"{commit}^{{commit}}"
    return _git(top, "cat-file", "-e", name, environ=_HERE_ALONE).succeeded


def refs_of(top: Path, names: Iterable[str]) -> dict[str, str]:
    """Look up refs by their full names: the hash of each that exists."""
    listing = ask(top, "for-each-ref", "--format=%(refname) %(objectname)", *names) or ""
    pairs = dict(line.split(" ") for line in listing.splitlines())
    return {name: pairs[name] for name in names if name in pairs}


def cut_commits(top: Path) -> frozenset[str]:
    """List the commits at which history was cut off: their parents are not here."""
    file = top / (ask(top, "rev-parse", "--git-path", "shallow") or "")
    return frozenset(file.read_text().split()) if file.is_file() else frozenset()


def blob(top: Path, name: str) -> bytes | None:
    """Read a file of a commit, named ``COMMIT:PATH``; None if it is not here."""
    answer = _git(top, "cat-file", "blob", name)
    return answer.output if answer.succeeded else None


def change(
    folder: Path,
    *arguments: str,
    given: str | bytes | None = None,
    environ: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> str:
    """Run a git command that may write into a repository of our own.

    Args:
        folder: where it runs.
        arguments: the command and what it takes, names as for ``ask``.
        given: standard input.
        environ: more variables.
        seconds: how long it may take.

    Returns:
        Its output without newlines at the end.

    Raises:
        GitFailed: it fails or takes longer, or there is no git.
    """
    try:
        answer = _git(folder, *arguments, given=given, environ=environ, seconds=seconds)
    except OSError as exc:
        raise GitFailed(f"git cannot be run ({exc.strerror or exc})") from exc
    except subprocess.TimeoutExpired:
        raise GitFailed(f"no answer within {round(seconds or 0, 1):g} s") from None
    if not answer.succeeded:
        raise GitFailed(_why_failed(answer.complaint))
    return answer.text


def _why_failed(complaint: str) -> str:
    """Put what git complains of into one line, without what it only warns of."""
    lines = (" ".join(line.split()) for line in complaint.splitlines())
    said = [line for line in lines if line and not line.startswith(("warning: ", "hint: "))]
    text = " ".join(said or ["git gave no reason"])
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def near_names(name: str, *, top: Path) -> tuple[str, ...]:
    """List the branches and tags whose names look most like this one, without ``origin/``."""
    places = ("refs/heads", "refs/tags", "refs/remotes")
    names = _git(top, "for-each-ref", "--format=%(refname:lstrip=2)", *places).text.split("\n")
    known = sorted({known.removeprefix("origin/") for known in names})
    return tuple(nearest(name, known))


def tracked_below(folders: Sequence[Path], *, top: Path | None) -> tuple[tuple[str, str], ...]:
    """List what git tracks in folders or on the way to them: files, links, submodules.

    It counts, too, where something else is there by now: a job moves away what was checked out.

    Args:
        folders: absolute; they need not exist.
        top: folder of the working tree, None where there is none.

    Returns:
        Pairs, as seen from the working directory: the place to be taken out of git, which is a
        folder or a link to it, and something tracked there.
    """
    if top is None:
        return ()
    real_top = _real(top)
    places = [place for folder in folders for place in _places_of(folder, top=real_top)]
    inside = {os.path.relpath(p, real_top): p for p in places if p.is_relative_to(real_top)}
    if not inside:
        return ()
    # Without regard to case: .LLMEVAL is the same folder on some disks.
    specs = [f":(top,literal,icase){os.path.dirname(one) or one}" for one in inside]  # noqa: PTH120
    tracked = {name: Path(name.lower()) for name in _names(top, "ls-files", "--", *specs)}
    found = [
        (place if path.is_relative_to(inner.lower()) else real_top / name, name)
        for name, path in tracked.items()
        for inner, place in inside.items()
        if path.is_relative_to(inner.lower()) or Path(inner.lower()).is_relative_to(path)
    ]
    return tuple(
        (os.path.relpath(place), os.path.relpath(real_top / name)) for place, name in found
    )


def unknown_files(files: Iterable[Path], *, top: Path | None) -> tuple[str, ...]:
    """List the files that git neither tracks nor ignores, relative to its top, sorted.

    For a file in a submodule, git looks in the submodule.

    Args:
        files: absolute, without links; files outside of the working tree do not matter.
        top: folder of the working tree, None where there is none.
    """
    if top is None:
        return ()
    real_top = _real(top)
    inside = {f.relative_to(real_top) for f in files if f.is_relative_to(real_top)}
    tracked = set(_names(top, "ls-files")) if inside else set()
    unknown: list[str] = []
    of_submodules: dict[str, list[Path]] = {}
    for file in inside:
        names = (path.as_posix() for path in (file, *file.parents))
        known = next((name for name in names if name in tracked), None)
        if known is None:
            unknown.append(file.as_posix())
        elif known != file.as_posix():
            of_submodules.setdefault(known, []).append(real_top / file)
    ignored = _names(top, "check-ignore", "--stdin", given="\0".join(unknown)) if unknown else ()
    theirs = (
        f"{submodule}/{name}"
        for submodule, owned in of_submodules.items()
        for name in unknown_files(owned, top=real_top / submodule)
    )
    return tuple(sorted((*(name for name in unknown if name not in ignored), *theirs)))


def _places_of(folder: Path, *, top: Path) -> Iterator[Path]:
    """Yield the links on the way to a folder, then its place: itself, or a repository around it."""
    seen: set[Path] = set()
    todo = [folder]
    while todo:
        path = todo.pop()
        for part in (path, *path.parents):
            link = _real(part.parent) / part.name
            if part.is_symlink() and link not in seen:
                seen.add(link)
                todo.append(link.parent / link.readlink())
                yield link
    real = _real(folder)
    within = (part for part in (real, *real.parents) if part != top and part.is_relative_to(top))
    yield next((part for part in within if (part / ".git").exists()), real)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve raises at a link that leads to itself


def lacks_text(text: str, *, commit: str, top: Path) -> bool:
    """Whether no Python file of a commit has a text; false if the commit is not here.

    Args:
        text: taken literally.
        commit: full hash.
        top: folder of the working tree.
    """
    found = _git(top, "grep", "--quiet", "-F", "-e", text, commit, "--", ":(icase)*.py")
    return found.code == 1  # not the 128 of a commit that is unknown


@dataclass(frozen=True, slots=True)
class _Answer:
    code: int
    output: bytes
    complaint: str

    @property
    def text(self) -> str:
        """The output without newlines at its end."""
        return os.fsdecode(self.output).rstrip("\n")

    @property
    def succeeded(self) -> bool:
        return self.code == 0


def _names(top: Path, command: str, *arguments: str, given: str | None = None) -> list[str]:
    """Ask git for names as they are, without quotes."""
    answer = _git(top, command, "-z", *arguments, given=given)
    return [name for name in answer.text.split("\0") if name]


def _git(
    folder: Path,
    *arguments: str,
    given: str | bytes | None = None,
    environ: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> _Answer:
    """Run git in a folder with some standard input.

    Raises:
        OSError: it cannot be run.
        subprocess.TimeoutExpired: git took longer than ``seconds``, and was stopped.
    """
    program = shutil.which("git")
    if program is None:
        raise FileNotFoundError("not installed, or not on the PATH")
    ours = {key: value for key, value in os.environ.items() if key not in _UNWANTED}
    process = subprocess.Popen(  # noqa: S603 - no shell, and no argument can become an option
        [program, *_HERE, "-C", str(folder), *arguments],
        env={**ours, **(environ or {}), **_ALWAYS},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # git's helpers can be stopped with it, and find no terminal
    )
    with process:
        try:
            output, complaint = process.communicate(os.fsencode(given or ""), timeout=seconds)
        except BaseException:
            _stop(process)
            raise
    return _Answer(code=process.returncode, output=output, complaint=os.fsdecode(complaint))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop git and all that it started; it may remove its locks first."""
    stop = getattr(os, "killpg", os.kill)  # Windows has no groups of processes, nor SIGKILL
    for how in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            stop(process.pid, how)
            process.wait(_SECONDS_TO_TIDY)
