"""Runs reshaped before they are compared: split by a parameter, or their cases renamed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from pytest_llmeval.errors import SettingsError, did_you_mean, listed_names
from pytest_llmeval.records import (
    PASS_METRIC,
    SCORE_METRIC,
    Case,
    Run,
    filters_of,
    function_of,
    is_below,
    only_cases,
    only_functions,
    paths_of,
)
from pytest_llmeval.runs.directions import NONE_TYPED, Directions, check_directions
from pytest_llmeval.runs.lookup.refs import Baseline

_SELECTION = re.compile(r"(?P<function>[^\[]+)(?:\[(?P<part>.+)\])?", re.DOTALL)
_LISTED = 5

Renames = Sequence[tuple[str, str]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One condition of a test function.

    Attributes:
        function: its name, or as much of its node id as makes it the only one.
        part: ids of the parameters that stand for the condition, as pytest joins them; a
            ``*`` says where the others are. None for every case.
    """

    function: str
    part: str | None

    def __str__(self) -> str:
        """Write the selection as it was typed."""
        return self.function if self.part is None else f"{self.function}[{self.part}]"


def parse_selection(text: str) -> Selection:
    """Read ``test``, ``test[a]``, ``test[a-*]`` or the same with a path before it.

    Raises:
        SettingsError: it is nothing of that kind.
    """
    match = _SELECTION.fullmatch(text)
    if match is None:
        raise SettingsError(f"::{text}: write a test function and its parameters, as in ::test[a]")
    return Selection(function=match["function"], part=match["part"])


def conditions(
    baseline: Run, candidate: Run, selections: tuple[Selection, Selection]
) -> tuple[Run, Run]:
    """Narrow two runs, or one run twice, to a condition each, so that the gate pairs them.

    Where the selections differ, cases are renamed to what they have in common: the
    candidate's function and the ids of the remaining parameters.

    Args:
        baseline: what is compared with.
        candidate: what is judged.
        selections: of each.

    Raises:
        SettingsError: a selection fits no case or no single function, or does not tell
            the condition from the remaining parameters.
    """
    runs = (baseline, candidate)
    functions = tuple(map(_function, runs, selections))
    rests = tuple(map(_rest_of, runs, functions, selections))
    if functions[0] == functions[1] and selections[0].part == selections[1].part:
        first, second = map(only_cases, runs, rests)
    else:
        first, second = map(partial(_renamed, name=functions[1]), runs, rests, functions)
    return first, second


def gated_on(run: Run, *, metric: str | None, better: Directions = NONE_TYPED) -> Run:
    """Gate a run on another metric, or in another direction, than its markers say.

    Args:
        run: any run.
        metric: the only one to gate on; None for the markers' metrics.
        better: which direction of a metric is good, under "" of the only one; a metric that is not
            named keeps the direction of the markers.

    Raises:
        SettingsError: no trial of the run recorded the metric, or ``better`` turns nothing, or more
            than one metric without naming it.
    """
    recorded = dict.fromkeys([PASS_METRIC, *(name for t in run.trials for name in t.scores)])
    if metric is not None and metric not in recorded:
        raise SettingsError(
            f"--metric={metric}: no trial of run {run.id} recorded it; it has {', '.join(recorded)}"
        )
    default = (SCORE_METRIC if SCORE_METRIC in recorded else PASS_METRIC,)
    gates = [[metric]] if metric else [case.gate or default for case in run.cases]
    wanted = dict.fromkeys(name for gate in gates for name in gate)
    check_directions(better, wanted if "" in better else recorded)
    cases = (replace(case, gate=(metric,) if metric else case.gate) for case in run.cases)
    return replace(run, cases=tuple(_turned(case, better, recorded) for case in cases))


def _turned(case: Case, better: Directions, metrics: Iterable[str]) -> Case:
    """Say of each metric by its name which direction is good, where something was typed."""
    if not better:
        return case
    ways = {name: better.get(name) or better.get("") or case.direction(name) for name in metrics}
    lower = tuple(name for name, way in ways.items() if way == "lower")
    return replace(case, better="higher", lower=lower)


def recording(metric: str, baseline: Run, candidate: Run) -> tuple[Run, Run]:
    """Drop from two runs the functions that recorded a metric in neither.

    Args:
        metric: any; ``pass`` is one of every function.
        baseline: what is compared with.
        candidate: what is judged.
    """
    functions = {case.id: case.function for case in (*baseline.cases, *candidate.cases)}
    trials = (*baseline.trials, *candidate.trials)
    ids = {one.case for one in trials if metric == PASS_METRIC or metric in one.scores}
    having = {functions[name] for name in ids}
    return only_functions(baseline, having), only_functions(candidate, having)


