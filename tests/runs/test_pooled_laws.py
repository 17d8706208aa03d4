"""Laws of a baseline of several runs: no draw counts twice, and the newest run stays as it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmeval.records import POOLED, Call, Outcome, Run, Slot, Trial
from pytest_llmeval.runs.pooled import further_trials, pooled
from tests.gate.builders import a_case, a_run

CASES = ("a", "b", "c")


@st.composite
def recorded(draw: st.DrawFn) -> list[Run]:
    """Runs of the same cases, the newest first; each trial replays some draw or has a new one."""
    made: dict[str, list[str]] = {name: [] for name in CASES}
    counter, found = 0, []
    for _ in range(draw(st.integers(1, 5))):
        run = a_run(*(a_case(name, "p") for name in CASES))
        trials = []
        for case in run.cases:
            known = made[case.id[-2]]
            for index in range(draw(st.integers(1, 5))):
                if known and draw(st.booleans()):
                    own = draw(st.sampled_from(known))
                else:
                    counter += 1
                    own = f"d{counter}"
                    known.append(own)
                key = draw(st.sampled_from(["k", "k", "k", "other"]))
                call = Call(key=key, slot=Slot(index, 0), draw=own)
                trials.append(
                    Trial(
                        case=case.id,
                        index=index,
                        outcome=draw(st.sampled_from([Outcome.PASSED, Outcome.MISSED])),
                        scores={"pass": 1.0},
                        calls=(call,),
                    )
                )
        found.append(replace(run, trials=tuple(trials)))
    return found


def draws(run: Run) -> Counter[tuple[str, str | None]]:
    return Counter((trial.case, call.draw) for trial in run.trials for call in trial.calls)


@given(runs=recorded(), most=st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_no_draw_counts_twice_and_all_trials_of_the_newest_run_stay(
    runs: list[Run], most: int
) -> None:
    newest, *older = runs
    found = pooled(newest, further_trials(newest, older), most=most)

    assert [one for one in found.trials if one.index < POOLED] == list(newest.trials)
    own = draws(newest)
    assert all(count <= max(1, own[name]) for name, count in draws(found).items())
    before = Counter(trial.case for trial in newest.trials)
    for case, count in Counter(trial.case for trial in found.trials).items():
        assert count <= max(most, before[case])


@given(runs=recorded())
@settings(max_examples=100, deadline=None)
def test_a_run_that_is_replayed_adds_nothing(runs: list[Run]) -> None:
    newest, *older = runs
    once = pooled(newest, further_trials(newest, older), most=1000)
    copies = [one for run in older for one in (run, run)]
    twice = pooled(newest, further_trials(newest, [newest, *copies]), most=1000)
    assert draws(once) == draws(twice)


@given(runs=recorded())
@settings(max_examples=100, deadline=None)
def test_no_score_decides_what_counts(runs: list[Run]) -> None:
    newest, *older = runs
    turned = [
        replace(
            run,
            trials=tuple(
                replace(
                    one,
                    outcome=Outcome.MISSED if one.outcome is Outcome.PASSED else Outcome.PASSED,
                )
                for one in run.trials
            ),
        )
        for run in older
    ]
    first, second = (
        pooled(newest, further_trials(newest, each), most=8) for each in (older, turned)
    )
    assert draws(first) == draws(second)


@given(runs=recorded())
@settings(max_examples=100, deadline=None)
def test_each_further_trial_asked_what_the_newest_run_asked(runs: list[Run]) -> None:
    newest, *older = runs
    asked = {(trial.case, trial.calls[0].key) for trial in newest.trials}
    for run in further_trials(newest, older):
        assert {(trial.case, trial.calls[0].key) for trial in run.trials} <= asked
        assert {case.id for case in run.cases} == {trial.case for trial in run.trials}
        assert all(trial.index >= POOLED for trial in run.trials)
