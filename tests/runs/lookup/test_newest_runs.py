"""The newest complete run of each commit."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmeval.records import Run
from pytest_llmeval.runs.lookup import standing as room
from pytest_llmeval.runs.lookup.standing import newest_runs
from pytest_llmeval.runs.store import RunStore
from tests.runs.builders import make_run


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / ".llmeval")


def recorded(
    store: RunStore, second: int, *, commit: int, ref: str = "main", **more: object
) -> Run:
    run = replace(
        make_run(),
        id=f"20261121T0841{second:02}-1a2b3c",
        created=f"2026-11-21T08:41:{second:02}+00:00",
        commit=f"{commit:02}" * 20,
        ref=ref,
        **more,  # type: ignore[arg-type]
    )
    store.save(run)
    return run


def ids(found: tuple[list[Run], list[str]]) -> list[str]:
    return [run.id[13:15] for run in found[0]]


def test_of_each_commit_the_newest_complete_run_counts_oldest_first(store: RunStore) -> None:
    recorded(store, 1, commit=1)
    recorded(store, 2, commit=1)
    recorded(store, 3, commit=2)
    recorded(store, 4, commit=2, complete=False)

    assert ids(newest_runs(store, branch=None, most=9)) == ["02", "03"]


def test_changes_to_a_commit_have_a_run_of_their_own(store: RunStore) -> None:
    recorded(store, 1, commit=1)
    recorded(store, 2, commit=1, dirty=True)
    recorded(store, 3, commit=1, dirty=True)

    assert ids(newest_runs(store, branch=None, most=9)) == ["01", "03"]


def test_a_branch_can_be_named_and_the_newest_are_kept(store: RunStore) -> None:
    for second in range(1, 5):
        recorded(store, second, commit=second, ref="main" if second % 2 else "side")

    assert ids(newest_runs(store, branch="side", most=9)) == ["02", "04"]
    assert ids(newest_runs(store, branch=None, most=3)) == ["02", "03", "04"]


def test_runs_that_are_at_hand_stand_for_their_commits(store: RunStore) -> None:
    recorded(store, 1, commit=1)
    here = recorded(store, 2, commit=2, ref="side", complete=False)
    recorded(store, 3, commit=2)

    assert ids(newest_runs(store, branch="main", most=9, besides=[here])) == ["01", "02"]


def test_of_a_large_suite_few_runs_are_read(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second in range(1, 5):
        recorded(store, second, commit=second)
    monkeypatch.setattr(room, "_MOST_TRIALS", len(make_run().trials))

    assert ids(newest_runs(store, branch=None, most=9)) == ["03", "04"]


def test_a_damaged_run_is_passed_over_and_named(store: RunStore) -> None:
    recorded(store, 1, commit=1)
    broken = recorded(store, 2, commit=2)
    path = store.by_id(broken.id)
    assert path is not None
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-9] + b"\n"))

    found = newest_runs(store, branch=None, most=9)

    assert ids(found) == ["01"]
    (note,) = found[1]
    assert note.startswith("passed over: ")
    assert broken.id in note
