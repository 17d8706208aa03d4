"""Runs of shards are joined to one, or refused."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Case, CiJob, Outcome, Run, Trial
from pytest_llmeval.runs.run_file import read_run, write_run
from pytest_llmeval.runs.run_lines import collected_cases
from pytest_llmeval.runs.sharing.merging import merge_runs
from tests.runs.builders import make_call, make_run

FILES = ("evals/test_a.py", "evals/test_b.py")
IDS = tuple(f"{file}::test_it[{number}]" for file in FILES for number in range(6))
JOB = CiJob(provider="github", event="push", url="https://example.org/run/1", fork=None)


def make_shard(number: int, ids: tuple[str, ...], *, of: tuple[str, ...] = IDS, **changes) -> Run:
    """A run of some cases, of those that were collected; each has draws of its own."""
    cases = tuple(Case(id=name, function=name.partition("[")[0], repeats=2) for name in ids)
    trials = tuple(
        Trial(
            case=case.id,
            index=index,
            outcome=Outcome.PASSED,
            scores={"pass": 1.0},
            calls=(make_call(index, draw=f"{100 * IDS.index(case.id) + index:032x}"),),
        )
        for case in cases
        for index in range(2)
    )
    usual = {
        "id": f"20261121T08410{number}-00000{number}",
        "cases": cases,
        "trials": trials,
        "complete": set(ids) == set(of),
        "collected": collected_cases(of),
        "attempts": len(trials),
        "rules": {"alpha": 0.05},
        "ci": JOB,
    }
    return make_run(**{**usual, **changes})


def thirds(**changes) -> list[Run]:
    """Three shards as a plugin makes them that deals the cases out."""
    names = tuple(dict.fromkeys(name.partition("[")[0] for name in IDS))
    return [make_shard(n, IDS[n::3], partial=names, **changes) for n in range(3)]


# --- shards of what all of them collected ------------------------------------------------


def test_shards_become_one_complete_run_with_all_draws(tmp_path):
    shards = thirds()
    merged = merge_runs(shards)
    run = merged.run

    assert (merged.found, merged.expected, merged.notes) == (12, 12, ())
    assert (run.complete, run.partial, run.selection) == (True, (), ())
    assert sorted(case.id for case in run.cases) == sorted(IDS)
    draws = [call.draw for trial in run.trials for call in trial.calls]
    wanted = [call.draw for one in shards for trial in one.trials for call in trial.calls]
    assert sorted(map(str, draws)) == sorted(map(str, wanted))
    assert (run.attempts, run.ci) == (24, JOB)
    assert run.collected == collected_cases(IDS)
    write_run(run, tmp_path / "run.jsonl.gz")
    assert read_run(tmp_path / "run.jsonl.gz") == run


def test_whatever_their_order_the_run_is_the_same():
    runs = [merge_runs(list(order)).run for order in itertools.permutations(thirds())]
    assert all(run == runs[0] for run in runs)


def test_a_missing_shard_leaves_the_run_incomplete():
    merged = merge_runs(thirds()[:2])
    assert (merged.found, merged.expected, merged.run.complete) == (8, 12, False)
    assert merged.run.partial == ("evals/test_a.py::test_it", "evals/test_b.py::test_it")
    assert merged.run.collected is None


def test_a_function_that_one_shard_has_in_full_is_not_partial():
    first = make_shard(1, IDS[:6], partial=("evals/test_b.py::test_it",))
    assert merge_runs([first]).run.partial == ("evals/test_b.py::test_it",)
    second = make_shard(2, IDS[6:8], partial=tuple(f"{file}::test_it" for file in FILES))
    assert merge_runs([first, second]).run.partial == ("evals/test_b.py::test_it",)


def test_a_shard_that_stopped_early_leaves_the_run_incomplete():
    first, second, third = thirds()
    merged = merge_runs([first, second, replace(third, trials=third.trials[:-1])])
    assert (merged.found, merged.expected, merged.run.complete) == (11, 12, False)


def test_filters_matter_only_where_something_is_missing():
    shards = [
        make_shard(1, IDS[:6], selection=("evals", "-k test_a", "--ignore=evals/old")),
        make_shard(2, IDS[6:], selection=("evals", "-k not test_a", "--ignore=evals/old")),
    ]
    assert merge_runs(shards).run.selection == ("evals", "--ignore=evals/old")
    alone = merge_runs(shards[:1]).run
    assert alone.selection == ("evals", "--ignore=evals/old", "-k test_a")


def test_a_trial_that_was_replayed_in_a_second_attempt_is_the_same_trial():
    first, *others = thirds()
    replays = tuple(
        replace(trial, calls=tuple(replace(call, replayed=True) for call in trial.calls))
        for trial in first.trials
    )
    again = replace(first, id="20261121T084109-000009", trials=replays, attempts=0)
    run = merge_runs([again, first, *others]).run
    assert run.attempts == 24
    assert all(call.was_paid for trial in run.trials for call in trial.calls)


@pytest.mark.parametrize("errs_first", [True, False])
def test_of_a_shard_that_ran_again_the_trials_that_got_their_replies_count(errs_first):
    first, *others = thirds()
    later = replace(first, id="20261121T084109-000009", attempts=1)
    lost = replace(first.trials[0], outcome=Outcome.ERRORED, scores={}, calls=())
    trials = (lost, *first.trials[1:])
    if errs_first:
        first = replace(first, trials=trials)
    else:
        later = replace(later, trials=trials)
    run = merge_runs([later, first, *others]).run
    assert (run.complete, run.attempts) == (True, 25)
    assert {trial.outcome for trial in run.trials} == {Outcome.PASSED}


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"outcome": Outcome.MISSED, "scores": {"pass": 0.0}}, "trial 0 of evals/test_a.py"),
        ({"calls": (make_call(0, draw="f" * 32),)}, "is in two shards and not the same"),
    ],
)
def test_trials_that_differ_are_refused(changes, part):
    first, *others = thirds()
    trials = (replace(first.trials[0], **changes), *first.trials[1:])
    again = replace(first, id="20261121T084109-000009", trials=trials)
    with pytest.raises(SettingsError, match=part):
        merge_runs([first, again, *others])


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"commit": "ab" * 20}, "of different commits \\(1a2b3c4d1a2b, abababababab\\)"),
        ({"tree": "ab" * 20}, "of different trees"),
        ({"root": "evals"}, "of different rootdirs"),
        ({"rules": {"alpha": 0.01}}, "of different settings of the gate"),
        ({"made": "rerun"}, "of different kinds"),
        ({"cases": (), "trials": ()}, "has no case"),
        ({"collected": None}, "does not say how many cases"),
        ({"collected": collected_cases(IDS[:4])}, "collected different cases of the whole suite"),
        ({"selection": ("evals/test_a.py::test_it",)}, "was asked for evals/test_a.py::test_it"),
        ({"selection": ("--ignore=evals",)}, "of different --ignore options"),
        ({"selection": ("evals",)}, "of the whole suite and of a part of it"),
        ({"tests": {"evals/test_a.py::test_it": "b" * 64}}, "is not the same test"),
        ({"id": "20261121T084102-000002"}, "two different runs of one id"),
    ],
)
def test_what_is_no_shard_of_the_suite_is_refused(changes, part):
    first, second, third = thirds(tests={"evals/test_a.py::test_it": "a" * 64})
    with pytest.raises(SettingsError, match=part):
        merge_runs([first, replace(second, **changes), third])


def test_a_function_stopped_where_the_first_of_its_shards_stopped_it():
    first, second, third = thirds(compared_with="20261120T084100-1a2b3c")
    function, other = (f"{file}::test_it" for file in FILES)
    few = tuple(one for one in first.trials if one.case.startswith(other) or one.index < 1)
    first = replace(first, trials=few, looks={function: 1, other: 2}, complete=False)
    merged = merge_runs([first, second, replace(third, looks={function: 2})])
    assert merged.run.looks == {function: 1, other: 2}
    assert (merged.found, merged.expected, merged.run.complete) == (12, 12, False)
    assert merged.run.stopped
    assert merged.run.compared_with == "20261120T084100-1a2b3c"
    assert merge_runs(thirds(compared_with="20261120T084100-1a2b3c")).run.compared_with is None


def test_a_case_with_other_repeats_is_refused():
    first, *others = thirds()
    cases = (replace(first.cases[0], repeats=3), *first.cases[1:])
    again = replace(first, id="20261121T084109-000009", cases=cases)
    with pytest.raises(SettingsError, match="has other repeats, parameters or markers in run"):
        merge_runs([first, again, *others])


def test_cases_that_were_never_collected_are_refused():
    shards = thirds(collected=collected_cases(["a", *IDS[1:]]))
    with pytest.raises(SettingsError, match="are not the 12 that they collected"):
        merge_runs(shards)


def test_one_dirty_shard_makes_the_run_dirty_and_what_differs_is_told():
    first, second, third = thirds()
    second = replace(second, dirty=True, unseen=("b.py",), ref="other", attempts=None)
    third = replace(third, unseen=("a.py",), versions={"python": "3.12.0", "pytest": "9.0.1"})
    merged = merge_runs([first, second, third])
    run = merged.run
    assert (run.dirty, run.unseen, run.ref, run.attempts) == (True, ("a.py", "b.py"), None, None)
    assert merged.notes == ("the shards had different versions of python: 3.12.0, 3.13.0",)


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (None, None),
        (replace(JOB, provider="gitlab"), None),
        (replace(JOB, url="https://example.org/run/2"), replace(JOB, url=None)),
    ],
)
def test_of_their_jobs_what_is_common_is_kept(job, wanted):
    first, *others = thirds()
    assert merge_runs([first, *[replace(one, ci=job) for one in others]]).run.ci == wanted
    assert merge_runs([replace(first, ci=None), *others]).run.ci is None


# --- shards that were given different paths ----------------------------------------------


def by_path(**changes) -> list[Run]:
    return [
        make_shard(number, ids, of=ids, selection=(file,), **changes)
        for number, (file, ids) in enumerate(zip(FILES, (IDS[:6], IDS[6:]), strict=True))
    ]


def test_shards_by_path_are_joined_if_that_is_asked_for():
    merged = merge_runs(by_path(), union=True)
    assert (merged.found, merged.expected, merged.run.complete) == (12, 12, True)
    assert merged.run.selection == FILES
    assert merged.run.collected == collected_cases(IDS)
    with pytest.raises(SettingsError, match="--union"):
        merge_runs(by_path())


def test_a_shard_by_path_that_is_not_whole_leaves_the_run_incomplete():
    first, second = by_path()
    merged = merge_runs(
        [first, make_shard(1, IDS[6:9], of=IDS[6:], selection=FILES[1:])], union=True
    )
    assert (merged.found, merged.expected, merged.run.complete) == (9, 12, False)
    assert second.complete


def test_two_counts_of_the_same_paths_are_refused():
    first, second = by_path()
    with pytest.raises(SettingsError, match=f"collected different cases of {FILES[0]}"):
        merge_runs([first, replace(second, selection=FILES[:1])], union=True)
