"""Run files in the refs of a host: what one clone puts all others find, whole or not at all."""

from __future__ import annotations

import threading

import pytest

from pytest_llmeval.errors import GitFailed
from pytest_llmeval.runs.run_file import read_run, write_run
from pytest_llmeval.runs.sharing.shared_store import ref_of
from pytest_llmeval.runs.store import RunName, RunStore
from tests.runs.builders import COMMIT, TREE, make_run
from tests.runs.conftest import Project
from tests.runs.sharing.conftest import refs_of
from tests.servers.git_server import GitServer

SECRET = b"eC1hY2Nlc3MtdG9rZW46Z2hzLTAxMjM0NTY3ODk"
HEADER = f"AUTHORIZATION: basic {SECRET.decode()}"

FIRST = RunName(COMMIT, TREE, "20261121T084100-1a2b3c")
OTHER = RunName(COMMIT, TREE, "20261121T084101-000000")


@pytest.fixture
def data(tmp_path) -> bytes:
    write_run(make_run(), tmp_path / "run.jsonl.gz")
    return (tmp_path / "run.jsonl.gz").read_bytes()


def state_of(project: Project) -> tuple[str, str, str]:
    """All refs but ours, the config and HEAD of the user's repository."""
    config = (project.top / ".git" / "config").read_text()
    return project.git("for-each-ref"), config, project.head


# --- the folder --------------------------------------------------------------------------


def test_what_is_kept_in_the_folder_is_there_byte_for_byte(project, data):
    store, ends_in_newlines = RunStore(project.top / ".llmeval"), data + b"\n\n"
    assert store.files() == {}
    store.keep(store.place(FIRST), data)
    store.keep(store.place(OTHER), ends_in_newlines)

    files = store.files()
    assert [file.parent.name for file in files.values()] == [COMMIT, COMMIT]
    assert {run_id: file.read_bytes() for run_id, file in files.items()} == {
        FIRST.run_id: data,
        OTHER.run_id: ends_in_newlines,
    }


# --- refs --------------------------------------------------------------------------------


def test_what_is_put_is_listed_and_got_byte_for_byte(project, origin, data):
    home, ends_in_newlines = refs_of(project), data + b"\n\n"
    assert home.names() == ()
    assert home.put(FIRST, data)
    assert home.put(OTHER, ends_in_newlines)

    names = sorted(home.names(), key=lambda name: name.run_id)
    assert names == [FIRST, OTHER]
    assert [home.get(name) for name in names] == [data, ends_in_newlines]


def test_to_put_a_run_again_changes_nothing(project, origin, data):
    home = refs_of(project)
    assert home.put(FIRST, data)
    assert not home.put(FIRST, data)
    assert len(home.names()) == 1


def test_another_clone_finds_it_and_the_users_repositories_stay_as_they_are(
    project, clone, data, tmp_path
):
    reader = clone("reader")
    before = state_of(project), state_of(reader)

    assert refs_of(project).put(FIRST, data)
    found = refs_of(reader)
    assert found.names() == (FIRST,)
    (tmp_path / "got.jsonl.gz").write_bytes(found.get(FIRST))
    assert read_run(tmp_path / "got.jsonl.gz") == make_run()
    assert (state_of(project), state_of(reader)) == before


def test_the_same_file_from_two_clones_is_the_same_commit(project, origin, clone, data):
    assert refs_of(project).put(FIRST, data)
    before = origin.git("for-each-ref", "refs/llmeval")
    late = refs_of(clone("late"))
    assert not late.put(FIRST, data)
    assert origin.git("for-each-ref", "refs/llmeval") == before
    assert before.split()[2] == ref_of(FIRST)
    assert origin.git("log", "--format=%an %ad %P", ref_of(FIRST)) == (
        "llmeval Sat Jan 1 00:00:00 2000 +0000"
    )


def test_a_run_that_was_put_meanwhile_is_no_error_and_another_one_is(project, clone, data):
    early, late = refs_of(project), refs_of(clone("late"))
    assert (early.names(), late.names()) == ((), ())  # before either of them puts
    assert early.put(FIRST, data)
    assert late.put(FIRST, data)
    third = refs_of(clone("third"))
    assert third.names() == (FIRST,)
    with pytest.raises(GitFailed, match="is there already and holds another file"):
        third.put(FIRST, data + b"\n")


def test_another_file_of_that_name_that_came_meanwhile_is_not_replaced(project, clone, data):
    early, late = refs_of(project), refs_of(clone("late"))
    assert late.names() == ()
    early.put(FIRST, data)
    with pytest.raises(GitFailed, match=r"rejected|stale"):
        late.put(FIRST, data + b"\n")
    assert refs_of(clone("reader")).get(FIRST) == data


