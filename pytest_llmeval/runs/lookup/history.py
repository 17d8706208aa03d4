"""From a name to commits: where in the history a baseline is to be looked for, nearest first."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from pytest_llmeval.errors import BaselineError, BaselineNotFound
from pytest_llmeval.runs.format.run_lines import FULL_HASH
from pytest_llmeval.runs.git import GitState, first_parents, merge_base, near_names, resolve

NEAREST = 50
DEEPEN = "Fetch the history:  git fetch --unshallow  (in GitHub's actions/checkout: fetch-depth: 0)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A commit to look at, and how many commits it lies behind the wanted one."""

    commit: str
    distance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """The commits whose runs will do, best first.

    Attributes:
        wanted: the commit named, or the merge-base of HEAD and the ref.
        exact: a commit was named; no other one will do.
        steps: where to look, in this order.
        branch: the local branch whose last commit is the wanted one, if that was named.
    """

    wanted: str
    exact: bool
    steps: tuple[Step, ...]
    branch: str | None = None


def option(reference: str) -> str:
    """Write the option as it can be typed."""
    typed = reference if reference.isprintable() else ascii(reference)
    return f"--llm-baseline={shlex.quote(typed)}"


def leads_nowhere(reference: str, what: str, *, todo: str) -> BaselineError:
    """Word the error for a name that is no use, now or ever.

    Not ``BaselineNotFound``: ``--llm-on-missing=warn`` is for a first run without a
    baseline. It must not let a mistyped name or a cut-off history pass ungated.
    """
    return BaselineError(f"{option(reference)}: {what}\n       {todo}")


def not_found(reference: str, what: str, *, todo: str) -> BaselineNotFound:
    """Word the error: what is wrong with the value, what was looked for, what to type next."""
    ungated = "or, where that records no eval, run ungated:  add --llm-on-missing=warn"
    return BaselineNotFound(
        f"{option(reference)}: {what}\n       {todo}      {ungated}",
        line=f"{option(reference)}: {' '.join(f'{what} {todo}'.split())}",
    )


def find_trail(reference: str, *, git: GitState) -> Trail:
    """Find out which commits a name leads to.

    A commit named by hash, or by an expression such as ``HEAD~2``, leads to that very
    commit, a branch or tag to its merge-base with HEAD and the nearest ancestors of that.

    Args:
        reference: what was named; no file and no run id.
        git: the state at session start.

    Raises:
        BaselineError: the name leads to no commit.
    """
    if re.fullmatch(FULL_HASH, reference.lower()):
        return _exactly(reference.lower())
    if git.top is None or git.commit is None:
        raise leads_nowhere(
            reference,
            f"no file and no recorded run has that name, and no git ref can be looked up: "
            f"{git.absent or 'this repository has no commit yet'}.",
            todo="Name a run file, a run id, a full commit hash, or:  pytest --llm-baseline=last",
        )
    ref = resolve(reference, top=git.top)
    if ref is None:
        raise _unknown(reference, top=git.top, shallow=git.shallow)
    if ref.full_name is None:
        return _exactly(ref.commit)
    base = merge_base(git.commit, ref.commit, top=git.top)
    if base is None:
        raise _unrelated(reference, shallow=git.shallow)
    parents = first_parents(base, top=git.top, at_most=NEAREST)
    steps = [Step(commit=commit, distance=n) for n, commit in enumerate((base, *parents))]
    if ref.commit == git.commit and not git.dirty:
        # A clean tree at the ref's own commit asks what the last commit did to it.
        steps = [*steps[1:], steps[0]]
    is_tip = ref.commit == base and ref.full_name.startswith("refs/heads/")
    branch = ref.full_name.removeprefix("refs/heads/") if is_tip else None
    return Trail(wanted=base, exact=False, steps=tuple(steps), branch=branch)


def _exactly(commit: str) -> Trail:
    return Trail(wanted=commit, exact=True, steps=(Step(commit=commit, distance=0),))


def _unknown(reference: str, *, top: Path, shallow: bool) -> BaselineError:
    what = "no file, run id, commit, branch or tag has that name, here or at origin."
    if shallow:
        return leads_nowhere(reference, f"{what} This clone is shallow.", todo=DEEPEN)
    near = near_names(reference, top=top)
    if near:
        todo = f"Did you mean {' or '.join(near)}?  pytest {option(near[0])}"
    else:
        todo = "List them:  git branch --all && git tag"
    return leads_nowhere(reference, what, todo=todo)


def _unrelated(reference: str, *, shallow: bool) -> BaselineError:
    what = "it has no common ancestor with HEAD"
    if shallow:
        return leads_nowhere(reference, f"{what} in this shallow clone.", todo=DEEPEN)
    return leads_nowhere(
        reference,
        f"{what}: their histories are unrelated.",
        todo="Name a commit, a run id or a run file.",
    )
