from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Outcome, Run
from pytest_llmeval.runs.git import GitState
from pytest_llmeval.runs.retry import Retry, find_retry, lineage
from pytest_llmeval.runs.store import RunStore
from tests.runs.builders import COMMIT, make_run

OTHER = "f" * 40
IDS = [f"20261121T08410{second}-1a2b3c" for second in range(3)]


def git(**changes: Any) -> GitState:
    usual = {"top": Path("/"), "commit": COMMIT, "tree": None, "dirty": False, "branch": "main"}
    return GitState(**{**usual, **changes})


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path)


def with_errored(run: Run, *indices: int) -> Run:
    """Put some trials of a run, by their place in it, as errored."""
    trials = (
        replace(t, outcome=Outcome.ERRORED, scores={}) if place in indices else t
        for place, t in enumerate(run.trials)
    )
    return replace(run, trials=tuple(trials))


def find(store: RunStore, **changes: Any) -> Retry:
    model = changes.pop("model", None)
    place = {"root": ".", "selection": (), **changes}
    return find_retry(store, git=place.pop("git", git()), model=model, **place)


def test_errored_trials_run_again_and_the_others_stand() -> None:
    run = with_errored(make_run(), 1)
    retry = Retry(run, Path("run"))

    assert retry.again == 1
    assert retry.unfinished == (run.cases[0],)
    assert [(t.index, t.outcome) for t in retry.standing[run.cases[0].id]] == [(0, "passed")]
    assert len(retry.recorded[run.cases[0].id]) == 2


def test_trials_that_never_ended_run_again() -> None:
    run = make_run()
    retry = Retry(replace(run, trials=run.trials[:1]), Path("run"))

    assert retry.again == 3
    assert retry.unfinished == run.cases


def test_what_stands_was_paid_for_by_another_session() -> None:
    (first, *_) = Retry(make_run(), Path("run")).standing["tests/test_a.py::test_a[Peru]"]

    assert [(call.replayed, call.was_paid) for call in first.calls] == [(True, False)]


def test_a_run_without_errored_trials_is_done_and_was_paid_for_elsewhere() -> None:
    run = make_run()
    retry = Retry(run, Path("run"))

    assert retry.is_done
    assert not Retry(with_errored(run, 1), Path("run")).is_done
    taken_over = retry.taken_over
    assert [(t.case, t.index) for t in taken_over.trials] == [(t.case, t.index) for t in run.trials]
    assert not any(call.was_paid for trial in taken_over.trials for call in trial.calls)
    assert taken_over.attempts == 0


def test_the_newest_run_is_the_one(store: RunStore) -> None:
    for run_id in IDS:
        path = store.save(make_run(id=run_id))

    retry = find(store, model="openai/gpt-6-luna")

    assert (retry.run.id, retry.path) == (IDS[2], path)


@pytest.mark.parametrize(
    ("run", "here", "told"),
    [
        ({"root": "sub"}, {}, "is of rootdir 'sub', this session of rootdir '.'"),
        ({"commit": OTHER}, {}, "is of commit fffffff, this session of commit 1a2b3c4"),
        ({"commit": None, "tree": None}, {}, "is of no commit, this session of commit 1a2b3c4"),
        ({"dirty": True}, {}, "is of commit 1a2b3c4 with changes, this session of commit 1a2b3c4:"),
        ({"selection": ("tests",)}, {}, "is of tests, this session of all tests"),
        ({}, {"selection": ("a", "b")}, "is of all tests, this session of a, b"),
        ({}, {"model": "openai/x"}, "of model openai/gpt-6-luna, this session of model openai/x"),
    ],
    ids=["root", "commit", "no commit", "dirty", "selection", "selects", "model"],
)
def test_a_run_of_something_else_is_refused(
    store: RunStore, run: dict[str, Any], here: dict[str, Any], told: str
) -> None:
    store.save(make_run(**run))
    with pytest.raises(SettingsError) as raised:
        find(store, **here)
    assert told in str(raised.value)
    assert str(raised.value).endswith("pytest")


def test_any_model_goes_with_a_run_that_asked_none(store: RunStore) -> None:
    store.save(make_run(models=()))
    assert find(store, model="openai/x").run.id == make_run().id


def test_no_run_and_a_damaged_run_are_told_of(store: RunStore) -> None:
    with pytest.raises(SettingsError, match=r"no run is recorded in .*Record one:  pytest"):
        find(store)
    store.save(make_run()).write_bytes(b"damaged")
    with pytest.raises(SettingsError, match="is damaged"):
        find(store)


def test_the_very_cases_of_the_run_are_wanted() -> None:
    run = make_run()
    retry = Retry(run, Path("run"))
    first, second = run.cases
    retry.check_cases([second, first])

    with pytest.raises(SettingsError, match=r"1 case\(s\) are not collected here, .*Chad"):
        retry.check_cases([first])
    with pytest.raises(SettingsError, match=r"1 case\(s\) are not in that run, new"):
        retry.check_cases([first, second, replace(first, id="new")])
    with pytest.raises(SettingsError, match="has other parameters here"):
        retry.check_cases([first, replace(second, parameters="c" * 64)])


def test_other_repeats_are_refused_with_the_number_to_say() -> None:
    run = make_run()
    first, second = run.cases
    with pytest.raises(SettingsError, match=r"has 5 repeats here and 2 there. Say --llm-repeats=2"):
        Retry(run, Path("run")).check_cases([replace(first, repeats=5), second])

    uneven = replace(run, cases=(first, replace(second, repeats=3)))
    with pytest.raises(SettingsError, match="Leave --llm-repeats out"):
        Retry(uneven, Path("run")).check_cases([first, second])


def test_the_lineage_of_a_run_goes_back_to_the_first_that_is_here(store: RunStore) -> None:
    first, second, third = IDS
    store.save(make_run(id=second, completes=first))
    run = make_run(id=third, completes=second)

    assert lineage(run, store) == {third, second, first}
    store.save(make_run(id=first))
    assert lineage(run, store) == {third, second, first}
    assert lineage(make_run(id=first), store) == {first}