def _function(run: Run, selection: Selection) -> str:
    """Find the one function of a run that a selection names."""
    functions = dict.fromkeys(case.function for case in run.cases)
    wanted = selection.function
    found = [name for name in functions if name == wanted or name.endswith(f"::{wanted}")]
    if len(found) == 1:
        return found[0]
    if found:
        raise SettingsError(
            f"run {run.id} has {len(found)} functions {wanted}: name one, as in ::{found[0]}"
        )
    names = {name.rpartition("::")[2]: name for name in functions}
    hint = did_you_mean(wanted, list(names), most=_LISTED, others=list(functions))
    raise SettingsError(f"run {run.id} has no test function {wanted!r}. {hint}")


def _rest_of(run: Run, function: str, selection: Selection) -> Mapping[str, str]:
    """Return the remaining parameters of each case of a condition, by the case's id."""
    ids = [case.id for case in run.cases if case.function == function]
    rests: dict[str, str] = {}
    owners: dict[str, str] = {}
    for case in ids:
        parameters = case[len(function) + 1 : -1]
        rest = parameters if selection.part is None else _without(parameters, selection.part)
        if rest is None:
            continue
        if owners.setdefault(rest, case) != case:
            raise SettingsError(
                f"::{selection} leaves the same of {owners[rest]} and {case}: say where the other "
                f"parameters are, as in ::{selection.function}[{selection.part}-*]"
            )
        rests[case] = rest
    if not rests:
        known = listed_names([case[len(function) :] or "no parameters" for case in ids], _LISTED)
        raise SettingsError(
            f"run {run.id} has no case ::{selection}. {function} has {known}; "
            "name whole ids of parameters"
        )
    return rests


def _without(parameters: str, part: str) -> str | None:
    """Remove a condition from joined ids of parameters; None if it is not in them."""
    if "*" in part:
        before, _, after = part.partition("*")
        fits = parameters.startswith(before) and parameters.endswith(after)
        enough = len(parameters) >= len(before) + len(after)
        return parameters[len(before) : len(parameters) - len(after)] if fits and enough else None
    # an id is bounded by the dashes that join them, or by the ends
    match = re.search(rf"(?:^|-){re.escape(part)}(?=-|$)", parameters)
    if match is None:
        return None
    return (parameters[: match.start()] + parameters[match.end() :]).removeprefix("-")


def _renamed(run: Run, rests: Mapping[str, str], function: str, *, name: str) -> Run:
    ids = {case: f"{name}[{rest}]" if rest else name for case, rest in rests.items()}
    place = {function: run.places[function]} if function in run.places else {}
    # two functions, or one under two conditions: unlike on purpose
    kept = replace(only_cases(run, rests), tests={}, fixtures={}, places=place)
    renamed = _with_ids(kept, ids)
    # the digest of all parameters tells the conditions apart, not the cases
    return replace(renamed, cases=tuple(replace(case, parameters=None) for case in renamed.cases))


def under_new_names(found: Baseline, renames: Renames, *, here: Collection[str] = ()) -> Baseline:
    """Give the cases of a baseline the names that they have in the working tree.

    Args:
        found: a run, and how it was found.
        renames: names in the baseline and here; the longest one that fits counts. An entry whose
            new name the baseline has already was left behind, and does not count.
        here: ids of the cases that were collected here, if known: a case that still exists keeps
            its name.

    Raises:
        SettingsError: two cases would have one name.
    """
    run = found.run
    renames = _in_force(run, renames)
    wanted = {case.id: _new_name(case.id, renames) for case in run.cases}
    ids = _free(wanted, here)
    notes = found.notes
    stays = [old for old in wanted if wanted[old] != ids[old]]
    if stays:
        name = stays[0] if stays[0] in here else function_of(stays[0])
        notes = (*notes, f"llm_renamed renames {name}, which is still here: it keeps its name")
    moved = [new for old, new in ids.items() if old != new]
    if not moved:
        return replace(found, notes=notes)
    if paired := sum(not here or new in here for new in moved):
        told = "1 case is paired under a new name"
        if paired > 1:
            told = f"{paired} cases are paired under new names"
        notes = (*notes, f"{told}, as llm_renamed says")
    return replace(found, run=_with_ids(run, ids), notes=notes)


def _with_ids(run: Run, ids: Mapping[str, str]) -> Run:
    """Give the cases of a run other ids.

    Raises:
        SettingsError: two cases would have one name.
    """
    owners: dict[str, str] = {}
    for old, new in ids.items():
        if owners.setdefault(new, old) != old:
            raise SettingsError(
                f"llm_renamed in the ini file: {owners[new]} and {old} of run {run.id} would both "
                f"be {new}; one name stands for one"
            )
    names = {function_of(old): function_of(new) for old, new in ids.items()}

    def moved(by_function: Mapping[str, T]) -> dict[str, T]:
        return {names.get(name, name): value for name, value in by_function.items()}

    return replace(
        run,
        partial=tuple(names.get(function, function) for function in run.partial),
        tests=moved(run.tests),
        fixtures=moved(run.fixtures),
        places=moved(run.places),
        looks=moved(run.looks),
        cases=tuple(_under_new_name(case, ids[case.id]) for case in run.cases),
        trials=tuple(replace(trial, case=ids[trial.case]) for trial in run.trials),
    )


