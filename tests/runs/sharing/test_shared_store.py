"""Lookups in the runs of this directory and those of a team."""

from __future__ import annotations

import socket

import pytest

from pytest_llmeval.errors import BaselineUnreadable, GitFailed, SettingsError
from pytest_llmeval.records import CiJob, Run
from pytest_llmeval.runs.ci import ON_LAPTOP
from pytest_llmeval.runs.git import GitState
from pytest_llmeval.runs.lookup.best_run import Search
from pytest_llmeval.runs.lookup.draws import draws_of_every_run
from pytest_llmeval.runs.run_file import write_run
from pytest_llmeval.runs.sharing.shared_store import SharedStore, open_store, session_refs
from pytest_llmeval.runs.store import BORROWED, ENDING, RunName, RunStore
from pytest_llmeval.settings import Settings
from tests.runs.builders import COMMIT, TREE, lines_of, make_run, write_lines

FIRST, LATER = "20261121T084100-1a2b3c", "20261121T084200-000000"
ELSEWHERE = "5e6f7a8b" * 5


class Team:
    """A store in memory; it can be out of reach."""

    def __init__(self) -> None:
        self.files: dict[RunName, bytes] = {}
        self.is_away = False

    def names(self) -> tuple[RunName, ...]:
        if self.is_away:
            raise GitFailed("no route to host")
        return tuple(self.files)

    def get(self, name: RunName) -> bytes:
        if self.is_away:
            raise GitFailed("no route to host")
        return self.files[name]

    def put(self, name: RunName, data: bytes) -> bool:
        self.files[name] = data
        return True


@pytest.fixture
def team() -> Team:
    return Team()


@pytest.fixture
def store(tmp_path, team) -> SharedStore:
    return SharedStore(tmp_path / ".llmeval", team, called="git+refs://origin")


@pytest.fixture
def share(tmp_path, team):
    """Put a run into the team's store, under its own name if no other is said."""

    def put(run: Run, **named: str) -> RunName:
        write_run(run, tmp_path / "run.jsonl.gz")
        name = RunName(run.commit or "", run.tree, run.id)._replace(**named)
        team.put(name, (tmp_path / "run.jsonl.gz").read_bytes())
        return name

    return put


def ids(store: RunStore, commit: str = COMMIT) -> list[str]:
    return [stored.header.run.id for stored in store.at_commit(commit).runs]


def test_runs_of_both_places_are_found_newest_first(store, share):
    store.save(make_run(id="20261121T084130-000000"))
    share(make_run(id=FIRST))
    share(make_run(id=LATER))
    share(make_run(id="20261121T084300-000000", commit=ELSEWHERE, tree="0a" * 20))

    assert ids(store) == [LATER, "20261121T084130-000000", FIRST]
    assert store.commits() == (COMMIT, ELSEWHERE)
    assert (store.named_tree(ELSEWHERE), store.tree_of(COMMIT)) == ("0a" * 20, TREE)
    path = store.by_id(LATER)
    assert path is not None
    assert store.load(path) == make_run(id=LATER)
    assert store.complaints == []


def test_the_last_run_is_the_last_one_here(store, share):
    store.save(make_run(id=FIRST))
    share(make_run(id=LATER))
    newest = store.newest()
    assert newest is not None
    assert newest.run.id == FIRST
    assert ids(store) == [LATER, FIRST]
    newest = store.newest()
    assert newest is not None
    assert newest.run.id == FIRST  # also once the other one is on the disk
    assert [stored.header.run.id for stored in store.every().runs] == [FIRST]


def test_a_run_that_is_in_both_places_is_that_of_here(store, share, team):
    path = store.save(make_run(id=FIRST))
    share(make_run(id=FIRST))
    team.files = dict.fromkeys(team.files, b"noise")
    assert [stored.path for stored in store.at_commit(COMMIT).runs] == [path]
    assert store.by_id(FIRST) == path
    assert store.complaints == []


