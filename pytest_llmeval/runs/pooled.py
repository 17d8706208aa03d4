"""Draws of several runs that asked the same, as the trials of one baseline.

A trial of an older run counts if its draws are its own: a replay is a draw that was counted before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_llmeval.records import CONFIRM, CONFIRMED, POOLED, Run, Trial, trials_by_case


def unchanged_cases(run: Run, earlier: Run) -> set[str]:
    """Name the cases of a run that an earlier one has with the same test, fixtures and parameters.

    A digest that neither run has is no difference.
    """
    before = {case.id: case.parameters for case in earlier.cases}
    return {
        case.id
        for case in run.cases
        if before.get(case.id, case) == case.parameters
        and run.tests.get(case.function) == earlier.tests.get(case.function)
        and run.fixtures.get(case.function) == earlier.fixtures.get(case.function)
    }


def draws_again(run: Run, earlier: Run) -> bool:
    """Tell whether a run has other draws of some request that an earlier run asked."""
    draws = {
        (trial.case, call.key, call.slot): call.draw
        for trial in earlier.trials
        for call in trial.calls
        if call.draw
    }
    return any(
        draws.get((trial.case, call.key, call.slot), call.draw) != call.draw
        for trial in run.trials
        for call in trial.calls
        if call.draw
    )


def further_trials(run: Run, older: Sequence[Run]) -> list[Run]:
    """Choose the trials of older runs that are further draws of what a run asked.

    All trials of a case must have asked the same requests of the same served models, on both sides.
    So a case whose later requests quote its replies is never chosen: nobody could tell a changed
    application from another reply. No score decides.

    Args:
        run: the newest one.
        older: newest first.

    Returns:
        For each of these the run with the cases of ``run`` and those trials alone. Their indices
        are beyond those of every session, and in one run alike where they were alike.
    """
    trials = trials_by_case(run)
    asked = {case: _asked(of_case) for case, of_case in trials.items()}
    seen = {case: _own_draws(of_case) for case, of_case in trials.items()}
    found = []
    for position, earlier in enumerate(older, start=1):
        places = sorted({trial.index for trial in earlier.trials})
        first = POOLED * position + CONFIRMED * (earlier.made == CONFIRM)
        numbers = {index: first + at for at, index in enumerate(places)}
        chosen: list[Trial] = []
        for case, of_case in trials_by_case(earlier, sorted(unchanged_cases(run, earlier))).items():
            if not asked[case] or _asked(of_case) != asked[case]:
                continue
            for trial in sorted(of_case, key=lambda one: one.index):
                own = _own_draws([trial])
                if trial.outcome.is_scored and own and not own & seen[case]:
                    seen[case] |= own
                    chosen.append(replace(trial, index=numbers[trial.index]))
        cases = {trial.case for trial in chosen}
        kept = tuple(case for case in run.cases if case.id in cases)
        found.append(replace(earlier, cases=kept, trials=tuple(chosen)))
    return found


def own_trials(run: Run) -> Run:
    """Return a baseline without the trials of older runs."""
    return replace(run, trials=tuple(trial for trial in run.trials if trial.index < POOLED))


def _asked(trials: Iterable[Trial]) -> tuple[tuple[str, str], ...]:
    """Return what each scored trial asked, and of whom; nothing where two differ."""
    asked = {
        tuple(sorted((call.key, call.served or "") for call in trial.calls))
        for trial in trials
        if trial.outcome.is_scored
    }
    return next(iter(asked)) if len(asked) == 1 else ()


def _own_draws(trials: Iterable[Trial]) -> set[str]:
    """Return the draws that belong to a trial, and to no wider fixture."""
    calls = (call for trial in trials for call in trial.calls)
    return {call.draw for call in calls if call.draw and call.slot.trial is not None}


def pooled(run: Run, further: Sequence[Run], *, most: int) -> Run:
    """Return a run with the further trials, at most so many of a case, the newest ones.

    Args:
        run: the newest one, of which all trials stay.
        further: as ``further_trials`` returns them.
        most: trials of a case.
    """
    of_case = trials_by_case(run)
    for earlier in further:
        for trial in earlier.trials:
            if len(of_case[trial.case]) < most:
                of_case[trial.case].append(trial)
    in_order = (sorted(of_it, key=lambda one: one.index) for of_it in of_case.values())
    return replace(run, trials=tuple(one for of_it in in_order for one in of_it))