def test_of_two_clones_that_put_at_once_20_times_nothing_is_lost(origin, clone, data):
    rounds = 20
    stores = [refs_of(clone(name)) for name in ("left", "right")]
    names = [
        [RunName(COMMIT, TREE, f"20261121T0841{number:02}-00000{side}") for number in range(rounds)]
        for side in range(2)
    ]
    for store in stores:
        store.names()
    failures: list[BaseException] = []

    def put(side: int, number: int, start: threading.Barrier) -> None:
        try:
            start.wait()
            assert stores[side].put(names[side][number], data + bytes([side, number]))
        except BaseException as exc:
            failures.append(exc)

    for number in range(rounds):
        start = threading.Barrier(2)
        threads = [threading.Thread(target=put, args=(side, number, start)) for side in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert failures == []
    found = refs_of(clone("reader"))
    assert set(found.names()) == {*names[0], *names[1]}
    for side in range(2):
        for number, name in enumerate(names[side]):
            assert found.get(name) == data + bytes([side, number])


def test_many_are_fetched_at_once(project, clone, data, monkeypatch):
    store = refs_of(project)
    names = [RunName(COMMIT, TREE, f"20261121T0841{number:02}-000000") for number in range(5)]
    for number, name in enumerate(names):
        store.put(name, data + bytes([number]))
    found = refs_of(clone("reader"))
    found.fetch(names)
    monkeypatch.setattr(type(found._own), "_fetch", None)
    assert [found.get(name) for name in names] == [data + bytes([n]) for n in range(5)]


def test_what_is_not_ours_below_the_prefix_is_passed_over(project, origin, data):
    origin.git("update-ref", "refs/llmeval/notes", origin.head)
    origin.git("update-ref", f"refs/llmeval/{COMMIT}/{TREE}/latest", origin.head)
    origin.git("update-ref", "refs/llmeval/ends\u2028a-line", origin.head)
    assert refs_of(project).names() == ()


def test_a_ref_without_a_run_file_says_so(project, origin):
    origin.git("update-ref", ref_of(FIRST), origin.head)
    with pytest.raises(GitFailed, match=r"holds no run\.jsonl\.gz"):
        refs_of(project).get(FIRST)
    with pytest.raises(GitFailed, match="is not there"):
        refs_of(project).get(OTHER)


def test_a_remote_can_be_named_by_its_address(project, origin, data):
    assert refs_of(project, remote=str(origin.top)).put(FIRST, data)
    assert refs_of(project).names() == (FIRST,)


def test_where_names_for_pushing_differ_that_one_is_pushed_to(project, origin, tmp_path, data):
    origin.git("clone", "--quiet", "--bare", str(origin.top), str(tmp_path / "other.git"))
    project.git("config", "remote.origin.pushurl", str(tmp_path / "other.git"))
    refs_of(project).put(FIRST, data)
    assert refs_of(project, remote=str(tmp_path / "other.git")).names() == (FIRST,)
    assert refs_of(project).names() == ()


def test_nothing_but_the_ref_is_sent(project, origin, data, tmp_path, monkeypatch):
    project.git("tag", "-a", "-m", "v1", "v1")
    config = tmp_path / "config"
    config.write_text("[push]\n\tfollowTags = true\n\tgpgSign = false\n\tdefault = matching\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    hook = project.top / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    hook.chmod(0o755)
    before = origin.git("for-each-ref", "--format=%(refname)")

    refs_of(project).put(FIRST, data)

    after = origin.git("for-each-ref", "--format=%(refname)").splitlines()
    assert sorted(after) == sorted([*before.splitlines(), ref_of(FIRST)])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("remote", "said"),
    [("upstream", "no remote named upstream"), ("../nothing", "does not appear to be a git")],
)
def test_a_remote_that_cannot_be_reached_is_one_line(project, origin, remote, said):
    with pytest.raises(GitFailed, match=said) as raised:
        refs_of(project, remote=remote).names()
    assert "\n" not in str(raised.value)


def test_who_may_not_push_is_told_so(project, origin, data):
    hook = origin.top / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho you may not >&2\nexit 1\n")
    hook.chmod(0o755)
    store = refs_of(project)
    with pytest.raises(GitFailed, match=r"declined|you may not"):
        store.put(FIRST, data)
    assert refs_of(project).names() == ()


def test_of_a_shallow_clone_nothing_else_is_fetched(project, origin, clone, data, tmp_path):
    refs_of(project).put(FIRST, data)
    project.commit()
    project.git("push", "--quiet", "origin", "main")
    origin.git("clone", "--quiet", "--depth=1", origin.top.as_uri(), str(tmp_path / "shallow"))
    shallow = Project(tmp_path / "shallow")
    before = state_of(shallow)
    assert refs_of(shallow).get(FIRST) == data
    assert state_of(shallow) == before
    assert shallow.git("rev-list", "--count", "HEAD") == "1"


# --- over HTTP, with the token of a checkout -----------------------------------------------


@pytest.fixture
def host(project, origin, tmp_path):
    """The host of origin, which lets in who sends the token that stands in the config."""
    with GitServer(tmp_path, header=HEADER) as server:
        project.git("remote", "set-url", "origin", f"{server.url}/origin.git")
        project.git("config", f"http.{server.url}/.extraheader", HEADER)
        yield server


def test_the_token_of_the_checkout_opens_the_store_and_is_kept_nowhere(project, host, data):
    assert refs_of(project).put(FIRST, data)
    again = refs_of(project)
    assert (again.names(), again.get(FIRST)) == ((FIRST,), data)
    files = [file for file in (project.top / ".llmeval").rglob("*") if file.is_file()]
    assert not any(SECRET in file.read_bytes() for file in files)


def test_without_a_token_or_without_the_right_to_write_it_is_one_line(project, host, origin, data):
    origin.git("config", "http.receivepack", "false")
    assert refs_of(project).names() == ()
    with pytest.raises(GitFailed, match="403") as read_only:
        refs_of(project).put(FIRST, data)
    project.git("config", "--unset", f"http.{host.url}/.extraheader")
    with pytest.raises(GitFailed, match=r"401|could not read Username|terminal prompts") as closed:
        refs_of(project).names()
    for raised in (read_only, closed):
        assert "\n" not in str(raised.value)
        assert SECRET.decode() not in str(raised.value)
    assert origin.git("for-each-ref", "refs/llmeval") == ""
