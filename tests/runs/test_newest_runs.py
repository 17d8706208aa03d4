"""The newest complete runs, one of each commit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_llmeval.records import Run
from pytest_llmeval.runs.lookup.newest_runs import newest_runs
from pytest_llmeval.runs.store import RunStore
from tests.gate.builders import a_case, a_run


def run_at(second: int, commit: str, *, ref: str = "main", complete: bool = True) -> Run:
    run = a_run(a_case("a", "pm"), complete=complete)
    return replace(
        run,
        id=f"20261121T0841{second:02}-1a2b3c",
        created=f"2026-11-21T08:41:{second:02}+00:00",
        commit=commit * 40,
        tree="f" * 40,
        ref=ref,
    )


def test_each_commit_has_its_newest_complete_run_oldest_first(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    known = [run_at(1, "a"), run_at(2, "a"), run_at(3, "b"), run_at(4, "c", ref="other")]
    for run in (*known, run_at(5, "d", complete=False)):
        store.save(run)
    damaged = store.save(run_at(6, "e"))
    damaged.write_bytes(damaged.read_bytes()[:-20])  # its header can be read

    found, notes = newest_runs(store, branch="main", most=9)
    assert [run.id for run in found] == [known[1].id, known[2].id]
    assert [note.split(": ")[0] for note in notes] == ["passed over"]
    assert damaged.name in notes[0]

    assert newest_runs(store, branch=None, most=9)[0][-1].ref == "other"
    assert [run.id for run in newest_runs(store, branch="main", most=1)[0]] == [known[2].id]


def test_a_run_at_hand_stands_for_its_commit(tmp_path: Path) -> None:
    store, run = RunStore(tmp_path), run_at(1, "a")
    store.save(run)
    store.save(run_at(2, "a"))

    found, _ = newest_runs(store, branch=None, most=9, besides=[run])

    assert found == [run]
    assert found[0] is run
