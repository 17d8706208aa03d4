"""Pull requests at GitHub."""

from __future__ import annotations

from pathlib import Path

from tests.ci.hosts import Job, pull_request
from tests.ci.origin import WORSE, Origin, run_git
from tests.ci.situation import HARMLESS, Situation, add_feature, complete


def pull_request_of_depth_one(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    job = pull_request(origin, folder / "job", head=add_feature(origin))
    why = "the merge that is tested has main's newest commit as its first parent"
    return complete(job, origin, wanted=origin.tip, why=why, fork=False)


def pull_request_of_depth_one_by_name_at_origin(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    job = pull_request(origin, folder / "job", head=add_feature(origin))
    why = "origin/main is the branch that it is to be merged into, although no such ref is here"
    return complete(job, origin, ref="origin/main", wanted=origin.tip, why=why, fork=False)


def pull_request_of_depth_one_by_first_parent(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    job = pull_request(origin, folder / "job", head=add_feature(origin))
    why = "HEAD^1 is written in the commit, although git does not follow it where history is cut"
    return complete(job, origin, ref="HEAD^1", wanted=origin.tip, why=why, fork=False)


def pull_request_in_full(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    job = pull_request(origin, folder / "job", head=add_feature(origin), depth=0)
    why = "as at depth one; it is also the merge-base with origin/main"
    return complete(job, origin, ref="auto", wanted=origin.tip, why=why, fork=False)


def pull_request_that_is_stale(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head, before = add_feature(origin), origin.tip
    job = pull_request(origin, folder / "job", head=head, depth=0)
    newest = origin.advance({"README.md": "newer\n"})
    run_git(job.path, "fetch", "--quiet", "origin", f"+{newest}:refs/remotes/origin/main")
    why = "main moved on since the merge was made, which holds the older commit"
    return complete(job, origin, wanted=before, why=why, fork=False)


def pull_request_by_head_sha(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = add_feature(origin)
    job = pull_request(origin, folder / "job", head=head, depth=0, checks_out_head=True)
    why = "HEAD is the branch itself, which began at main's second commit"
    return complete(job, origin, wanted=origin.main[1], why=why, fork=False)


def pull_request_by_head_sha_of_depth_one(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = add_feature(origin)
    job = pull_request(origin, folder / "job", head=head, checks_out_head=True)
    why = "nothing here says where the branch began: its history must be fetched"
    wanted = origin.main[1]
    return complete(job, origin, wanted=wanted, why=why, fork=False, is_fetched=True)


def pull_request_by_head_sha_that_is_a_merge(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = origin.merge(add_feature(origin), origin.tip)
    job = pull_request(origin, folder / "job", head=head, depth=0, checks_out_head=True)
    why = "HEAD merged main into the branch: its first parent is the branch's, not main's"
    return complete(job, origin, wanted=origin.tip, why=why, fork=False)


def pull_request_of_a_fork(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = add_feature(origin)
    job = pull_request(origin, folder / "job", head=head, head_repository="ada/bot")
    why = "the merge lies in the base repository, whoever made the branch"
    return complete(job, origin, wanted=origin.tip, why=why, fork=True)


def pull_request_of_a_fork_by_head_sha(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = origin.commit(WORSE, on=origin.main[1])
    job = pull_request(
        origin,
        folder / "job",
        head=head,
        depth=0,
        checks_out_head=True,
        head_repository="ada/bot",
    )
    why = "no branch of the repository has the commit, which is fetched by its hash"
    return complete(job, origin, wanted=origin.main[1], why=why, fork=True)


def pull_request_of_a_fork_that_was_deleted(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = add_feature(origin)
    job = pull_request(origin, folder / "job", head=head, head_repository=None)
    why = "a repository that is gone is not the one that it is to be merged into"
    return complete(job, origin, wanted=origin.tip, why=why, fork=True)


def _stacked(folder: Path, *, depth: int) -> tuple[Origin, str, Job]:
    """A harmless pull request into the branch of another one, which has a worse prompt."""
    origin = Origin(folder / "host")
    parent = origin.commit(WORSE, on=origin.tip)
    origin.set("parent", parent)
    child = origin.commit(HARMLESS, on=parent)
    origin.set("feature", child)
    job = pull_request(origin, folder / "job", head=child, base="parent", depth=depth)
    return origin, parent, job


def stacked_pull_request(folder: Path) -> Situation:
    origin, parent, job = _stacked(folder, depth=1)
    why = "it is compared with its parent; main's run stands in where that has none"
    return complete(
        job, origin, ref="auto", wanted=parent, baseline=origin.tip, why=why, fork=False
    )


def stacked_pull_request_against_main(folder: Path) -> Situation:
    origin, _, job = _stacked(folder, depth=0)
    why = "main was asked for, so the child answers for its parent too, which is said"
    note = "merged into parent"
    return complete(job, origin, wanted=origin.tip, why=why, note=note, fork=False)


def pull_request_whose_parent_was_squashed(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    parent = add_feature(origin)
    child = origin.commit(HARMLESS, on=parent)
    origin.main.append(origin.squash(origin.tip, parent))
    origin.set("main", origin.tip)
    job = pull_request(origin, folder / "job", head=child)
    why = "the merge has the squashed parent below it"
    return complete(job, origin, wanted=origin.tip, why=why, fork=False)


def pull_request_after_a_force_push(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head, first = add_feature(origin), origin.main[0]
    anew = origin.commit({"CHANGES.md": "anew\n"}, on=first)
    origin.set("main", anew)
    job = pull_request(origin, folder / "job", head=head, depth=0)
    why = "main is another line now, and the merge was made with its newest commit"
    recorded = (*origin.main, anew)
    return complete(job, origin, wanted=anew, recorded=recorded, why=why, fork=False)


def pull_request_that_brings_back_what_was_reverted(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    good, bad = origin.tip, origin.advance(WORSE)
    reverted = origin.revert(bad, on=bad)
    origin.set("main", reverted)
    head = origin.commit(WORSE, on=reverted)
    job = pull_request(origin, folder / "job", head=head, depth=0)
    why = "the revert has no run, and the tree of the commit before the bad one"
    return complete(job, origin, wanted=reverted, baseline=good, why=why, fork=False)


def pull_request_in_a_subfolder(folder: Path) -> Situation:
    origin = Origin(folder / "host", project="bots/evals", commits=1)
    first = origin.tip
    origin.main += origin.commits(60, on=first)
    origin.set("main", origin.tip)
    head = origin.commit(WORSE, on=origin.tip)
    job = pull_request(origin, folder / "job", head=head, depth=0)
    inner = Job(path=job.path / "bots" / "evals", environ=job.environ)
    why = "60 commits since the last run changed nothing below rootdir: they do not count"
    return complete(
        inner,
        origin,
        wanted=origin.tip,
        recorded=(first,),
        baseline=first,
        why=why,
        fork=False,
    )


def pull_request_whose_branch_merged_main(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    head = origin.merge(add_feature(origin), origin.main[1])
    job = pull_request(origin, folder / "job", head=head)
    why = "the merge that is tested has main's newest commit as its first parent"
    return complete(job, origin, wanted=origin.tip, why=why, fork=False)


def pull_request_with_an_octopus(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    first, second = add_feature(origin), origin.commit(HARMLESS, on=origin.main[1])
    head = origin.commit({"more.txt": "more\n"}, on=origin.merge(first, second))
    job = pull_request(origin, folder / "job", head=head, depth=0, checks_out_head=True)
    why = "both sides of the branch began at main's second commit"
    return complete(job, origin, wanted=origin.main[1], why=why, fork=False)


def pull_request_into_a_release(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    release = origin.commit({"README.md": "1.x\n"}, on=origin.main[0])
    origin.set("release/1.x", release)
    head = origin.commit(WORSE, on=release)
    job = pull_request(origin, folder / "job", head=head, base="release/1.x")
    why = "the release is what it is to be merged into; main has moved on since"
    recorded = (*origin.main, release)
    return complete(job, origin, ref="auto", wanted=release, recorded=recorded, why=why, fork=False)


def pull_request_that_was_merged(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    before, head = tuple(origin.main), add_feature(origin)
    made = pull_request(origin, folder / "job", head=head, depth=0)
    origin.main.append(origin.merge(origin.tip, head))
    origin.set("main", origin.tip)
    run_git(made.path, "fetch", "--quiet", "origin", "+refs/heads/main:refs/remotes/origin/main")
    run_git(made.path, "checkout", "--quiet", "-B", "main", "origin/main")
    file = Path(made.environ["GITHUB_EVENT_PATH"])
    file.write_text(file.read_text().replace('"synchronize"', '"closed"'))
    told = {"GITHUB_REF": "refs/heads/main", "GITHUB_SHA": origin.tip}
    job = Job(path=made.path, environ={**made.environ, **told})
    why = "the job of the closed request is about main, which is compared with what it was before"
    return complete(
        job, origin, ref="auto", wanted=origin.tip, recorded=before, baseline=before[-1], why=why
    )


def submodule_in_a_pull_request(folder: Path) -> Situation:
    origin, outer = Origin(folder / "host"), Origin(folder / "outer", commits=1)
    head = add_feature(origin)
    pinned = outer.add_submodule(origin.url, origin.tip, on=outer.tip)
    outer.main.append(pinned)
    outer.set("main", pinned)
    moved = outer.add_submodule(origin.url, head, on=pinned)
    job = pull_request(outer, folder / "job", head=moved, depth=0, submodules=True)
    inner = Job(path=job.path / "bot", environ=job.environ)
    why = "CI speaks of the outer repository; in the submodule HEAD is another commit"
    note = "not the commit of the CI job"
    return complete(inner, origin, wanted=origin.main[1], why=why, note=note, fork=False)


PULL_REQUESTS = (
    pull_request_of_depth_one,
    pull_request_of_depth_one_by_name_at_origin,
    pull_request_of_depth_one_by_first_parent,
    pull_request_in_full,
    pull_request_that_is_stale,
    pull_request_by_head_sha,
    pull_request_by_head_sha_of_depth_one,
    pull_request_by_head_sha_that_is_a_merge,
    pull_request_of_a_fork,
    pull_request_of_a_fork_by_head_sha,
    pull_request_of_a_fork_that_was_deleted,
    stacked_pull_request,
    stacked_pull_request_against_main,
    pull_request_whose_parent_was_squashed,
    pull_request_after_a_force_push,
    pull_request_that_brings_back_what_was_reverted,
    pull_request_in_a_subfolder,
    pull_request_whose_branch_merged_main,
    pull_request_with_an_octopus,
    pull_request_into_a_release,
    pull_request_that_was_merged,
    submodule_in_a_pull_request,
)
