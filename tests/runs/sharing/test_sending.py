"""Which runs may be sent, and from where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import CiJob, Outcome
from pytest_llmeval.runs.ci import ON_LAPTOP, CiFacts
from pytest_llmeval.runs.git import GitState
from pytest_llmeval.runs.run_lines import RunHeader, model_uses
from pytest_llmeval.runs.sharing.sending import check_job, name_of_run, refusal
from pytest_llmeval.runs.store import RunName
from tests.runs.builders import COMMIT, TREE, make_run

OTHER = "ab" * 20
PUSH = CiFacts(provider="github", event="push", commit=COMMIT)
GITLAB = CiFacts(provider="gitlab", event="push", commit=COMMIT)
JOB = CiJob(provider="github", event="push", url="https://example.org/run/1")


@pytest.fixture
def git(tmp_path) -> GitState:
    return GitState(top=tmp_path, commit=COMMIT, tree=TREE)


def header_of(*, errored: int = 0, **changes) -> RunHeader:
    run = make_run(**{"ci": JOB, **changes})
    return RunHeader(
        run=run,
        trials=len(run.trials),
        errored=errored,
        skipped=0,
        models=model_uses(run.trials),
    )


@pytest.mark.parametrize("ci", [PUSH, GITLAB, replace(PUSH, event="merge_group")])
def test_jobs_of_main_and_of_its_queue_may_send(git, ci):
    check_job(git, ci=ci, from_laptop=False)


@pytest.mark.parametrize(
    "event",
    ["pull_request", "pull_request_target", "workflow_run", "issue_comment", "schedule", None],
)
@pytest.mark.parametrize("from_laptop", [False, True])
def test_no_other_event_of_github_may(git, event, from_laptop):
    with pytest.raises(SettingsError, match=f"the event of this job is {event}: only runs of push"):
        check_job(git, ci=replace(PUSH, event=event), from_laptop=from_laptop)


def test_no_merge_request_of_gitlab_may(git):
    with pytest.raises(SettingsError, match="merge_request_event: only runs of push are sent"):
        check_job(git, ci=replace(GITLAB, event="merge_request_event"), from_laptop=True)


@pytest.mark.parametrize(
    ("ci", "said"),
    [
        (ON_LAPTOP, "outside of CI"),
        (CiFacts(provider="other"), "that does not say what started it"),
    ],
)
def test_where_no_event_is_known_somebody_must_vouch(git, ci, said):
    with pytest.raises(SettingsError, match=f"{said}: .* llmeval push --from-laptop"):
        check_job(git, ci=ci, from_laptop=False)
    check_job(git, ci=ci, from_laptop=True)


@pytest.mark.parametrize(
    ("ci", "said"),
    [
        (replace(PUSH, commit=OTHER), "the job is for abababa: check that commit out"),
        (replace(PUSH, commit=None, complaints=("GITHUB_SHA is empty",)), "GITHUB_SHA is empty"),
    ],
)
def test_the_commit_of_the_job_must_be_checked_out(git, ci, said):
    with pytest.raises(SettingsError, match=f"HEAD is 1a2b3c4, and {said}"):
        check_job(git, ci=ci, from_laptop=False)


def test_without_a_commit_there_is_nothing_to_send(git):
    with pytest.raises(SettingsError, match="this repository has no commit yet"):
        check_job(replace(git, commit=None), ci=PUSH, from_laptop=False)
    with pytest.raises(SettingsError, match="no repository"):
        check_job(GitState(top=None, absent="no repository"), ci=PUSH, from_laptop=False)


def test_a_good_run_is_sent_under_the_commit_and_tree_that_are_checked_out(git):
    header = header_of()
    assert refusal(header, git=git, ci=PUSH) == ""
    assert name_of_run(header, git) == RunName(COMMIT, TREE, header.run.id)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"commit": OTHER}, "it is of abababa, HEAD is 1a2b3c4"),
        ({"commit": None}, "it is of no commit, HEAD is 1a2b3c4"),
        ({"tree": OTHER}, "its tree is not that of its commit"),
        ({"made": "rerun"}, "it was made for a comparison (rerun)"),
        ({"ci": None}, "it was recorded at no job of CI, this job is of github push"),
        ({"ci": replace(JOB, event="pull_request")}, "it was recorded at github pull_request"),
        ({"ci": replace(JOB, provider="gitlab")}, "it was recorded at gitlab push"),
        ({"ci": replace(JOB, fork=False)}, "it is of a pull or merge request"),
        ({"dirty": True}, "dirty: tracked files differed from the commit"),
        ({"dirty": True, "unseen": ("a.py",)}, "dirty: git did not look at a.py"),
        ({"complete": False}, "incomplete: not everything was collected"),
        ({"errored": 2}, "2 of 4 trials errored"),
        ({"id": "29991121T084100-1a2b3c"}, "ahead of this machine's clock"),
    ],
)
def test_a_run_that_is_none_of_this_job_or_no_baseline_is_refused(git, changes, said):
    assert said in refusal(header_of(**changes), git=git, ci=PUSH)


@pytest.mark.parametrize("event", ["pull_request", "pull_request_target", "merge_request_event"])
def test_from_a_laptop_runs_of_requests_are_refused_too(git, event):
    assert refusal(header_of(), git=git, ci=ON_LAPTOP) == ""
    assert refusal(header_of(ci=None), git=git, ci=ON_LAPTOP) == ""
    job = replace(JOB, event=event)
    said = f"it is of a pull or merge request ({event})"
    assert refusal(header_of(ci=job), git=git, ci=ON_LAPTOP) == said


def test_one_errored_trial_is_none_too_many(git):
    trials = make_run().trials
    ended = (replace(trials[0], outcome=Outcome.ERRORED, scores={}), *trials[1:])
    assert refusal(header_of(trials=ended, errored=1), git=git, ci=PUSH) == ""
