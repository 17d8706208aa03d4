"""Rename the cases of a baseline to their names of today, as ``llm_renamed`` says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Run, is_below
from pytest_llmeval.runs.lookup.refs import Baseline

Renames = Sequence[tuple[str, str]]


def under_new_names(found: Baseline, renames: Renames) -> Baseline:
    """Give the cases of a baseline the names that they have in the working tree.

    Args:
        found: a run, and how it was found.
        renames: beginnings of node ids, old and new; the longest one that fits counts. Those
            whose new name the baseline has already were left behind, and count for nothing.

    Raises:
        SettingsError: two cases would have one name.
    """
    run = found.run
    renames = _in_force(run, renames)
    ids = {case.id: _renamed(case.id, renames) for case in run.cases}
    moved = sum(old != new for old, new in ids.items())
    if not moved:
        return found
    owners: dict[str, str] = {}
    for old, new in ids.items():
        if owners.setdefault(new, old) != old:
            raise SettingsError(
                f"llm_renamed in the ini file: {owners[new]} and {old} of run {run.id} would both "
                f"be {new}; one name stands for one"
            )
    cases = (
        replace(case, id=ids[case.id], function=ids[case.id].partition("[")[0])
        for case in run.cases
    )
    renamed = replace(
        run,
        partial=tuple(_renamed(function, renames) for function in run.partial),
        cases=tuple(cases),
        trials=tuple(replace(trial, case=ids[trial.case]) for trial in run.trials),
    )
    note = f"{moved} cases are paired under new names, as llm_renamed says"
    return replace(found, run=renamed, notes=(*found.notes, note))


def idle_renames(runs: Sequence[Run], renames: Renames) -> tuple[str, ...]:
    """Say which entries rename nothing in any of some baselines, in a sentence each."""
    ids = [case.id for run in runs for case in run.cases]
    used = {
        pair
        for run in runs
        for pair in _in_force(run, renames)
        if any(is_below(case.id, pair[0]) for case in run.cases)
    }
    idle = [pair for pair in renames if runs and pair not in used]
    return tuple(
        f"llm_renamed names {old!r}, and no case of the baseline begins so: remove the line"
        if not any(is_below(name, old) for name in ids)
        else f"llm_renamed says {old} -> {new}, and the baseline has {new} already: remove the "
        "line, or name a longer beginning"
        for old, new in idle
    )


def renames_to_nothing(functions: Sequence[str], renames: Renames) -> tuple[str, ...]:
    """Say which entries lead to a name that no test has here, in a sentence each.

    Args:
        functions: of the baseline, under their new names, that are missing here.
        renames: the entries.
    """
    return tuple(
        f"llm_renamed says {old} -> {new}, and {function} is not here: correct the line"
        for old, new in renames
        for function in functions
        if is_below(function, new)
    )


def _in_force(run: Run, renames: Renames) -> Renames:
    """Return the entries whose new name no case of the baseline keeps."""
    keeping = [case.id for case in run.cases if _renamed(case.id, renames) == case.id]
    left = [pair for pair in renames if not any(is_below(name, pair[1]) for name in keeping)]
    return left if len(left) == len(renames) else _in_force(run, left)


def _renamed(name: str, renames: Renames) -> str:
    fitting = [(old, new) for old, new in renames if is_below(name, old)]
    if not fitting:
        return name
    old, new = max(fitting, key=lambda pair: len(pair[0]))
    return new + name.removeprefix(old)
