"""Checkouts that are seldom, or in which the commit is all that is of interest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.ci.hosts import (
    Job,
    github_push,
    gitlab_push,
    merge_group,
    merge_request,
    on_laptop,
    pull_request,
)
from tests.ci.origin import WORSE, Origin, run_git
from tests.ci.situation import HARMLESS, Situation, add_feature, complete

UNKNOWN = "the default branch is not known here"  # as long as origin was not asked


def _with(job: Job, **environ: str) -> Job:
    return Job(path=job.path, environ={**job.environ, **environ})


# Pull requests at GitHub


def pull_request_by_branch_that_was_force_pushed(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = add_feature(origin)
    job = pull_request(origin, folder / "job", head=head, depth=0, checks_out_head=True)
    anew = origin.commit(HARMLESS, on=origin.tip)
    origin.set("feature", anew)
    run_git(job.path, "fetch", "--quiet", "origin", anew)
    run_git(job.path, "checkout", "--quiet", "--detach", anew)
    why = "`ref: github.head_ref` has what the branch is by now, not what the job is for"
    note = "not the commit of the CI job"
    return complete(job, origin, ref="auto", wanted=origin.tip, why=why, note=note, fork=False)


def pull_request_by_head_sha_of_depth_one_that_is_a_merge(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = origin.merge(add_feature(origin), origin.tip)
    job = pull_request(origin, folder / "job", head=head, checks_out_head=True)
    why = "HEAD merged main into the branch, which only origin's history shows"
    return complete(job, origin, wanted=origin.tip, why=why, fork=False, is_fetched=True)


def old_job_of_a_pull_request_that_was_retargeted(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    below = origin.commit(WORSE, on=origin.tip)
    origin.set("below", below)
    head = origin.commit(HARMLESS, on=below)
    job = pull_request(origin, folder / "job", head=head, base="below")
    pull_request(origin, folder / "newer", head=head)
    why = "the job tests the merge into the branch that was the target then"
    return complete(job, origin, ref="auto", wanted=below, why=why, fork=False)


def pull_request_that_was_retargeted(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    release = origin.commit({"CHANGES.md": "1.x\n"}, on=origin.main[0])
    origin.set("release", release)
    head = origin.commit(HARMLESS, on=origin.main[1])
    pull_request(origin, folder / "older", head=head)
    job = pull_request(origin, folder / "job", head=head, base="release", depth=0)
    why = "the job that the new target started tests the merge into that one"
    return complete(job, origin, ref="auto", wanted=release, why=why, fork=False)


def old_job_of_a_branch_that_was_deleted(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head, before = add_feature(origin), origin.tip
    job = pull_request(origin, folder / "job", head=head)
    run_git(origin.path, "update-ref", "-d", "refs/heads/feature")
    origin.advance({"README.md": "newer\n"})
    why = "the merge holds what main was then"
    return complete(job, origin, ref="auto", wanted=before, why=why, fork=False)


def pull_request_of_an_octopus_by_its_merge(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    first, second = add_feature(origin), origin.commit(HARMLESS, on=origin.main[1])
    job = pull_request(origin, folder / "job", head=origin.merge(first, second))
    why = "the merge that is tested has main's newest commit as its first parent"
    return complete(job, origin, ref="auto", wanted=origin.tip, why=why, fork=False)


def _without_blobs(origin: Origin, folder: Path, commit: str, *, is_sparse: bool = False) -> Path:
    """Check a commit out in a clone that fetches files as it needs them."""
    for what in ("allowFilter", "allowAnySHA1InWant"):
        run_git(origin.path, "config", f"uploadpack.{what}", "true")
    clone = folder / "partial"
    how = ["--filter=blob:none", "--no-checkout", *(["--sparse"] if is_sparse else [])]
    run_git(folder, "clone", "--quiet", *how, origin.url, str(clone))
    run_git(clone, "fetch", "--quiet", "--filter=blob:none", "origin", commit)
    run_git(clone, "checkout", "--quiet", "--detach", commit)
    return clone


def _partial_pull_request(folder: Path, *, is_sparse: bool) -> Situation:
    origin = Origin(folder / "host")
    made = pull_request(origin, folder / "job", head=add_feature(origin))
    sha = made.environ["GITHUB_SHA"]
    path = _without_blobs(origin, folder, sha, is_sparse=is_sparse)
    why = "files need not be here for their commits to be known"
    job = Job(path=path, environ=made.environ)
    return complete(job, origin, ref="auto", wanted=origin.tip, why=why, fork=False)


def pull_request_in_a_sparse_checkout(folder: Path) -> Situation:
    return _partial_pull_request(folder, is_sparse=True)


def pull_request_in_a_partial_clone(folder: Path) -> Situation:
    return _partial_pull_request(folder, is_sparse=False)


def pull_request_without_its_event_file(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    made = pull_request(origin, folder / "job", head=add_feature(origin))
    job = _with(made, GITHUB_EVENT_PATH="/in/no/container.json")
    why = "what the variables name is fetched, and the merge holds main's newest commit"
    note = "no file with a JSON object in it"
    wanted = origin.tip
    return complete(job, origin, ref="auto", wanted=wanted, why=why, note=note, is_fetched=True)


# Other jobs at GitHub


def queue_entry_whose_refs_were_deleted(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    first = origin.squash(origin.tip, add_feature(origin))
    second = origin.squash(first, origin.commit(HARMLESS, on=origin.tip))
    job = merge_group(origin, folder / "job", head=second, base=first)
    run_git(origin.path, "update-ref", "-d", job.environ["GITHUB_REF"])
    why = "the event names the entry before, which has a bad prompt"
    return complete(job, origin, ref="auto", wanted=first, why=why)


def queue_entry_that_changes_nothing(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    first = origin.squash(origin.tip, add_feature(origin))
    second = origin.commit({}, on=first)
    job = merge_group(origin, folder / "job", head=second, base=first, depth=0)
    why = "it is not blamed for the entry before it, whose very files it has"
    return complete(job, origin, ref="auto", wanted=first, why=why)


def tag_on_a_release(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    origin.set("release", origin.commit(WORSE, on=origin.main[0]))
    origin.set("refs/tags/v1", origin.at("release"))
    made = github_push(origin, folder / "job", branch="release", depth=0)
    run_git(made.path, "checkout", "--quiet", "--detach", "v1")
    job = _with(made, GITHUB_REF="refs/tags/v1", GITHUB_REF_NAME="v1")
    why = "the release was cut from main's first commit"
    return complete(job, origin, ref="auto", wanted=origin.main[0], why=why)


def _on_main(folder: Path, **told: str) -> Situation:
    """A job for main's newest commit; ``test_recipes.py`` has the run that it is compared with."""
    origin = Origin(folder / "host")
    made = github_push(origin, folder / "job", depth=0)
    run_git(made.path, "checkout", "--quiet", "--detach", origin.tip)
    why = "it is about main itself"
    return complete(_with(made, **told), origin, ref="auto", wanted=origin.tip, why=why)


