"""Baselines under the names that their tests have now, as ``llm_renamed`` tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Run
from pytest_llmeval.runs.baseline import Baseline

Renames = Sequence[tuple[str, str]]


def under_new_names(found: Baseline, renames: Renames) -> Baseline:
    """Give the cases of a baseline the names that they have here.

    Args:
        found: a run, and how it was found.
        renames: beginnings of node ids, old and new; the longest one that fits counts.

    Raises:
        SettingsError: two cases would have one name.
    """
    run = found.run
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
    return replace(
        found,
        run=replace(
            run,
            partial=tuple(_renamed(function, renames) for function in run.partial),
            cases=tuple(cases),
            trials=tuple(replace(trial, case=ids[trial.case]) for trial in run.trials),
        ),
        notes=(*found.notes, f"{moved} cases are paired under new names, as llm_renamed says"),
    )


def renames_of_nothing(runs: Sequence[Run], renames: Renames) -> tuple[str, ...]:
    """Say which entries name nothing that any of some baselines has, in a sentence each."""
    ids = [case.id for run in runs for case in run.cases]
    return tuple(
        f"llm_renamed names {old!r}, and no case of the baseline begins so: remove the line"
        for old, _ in renames
        if runs and not any(_begins(id_, old) for id_ in ids)
    )


def _renamed(name: str, renames: Renames) -> str:
    fitting = [(old, new) for old, new in renames if _begins(name, old)]
    if not fitting:
        return name
    old, new = max(fitting, key=lambda pair: len(pair[0]))
    return new + name.removeprefix(old)


def _begins(name: str, prefix: str) -> bool:
    """Tell whether a node id begins so, with whole names of folders, files and functions."""
    return name == prefix or name.startswith(tuple(prefix + end for end in ("/", "::", "[")))
