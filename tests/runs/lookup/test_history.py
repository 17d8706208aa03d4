"""What a name means in a checkout that lacks history: origin is asked, but for nothing needless."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmeval.errors import BaselineError, BaselineNotFound
from pytest_llmeval.runs.ci import CiFacts
from pytest_llmeval.runs.lookup import history
from pytest_llmeval.runs.lookup.refs import Baseline, Refs
from pytest_llmeval.runs.lookup.session_baseline import find_baseline
from pytest_llmeval.runs.own_repository import WHOLE_HISTORY, OwnRepository
from pytest_llmeval.settings import Settings
from tests.runs.conftest import Project

UNKNOWN = "0123456789" * 4
GITHUB = CiFacts(provider="github", event="push", default_branch="main")


class Checkout(Project):
    """A checkout that may fetch, in CI or elsewhere."""

    ci = GITHUB

    @property
    def refs(self) -> Refs:
        state = self.state
        own = OwnRepository(self.store.folder.parent, top=self.top, fetches=True)
        return Refs(self.store, state, self.ci, own)

    @property
    def has_fetched(self) -> bool:
        objects = self.top / ".llmeval" / "git" / "objects"
        files = (path for path in objects.rglob("*") if path.is_file())
        return any(path.parent.name != "info" for path in files)


def find(checkout: Checkout, reference: str, *, root: str = ".") -> Baseline:
    return find_baseline(reference, checkout.refs, Settings(session=""), root=root, selection=())


def refusal(checkout: Checkout, reference: str, *, error: type[BaselineError]) -> str:
    with pytest.raises(error) as caught:
        find(checkout, reference)
    assert type(caught.value) is error
    return str(caught.value)


def add_commits(project: Project, number: int) -> None:
    """Add commits to the branch that is checked out, which change no file."""
    branch = project.git("branch", "--show-current")
    stream = "".join(
        f"commit refs/heads/{branch}\n"
        f"committer Ada <ada@example.org> {1_700_000_000 + index} +0000\ndata 1\n.\n"
        + (f"from refs/heads/{branch}^0\n" if index == 0 else "")
        for index in range(number)
    )
    given = ["git", "-C", str(project.top), "fast-import", "--quiet"]
    subprocess.run(given, input=stream, text=True, check=True)


def tip(project: Project, name: str) -> str:
    return project.git("rev-parse", f"{name}^{{commit}}")


@pytest.fixture
def origin(project: Project) -> Project:
    """A repository whose main is one commit ahead of where the branch ``shorter`` began."""
    project.commit()
    project.git("switch", "--quiet", "--create", "shorter")
    (project.top / "prompt.txt").write_text("Name it.\n")
    project.commit()
    project.git("branch", "begun", "main")
    project.git("switch", "--quiet", "main")
    project.commit()
    return project


def check_out(origin: Project, folder: Path, name: str = "shorter", *, depth: int = 1) -> Checkout:
    """Check a commit out as CI does: detached, cut off, and without any branch."""
    checkout = Checkout(folder)
    checkout.begin()
    checkout.git("remote", "add", "origin", origin.top.as_uri())
    checkout.git("fetch", "--quiet", "--no-tags", f"--depth={depth}", "origin", tip(origin, name))
    checkout.git("checkout", "--quiet", "--detach", "FETCH_HEAD")
    return checkout


@pytest.fixture
def checkout(origin: Project, tmp_path: Path) -> Checkout:
    return check_out(origin, tmp_path / "checkout")


# What a name means


@pytest.mark.parametrize("reference", ["main", "origin/main", "auto"])
def test_a_branch_that_is_at_origin_alone_means_its_merge_base(reference, origin, checkout):
    base = tip(origin, "begun")
    run = checkout.record(base)
    checkout.record(tip(origin, "main"))

    found = find(checkout, reference)

    assert (found.run.id, found.how, found.distance, found.notes) == (run, "merge-base", 0, ())


@pytest.mark.parametrize("number", [60, 600])
def test_history_is_deepened_until_the_merge_base_is_there(number, origin, tmp_path):
    origin.git("switch", "--quiet", "shorter")
    add_commits(origin, number)
    checkout = check_out(origin, tmp_path / "checkout")
    run = checkout.record(tip(origin, "begun"))
    assert find(checkout, "main").run.id == run


def test_a_branch_of_origin_is_fetched_once(origin, tmp_path, monkeypatch):
    origin.git("switch", "--quiet", "shorter")
    add_commits(origin, 60)
    checkout = check_out(origin, tmp_path / "checkout")
    run = checkout.record(tip(origin, "begun"))
    asked: list[str] = []
    fetch = OwnRepository.fetch
    monkeypatch.setattr(
        OwnRepository,
        "fetch",
        lambda own, *given, **how: (asked.extend(given), fetch(own, *given, **how)),
    )

    for _ in range(2):
        assert find(checkout, "main").run.id == run

    assert asked.count("+refs/heads/main:refs/remotes/origin/main") == 1


def test_a_merge_base_behind_which_a_nearer_one_may_lie_is_not_taken(origin, tmp_path):
    # Of main's last two commits the newer one is found soon, by way of a long branch the older.
    nearest = tip(origin, "main")
    origin.git("switch", "--quiet", "--create", "long", nearest)
    add_commits(origin, 70)
    origin.git("switch", "--quiet", "shorter")
    origin.git("merge", "--quiet", "--no-edit", "long")
    origin.git("switch", "--quiet", "main")
    origin.git("reset", "--quiet", "--hard")
    origin.commit()
    checkout = check_out(origin, tmp_path / "checkout")
    run = checkout.record(nearest)
    checkout.record(tip(origin, "begun"))

    found = find(checkout, "main")

    assert (found.run.id, found.notes) == (run, ())


def test_a_tag_of_origin_is_found(origin, checkout):
    origin.git("tag", "--annotate", "--message=v1", "v1", "begun")
    run = checkout.record(tip(origin, "begun"))
    assert find(checkout, "v1").run.id == run


@pytest.mark.parametrize("reference", ["HEAD~2", "origin/main~2", "@~2"])
def test_an_expression_means_that_very_commit(reference, origin, checkout):
    run = checkout.record(tip(origin, "begun~1"))
    found = find(checkout, reference)
    assert (found.run.id, found.how) == (run, "commit")


def test_a_short_hash_is_found_in_the_history_of_head(origin, checkout):
    base = tip(origin, "begun~1")
    run = checkout.record(base)
    assert find(checkout, base[:9]).run.id == run


def test_auto_is_what_origin_says_where_neither_ci_nor_the_checkout_knows(origin, checkout):
    checkout.ci = CiFacts(provider="other")
    run = checkout.record(tip(origin, "begun"))
    found = find(checkout, "auto")
    assert (found.run.id, found.reference) == (run, "main")


def test_commits_that_were_not_pushed_do_not_matter(origin, checkout):
    (checkout.top / "prompt.txt").write_text("Say it.\n")
    checkout.commit()
    checkout.ci = CiFacts()
    run = checkout.record(tip(origin, "begun"))
    assert find(checkout, "main").run.id == run


def test_a_local_branch_counts_beside_origins(origin, checkout):
    begun = tip(origin, "begun")
    checkout.git("fetch", "--quiet", "--depth=1", "origin", "main")
    checkout.git("branch", "main", "FETCH_HEAD")
    run = checkout.record(begun)

    found = find(checkout, "main")

    assert (found.run.id, found.notes) == (run, ())


def test_what_was_fetched_serves_the_next_session(origin, checkout):
    find_nothing = refusal(checkout, "main", error=BaselineNotFound)
    assert "This clone is shallow" not in find_nothing
    begun = tip(origin, "begun")
    origin.git("switch", "--quiet", "main")
    origin.commit()
    run = checkout.record(begun)
    assert find(checkout, "main").run.id == run


def test_a_branch_that_was_deleted_since_counts_no_more(origin, checkout):
    base = tip(origin, "begun")
    checkout.git("fetch", "--quiet", "--depth=1", "origin", "main")
    checkout.git("branch", "main", "FETCH_HEAD")
    run = checkout.record(base)
    assert find(checkout, "main").run.id == run
    assert checkout.has_fetched
    checkout.git("branch", "--quiet", "--delete", "--force", "main")
    origin.git("update-ref", "refs/heads/main", "begun~1")  # as after a force-push
    anew = checkout.record(tip(origin, "begun~1"))

    assert find(checkout, "main").run.id == anew


def test_a_tag_that_is_here_is_not_replaced_by_origins(origin, checkout):
    checkout.git("fetch", "--quiet", "--depth=1", "origin", "begun")
    checkout.git("tag", "v1", "FETCH_HEAD")
    origin.git("tag", "v1", "begun~1")
    run = checkout.record(tip(origin, "begun"))
    checkout.record(tip(origin, "begun~1"))
    assert find(checkout, "v1").run.id == run


# The commits behind it


def test_a_push_of_the_last_commit_finds_an_earlier_run(origin, tmp_path):
    checkout = check_out(origin, tmp_path / "checkout", "main")
    checkout.git("switch", "--quiet", "--create", "main")
    run = checkout.record(tip(origin, "begun~1"))

    found = find(checkout, "main")

    assert (found.run.id, found.how, found.distance) == (run, "earlier commit", 2)


def test_the_parent_of_a_push_is_known_without_its_history(origin, tmp_path):
    checkout = check_out(origin, tmp_path / "checkout", "main")
    checkout.git("switch", "--quiet", "--create", "main")
    run = checkout.record(tip(origin, "begun"))

    assert find(checkout, "main").run.id == run

    assert not checkout.has_fetched


@pytest.mark.parametrize("root", [".", "evals"])
def test_ancestors_are_fetched_as_far_as_they_count(root, origin, tmp_path):
    for name in ("a", "b"):
        (origin.top / "evals").mkdir(exist_ok=True)
        (origin.top / "evals" / "prompt.txt").write_text(name)
        origin.commit()
    begun = tip(origin, "main~1")
    add_commits(origin, 70)
    (origin.top / "README.md").write_text("Read me.")
    origin.commit()
    checkout = check_out(origin, tmp_path / "checkout", "main")
    checkout.git("switch", "--quiet", "--create", "main")
    run = checkout.record(begun, root=root)

    found = find(checkout, "main", root=root)

    assert (found.run.id, found.how) == (run, "earlier commit")
    assert found.distance == (2 if root == "." else 1)


def test_ancestors_are_fetched_to_the_first_commit_if_need_be(origin, tmp_path, monkeypatch):
    monkeypatch.setattr(history, "DEPTHS", (1, 2, WHOLE_HISTORY))
    origin.git("switch", "--quiet", "main")
    add_commits(origin, 5)
    checkout = check_out(origin, tmp_path / "checkout", "main")
    checkout.git("switch", "--quiet", "--create", "main")
    run = checkout.record(tip(origin, "begun~1"))
    assert find(checkout, "main").run.id == run


def test_a_substitute_names_how_many_files_differ_although_none_of_its_files_are_here(
    origin, tmp_path
):
    begun = tip(origin, "begun~1")
    origin.git("switch", "--quiet", "shorter")
    add_commits(origin, 10)
    checkout = check_out(origin, tmp_path / "checkout")
    run = checkout.record(begun)

    found = find(checkout, "main")

    assert (found.run.id, found.substitute, found.wanted) == (run, True, tip(origin, "begun"))
    files = origin.git("diff", "--name-only", begun, "begun").split("\n")
    assert found.differing_files == len(files)


def test_a_revert_finds_the_run_of_equal_files_although_none_of_its_files_are_here(
    origin, tmp_path
):
    good = tip(origin, "main")
    (origin.top / "prompt.txt").write_text("Say it.")
    bad = origin.commit()
    origin.git("revert", "--no-edit", "HEAD")
    reverted = tip(origin, "main")
    origin.git("switch", "--quiet", "--create", "again")
    (origin.top / "prompt.txt").write_text("Say it again.")
    origin.commit()
    checkout = check_out(origin, tmp_path / "checkout", "again")
    checkout.ci = queue(reverted, checkout.head)
    run = checkout.record(good)
    checkout.record(bad)

    found = find(checkout, "main")

    assert (found.run.id, found.how, found.wanted) == (run, "equal tree", reverted)


def queue(base: str, head: str) -> CiFacts:
    return CiFacts(
        provider="github",
        event="merge_group",
        commit=head,
        target="main",
        base=base,
        base_name="merge_group.base_sha",
    )


def test_a_commit_that_ci_names_is_not_asked_for_if_it_has_a_run(origin, checkout):
    base = tip(origin, "begun")
    checkout.ci = queue(base, checkout.head)
    run = checkout.record(base)

    found = find(checkout, "main")

    assert (found.run.id, found.how) == (run, "named by CI")
    assert not checkout.has_fetched


def test_a_commit_that_ci_names_has_its_ancestors_fetched(origin, checkout):
    checkout.ci = queue(tip(origin, "begun"), checkout.head)
    run = checkout.record(tip(origin, "begun~1"))
    found = find(checkout, "main")
    assert (found.run.id, found.how, found.distance) == (run, "named by CI", 1)


def test_a_commit_that_ci_names_and_origin_lacks_is_said_to_be_wrong(origin, checkout):
    checkout.ci = queue(UNKNOWN, checkout.head)
    run = checkout.record(tip(origin, "begun"))

    found = find(checkout, "main")

    assert (found.run.id, found.how) == (run, "merge-base")
    assert found.notes == (
        "merge_group.base_sha is 0123456, which origin does not have: the baseline is looked up "
        "as on a laptop",
    )


def test_a_base_without_evals_has_nothing_to_compare_with(tmp_path):
    origin = Project(tmp_path / "origin")
    origin.begin()
    for text in ("Read me.", "Read me, please.", "Add evals."):
        (origin.top / "README.md").write_text(text)
        origin.commit()
    checkout = check_out(origin, tmp_path / "checkout", "main")
    checkout.ci = queue(tip(origin, "main~1"), checkout.head)
    found = find(checkout, "main")
    assert (found.how, found.run.cases) == ("nothing yet", ())


def test_a_base_with_evals_and_without_a_run_is_an_error(origin, tmp_path):
    origin.git("switch", "--quiet", "main")
    (origin.top / "test_a.py").write_text("@llm_eval\ndef test_a(llm): ...\n")
    base = origin.commit()
    origin.git("switch", "--quiet", "--create", "longer")
    (origin.top / "prompt.txt").write_text("Name it, please.\n")
    origin.commit()
    checkout = check_out(origin, tmp_path / "checkout", "longer")
    checkout.ci = queue(base, checkout.head)
    said = refusal(checkout, "main", error=BaselineNotFound)
    assert f"no complete run recorded for main (CI names {base[:7]})" in said


# Nothing is fetched that is not needed


@pytest.mark.parametrize("reference", ["main", "HEAD~2", "HEAD"])
def test_nothing_is_fetched_where_nothing_is_missing(reference, origin, tmp_path):
    origin.git("clone", "--quiet", "--branch=shorter", origin.top.as_uri(), str(tmp_path / "full"))
    full = Checkout(tmp_path / "full")
    refusal(full, reference, error=BaselineNotFound)
    assert not full.has_fetched


def merged(origin: Project, branch: str) -> None:
    """Merge a branch of two commits, which began before ``begun``, into one."""
    origin.git("switch", "--quiet", "--create", "side", "begun~1")
    add_commits(origin, 2)
    origin.git("switch", "--quiet", branch)
    origin.git("merge", "--quiet", "--no-edit", "side")


@pytest.mark.parametrize(("ahead", "behind"), [("shorter", "begun"), ("main", "begun")])
def test_a_merge_base_that_is_the_end_of_a_branch_is_the_best_one(ahead, behind, origin, tmp_path):
    merged(origin, ahead)
    head, reference = (behind, ahead) if ahead == "main" else (ahead, behind)
    checkout = check_out(origin, tmp_path / "checkout", head, depth=3)
    checkout.git("fetch", "--quiet", "--no-tags", "--depth=3", "origin", tip(origin, reference))
    checkout.git("update-ref", f"refs/remotes/origin/{reference}", "FETCH_HEAD")
    run = checkout.record(tip(origin, "begun"))

    assert find(checkout, reference).run.id == run

    assert not checkout.has_fetched


@pytest.mark.parametrize("reference", ["HEAD~99", "abcdef9", "mian"])
def test_no_history_is_fetched_where_all_of_it_is_here(reference, origin, tmp_path):
    origin.git("clone", "--quiet", "--branch=shorter", origin.top.as_uri(), str(tmp_path / "full"))
    full = Checkout(tmp_path / "full")
    said = refusal(full, reference, error=BaselineError)
    assert "here or at origin" in said
    assert list((full.top / ".llmeval" / "git" / "objects" / "pack").iterdir()) == []


@pytest.mark.parametrize("root", [".", "evals"])
def test_nothing_is_fetched_to_compare_files_that_are_here(root, origin, tmp_path):
    origin.git("clone", "--quiet", "--branch=shorter", origin.top.as_uri(), str(tmp_path / "full"))
    full = Checkout(tmp_path / "full")
    run = full.record(tip(origin, "begun~1"), root=root)

    found = find(full, "main", root=root)

    assert (found.run.id, found.substitute) == (run, True)
    assert found.differing_files is not None
    assert not full.has_fetched


def test_a_commit_of_equal_files_that_is_not_here_cuts_no_history(origin, tmp_path):
    origin.git("clone", "--quiet", "--branch=shorter", origin.top.as_uri(), str(tmp_path / "full"))
    full = Checkout(tmp_path / "full")
    tree = origin.git("rev-parse", "begun^{tree}")
    full.record(UNKNOWN, tree=tree, complete=False)  # such as one of a merge queue
    said = refusal(full, "main", error=BaselineNotFound)
    assert "no complete run recorded" in said


def test_nothing_is_fetched_where_there_is_no_commit(tmp_path):
    empty = Checkout(tmp_path / "empty").begin()
    assert "no commit yet" in refusal(empty, "main", error=BaselineError)
    assert not empty.has_fetched


def test_a_name_that_nothing_has_is_no_reason_to_fetch_all(origin, checkout):
    said = refusal(checkout, "mian", error=BaselineError)
    assert "here or at origin" in said
    assert "shallow" not in said
    assert list((checkout.top / ".llmeval" / "git" / "objects" / "pack").iterdir()) == []


def test_a_history_that_is_shorter_than_what_was_named_is_fetched_once(origin, tmp_path):
    origin.git("switch", "--quiet", "shorter")
    add_commits(origin, 600)
    checkout = check_out(origin, tmp_path / "checkout")
    said = refusal(checkout, "HEAD~9999", error=BaselineError)
    assert "here or at origin" in said


def test_an_origin_without_a_default_branch_has_none_to_compare_with(origin, checkout):
    checkout.ci = CiFacts(provider="other")
    origin.git("switch", "--quiet", "--detach")
    said = refusal(checkout, "auto", error=BaselineError)
    assert "the default branch is not known" in said


@pytest.mark.parametrize("reference", ["no name", "-x", "main..shorter", "*"])
def test_what_can_be_no_name_is_not_asked_for(reference, checkout):
    said = refusal(checkout, reference, error=BaselineError)
    assert "no file, run id, commit, branch or tag has that name" in said


# Where origin gives nothing


def test_an_origin_that_cannot_be_reached_is_said_and_the_cure_named(origin, checkout):
    checkout.git("remote", "set-url", "origin", "http://octo:s3cret-t0ken@127.0.0.1:9/bot.git")
    first, reason, cure = refusal(checkout, "main", error=BaselineError).split("\n")
    assert "This clone is shallow." in first
    assert reason.strip().startswith("origin gave no history: ")
    assert "127.0.0.1" in reason
    assert "s3cret" not in reason
    assert "fetch-depth: 0" in cure
    assert "GIT_DEPTH: 0" in cure


def test_a_base_without_a_run_needs_an_origin_that_can_be_reached(origin, checkout):
    checkout.git("remote", "set-url", "origin", "http://127.0.0.1:9/bot.git")
    checkout.ci = queue(tip(origin, "begun"), checkout.head)
    said = refusal(checkout, "main", error=BaselineError)
    assert f"no complete run recorded for main (CI names {tip(origin, 'begun')[:7]})" in said
    assert "origin gave no history: " in said
    assert "This clone is shallow." in said


def test_an_origin_that_cannot_be_reached_is_asked_once(origin, checkout, monkeypatch):
    checkout.git("remote", "set-url", "origin", "http://127.0.0.1:9/bot.git")
    checkout.git("branch", "main")
    asked = []
    ask = OwnRepository._remote
    monkeypatch.setattr(
        OwnRepository, "_remote", lambda *given, **how: (asked.append(given), ask(*given, **how))
    )
    refs = checkout.refs

    for _ in range(2):
        with pytest.raises(BaselineError, match=r"shallow[\s\S]* gave no history|gave no history"):
            find_baseline("main", refs, Settings(session=""), root=".", selection=())

    assert len(asked) == 1


def test_a_history_that_takes_too_long_is_left(origin, checkout, monkeypatch):
    monkeypatch.setattr(history, "SECONDS", 0.0)
    assert "origin gave no history: no answer within 0 s" in refusal(
        checkout, "main", error=BaselineError
    )


def test_a_merge_base_that_may_be_the_wrong_one_is_taken_with_a_warning(origin, checkout):
    base = tip(origin, "begun")
    merged(origin, "shorter")
    checkout.git("fetch", "--quiet", "--depth=3", "origin", "shorter")
    checkout.git("checkout", "--quiet", "FETCH_HEAD")
    checkout.git("fetch", "--quiet", "--depth=2", "origin", "main:refs/remotes/origin/main")
    checkout.git("remote", "set-url", "origin", "http://127.0.0.1:9/bot.git")
    run = checkout.record(base)

    found = find(checkout, "main")

    assert found.run.id == run
    assert found.notes[0].startswith("origin gave no history: ")
    assert "may lie where history was cut off" in found.notes[1]


def test_a_folder_that_cannot_be_written_is_said(checkout, tmp_path):
    (checkout.top / ".llmeval").mkdir()
    (checkout.top / ".llmeval" / "git").symlink_to(tmp_path)
    assert "is a symbolic link" in refusal(checkout, "main", error=BaselineError)


def test_histories_that_have_nothing_in_common_are_unrelated(origin, checkout):
    origin.git("switch", "--quiet", "--orphan", "pages")
    origin.commit()
    said = refusal(checkout, "pages", error=BaselineError)
    assert "their histories are unrelated" in said


def test_a_commit_of_origin_that_was_named_by_hash_is_exact(origin, checkout):
    checkout.record(tip(origin, "begun~1"))
    said = refusal(checkout, tip(origin, "begun"), error=BaselineNotFound)
    assert "no complete run recorded" in said
    assert not checkout.has_fetched


def test_ci_that_speaks_of_another_commit_is_not_believed(origin, checkout):
    checkout.ci = replace(queue(UNKNOWN, UNKNOWN), default_branch="main")
    run = checkout.record(tip(origin, "begun"))
    found = find(checkout, "auto")
    assert found.run.id == run
    assert "not the commit of the CI job" in found.notes[0]
