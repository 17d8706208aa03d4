"""History that a checkout lacks is fetched into our own repository, and no secret stays there."""

from __future__ import annotations

import base64
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_llmeval.errors import GitFailed
from pytest_llmeval.runs.git import ask, cut_commits
from pytest_llmeval.runs.own_repository import WHOLE_HISTORY, OwnRepository
from tests.runs.conftest import Project
from tests.servers.git_server import GitServer

TOKEN = "ghs-0123456789abcdef"  # noqa: S105
BASIC = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
HEADER = f"AUTHORIZATION: basic {BASIC}"
UNKNOWN = "0123456789" * 4


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    """A host with ``origin.git``, of 60 commits, and ``plain.git``, which knows no filters."""
    folder = tmp_path_factory.mktemp("host")
    author = Project(folder / "author")
    with pytest.MonkeyPatch.context() as patch:
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "Ada")
            patch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")
        author.begin()
        (author.top / "evals").mkdir()
        (author.top / "evals" / "test_a.py").write_text("def test_a(): ...\n")
        author.commit()
        for number in range(56):
            author.git("commit", "--quiet", "--allow-empty", f"--message={number}")
        (author.top / "evals" / "prompt.txt").write_text("Name it.\n")
        author.commit()
        (author.top / "README.md").write_text("Read me.\n")
        author.commit()
        author.commit()
        author.git("tag", "v1")
    for name, filters in (("origin", "true"), ("plain", "false")):
        author.git("clone", "--quiet", "--bare", author.top.as_uri(), str(folder / f"{name}.git"))
        bare = Project(folder / f"{name}.git")
        bare.git("config", "uploadpack.allowFilter", filters)
    with GitServer(folder, header=HEADER) as server:
        yield server


@pytest.fixture
def forget(host: GitServer) -> None:
    host.requests.clear()
    host.refused = 0


@pytest.fixture
def clone(host: GitServer, tmp_path: Path, forget: None) -> Callable[..., Project]:
    """Check out as actions/checkout does, with the token in the config of the checkout."""

    def make(name: str = "origin", *, depth: int = 1, header: str | None = HEADER) -> Project:
        checkout = Project(tmp_path / "checkout")
        checkout.begin()
        checkout.git("remote", "add", "origin", f"{host.url}/{name}.git")
        checkout.git("config", f"http.{host.url}/.extraheader", HEADER)
        checkout.git("fetch", "--quiet", "--no-tags", f"--depth={depth}", "origin", "main")
        checkout.git("checkout", "--quiet", "--detach", "FETCH_HEAD")
        (checkout.top / ".git" / "FETCH_HEAD").unlink()
        if header != HEADER:
            checkout.git("config", "--unset", f"http.{host.url}/.extraheader")
        host.requests.clear()
        return checkout

    return make


def own_of(checkout: Project) -> OwnRepository:
    own = OwnRepository(checkout.top / ".llmeval", top=checkout.top, fetches=True)
    own.prepare()
    return own


def everything_of(checkout: Project) -> dict[str, bytes]:
    """The content of all files of the user's repository, by path."""
    folder = checkout.top / ".git"
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def parents_of(checkout: Project, own: OwnRepository) -> list[str]:
    """The first parents of HEAD that are here."""
    return (ask(own.path, "rev-list", "--first-parent", checkout.head) or "").split()[1:]


def tree_is_here(own: OwnRepository, commit: str) -> bool:
    return ask(own.path, "cat-file", "-e", f"{commit}^{{tree}}") is not None


@pytest.mark.parametrize(("name", "brings_trees"), [("origin", False), ("plain", True)])
def test_history_is_deepened_and_the_users_repository_stays_as_it_is(name, brings_trees, clone):
    checkout = clone(name)
    own, before = own_of(checkout), everything_of(checkout)

    own.fetch(checkout.head, depth=50)

    parents = parents_of(checkout, own)
    assert len(parents) == 49
    assert tree_is_here(own, parents[5]) is brings_trees
    assert cut_commits(own.path) == {parents[-1]}
    assert everything_of(checkout) == before


def test_history_can_be_fetched_to_its_end_and_then_again(clone):
    checkout = clone()
    own = own_of(checkout)
    for _ in range(2):
        own.fetch(checkout.head, depth=WHOLE_HISTORY)
        assert len(parents_of(checkout, own)) == 59
        assert cut_commits(own.path) == frozenset()


def test_history_is_cut_where_the_checkout_cuts_it_and_not_again_after_a_fetch(clone):
    checkout = clone(depth=3)
    own = own_of(checkout)
    assert len(parents_of(checkout, own)) == 2

    own.fetch(checkout.head, depth=50)
    own.prepare()

    assert len(parents_of(checkout, own)) == 49


def test_a_branch_is_fetched_by_its_name(clone):
    own = own_of(clone())
    assert set(own.listed("refs/heads/main", "refs/heads/mian", "refs/tags/v1")) == {
        "refs/heads/main",
        "refs/tags/v1",
    }
    assert own.default_branch() == "main"

    own.fetch("+refs/heads/main:refs/remotes/origin/main", depth=1)

    tip = own.listed("refs/heads/main")["refs/heads/main"]
    assert ask(own.path, "rev-parse", "refs/remotes/origin/main") == tip


