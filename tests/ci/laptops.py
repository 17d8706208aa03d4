"""Clones on laptops."""

from __future__ import annotations

from pathlib import Path

from tests.ci.hosts import Job, on_laptop
from tests.ci.origin import WORSE, Origin, run_git
from tests.ci.situation import HARMLESS, Situation, add_feature, complete


def laptop_on_a_branch(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    add_feature(origin)
    job = on_laptop(origin, folder / "clone", branch="feature")
    why = "the branch began at main's second commit"
    return complete(job, origin, wanted=origin.main[1], why=why)


def laptop_with_a_stale_main(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    newest = origin.tip
    origin.set("main", origin.main[0])
    job = on_laptop(origin, folder / "clone")
    origin.set("main", newest)
    origin.set("feature", origin.commit(HARMLESS, on=newest))
    run_git(job.path, "fetch", "--quiet")
    run_git(job.path, "switch", "--quiet", "feature")
    why = "the branch began at origin/main, two commits after the local main"
    note = "the local branch main is stale: origin/main has 2 commits more"
    return complete(job, origin, wanted=newest, why=why, note=note)


def laptop_with_a_stale_main_that_does_not_matter(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    newest = origin.tip
    origin.set("main", origin.main[1])
    add_feature(origin)
    job = on_laptop(origin, folder / "clone", branch="feature")
    origin.set("main", newest)
    run_git(job.path, "fetch", "--quiet")
    why = "the branch began before the local main fell behind"
    return complete(job, origin, wanted=origin.main[1], why=why)


def laptop_with_a_main_that_was_not_pushed(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    add_feature(origin, on=2)
    origin.set("main", origin.main[0])
    job = on_laptop(origin, folder / "clone", branch="feature")
    run_git(job.path, "branch", "--quiet", "--force", "main", origin.tip)
    why = "the branch began at the local main, which is ahead of origin/main"
    return complete(job, origin, wanted=origin.tip, why=why)


def _renamed(folder: Path) -> tuple[Origin, str, Job]:
    """A laptop whose main was renamed at the host, and has moved on there since."""
    origin = Origin(folder / "host")
    job = on_laptop(origin, folder / "clone")
    before = origin.tip
    origin.rename("main", "trunk")
    newest = origin.commit({"README.md": "renamed\n"}, on=before)
    origin.main.append(newest)
    origin.set("trunk", newest)
    origin.set("feature", origin.commit(HARMLESS, on=newest))
    run_git(job.path, "fetch", "--quiet", "--prune")
    run_git(job.path, "remote", "set-head", "origin", "--auto")
    run_git(job.path, "switch", "--quiet", "feature")
    return origin, before, job


def laptop_whose_main_was_renamed(folder: Path) -> Situation:
    origin, before, job = _renamed(folder)
    why = "main is what the laptop has of it, which is said to be stale"
    note = "the local branch main is stale: origin has no such branch any more; the default"
    return complete(job, origin, wanted=before, why=why, note=note)


def laptop_whose_main_was_renamed_by_auto(folder: Path) -> Situation:
    origin, _, job = _renamed(folder)
    why = "origin/HEAD follows the renaming"
    return complete(job, origin, ref="auto", wanted=origin.tip, why=why)


def laptop_after_a_force_push(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    add_feature(origin)
    job = on_laptop(origin, folder / "clone", branch="feature")
    origin.set("main", origin.commit({"README.md": "anew\n"}, on=origin.main[0]))
    run_git(job.path, "fetch", "--quiet", "--force")
    run_git(job.path, "branch", "--quiet", "--force", "main", origin.tip)
    why = "the branch began on the old line, which the local main still has"
    return complete(job, origin, wanted=origin.main[1], why=why)


def laptop_whose_parent_was_squashed(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    parent, before = add_feature(origin), origin.main[1]
    origin.set("feature", origin.commit(HARMLESS, on=parent))
    origin.main.append(origin.squash(origin.tip, parent))
    origin.set("main", origin.tip)
    job = on_laptop(origin, folder / "clone", branch="feature")
    why = "to git the squashed commit is another one: the branch began before its parent"
    return complete(job, origin, wanted=before, why=why)


def laptop_with_a_detached_head(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    job = on_laptop(origin, folder / "clone")
    run_git(job.path, "switch", "--quiet", "--detach", "main")
    why = "HEAD is main's newest commit, which is held against the one before"
    return complete(job, origin, wanted=origin.tip, baseline=origin.main[1], why=why)


def laptop_after_a_revert(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    good, bad = origin.tip, origin.advance(WORSE)
    reverted = origin.revert(bad, on=bad)
    origin.set("main", reverted)
    origin.set("feature", origin.commit(WORSE, on=reverted))
    job = on_laptop(origin, folder / "clone", branch="feature")
    why = "the revert has no run, and the tree of the commit before the bad one"
    return complete(job, origin, ref="auto", wanted=reverted, baseline=good, why=why)


def laptop_with_a_criss_cross(folder: Path) -> Situation:
    origin = Origin(folder / "host", commits=1)
    first = origin.tip
    on_main = origin.commit({"README.md": "a\n"}, on=first)
    on_branch = origin.commit(HARMLESS, on=first)  # younger, so git would choose it
    origin.set("main", origin.merge(on_main, on_branch))
    origin.set("feature", origin.commit(WORSE, on=origin.merge(on_branch, on_main)))
    job = on_laptop(origin, folder / "clone", branch="feature")
    why = "of the two merge-bases this one lies in main's own line, which has the runs"
    return complete(job, origin, wanted=on_main, recorded=(first, on_main), why=why)


def worktree_of_a_laptop(folder: Path) -> Situation:
    origin = Origin(folder / "host")
    add_feature(origin)
    clone = on_laptop(origin, folder / "clone")
    run_git(clone.path, "worktree", "add", "--quiet", str(folder / "tree"), "feature")
    why = "it has the branches of its main worktree, and uses its store"
    return complete(Job(path=folder / "tree"), origin, wanted=origin.main[1], why=why)


LAPTOPS = (
    laptop_on_a_branch,
    laptop_with_a_stale_main,
    laptop_with_a_stale_main_that_does_not_matter,
    laptop_with_a_main_that_was_not_pushed,
    laptop_whose_main_was_renamed,
    laptop_whose_main_was_renamed_by_auto,
    laptop_after_a_force_push,
    laptop_whose_parent_was_squashed,
    laptop_with_a_detached_head,
    laptop_after_a_revert,
    laptop_with_a_criss_cross,
    worktree_of_a_laptop,
)
