"""The errors of a lookup: what is wrong with REF, what was looked for, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_llmeval.errors import BaselineError, BaselineNotFound, BaselineUnlike
from pytest_llmeval.runs.git import GitState, ResolvedRef, near_names, resolve, short_hash
from pytest_llmeval.runs.lookup.best_run import Search
from pytest_llmeval.runs.lookup.refs import Baseline, Refs, Step
from pytest_llmeval.runs.lookup.wanted_commit import (
    WantedCommit,
    default_of_origin,
    facts_of_head,
    name_to_show,
)
from pytest_llmeval.runs.store import first_of

_RERUN = "Run its evals now, in a worktree:  add --llm-on-missing=rerun\n       "
_DEEPEN = (
    "Fetch the history:  git fetch --unshallow origin '+refs/heads/*:refs/remotes/origin/*'  (in "
    "GitHub's actions/checkout: fetch-depth: 0, at GitLab: GIT_DEPTH: 0)  or let it be fetched:  "
    "add"
)
_REQUEST = "refs/pull/${{ github.event.number }}/merge"
_REQUESTS = {
    "issue_comment": "refs/pull/${{ github.event.issue.number }}/merge",
    "workflow_run": "${{ github.event.workflow_run.head_sha }}",
}
_UNGATED = "or, if that has no evals, run without a comparison:  add --llm-on-missing=warn"


@dataclass(frozen=True, slots=True)
class Refusals:
    """Makes the errors of one lookup, each of which begins with the option as typed.

    Attributes:
        reference: what the user named.
        option: for which the run is sought.
        refs: resolves names.
        search: looked for runs of commits.
    """

    reference: str
    option: str
    refs: Refs
    search: Search

    @property
    def wanted(self) -> WantedCommit:
        """The commit that the name means."""
        return self.refs.wanted(self.reference)

    @property
    def _is_session(self) -> bool:
        """Whether a session looks for the run; a command has other options, and runs nothing."""
        return self.option.startswith("--llm-")

    @property
    def _command(self) -> str:
        return "pytest" if self._is_session else "llmeval merge DIR..."

    @property
    def _rerun(self) -> str:
        return _RERUN if self._is_session else ""

    @property
    def _deepen(self) -> str:
        return f"{_DEEPEN} {'--llm-fetch' if self._is_session else '--fetch'}"

    def unknown(self) -> BaselineError:
        """Make the error for an unknown name, with similar names."""
        git, begun = self.refs.git, self.refs.beginning(self.reference)
        if begun:
            return BaselineError(f"{self._typed(self.reference)}: {begun}")
        if git.top is None or git.commit is None:
            return self._leads_nowhere(
                "no file and no recorded run has that name, and no git ref can be looked up: "
                f"{git.lack}.",
                todo="Name a run file, a run id, a full commit hash, or:  "
                f"{self._command} {self.option}=last",
            )
        what = "no file, run id, commit, branch or tag has that name"
        if git.shallow and not self.refs.history.has_asked:
            what = f"{what} here. This clone is shallow."
            return self._leads_nowhere(what, todo=self._deepen, notes=self.said)
        what = f"{what}, here or at origin."
        near = near_names(self.reference, top=git.top)
        todo = "List them:  git branch --all && git tag"
        default = default_of_origin(git.top) or self.refs.ci.default_branch
        if default and default != self.reference:
            todo += f"  or take the default branch, {default}:  pytest {self._typed('auto')}"
        if near:
            todo = f"Did you mean {' or '.join(near)}?  {self._command} {self._typed(near[0])}"
        return self._leads_nowhere(what, todo=todo, notes=self.said)

    def unrelated(self) -> BaselineError:
        """Make the error for a name that has no commit in common with HEAD."""
        what, todo = "it has no common ancestor with HEAD", "Name a commit, a run id or a run file."
        if self.refs.history.git.shallow:
            what, todo = f"{what} in this shallow clone.", self._deepen
        else:
            what = f"{what}: their histories are unrelated."
        return self._leads_nowhere(what, todo=todo, notes=self.said)

    @property
    def said(self) -> tuple[str, ...]:
        """What is to be said of the name and of its history."""
        return (*self.wanted.notes, *self.refs.history.notes)

    def unlike(self, what: str) -> BaselineUnlike:
        """Make the error for a run of another folder or of other tests."""
        named = self._typed(self.reference)
        return BaselineUnlike(f"{named}: {what}.\n       Record one that fits:  {self.refs.pytest}")

    def nothing_recorded(self, looked_at: Sequence[Step]) -> BaselineError:
        """Make the error for commits without a suitable run; it says how to record one."""
        if self.search.unlike is not None:
            error: BaselineError = self.unlike(self.search.unlike)
            what = str(error).partition("\n")[0]
            return self._let_pass(what) if self.is_own_branch_in_ci else error
        git, wanted = self.refs.git, self.wanted
        what = f"no complete run recorded for {name_to_show(self.reference, wanted)}"
        if not wanted.exact:
            way = "CI names" if wanted.told_by_ci else "merge-base"
            what += f" ({way} {short_hash(wanted.commit or '')})"
        ancestors = sum(step.behind > 0 or step.is_substitute for step in looked_at)
        if ancestors:
            what += f" or its {ancestors} nearest ancestor{'s' * (ancestors > 1)}"
        said = (*self.said, *self.search.mentioned())
        where = f"{self.folder()}{self.refs.store.elsewhere}"
        what = "\n       ".join([f"{what} in {where}.", *said])
        if self.is_own_branch_in_ci:
            return self._let_pass(f"{self._typed(self.reference)}: {what}")
        is_short = not wanted.exact and all(step.behind < self.refs.reach for step in looked_at)
        if is_short and self.refs.history.is_cut(one for step in looked_at for one in step.commits):
            todo = f"{self._rerun}{self._deepen}"
            return self._leads_nowhere(f"{what} This clone is shallow.", todo=todo)
        commit = wanted.commit or ""
        if self._is_session and git.shallow and git.top and resolve(commit, top=git.top) is None:
            return self.not_found(what, todo=self._rerun.rstrip())  # it is fetched elsewhere
        steps = [
            *(["git stash"] if git.dirty else []),
            *([] if wanted.commit == git.commit else [f"git switch {self._where()}"]),
            self.refs.pytest,
        ]
        first = _to_be_seen(self.search.unseen, git=git)
        return self.not_found(
            what, todo=f"{first}Record one:  {' && '.join(steps)}", other=self._rerun
        )

    @property
    def is_own_branch_in_ci(self) -> bool:
        """Whether the job is about the branch itself, whose runs only such jobs record."""
        is_own = self.wanted.commit == self.refs.git.commit and not self.wanted.exact
        # A job of an unknown CI may have merged a request into main; origin's own main tells.
        is_told = self.refs.ci.commit is not None or not self.refs.history.notes
        return is_own and is_told and self.refs.ci.is_for_branch

    @property
    def is_another_commit_in_ci(self) -> bool:
        """Whether a job of a pull request has checked out the commit that it is compared with."""
        head = facts_of_head(self.refs.git, ci=self.refs.ci)
        # A job of another event than the request's own begins with the default branch.
        is_distant = self.refs.ci.of_request and self.refs.ci.commit is None
        is_elsewhere = (self.refs.ci.target is not None or is_distant) and head.target is None
        return is_elsewhere and self.wanted.commit == self.refs.git.commit and not self.wanted.exact

    def not_checked_out(self) -> BaselineError:
        """Make the error for a job that would compare a branch with itself."""
        event = self.refs.ci.event or ""
        return self._leads_nowhere(
            f"HEAD is {short_hash(self.wanted.commit or '')}, a commit of the branch itself, so "
            "nothing of the pull request is tested.",
            notes=self.wanted.notes,
            todo=f"Check the pull request out:  ref: {_REQUESTS.get(event, _REQUEST)}",
        )

    def _let_pass(self, message: str) -> BaselineNotFound:
        line = f"{' '.join(message.split())} This run will be the first"
        return BaselineNotFound(message, line=line, stops=False)

    def refused(self, found: Baseline) -> BaselineError:
        """Make the error for a substitute that the user does not want."""
        wanted, commit = short_hash(found.wanted or ""), short_hash(found.run.commit or "")
        return self._leads_nowhere(
            f"{wanted} has no complete run. The one of {commit}, {found.distance} behind, could be "
            "used instead, which --llm-strict refuses.",
            todo=f"{self._rerun}Record one:  git switch --detach {wanted} && {self.refs.pytest}",
        )

    def _where(self) -> str:
        """Write what to switch to: the local branch that is at the commit, else the commit."""
        top, branch, commit = self.refs.git.top, self.wanted.branch, self.wanted.commit or ""
        ref = None if top is None or branch is None else resolve(branch, top=top)
        is_tip = ref == ResolvedRef(commit=commit, full_name=f"refs/heads/{branch}")
        return branch if is_tip and branch else f"--detach {short_hash(commit)}"

    def not_made(self, commit: str, reason: BaselineError) -> BaselineError:
        """Make the error for a run that was to be made now, and cannot be."""
        what = f"no run of {short_hash(commit)} could be made:"
        if self.is_own_branch_in_ci:
            return self._let_pass(f"{self._typed(self.reference)}: {what} {reason}.")
        way_out = "If this branch repairs that commit, run it once with:  --llm-on-missing=warn"
        return self._leads_nowhere(what, todo=f"{reason}\n       {way_out}")

    def not_found(self, what: str, *, todo: str, other: str = "") -> BaselineNotFound:
        """Make the error for a run that somebody has to record first.

        Args:
            what: is wrong.
            todo: how to record it.
            other: better things to do: lines, with their ends.
        """
        named = self._typed(self.reference)
        joined = f"or join them without a comparison:  leave {self.option} out"
        ungated = _UNGATED if self._is_session else joined
        return BaselineNotFound(
            f"{named}: {what}\n       {other}{todo}      {ungated}",
            line=f"{named}: {' '.join(f'{what} {todo}'.split())}",
        )

    def _leads_nowhere(self, what: str, *, todo: str, notes: tuple[str, ...] = ()) -> BaselineError:
        """Make the error for a name that leads to no commit.

        Not ``BaselineNotFound``: ``--llm-on-missing=warn`` is for a first run without a
        baseline. That option must not let a mistyped name or a cut-off history pass ungated.
        """
        lines = (f"{self._typed(self.reference)}: {what}", *notes, todo)
        return BaselineError("\n       ".join(lines))

    def folder(self) -> str:
        """Write where runs are kept, as seen from the working directory."""
        folder = self.refs.store.folder
        try:
            return str(folder.relative_to(Path.cwd()))
        except (ValueError, OSError):
            return str(folder)

    def _typed(self, reference: str) -> str:
        typed = reference if reference.isprintable() else ascii(reference)
        return f"{self.option}={shlex.quote(typed)}"


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
