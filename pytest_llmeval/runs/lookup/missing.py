"""The errors of a session whose baseline is missing, each beginning with the option as typed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from pytest_llmeval.errors import BaselineError, BaselineNotFound, BaselineUnlike
from pytest_llmeval.runs.git import GitState, near_names, short_hash
from pytest_llmeval.runs.lookup.best_run import Search
from pytest_llmeval.runs.lookup.refs import NEAREST, Trail
from pytest_llmeval.runs.store import first_of

DEEPEN = "Fetch the history:  git fetch --unshallow  (in GitHub's actions/checkout: fetch-depth: 0)"


def _option(reference: str) -> str:
    typed = reference if reference.isprintable() else ascii(reference)
    return f"--llm-baseline={shlex.quote(typed)}"


def _leads_nowhere(reference: str, what: str, *, todo: str) -> BaselineError:
    """Make the error for a name that leads to no commit.

    Not ``BaselineNotFound``: ``--llm-on-missing=warn`` is for a first run without a
    baseline. It must not let a mistyped name or a cut-off history pass ungated.
    """
    return BaselineError(f"{_option(reference)}: {what}\n       {todo}")


def _not_found(reference: str, what: str, *, todo: str) -> BaselineNotFound:
    ungated = "or, where that records no eval, run ungated:  add --llm-on-missing=warn"
    return BaselineNotFound(
        f"{_option(reference)}: {what}\n       {todo}      {ungated}",
        line=f"{_option(reference)}: {' '.join(f'{what} {todo}'.split())}",
    )


def no_run(folder: Path) -> BaselineNotFound:
    """Make the error for ``last`` without any run."""
    what = f"no run is recorded in {_shown(folder)}."
    return _not_found("last", what, todo="Record one:  pytest")


def no_repository(reference: str, *, git: GitState) -> BaselineError:
    """Make the error for a ref without a repository to look it up in."""
    return _leads_nowhere(
        reference,
        f"no file and no recorded run has that name, and no git ref can be looked up: "
        f"{git.absent or 'this repository has no commit yet'}.",
        todo="Name a run file, a run id, a full commit hash, or:  pytest --llm-baseline=last",
    )


def unknown(reference: str, *, top: Path, shallow: bool) -> BaselineError:
    """Make the error for an unknown name, with the names that are like it."""
    what = "no file, run id, commit, branch or tag has that name, here or at origin."
    if shallow:
        return _leads_nowhere(reference, f"{what} This clone is shallow.", todo=DEEPEN)
    near = near_names(reference, top=top)
    todo = "List them:  git branch --all && git tag"
    if near:
        todo = f"Did you mean {' or '.join(near)}?  pytest {_option(near[0])}"
    return _leads_nowhere(reference, what, todo=todo)


def unrelated(reference: str, *, shallow: bool) -> BaselineError:
    """Make the error for a history that is not HEAD's."""
    what = "it has no common ancestor with HEAD"
    if shallow:
        return _leads_nowhere(reference, f"{what} in this shallow clone.", todo=DEEPEN)
    todo = "Name a commit, a run id or a run file."
    return _leads_nowhere(reference, f"{what}: their histories are unrelated.", todo=todo)


def unlike(reference: str, what: str) -> BaselineUnlike:
    """Make the error for a run of another folder or of other tests."""
    return BaselineUnlike(f"{_option(reference)}: {what}.\n       Record one that fits:  pytest")


def nothing_recorded(
    reference: str, trail: Trail, *, search: Search, git: GitState, folder: Path
) -> BaselineError:
    """Make the error for commits without a suitable run; it says how to record one."""
    wanted, ancestors = trail.commits[0], len(trail.commits) - 1
    what = f"no complete run recorded for {reference}"
    if not trail.exact:
        what += f" (merge-base {short_hash(wanted)})"
    if ancestors:
        what += f" nor its {ancestors} nearest ancestor{'s' * (ancestors > 1)}"
    what = "\n       ".join([f"{what} in {_shown(folder)}.", *search.mentioned()])
    if git.shallow and not trail.exact and ancestors < NEAREST:
        return _leads_nowhere(reference, f"{what} This clone is shallow.", todo=DEEPEN)
    target = trail.branch or f"--detach {short_hash(wanted)}"
    steps = [
        *(["git stash"] if git.dirty else []),
        *([] if wanted == git.commit else [f"git switch {target}"]),
        "pytest",
    ]
    todo = f"{_to_be_seen(search.unseen, git=git)}Record one:  {' && '.join(steps)}"
    return _not_found(reference, what, todo=todo)


def _to_be_seen(unseen: Sequence[str], *, git: GitState) -> str:
    """List what to do before recording, so that the new run is not passed over likewise."""
    hidden = [name for name in dict.fromkeys(unseen) if name in git.hidden]
    untracked = [name for name in dict.fromkeys(unseen) if name not in git.hidden]
    steps = []
    if untracked:
        steps.append(f"git add {first_of(untracked)} and commit, or name it in .gitignore")
    if hidden:
        names = first_of(hidden)
        steps.append(f"git update-index --no-assume-unchanged, or --no-skip-worktree, {names}")
    return "".join(f"First:  {step}\n       " for step in steps)


def _shown(folder: Path) -> str:
    try:
        return str(folder.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(folder)