def test_a_repository_without_commits_has_no_default_branch(project, tmp_path):
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "empty")], check=True)
    project.git("remote", "add", "origin", "../empty")  # a path that begins in the checkout
    assert own_of(project).default_branch() is None


@pytest.mark.parametrize("name", ["origin", "plain"])
def test_the_paths_of_many_commits_come_at_once_without_their_texts(name, clone, host):
    checkout = clone(name)
    own = own_of(checkout)
    own.fetch(checkout.head, depth=50)
    parents = parents_of(checkout, own)
    host.requests.clear()

    own.fetch_paths([checkout.head, *parents])

    assert len(host.requests) in ((0,) if name == "plain" else (2, 3))  # refs, objects
    diff = ("diff-tree", "-r", "--name-only", parents[-1], checkout.head)
    changed = ask(own.path, *diff) or ""
    assert "evals/prompt.txt" in changed.split()
    assert changed == Project(host.folder / "origin.git").git(*diff)
    host.requests.clear()
    own.fetch_paths([checkout.head, *parents])
    assert host.requests == []


def test_the_texts_of_files_stay_at_the_host(project, host):
    project.git("remote", "add", "origin", f"{host.url}/origin.git")
    project.git("config", f"http.{host.url}/.extraheader", HEADER)
    own = own_of(project)
    own.fetch("+refs/heads/main:refs/remotes/origin/main", depth=1)

    own.fetch_paths([ask(own.path, "rev-parse", "refs/remotes/origin/main") or ""])

    for file in ("README.md", "evals/prompt.txt", "evals/test_a.py"):
        text = ask(own.path, "rev-parse", f"origin/main:{file}")
        assert text is not None
        assert ask(own.path, "cat-file", "-e", text) is None


@pytest.mark.parametrize("name", ["origin", "plain"])
def test_a_commit_of_the_host_is_checked_out_whole(name, clone, host, tmp_path):
    checkout = clone(name)
    own, before = own_of(checkout), everything_of(checkout)
    own.fetch(checkout.head, depth=50)
    base = parents_of(checkout, own)[10]
    host.requests.clear()

    with own.worktree(base, tmp_path / "place"):
        state = Project(tmp_path / "place").state
        assert (state.commit, state.dirty) == (base, False)
        assert (tmp_path / "place" / "evals" / "test_a.py").exists()
        assert not (tmp_path / "place" / "evals" / "prompt.txt").exists()

    assert len(host.requests) <= 6
    assert everything_of(checkout) == before


def test_a_commit_that_is_not_here_is_fetched_to_be_checked_out(clone, host, tmp_path):
    base = Project(host.folder / "origin.git").git("rev-parse", "main~3")
    own = own_of(clone())
    with own.worktree(base, tmp_path / "place"):
        assert (tmp_path / "place" / "evals" / "test_a.py").exists()


def test_nothing_is_fetched_unless_that_is_allowed(clone, host, tmp_path):
    checkout = clone()
    base = Project(host.folder / "origin.git").git("rev-parse", "main~3")
    own = OwnRepository(checkout.top / ".llmeval", top=checkout.top)
    own.prepare()
    with pytest.raises(GitFailed, match=base), own.worktree(base, tmp_path / "place"):
        pass
    assert host.requests == []


# How origin is reached


def include_by_folder(checkout: Project, text: str) -> None:
    """Put the header into a file of its own, which counts for this checkout alone."""
    file = checkout.top.parent / "runner" / "credentials.config"
    file.parent.mkdir()
    file.write_text(text)
    checkout.git("config", f"includeIf.gitdir:{checkout.top}/.git.path", str(file))


def by_local_config(checkout: Project, url: str) -> None:
    checkout.git("config", f"http.{url}/.extraheader", HEADER)


def by_included_file(checkout: Project, url: str) -> None:
    include_by_folder(checkout, f'[http "{url}/"]\n\textraheader = {HEADER}\n')


def by_user_in_address(checkout: Project, url: str) -> None:
    user = url.replace("//", f"//x-access-token:{TOKEN}@")
    checkout.git("remote", "set-url", "origin", f"{user}/origin.git")


def by_rewritten_address(checkout: Project, url: str) -> None:
    user = url.replace("//", f"//x-access-token:{TOKEN}@")
    checkout.git("config", f"url.{user}/.insteadOf", "https://host.example/")
    checkout.git("remote", "set-url", "origin", "https://host.example/origin.git")


def by_credential_helper(checkout: Project, url: str) -> None:
    helper = f"!f() {{ echo username=x-access-token; echo password={TOKEN}; }}; f"
    include_by_folder(checkout, f'[credential]\n\thelper = ""\n\thelper = "{helper}"\n')


