"""REF means the right commit, however CI or a user checked the repository out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_llmeval.runs.ci import read_ci
from pytest_llmeval.runs.git import read_state
from pytest_llmeval.runs.lookup.history import History
from pytest_llmeval.runs.lookup.wanted_commit import WantedCommit, find_wanted
from pytest_llmeval.runs.own_repository import OwnRepository
from tests.ci.laptops import LAPTOPS
from tests.ci.odd_checkouts import ODD_CHECKOUTS
from tests.ci.pipelines import PIPELINES
from tests.ci.pull_requests import PULL_REQUESTS
from tests.ci.situation import Situation
from tests.ci.systems import SYSTEMS

SITUATIONS = (*PULL_REQUESTS, *PIPELINES, *SYSTEMS, *LAPTOPS, *ODD_CHECKOUTS)


def resolve(ref: str, rootdir: Path, environ: Mapping[str, str]) -> WantedCommit:
    """Ask as a session that may not fetch."""
    return find_wanted(ref, git=read_state(rootdir), ci=read_ci(environ))


def files_of_git(rootdir: Path) -> dict[Path, bytes]:
    """All of a repository, by the paths of its files; nothing where it is elsewhere."""
    return {path: path.read_bytes() for path in (rootdir / ".git").rglob("*") if path.is_file()}


@pytest.mark.parametrize("make", SITUATIONS, ids=lambda make: make.__name__)
def test_ref_means_the_right_commit(make: Callable[[Path], Situation], tmp_path: Path) -> None:
    situation = make(tmp_path)

    found = resolve(situation.ref, situation.path, situation.environ)

    if situation.is_fetched:
        assert (found.commit, found.is_known) == (None, False), situation.why
    else:
        assert found.commit == situation.wanted, situation.why
    said = " ".join(found.notes)
    assert situation.note in said
    assert bool(said) == bool(situation.note)
    assert read_ci(situation.environ).fork == situation.fork

    git, before = read_state(situation.path), files_of_git(situation.path)
    own = OwnRepository(tmp_path / ".llmeval", top=git.top or tmp_path, fetches=True)
    history = History(git, ci=read_ci(situation.environ), own=own)

    found = history.wanted(situation.ref, has_run=lambda commit: True)

    assert found.commit == situation.wanted, situation.why
    assert history.notes == ()
    if situation.is_fetched:
        assert own.path.exists()
    assert files_of_git(situation.path) == before