@pytest.mark.parametrize(
    "named", [{"commit": ELSEWHERE}, {"tree": "0a" * 20}, {"run_id": LATER}], ids=str
)
def test_a_run_that_is_not_what_its_name_says_is_passed_over(store, share, named):
    name = share(make_run(id=FIRST), **named)
    listing = store.at_commit(name.commit)
    said = (
        f"passed over: run {name.run_id} of git+refs://origin: its header is not what the name of "
        "its ref says",
    )
    assert (listing.runs, listing.notes) == ((), said)
    with pytest.raises(BaselineUnreadable, match="is not what the name"):
        store.by_id(name.run_id)
    assert not store.adopt(name)
    assert store.files() == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"made": "rerun"}, "it was made for a comparison (rerun)"),
        (
            {"ci": CiJob(provider="github", event="pull_request", fork=True)},
            "it is of a pull or merge request (pull_request)",
        ),
    ],
)
def test_a_run_that_push_would_not_send_is_taken_by_no_road(store, share, changes, said):
    """Whoever may push to the repository can write a ref without asking ``llmeval push``."""
    name = share(make_run(id=FIRST, **changes))
    passed_over = f"passed over: run {FIRST} of git+refs://origin: {said}"

    listing = store.at_commit(name.commit)

    assert (listing.runs, listing.notes) == ((), (passed_over,))
    assert not store.adopt(name)
    with pytest.raises(BaselineUnreadable):
        store.by_id(FIRST)


def test_what_an_older_version_took_is_looked_at_again(store, share):
    name = share(make_run(id=FIRST, made="rerun"))
    taken = store.directory / BORROWED / name.commit / f"{FIRST}{ENDING}"
    taken.parent.mkdir(parents=True)
    write_run(make_run(id=FIRST, made="rerun"), taken)

    assert ids(store) == []


def test_damaged_and_newer_runs_are_passed_over_and_nothing_is_deleted(
    store, share, team, tmp_path
):
    good = share(make_run(id=LATER))
    cut = share(make_run(id=FIRST))
    team.files[cut] = team.files[cut][:40]
    newer = RunName(COMMIT, TREE, "20261121T084101-000000")
    team.files[newer] = write_lines(tmp_path / "newer", [{"schema": 99}]).read_bytes()
    before = dict(team.files)

    listing = store.at_commit(COMMIT)
    assert [stored.header.run.id for stored in listing.runs] == [good.run_id]
    assert [any(word in note for note in listing.notes) for word in ("cut off", "newer")] == [
        True,
        True,
    ]
    assert (store.adopt(good), store.adopt(cut), store.adopt(newer)) == (True, False, False)
    assert set(store.files()) == {good.run_id}
    assert team.files == before


def test_a_run_with_a_good_header_and_a_bad_end_does_not_come_home(store, share, team, tmp_path):
    name = share(make_run(id=FIRST))
    lines = lines_of(tmp_path / "run.jsonl.gz")
    team.files[name] = write_lines(tmp_path / "changed", lines, trials=3).read_bytes()
    assert not store.adopt(name)
    assert store.files() == {}
    assert f"passed over: run {FIRST} of git+refs://origin: " in store.complaints[0]


def test_what_was_brought_is_not_brought_again_unless_it_was_damaged(store, share, team):
    name = share(make_run(id=FIRST))
    path = store.borrow(name)
    assert path is not None
    before = path.read_bytes()
    team.is_away = True
    assert store.borrow(name) == path
    path.write_bytes(b"noise")
    assert store.borrow(name) is None
    team.is_away = False
    assert store.borrow(name) == path
    assert path.read_bytes() == before


def test_of_a_run_that_will_not_do_nothing_is_left(store, share, team):
    cut = share(make_run(id=FIRST))
    team.files[cut] = team.files[cut][:-10]
    assert store.borrow(cut) is None
    assert store.borrow(share(make_run(id=LATER), run_id="20261121T084300-000000")) is None
    assert list((store.directory / "borrowed").glob("*/*")) == []


def test_replies_that_a_run_of_the_team_needs_are_kept(store, share):
    share(make_run(id=FIRST))
    assert draws_of_every_run(store) == frozenset()
    assert store.at_commit(COMMIT).runs
    assert draws_of_every_run(store) == {f"{index:032x}" for index in range(2)}


def test_a_run_that_is_dated_ahead_is_passed_over(store, share):
    share(make_run(id="29991121T084100-1a2b3c"))
    assert store.at_commit(COMMIT).runs == ()
    assert "ahead of this machine's clock" in store.complaints[0]