WAYS = [
    by_local_config,
    by_included_file,
    by_user_in_address,
    by_rewritten_address,
    by_credential_helper,
]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which a git on the PATH writes down what it was given on the command line."""
    log, real = tmp_path / "typed.log", shutil.which("git")
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    line = 'echo "prompt=$GIT_TERMINAL_PROMPT $*"'
    wrapper.write_text(f'#!/bin/sh\n{line} >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    return log


@pytest.mark.parametrize("way", WAYS)
def test_the_secrets_of_the_checkout_are_used_and_stay_nowhere(way, clone, host, typed, tmp_path):
    checkout = clone(header=None)
    way(checkout, host.url)
    typed.unlink()
    own = own_of(checkout)

    own.fetch(checkout.head, "+refs/heads/main:refs/remotes/origin/main", depth=50)
    own.fetch_paths(parents_of(checkout, own))
    with own.worktree(parents_of(checkout, own)[2], tmp_path / "place"):
        pass

    written = [path.read_bytes() for path in own.path.parent.rglob("*") if path.is_file()]
    assert len(written) > 5
    for text in [*written, typed.read_bytes()]:
        for secret in (TOKEN, BASIC, host.url):
            assert secret.encode() not in text
    assert "origin" not in (own.path / "config").read_text()
    asked = [line for line in typed.read_text().splitlines() if line.endswith(" origin")]
    assert len(asked) == 2
    assert all(line.startswith("prompt=0 ") for line in asked)


def test_a_header_that_git_sees_anyway_is_not_sent_twice(clone, host, tmp_path, monkeypatch):
    config = tmp_path / "config"
    config.write_text(f'[http "{host.url}/"]\n\textraheader = {HEADER}\n')
    checkout = clone(header=None)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    own_of(checkout).fetch(checkout.head, depth=2)
    assert host.refused == 0


def test_a_config_in_variables_is_kept(clone, host, monkeypatch):
    checkout = clone(header=None)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"http.{host.url}/.extraheader")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", HEADER)
    own_of(checkout).fetch(checkout.head, depth=2)
    assert host.refused == 0


def test_a_user_who_lets_git_find_no_bare_repository_is_served(clone, tmp_path, monkeypatch):
    config = tmp_path / "config"
    config.write_text("[safe]\n\tbareRepository = explicit\n")
    checkout = clone()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    own = own_of(checkout)
    own.fetch(checkout.head, depth=2)
    assert len(parents_of(checkout, own)) == 1


# What goes wrong is one line


def fails(own: OwnRepository, *wanted: str, seconds: float = 60) -> str:
    own.end = time.monotonic() + seconds
    with pytest.raises(GitFailed) as caught:
        own.fetch(*wanted, depth=2)
    assert caught.value.__cause__ is None
    said = str(caught.value)
    assert "\n" not in said
    for secret in (TOKEN, BASIC):
        assert secret not in said
    return said


def test_a_host_that_wants_a_password_is_not_asked_twice_nor_the_user(clone, host):
    said = fails(own_of(clone(header=None)), UNKNOWN)
    assert "could not read Username" in said
    assert len(host.requests) == 1


def test_a_secret_that_is_refused_is_not_shown(clone, host):
    checkout = clone(header=None)
    by_user_in_address(checkout, host.url)
    user = checkout.git("remote", "get-url", "origin").replace("abcdef", "ABCDEF")
    checkout.git("remote", "set-url", "origin", user)
    said = fails(own_of(checkout), UNKNOWN)
    assert "Authentication failed" in said
    assert "ABCDEF" not in said


def test_a_helper_that_fails_shows_no_secret(clone):
    checkout = clone(header=None)
    checkout.git("config", "credential.helper", f"!echo oops {TOKEN} >&2; false")
    assert "oops ***" in fails(own_of(checkout), UNKNOWN)


def test_a_commit_that_the_host_lacks_is_named(clone):
    assert f"not our ref {UNKNOWN}" in fails(own_of(clone()), UNKNOWN)


def test_a_host_that_does_not_answer_is_left(clone, host):
    checkout = clone()
    own = own_of(checkout)
    host.goes_on.clear()
    try:
        assert re.fullmatch(r"no answer within 0\.?\d? s", fails(own, checkout.head, seconds=0.3))
    finally:
        host.goes_on.set()
    own.end = None
    own.fetch(checkout.head, depth=2)
    assert len(parents_of(checkout, own)) == 1


def test_a_host_that_is_not_there_is_named(clone):
    checkout = clone()
    checkout.git("remote", "set-url", "origin", "http://127.0.0.1:9/origin.git")
    assert "127.0.0.1" in fails(own_of(checkout), UNKNOWN)


def test_a_repository_without_origin_says_so(project):
    assert fails(own_of(project), UNKNOWN) == "this repository has no remote named origin"


def test_a_git_that_reads_no_config_from_variables_says_so(project, tmp_path, monkeypatch):
    real, fake = shutil.which("git"), tmp_path / "bin" / "git"
    fake.parent.mkdir()
    old = '[ "$5" = version ] && echo git version 2.30.2 && exit'
    fake.write_text(f'#!/bin/sh\n{old}\nexec {real} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    assert fails(own_of(project), UNKNOWN) == "git version 2.30.2 is too old: 2.31 is needed"