def dispatch_on_main(folder: Path) -> Situation:
    return _on_main(folder, GITHUB_EVENT_NAME="workflow_dispatch")


def schedule_on_main(folder: Path) -> Situation:
    return _on_main(folder, GITHUB_EVENT_NAME="schedule")


def tag_on_main(folder: Path) -> Situation:
    return _on_main(folder, GITHUB_REF="refs/tags/v1", GITHUB_REF_NAME="v1")


def _topic(folder: Path, event: str) -> Situation:
    origin = Origin(folder / "host")
    add_feature(origin)
    made = github_push(origin, folder / "job", branch="feature")
    job = _with(made, GITHUB_EVENT_NAME=event)
    why = "where the branch began is in origin's history"
    return complete(job, origin, ref="auto", wanted=origin.main[1], why=why, is_fetched=True)


def push_of_a_topic(folder: Path) -> Situation:
    return _topic(folder, "push")


def push_of_a_topic_with_a_tag_called_main(folder: Path) -> Situation:
    """Whoever may push a tag could else say what a branch is compared with."""
    origin = Origin(folder / "host")
    origin.set("refs/tags/main", add_feature(origin))
    origin.set("feature", origin.commit(HARMLESS, on=origin.at("feature")))
    job = github_push(origin, folder / "job", branch="feature", depth=0)
    why = "a name is that of a branch first, of origin's too"
    return complete(job, origin, wanted=origin.main[1], why=why)


def dispatch_on_a_topic(folder: Path) -> Situation:
    return _topic(folder, "workflow_dispatch")


# GitLab


