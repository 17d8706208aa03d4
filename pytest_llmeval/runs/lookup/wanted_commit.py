"""Find the commit that REF means: the one that CI names, else where the history of HEAD left REF.

This module reads the repository that is here, and fetches nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_llmeval.errors import counted
from pytest_llmeval.runs.ci import DIFF_BASE, CiFacts
from pytest_llmeval.runs.git import GitState, ask, is_name, parents, refs_of, resolve, short_hash
from pytest_llmeval.runs.run_lines import FULL_HASH

AUTO = "auto"

_HEADS = "refs/heads/"
_REMOTES = "refs/remotes/"
ORIGIN = f"{_REMOTES}origin/"
_PREFIXES = (_HEADS, ORIGIN, "origin/")
_USUAL = ("main", "master")
# Where history was cut off, no name of git's leads to the parent of HEAD.
_PARENT_OF_HEAD = ("HEAD^", "HEAD^1", "HEAD~", "HEAD~1")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCommit:
    """The commit that a name means, seen from HEAD.

    Attributes:
        commit: full hash; None if nobody can tell. A commit that CI named need not be here.
        is_known: whether something has that name. If so, ``commit`` is None for want of a common
            ancestor with HEAD, which in a shallow clone may only have been cut off.
        exact: a commit itself was named, and no other one will do.
        is_tip: the branch or tag has nothing besides that commit and its history.
        told_by_ci: CI named the commit, so that history does not matter.
        branch: without ``refs/heads/`` and ``origin/``; None where no branch was named.
        tips: the commits of that name with which HEAD's merge-base was sought.
        notes: sentences to print, also where ``commit`` is None.
        chosen: why ``auto`` means this branch; see ``why_chosen``.
    """

    commit: str | None
    is_known: bool = True
    exact: bool = False
    is_tip: bool = False
    told_by_ci: bool = False
    branch: str | None = None
    tips: tuple[str, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = ()
    chosen: str = field(default="", compare=False)


def find_wanted(reference: str, *, git: GitState, ci: CiFacts) -> WantedCommit:
    """Find the commit that a name means.

    A full hash, or an expression such as ``HEAD~2``, means that very commit. The branch that the
    commit of a CI job is to be merged into means the commit that it had when the job was made.
    Any other branch or tag means its merge-base with HEAD: for a branch that is here and at
    remotes, the one nearest to HEAD; in CI only those at remotes, if there is any.

    Args:
        reference: as the user typed it. ``auto`` stands for the branch that the commit of the CI
            job is to be merged into, else for the default branch of origin.
        git: the state of the working tree.
        ci: facts without provider on a laptop.
    """
    if re.fullmatch(FULL_HASH, reference.lower()):
        return WantedCommit(commit=reference.lower(), exact=True)
    if git.top is None or git.commit is None:
        return WantedCommit(commit=None, is_known=False)
    ci = facts_of_head(git, ci=ci)
    problems = list(ci.complaints)
    name = name_meant(reference, git=git, ci=ci)
    branch = without_prefix(name)
    if branch == ci.target and not problems:
        commit, problem = _told_by_ci(git.commit, git=git, ci=ci)
        if commit is not None:
            return WantedCommit(commit=commit, told_by_ci=True, branch=branch)
        problems += [problem] if problem else []
    in_ci = ci.provider is not None
    found = _as_on_a_laptop(name, head=git.commit, top=git.top, in_ci=in_ci)
    notes = [f"{problem}: the baseline is looked up as on a laptop" for problem in problems]
    if reference == AUTO and not name:
        typed = "--llm-baseline=BRANCH"
        notes.append(f"the default branch is not known here. Name it:  pytest {typed}")
    if reference == AUTO and name and _lacks_target(ci):
        typed = f"if not into {name}, name it:  pytest --llm-baseline=BRANCH"
        notes.append(f"{ci.provider} does not say what this is to be merged into: {typed}")
    if found.branch is not None and ci.target not in (None, found.branch):
        notes.append(f"this is to be merged into {ci.target}: --llm-baseline=auto compares with it")
    return replace(found, notes=(*notes, *found.notes))


def why_chosen(reference: str, *, git: GitState, ci: CiFacts) -> str:
    """Say why ``auto`` means the branch that ``name_meant`` returns; empty for another name."""
    if reference != AUTO or git.top is None:
        return ""
    if ci.target:
        return f"auto: the target, as {ci.provider} says"
    if _lacks_target(ci):
        return f"auto: the default branch, as {ci.provider} names no target"
    if default_of_origin(git.top):
        return "auto: the default branch"
    return f"auto: the default branch, as {ci.provider if ci.default_branch else 'origin'} says"


def _lacks_target(ci: CiFacts) -> bool:
    """Whether CI does not say what a request is to be merged into, and nothing else is wrong."""
    return ci.of_request and ci.target is None and not ci.complaints


def name_to_show(reference: str, wanted: WantedCommit) -> str:
    """Return what the user named; for ``auto`` the branch that it stands for."""
    return (wanted.branch or AUTO) if reference == AUTO else reference


def facts_of_head(git: GitState, *, ci: CiFacts) -> CiFacts:
    """Decide whether what CI says is about HEAD or about another commit."""
    told = {ci.commit, ci.merged} - {None}
    if ci.target is None or ci.complaints or git.commit is None or not told:
        return ci
    above = parents(git.commit, top=git.top or Path())
    # Some jobs merge the request themselves.
    if git.commit in told or (len(above) > 1 and not told.isdisjoint(above)):
        return ci
    # Such as a submodule, or a commit that the job itself made.
    problem = f"HEAD is {short_hash(git.commit)}, not the commit of the CI job"
    return replace(ci, target=None, complaints=(problem,))


def name_meant(reference: str, *, git: GitState, ci: CiFacts) -> str:
    """Return the name that is looked up: for ``auto`` a branch, empty if it is not known."""
    if reference != AUTO or git.top is None:
        return reference
    # Few checkouts of CI have an origin/HEAD.
    return ci.target or default_of_origin(git.top) or ci.default_branch or ""


def default_of_origin(top: Path) -> str | None:
    """Return the name of the default branch of origin, as far as this clone knows it.

    Without an origin it is the default branch of another remote; without remotes it is main or
    master, if there is one.
    """
    remotes = (ask(top, "remote") or "").split()
    for remote in ["origin"] if "origin" in remotes else remotes:
        place = f"{_REMOTES}{remote}/"
        found = ask(top, "symbolic-ref", "--quiet", f"{place}HEAD")
        if found is not None:
            return found.removeprefix(place)
    local = refs_of(top, [f"{_HEADS}{name}" for name in _USUAL])
    return None if remotes or not local else next(iter(local)).removeprefix(_HEADS)


def without_prefix(name: str) -> str:
    """Return the name of a branch without ``refs/heads/`` and ``origin/``."""
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    return name.removeprefix(prefix)


def _told_by_ci(head: str, *, git: GitState, ci: CiFacts) -> tuple[str | None, str]:
    """Return the target's commit, if what CI says is true of HEAD; if not, what is wrong.

    Nothing is wrong where the branch of a pull request was checked out instead of its merge.
    """
    top = git.top or Path()
    above = parents(head, top=top)
    if ci.merged is not None and head != ci.merged:
        if above[1:] == (ci.merged,):
            return above[0], ""
        return None, f"HEAD is no merge of the pull request's commit {short_hash(ci.merged)}"
    if ci.base is None or head != ci.commit:
        return None, ""
    tree = ask(top, "rev-parse", "--verify", "--quiet", f"{ci.base}^{{tree}}")
    # An entry of a queue that changes nothing is compared with the entry before it all the same, as
    # the entry before it is in no branch.
    is_same = tree is not None and tree == git.tree and not ci.is_queued
    # A branch that is tested alone may have merged its base of today.
    others = () if ci.base_name == DIFF_BASE else above[1:]
    if ci.base in (head, *others) or is_same:
        return None, f"{ci.base_name} is {short_hash(ci.base)}, which is what is tested here"
    if git.shallow or ask(top, "merge-base", "--is-ancestor", ci.base, head) is not None:
        return ci.base, ""
    return None, f"{ci.base_name} is {short_hash(ci.base)}, no commit in the history of HEAD"


def _as_on_a_laptop(name: str, *, head: str, top: Path, in_ci: bool) -> WantedCommit:
    ref = resolve(name, top=top)
    place = "" if ref is None else ref.full_name
    branch = without_prefix(place or name)
    # Only the name of a branch means the branches of all remotes.
    tips = _of_remotes(branch, top=top) if branch == name else {}
    if ref is None and not tips:
        above = parents(head, top=top)[:1] if name in _PARENT_OF_HEAD else ()
        commit = above[0] if above else None
        return WantedCommit(commit=commit, is_known=bool(above), exact=bool(above))
    if ref is not None:
        if place is None:
            return WantedCommit(commit=ref.commit, exact=True)
        # Jobs merge requests into local branches.
        if not (in_ci and tips and place.startswith(_HEADS)):
            tips = {place: ref.commit, **tips}
    bases = {one: _merge_base(tip, head=head, top=top) for one, tip in tips.items()}
    # A remote copy of this very branch says nothing of where it began.
    others = [one for one in bases if one.startswith((_HEADS, ORIGIN)) or bases[one] != head]
    nearest, *further = others or bases
    if further:  # else nobody need count
        candidates = (nearest, *further)
        nearest = min(candidates, key=lambda one: _distance(bases[one], head=head, top=top))
    is_branch = nearest.startswith((_HEADS, _REMOTES))
    return WantedCommit(
        commit=bases[nearest],
        is_tip=bases[nearest] == tips[nearest],
        branch=branch if is_branch else None,
        tips=tuple(dict.fromkeys(tips.values())),
        notes=_notes_on_branch(branch, nearest, tips, top=top) if is_branch else (),
    )


def _of_remotes(branch: str, *, top: Path) -> dict[str, str]:
    """Return the commits that a branch has at remotes, by the full names of refs; origin first."""
    if not is_name(branch):
        return {}
    wanted = ("--format=%(refname) %(objectname)", f"{_REMOTES}*/{branch}")
    lines = (ask(top, "for-each-ref", *wanted) or "").splitlines()
    return dict(sorted(map(str.split, lines), key=lambda pair: not pair[0].startswith(ORIGIN)))


def _notes_on_branch(
    branch: str, nearest: str, tips: Mapping[str, str], *, top: Path
) -> tuple[str, ...]:
    """Note where the branch that counts may not be the one that the user thinks of."""
    local, shown = f"{_HEADS}{branch}", nearest.removeprefix(_REMOTES)
    if nearest == local:
        return _note_of_lost_branch(branch, top=top) if len(tips) == 1 else ()
    if local in tips:
        missing = int(ask(top, "rev-list", "--count", f"{tips[local]}..{tips[nearest]}") or 0)
        return (
            f"the local branch {branch} is stale: {shown} has {counted(missing, 'commit')} more",
        )
    is_one_of_several = len(tips) > 1 and not nearest.startswith(ORIGIN)
    return (f"of several remotes the nearest counts: {shown}",) if is_one_of_several else ()


def _note_of_lost_branch(branch: str, *, top: Path) -> tuple[str, ...]:
    """Note that the branch of origin that a local one follows is gone, as after a renaming."""
    if ask(top, "for-each-ref", "--format=%(upstream:track)", f"{_HEADS}{branch}") != "[gone]":
        return ()
    default = default_of_origin(top)
    now = f"; the default branch there is {default}" if default else ""
    return (f"the local branch {branch} is stale: origin has no such branch any more{now}",)


def _merge_base(tip: str, *, head: str, top: Path) -> str | None:
    """Find the merge-base of HEAD and a branch: of several the one in the branch's own line.

    Runs are recorded for a branch's first parents. Where two branches were merged into each
    other, the other merge-bases lie on lines that have no runs.
    """
    bases = (ask(top, "merge-base", "--all", head, tip) or "").split()
    if not bases:
        return None
    best = bases[0]
    if len(bases) > 1:
        beyond = [f"{base}^@" for base in bases]
        line = (ask(top, "rev-list", "--first-parent", tip, "--not", *beyond) or "").split()
        best = next((base for base in bases if base in line), best)
    return best


def _distance(base: str | None, *, head: str, top: Path) -> float:
    """Count the commits that HEAD has and a merge-base lacks; infinity if there is none."""
    if base is None:
        return math.inf
    return int(ask(top, "rev-list", "--count", f"{base}..{head}") or 0)
