"""The merge queue of GitHub, pushes to main, and the merge requests of GitLab."""

from __future__ import annotations

from pathlib import Path

from tests.ci.hosts import github_push, gitlab_push, merge_group, merge_request
from tests.ci.origin import WORSE, Origin
from tests.ci.situation import HARMLESS, Situation, add_feature, complete

# The merge queue of GitHub


def queue_entry_by_merge(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    base = origin.tip
    job = merge_group(
        origin, folder / "job", head=origin.merge(base, add_feature(origin)), base=base
    )
    why = "the event names the commit that main has"
    return complete(job, origin, wanted=base, why=why)


def queue_entry_by_squash(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    base = origin.tip
    head = origin.squash(base, add_feature(origin))
    job = merge_group(origin, folder / "job", head=head, base=base, depth=0)
    why = "the one commit lies on top of main's"
    return complete(job, origin, ref="auto", wanted=base, why=why)


def queue_entry_by_rebase_of_three(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    base, first = origin.tip, add_feature(origin)
    second = origin.commit(HARMLESS, on=first)
    third = origin.commit({"notes.txt": "more\n"}, on=second)
    head = origin.rebase(base, first, second, third)
    job = merge_group(origin, folder / "job", head=head, base=base)
    why = "three commits lie on top of main's, and HEAD's parent is the second of them"
    return complete(job, origin, wanted=base, why=why)


def second_queue_entry(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    first = origin.squash(origin.tip, origin.commit(HARMLESS, on=origin.tip))
    merge_group(origin, folder / "first", head=first, base=origin.tip, number=6)
    second = origin.squash(first, add_feature(origin))
    job = merge_group(origin, folder / "job", head=second, base=first)
    why = "it answers for itself alone; main's run stands in while the first entry has none"
    return complete(job, origin, wanted=first, baseline=origin.tip, why=why)


# Pushes to main


def first_push_ever(folder: Path) -> Situation:
    origin = Origin(folder / "host", commits=1)
    job = github_push(origin, folder / "job")
    why = "nothing was recorded: this run is recorded and not gated"
    wanted = origin.tip
    return Situation(
        path=job.path, environ=job.environ, wanted=wanted, recorded=(), baseline=None, why=why
    )


def push_of_a_regression(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    before, red = tuple(origin.main), origin.advance(WORSE)
    job = github_push(origin, folder / "job")
    why = "main is held against its own last commit, and recorded although it is red"
    return complete(
        job, origin, ref="auto", wanted=red, recorded=before, baseline=before[-1], why=why
    )


def push_of_a_squash_merge(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    before = tuple(origin.main)
    origin.main.append(origin.squash(origin.tip, add_feature(origin)))
    origin.set("main", origin.tip)
    job = github_push(origin, folder / "job", depth=0)
    why = "main's commit before the squash is its parent"
    return complete(job, origin, wanted=origin.tip, recorded=before, baseline=before[-1], why=why)


def push_of_a_rebase_merge(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    before, first = tuple(origin.main), add_feature(origin)
    second = origin.commit(HARMLESS, on=first)
    origin.main.append(origin.rebase(origin.tip, first, second))
    origin.set("main", origin.tip)
    job = github_push(origin, folder / "job", depth=0)
    why = "two commits came at once, and the last run lies below both"
    return complete(job, origin, wanted=origin.tip, recorded=before, baseline=before[-1], why=why)


def push_to_main_at_gitlab(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    before = tuple(origin.main[:-1])
    job = gitlab_push(origin, folder / "job")
    why = "HEAD is detached at origin/main, which is the branch itself"
    return complete(job, origin, wanted=origin.tip, recorded=before, baseline=before[-1], why=why)


# Merge requests at GitLab


def merge_request_of_a_branch(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    job = merge_request(origin, folder / "job", head=add_feature(origin))
    why = "the variable of the diff's base says where the branch began; no main is here"
    return complete(job, origin, wanted=origin.main[1], why=why, fork=False)


def merge_request_of_a_branch_of_depth_one(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = add_feature(origin)
    job = merge_request(origin, folder / "job", head=head, depth=1, source_project="2")
    why = "the same without the commit, which a run needs by its hash alone"
    return complete(job, origin, ref="auto", wanted=origin.main[1], why=why, fork=True)


def merge_request_of_a_branch_in_full(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    job = merge_request(origin, folder / "job", head=add_feature(origin), depth=0)
    why = "the same with all branches at hand"
    return complete(job, origin, ref="origin/main", wanted=origin.main[1], why=why, fork=False)


def merge_request_of_merged_results(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    job = merge_request(origin, folder / "job", head=add_feature(origin), is_merged=True)
    why = "main's newest commit is in the merge; where the branch began is the wrong one"
    return complete(job, origin, wanted=origin.tip, why=why, fork=False)


PIPELINES = (
    queue_entry_by_merge,
    queue_entry_by_squash,
    queue_entry_by_rebase_of_three,
    second_queue_entry,
    first_push_ever,
    push_of_a_regression,
    push_of_a_squash_merge,
    push_of_a_rebase_merge,
    push_to_main_at_gitlab,
    merge_request_of_a_branch,
    merge_request_of_a_branch_of_depth_one,
    merge_request_of_a_branch_in_full,
    merge_request_of_merged_results,
)