def test_a_place_that_cannot_be_reached_is_said_once_and_the_folder_is_read(store, team, share):
    share(make_run(id=LATER))
    team.is_away = True
    store.save(make_run(id=FIRST))

    listing = store.at_commit(COMMIT)
    assert [stored.header.run.id for stored in listing.runs] == [FIRST]
    said = f"git+refs://origin cannot be read, only {store.folder} is: no route to host"
    assert listing.notes == (said,)
    assert store.at_commit(COMMIT).notes == ()
    assert store.complaints == [said]
    assert store.by_id("main") is None
    with pytest.raises(BaselineUnreadable, match=f"{LATER}: git.refs://origin cannot be read"):
        store.by_id(LATER)


def test_a_run_that_cannot_be_got_is_passed_over(store, team, share):
    share(make_run(id=LATER))
    assert store.commits() == (COMMIT,)
    team.is_away = True
    assert store.at_commit(COMMIT).notes == (
        f"passed over: run {LATER} of git+refs://origin: no route to host",
    )


def test_without_a_name_it_is_the_folder_and_without_a_repository_there_is_none(tmp_path):
    outside = GitState(top=None, absent="/x is in no git repository")
    assert type(open_store(tmp_path, named=None, git=outside)) is RunStore
    with pytest.raises(SettingsError, match="and /x is in no git repository"):
        open_store(tmp_path, named="git+refs://origin", git=outside)


@pytest.mark.parametrize("fetch", [True, False])
def test_a_session_fetches_what_history_lacks_where_it_may(project, origin, fetch):
    directory = project.top / ".llmeval"
    settings = Settings(
        directory=directory,
        session="s",
        store="git+refs://origin",
        fetch=fetch,
        baseline_reach=7,
    )
    refs = session_refs(settings, git=project.state, ci=ON_LAPTOP)
    assert isinstance(refs.store, SharedStore)
    assert (refs.store.directory, refs.reach) == (directory, 7)
    assert (refs.own is not None) is fetch


def test_outside_a_repository_a_session_fetches_nothing(tmp_path):
    outside = GitState(top=None, absent="/x is in no git repository")
    settings = Settings(directory=tmp_path, session="s", fetch=True)
    assert session_refs(settings, git=outside, ci=ON_LAPTOP).own is None


def test_by_its_name_it_is_opened_in_the_refs_of_the_remote(project, origin):
    store = open_store(project.top / ".llmeval", named="git+refs://origin", git=project.state)
    assert store.commits() == ()
    assert store.complaints == []


def test_through_a_link_it_is_not_opened(project, origin, tmp_path):
    directory = project.top / ".llmeval"
    assert open_store(directory, named="git+refs://origin", git=project.state).commits() == ()
    (directory / "git").rename(tmp_path / "elsewhere")
    (directory / "git").symlink_to(tmp_path / "elsewhere")
    store = open_store(directory, named="git+refs://origin", git=project.state)
    assert store.commits() == ()
    assert "is a symbolic link, which is not followed" in store.complaints[0]


def test_a_remote_that_says_nothing_is_waited_for_no_longer_than_was_said(project):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts, nobody answers
        address = f"git://127.0.0.1:{silent.getsockname()[1]}/x"
        project.git("remote", "add", "origin", address)
        directory = project.top / ".llmeval"
        store = open_store(directory, named="git+refs://origin", git=project.state, seconds=0.2)
        assert store.commits() == ()
    assert "no answer within 0.2 s" in store.complaints[0]


def test_a_run_that_is_here_is_taken_and_nobody_is_asked(store, share, team):
    team.is_away = True
    store.save(make_run(id=FIRST))
    search = Search(store=store, root=make_run().root, selection=())

    best = search.best_at(COMMIT)

    assert best is not None
    assert (best.run.id, store.complaints) == (FIRST, [])


@pytest.mark.parametrize("here", [{"dirty": True}, {"typed_model": "openai/other"}], ids=str)
def test_where_the_run_that_is_here_is_odd_the_team_is_asked(store, share, here):
    store.save(make_run(id=LATER, **here))
    share(make_run(id=FIRST))
    search = Search(store=store, root=make_run().root, selection=())

    best = search.best_at(COMMIT)

    assert best is not None
    assert (best.run.id, search.passed_over) == (FIRST, [])


def test_a_run_that_is_here_and_odd_is_said_once(store):
    store.save(make_run(id=LATER, dirty=True))
    search = Search(store=store, root=make_run().root, selection=())
    assert search.best_at(COMMIT) is None
    assert len(search.passed_over) == 1