def _under_new_name(case: Case, name: str) -> Case:
    """Rename a case, also to an id of other parameters, which may then differ."""
    is_edit = not case.positional and name.partition("[")[1:] != case.id.partition("[")[1:]
    parameters = None if is_edit else case.parameters
    return replace(case, id=name, function=function_of(name), parameters=parameters)


def _free(ids: Mapping[str, str], here: Collection[str]) -> Mapping[str, str]:
    """Let a case keep its name if it, or its function, still exists here.

    A name that another case moves to does not count as existing: the case here is the moved one.
    """
    functions = {function_of(name) for name in here}
    moving = {old: new for old, new in ids.items() if old != new}
    taken, taken_functions = set(moving.values()), {function_of(new) for new in moving.values()}
    kept = {
        old: old
        for old, new in moving.items()
        if (
            old in here and old not in taken
            if function_of(old) == function_of(new)
            else function_of(old) in functions - taken_functions
        )
    }
    return _free({**ids, **kept}, here) if kept else ids


def idle_renames(runs: Sequence[Run], renames: Renames) -> tuple[str, ...]:
    """Say which entries match nothing in any of some baselines, in a sentence each.

    Nothing is said of an entry whose new name a baseline has, as it was merged. Neither is anything
    said where the old name may be left out, as the baseline is of a part of the tests.
    """
    if any(filters_of(run.selection) for run in runs):
        return ()
    paths = [path for run in runs for path in paths_of(run.selection)]
    ids = [case.id for run in runs for case in run.cases]
    return tuple(
        _matching_nothing(old, [name for name in ids if name.startswith(old)])
        for old, new in renames
        if runs and not any(_rest(name, each) for name in ids for each in (old, new))
        if all(path == "." or is_below(old, path) for path in paths)
    )


def _matching_nothing(old: str, alike: Sequence[str]) -> str:
    """Say what an entry matches, and how many cases begin so that it does not match."""
    such = "no such folder, file, class, function or case"
    text = f"llm_renamed names {old!r}, and the baseline has {such}"
    if not alike:
        return f"{text}: remove the line"
    begin = "1 case begins" if len(alike) == 1 else f"{len(alike)} cases begin"
    return f"{text}. It takes whole names; {begin} with a part of one, as {alike[0]}"


def renames_to_nothing(functions: Sequence[str], renames: Renames) -> tuple[str, ...]:
    """Say which entries lead to a name that no test has here, in a sentence each.

    Args:
        functions: of the baseline, under the names that entries gave them, that are missing here.
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
    ids = {case.id: _new_name(case.id, renames) for case in run.cases}
    keeping = {old for old, new in ids.items() if old == new}

    def is_kept(old: str, new: str) -> bool:
        """Whether the baseline has a whole name, or a name that a partial one leads to."""
        if "*" not in new and not _is_open(new):
            return any(is_below(name, new) for name in keeping)
        return any(ids[name] in keeping for name in ids if name not in keeping and _rest(name, old))

    left = [pair for pair in renames if not is_kept(*pair)]
    return left if len(left) == len(renames) else _in_force(run, left)


def _new_name(name: str, renames: Renames) -> str:
    """Rename by the longest old name that fits, unless that entry made the name."""
    fitting = [pair for pair in renames if _rest(name, pair[0])]
    if not fitting:
        return name
    old, new = max(fitting, key=lambda pair: len(pair[0]))
    if len(new) > len(old) and _rest(name, new):
        return name
    star, rest = _rest(name, old) or ("", "")
    return new.replace("*", star, 1) + rest if "*" in old else new + rest


def _is_open(name: str) -> bool:
    """Tell whether a name has the beginning of a case's parameters."""
    return "[" in name and not name.endswith("]")


def _rest(name: str, beginning: str) -> tuple[str, str] | None:
    """Match a node id; return what a ``*`` stands for and what follows, None if it does not fit.

    Folders, files, classes and functions match by whole names. Parameters match by their beginning
    where the bracket is left open.
    """
    head, star, tail = beginning.partition("*")
    any_text = ".*" if "[" in beginning else r"[^/:\[]*"
    ends = r"(?:(?:/|::|\[).*)?"  # a whole name
    if "[" in beginning:
        ends = ".*" if _is_open(beginning) and not star else ""
    middle = f"({any_text if star else ''})"
    match = re.fullmatch(f"{re.escape(head)}{middle}{re.escape(tail)}({ends})", name, re.DOTALL)
    return None if match is None else (match[1], match[2])