def merge_request_whose_branch_merged_main(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    job = merge_request(origin, folder / "job", head=origin.merge(add_feature(origin), origin.tip))
    why = "the diff's base is what was merged into the branch"
    return complete(job, origin, ref="auto", wanted=origin.tip, why=why, fork=False)


def merge_train_behind_a_bad_one(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    first = origin.merge(origin.tip, add_feature(origin))
    origin.set("train", first)
    head = origin.commit(HARMLESS, on=origin.tip)
    made = merge_request(origin, folder / "job", head=head, base="train", is_merged=True)
    told = {"TARGET_BRANCH_NAME": "main", "EVENT_TYPE": "merge_train"}
    job = _with(made, **{f"CI_MERGE_REQUEST_{name}": text for name, text in told.items()})
    why = "the train's car before is what it was merged with"
    return complete(job, origin, ref="auto", wanted=first, why=why, fork=False)


def child_pipeline_of_merged_results(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    made = merge_request(origin, folder / "job", head=add_feature(origin), is_merged=True)
    job = _with(made, CI_PIPELINE_SOURCE="parent_pipeline")
    why = "a child pipeline has the variables of its request"
    return complete(job, origin, ref="auto", wanted=origin.tip, why=why, fork=False)


def _kept(folder: Path, *, depth: int) -> Situation:
    """A job in the workspace of an older one, since which main has moved on."""
    origin = Origin(folder / "host")
    kept = merge_request(origin, folder / "older", head=add_feature(origin), depth=depth)
    origin.advance(WORSE)
    head = origin.commit(HARMLESS, on=origin.tip)
    job = merge_request(origin, folder / "job", head=head, depth=depth)
    shallow = [f"--depth={depth}"] if depth else []
    run_git(kept.path, "fetch", "--quiet", *shallow, "origin", head)
    run_git(kept.path, "checkout", "--quiet", "--force", head)
    why = "the diff's base is told, however old origin/main is here"
    job = Job(path=kept.path, environ=job.environ)
    return complete(job, origin, ref="auto", wanted=origin.tip, why=why, fork=False)


def merge_request_in_a_kept_workspace(folder: Path) -> Situation:
    return _kept(folder, depth=20)


def merge_request_in_a_kept_workspace_in_full(folder: Path) -> Situation:
    return _kept(folder, depth=0)


def branch_pipeline(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    add_feature(origin)
    job = gitlab_push(origin, folder / "job", branch="feature")
    why = "main is not here, and fetched"
    return complete(job, origin, ref="auto", wanted=origin.main[1], why=why, is_fetched=True)


def pipeline_of_a_fork_whose_main_is_stale(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = origin.commit(WORSE, on=origin.tip)
    job = merge_request(origin, folder / "job", head=head, depth=0, source_project="2")
    run_git(job.path, "update-ref", "refs/remotes/origin/main", origin.main[0])
    why = "the diff's base is told, whatever main the fork has"
    return complete(job, origin, ref="auto", wanted=origin.tip, why=why, fork=True)


# Other services


def _elsewhere(folder: Path, environ: Mapping[str, str]) -> tuple[Origin, Job]:
    """A fresh clone with all branches, at a commit of a topic."""
    origin = Origin(folder / "host")
    head = add_feature(origin)
    clone = on_laptop(origin, folder / "clone").path
    run_git(clone, "checkout", "--quiet", "--detach", head)
    told = {name: text.format(head=head) for name, text in environ.items()}
    return origin, Job(path=clone, environ={"CI": "true", **told})


def buildkite_in_a_fresh_checkout(folder: Path) -> Situation:
    told = {"BUILDKITE": "true", "BUILDKITE_COMMIT": "{head}", "BUILDKITE_PULL_REQUEST": "false"}
    origin, job = _elsewhere(folder, told)
    why = "all branches are here"
    return complete(job, origin, ref="auto", wanted=origin.main[1], why=why)


def circleci_without_blobs(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = add_feature(origin)
    environ = {"CI": "true", "CIRCLECI": "true", "CIRCLE_SHA1": head}
    job = Job(path=_without_blobs(origin, folder, head), environ=environ)
    why = "files need not be here for their commits to be known"
    return complete(job, origin, ref="auto", wanted=origin.main[1], why=why)


def azure_of_depth_one(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    made = pull_request(origin, folder / "job", head=add_feature(origin))
    environ = {
        "TF_BUILD": "True",
        "BUILD_SOURCEVERSION": made.environ["GITHUB_SHA"],
        "BUILD_REASON": "PullRequest",
        "SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/main",
        "SYSTEM_PULLREQUEST_ISFORK": "False",
    }
    why = "it sets no CI, and is one: main is fetched"
    job = Job(path=made.path, environ=environ)
    wanted = origin.tip
    return complete(job, origin, ref="auto", wanted=wanted, why=why, fork=False, is_fetched=True)


def azure_on_main_for_the_first_time(folder: Path) -> Situation:
    origin = Origin(folder / "host", commits=1)
    made = github_push(origin, folder / "job")
    run_git(made.path, "checkout", "--quiet", "--detach", origin.tip)
    environ = {
        "TF_BUILD": "True",
        "BUILD_SOURCEVERSION": origin.tip,
        "BUILD_REASON": "IndividualCI",
    }
    why = "origin is asked which branch is its default one"
    job = Job(path=made.path, environ=environ)
    wanted = origin.tip
    return complete(job, origin, ref="auto", wanted=wanted, why=why, note=UNKNOWN, is_fetched=True)


# Laptops


def _on_a_topic(folder: Path) -> tuple[Origin, Path]:
    """A clone with a new branch from main's newest commit, which was not pushed."""
    origin = Origin(folder / "host")
    clone = on_laptop(origin, folder / "clone").path
    run_git(clone, "switch", "--quiet", "--no-track", "--create", "topic", origin.tip)
    run_git(clone, "commit", "--quiet", "--allow-empty", "--message=more")
    return origin, clone


def shallow_clone_of_a_topic(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    add_feature(origin)
    clone = folder / "clone"
    run_git(folder, "clone", "--quiet", "--depth=1", "--branch=feature", origin.url, str(clone))
    why = "where the branch began is in origin's history"
    job, wanted = Job(path=clone), origin.main[1]
    return complete(job, origin, ref="auto", wanted=wanted, why=why, note=UNKNOWN, is_fetched=True)


def laptop_on_a_branch_that_was_not_pushed(folder: Path) -> Situation:
    origin, clone = _on_a_topic(folder)
    why = "it began at main's newest commit"
    return complete(Job(path=clone), origin, ref="auto", wanted=origin.tip, why=why)


def laptop_with_a_detached_topic(folder: Path) -> Situation:
    origin, clone = _on_a_topic(folder)
    run_git(clone, "switch", "--quiet", "--detach")
    why = "HEAD is the topic's commit, on no branch"
    return complete(Job(path=clone), origin, ref="auto", wanted=origin.tip, why=why)


def laptop_in_the_midst_of_a_rebase(folder: Path) -> Situation:
    origin, clone = _on_a_topic(folder)
    run_git(clone, "commit", "--quiet", "--allow-empty", "--message=again")
    newest = origin.advance({"README.md": "newer\n"})
    run_git(clone, "fetch", "--quiet")
    stops = {"GIT_SEQUENCE_EDITOR": "sed -i 1s/^pick/edit/"}
    run_git(clone, "rebase", "--quiet", "--interactive", "origin/main", environ=stops)
    why = "HEAD is the first of the commits on their new base"
    note = "the local branch main is stale: origin/main has 1 commit more"
    return complete(Job(path=clone), origin, ref="auto", wanted=newest, why=why, note=note)


def laptop_with_an_uncommitted_change_on_main(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    clone = on_laptop(origin, folder / "clone").path
    (clone / "app.py").write_text(WORSE["app.py"])
    why = "the change is compared with the commit that it was made on"
    return complete(Job(path=clone), origin, ref="auto", wanted=origin.tip, why=why)


def laptop_with_an_uncommitted_change_on_a_topic(folder: Path) -> Situation:
    origin, clone = _on_a_topic(folder)
    (clone / "app.py").write_text(WORSE["app.py"])
    why = "the change is compared with where the topic began"
    return complete(Job(path=clone), origin, ref="auto", wanted=origin.tip, why=why)


def laptop_with_a_file_called_main(folder: Path) -> Situation:
    origin, clone = _on_a_topic(folder)
    (clone / "main").write_text("no branch\n")
    why = "a name is that of a branch first"
    return complete(Job(path=clone), origin, wanted=origin.tip, why=why)


def laptop_with_a_tag_called_main(folder: Path) -> Situation:
    origin, clone = _on_a_topic(folder)
    run_git(clone, "tag", "main", origin.main[0])
    why = "a name is that of a branch first"
    return complete(Job(path=clone), origin, wanted=origin.tip, why=why)


ODD_CHECKOUTS = (
    pull_request_by_branch_that_was_force_pushed,
    pull_request_by_head_sha_of_depth_one_that_is_a_merge,
    old_job_of_a_pull_request_that_was_retargeted,
    pull_request_that_was_retargeted,
    old_job_of_a_branch_that_was_deleted,
    pull_request_of_an_octopus_by_its_merge,
    pull_request_in_a_sparse_checkout,
    pull_request_in_a_partial_clone,
    pull_request_without_its_event_file,
    queue_entry_whose_refs_were_deleted,
    queue_entry_that_changes_nothing,
    dispatch_on_main,
    schedule_on_main,
    tag_on_main,
    tag_on_a_release,
    push_of_a_topic,
    push_of_a_topic_with_a_tag_called_main,
    dispatch_on_a_topic,
    merge_request_whose_branch_merged_main,
    merge_train_behind_a_bad_one,
    child_pipeline_of_merged_results,
    merge_request_in_a_kept_workspace,
    merge_request_in_a_kept_workspace_in_full,
    branch_pipeline,
    pipeline_of_a_fork_whose_main_is_stale,
    buildkite_in_a_fresh_checkout,
    circleci_without_blobs,
    azure_of_depth_one,
    azure_on_main_for_the_first_time,
    shallow_clone_of_a_topic,
    laptop_on_a_branch_that_was_not_pushed,
    laptop_with_a_detached_topic,
    laptop_in_the_midst_of_a_rebase,
    laptop_with_an_uncommitted_change_on_main,
    laptop_with_an_uncommitted_change_on_a_topic,
    laptop_with_a_file_called_main,
    laptop_with_a_tag_called_main,
)
