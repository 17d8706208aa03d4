"""What the baseline has and this run does not: left out on purpose, given up, or gone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from pytest_llmeval.gate.comparison import NotJudged
from pytest_llmeval.gate.scoring import gated_metrics
from pytest_llmeval.gate.sides import Side, sides_of
from pytest_llmeval.records import Run, filters_of, paths_of

_ENTRY = re.compile(r"(?P<function>.*[^:]):(?P<metric>[^:]+)")
_BY_NAME = ("-k ", "-m ", "--deselect=")

Sides = Mapping[str, Side]


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """What the baseline gates and this run does not, although nobody left it out by hand.

    Attributes:
        functions: those that were not collected, in the order of the baseline.
        metrics: gated metrics of the other functions, each with its function.
        given_up: those of both that are not missed, functions with the metric "".
        idle: the entries of ``llm_accept_gone`` that name none of them.
    """

    functions: tuple[str, ...]
    metrics: tuple[tuple[str, str], ...]
    given_up: frozenset[tuple[str, str]]
    idle: tuple[str, ...]


def left_out(
    there: Sides, here: Sides, *, baseline: Run, run: Run, typed: Sequence[str] | None
) -> tuple[NotJudged, ...]:
    """Name the functions of the baseline that the user left out, or that were not reached.

    Args:
        there: the functions of the baseline; ``here`` those of the run.
        here: see ``there``.
        baseline: the run that is compared with.
        run: the run that is judged.
        typed: what the user typed of its selection; None if all of it was meant.
    """
    found = []
    for function, side in there.items():
        if function not in here:
            if _was_meant(function, baseline=baseline, run=run, typed=typed):
                found.append(NotJudged(function=function, cases=len(side.cases), why="deselected"))
        elif not here[function].every_trial():
            found.append(NotJudged(function=function, cases=len(side.cases), why="not run"))
    return tuple(found)


def absent_here(
    there: Sides,
    here: Sides,
    not_judged: Sequence[NotJudged],
    *,
    entries: Sequence[str],
    main: Run | None,
) -> Absent:
    """Find what the baseline gates and this run does not.

    Args:
        there: the functions of the baseline; ``here`` those of the run.
        here: see ``there``.
        not_judged: the functions that were left out by hand.
        entries: functions, or ``function:metric``, that are given up; or patterns of them.
        main: where the baseline is an anchor, the baseline proper: what is gone from that
            as well was given up before.
    """
    unknown = {one.function for one in not_judged}
    functions = tuple(name for name in there if name not in here and name not in unknown)
    metrics = tuple(
        (name, metric)
        for name in there
        if name in here
        for metric in gated_metrics(there[name])
        if metric not in gated_metrics(here[name])
    )
    gone = {*metrics, *((name, "") for name in functions)}
    settled = gone - _gated(sides_of(main)) if main else set()
    given_up = {one for one in gone if any(_names(entry, *one) for entry in entries)}
    # what did not run may be gone or not
    maybe = gone | {one for one in _gated(there) if one[0] in unknown}
    return Absent(
        functions=functions,
        metrics=metrics,
        given_up=frozenset(settled | given_up),
        idle=tuple(e for e in entries if not any(_names(e, *one) for one in maybe)),
    )


def _gated(sides: Sides) -> set[tuple[str, str]]:
    """Return every function, with the metric "", and every gated metric of it."""
    return {(name, metric) for name, side in sides.items() for metric in ("", *gated_metrics(side))}


def _was_meant(function: str, *, baseline: Run, run: Run, typed: Sequence[str] | None) -> bool:
    """Tell whether a function of the baseline is missing because the user asked for others."""
    if typed is None:
        if not run.complete:
            return True
        typed = run.selection
    if {"--lf", "--stepwise"}.intersection(typed):
        return True  # pytest does not tell what they leave out
    if paths_of(typed) and not any(_reaches(path, function) for path in paths_of(run.selection)):
        return True
    was_collected = function in run.partial
    return any(
        was_collected if option.startswith(_BY_NAME) else _ignores(option, function)
        for option in filters_of(typed) - filters_of(baseline.selection)
    )


def why_gone(function: str, *, baseline: Sides, current: Sides) -> str:
    """Say that a function is gone, and both ways to say that it was meant."""
    cases = _brackets(baseline, function)
    alike = [name for name in current if name not in baseline and _brackets(current, name) == cases]
    new = alike[0] if len(alike) == 1 else "NEW_NODE_ID"
    return (
        f"the baseline has it (cases: {len(cases)}), and it was not collected here. Say in the ini "
        f"file  llm_renamed = {function} -> {new}  if it was renamed, or  "
        f"llm_accept_gone = {function}  if it is given up"
    )


def _brackets(sides: Sides, function: str) -> set[str]:
    """Return what tells the cases of a function apart."""
    return {id_.removeprefix(function) for id_ in sides[function].cases}


def _reaches(path: str, function: str) -> bool:
    """Tell whether a path argument selects cases of a function."""
    return (
        path == "."
        or f"{function}[".startswith((f"{path}/", f"{path}::", f"{path}["))
        or (path.startswith(f"{function}["))
    )


def _ignores(option: str, function: str) -> bool:
    path = PurePosixPath(function.partition("::")[0])
    pattern = option.partition("=")[2]
    return any(fnmatchcase(str(part), pattern) for part in (path, *path.parents))


def _names(entry: str, function: str, metric: str) -> bool:
    """Tell whether an entry of ``llm_accept_gone`` names a function, or a metric of it."""
    parts = _ENTRY.fullmatch(entry)
    wanted, of_metric = (parts["function"], parts["metric"]) if parts else (entry, "")
    if bool(metric) is not bool(of_metric) or not fnmatchcase(metric, of_metric):
        return False
    path, *rest = function.split("::")
    spellings = [path, *("::".join([path, *rest][at:]) for at in range(len(rest) + 1))]
    return any(fnmatchcase(spelling, wanted) for spelling in spellings)
