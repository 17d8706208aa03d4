"""Rules for what is sent to the store of a team: which runs, and from which jobs.

Whoever can start a job can write into its run files. So commit, tree and event come from the job
itself, and a file with other ones is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import CiJob, Run
from pytest_llmeval.runs.ci import CiFacts
from pytest_llmeval.runs.git import GitState, short_hash
from pytest_llmeval.runs.lookup.best_run import unfitness
from pytest_llmeval.runs.run_lines import RunHeader
from pytest_llmeval.runs.store import RunName

FROM_LAPTOP = "--from-laptop"

# Events that only people who may write to the repository can start. A pull request from elsewhere
# starts other events, some with a token that may write.
_TRUSTED: Mapping[str, tuple[str, ...]] = {"github": ("push", "merge_group"), "gitlab": ("push",)}


def check_job(git: GitState, *, ci: CiFacts, from_laptop: bool) -> None:
    """Refuse to send anything from a job that anybody can start.

    Args:
        git: the state of the working tree.
        ci: what CI tells of the job.
        from_laptop: the user says that this is no job of a CI that is known.

    Raises:
        SettingsError: anybody can start the job, there is no job, or its commit is not checked out.
    """
    if git.top is None or git.commit is None:
        raise SettingsError(f"no commit to send runs of: {git.lack}")
    trusted = _TRUSTED.get(ci.provider or "")
    if trusted is None:
        if not from_laptop:
            where = "in a CI that does not say what started it" if ci.provider else "outside of CI"
            raise SettingsError(
                f"{where}: runs are shared by the jobs that record main. If you may vouch for "
                f"this one type  llmeval push {FROM_LAPTOP}"
            )
        return
    if ci.event not in trusted:
        raise SettingsError(
            f"the event of this job is {ci.event}: only runs of {' and '.join(trusted)} are sent, "
            "as whoever opens a request writes what its jobs record"
        )
    if ci.commit != git.commit:
        told = "; ".join(ci.complaints) or f"the job is for {short_hash(ci.commit or 'no commit')}"
        raise SettingsError(f"HEAD is {short_hash(git.commit)}, and {told}: check that commit out")


def refusal(header: RunHeader, *, git: GitState, ci: CiFacts) -> str:
    """Say why a run is not sent; empty if it may be.

    Args:
        header: of the run file.
        git: the state of the working tree.
        ci: what CI tells of the job; ``check_job`` let it pass.
    """
    run = header.run
    if run.commit != git.commit:
        return f"it is of {short_hash(run.commit)}, HEAD is {short_hash(git.commit or '')}"
    if run.tree != git.tree:
        return "its tree is not that of its commit"
    if ci.provider in _TRUSTED and _event(run.ci) != _event(ci.job):
        return f"it was recorded at {_event(run.ci)}, this job is of {_event(ci.job)}"
    return unfit_to_share(run) or " and ".join(unfitness(header))


def unfit_to_share(run: Run) -> str:
    """Say why no job may send a run and no session may take it; empty if both may."""
    if run.made is not None:
        return f"it was made for a comparison ({run.made})"
    if run.ci is not None and (
        run.ci.fork is not None or "request" in (run.ci.event or "").lower()
    ):
        return f"it is of a pull or merge request ({run.ci.event})"
    return ""


def name_of_run(header: RunHeader, git: GitState) -> RunName:
    """Return the name under which a run is sent: its own id, the commit and tree checked out."""
    return RunName(git.commit or "", git.tree, header.run.id)


def _event(job: CiJob | None) -> str:
    return "no job of CI" if job is None else f"{job.provider} {job.event}"
