"""The lines of ``llm_renamed`` once more, written from ``docs/``: gate.md, design.md, decisions."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from pytest_llmeval.records import Run

Line = tuple[str, str]


def renamed(baseline: Run, lines: tuple[Line, ...], here: set[str]) -> Run:
    """The baseline with the names that its cases have here; as it was if two had one name."""
    ids = [case.id for case in baseline.cases]
    lines = in_force(ids, lines)
    new = {id_: new_name(id_, lines) for id_ in ids}
    while stays := [id_ for id_ in ids if new[id_] != id_ and exists(id_, new, here)]:
        new.update({id_: id_ for id_ in stays})
    if max(Counter(new.values()).values(), default=1) > 1:
        return baseline
    cases = []
    for case in baseline.cases:
        name = new[case.id]
        other = name[len(function(name)) :] != case.id[len(case.function) :]
        parameters = None if other and not case.positional else case.parameters
        cases.append(replace(case, id=name, function=function(name), parameters=parameters))
    trials = tuple(replace(trial, case=new[trial.case]) for trial in baseline.trials)
    return replace(baseline, cases=tuple(cases), trials=trials)


def function(name: str) -> str:
    return name.partition("[")[0]


def in_force(ids: list[str], lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """Drop lines whose new name a case of the baseline has, and keeps, till none is left."""
    new = {id_: new_name(id_, lines) for id_ in ids}
    kept = {id_ for id_ in ids if new[id_] == id_}

    def is_old(line: Line) -> bool:
        if "*" in line[1] or is_open(line[1]):
            return any(new[id_] in kept for id_ in ids if id_ not in kept and fit(id_, line[0]))
        return any(fit(id_, line[1]) for id_ in kept)

    left = tuple(line for line in lines if not is_old(line))
    return lines if left == lines else in_force(ids, left)


def new_name(name: str, lines: tuple[Line, ...]) -> str:
    """The name by the longest old one that fits; its own if it has the longer new one already."""
    found = [line for line in lines if fit(name, line[0])]
    if not found:
        return name
    old, new = max(found, key=lambda line: len(line[0]))
    if len(new) > len(old) and fit(name, new):
        return name
    star, rest = fit(name, old)
    return new.replace("*", star) + rest


def exists(name: str, new: dict[str, str], here: set[str]) -> bool:
    """Whether a case, or its function where it moves to another one, is here and nobody's new."""
    moved = [(old, to) for old, to in new.items() if old != to]
    if function(new[name]) == function(name):
        return name in here and name not in [to for _, to in moved]
    functions = {function(to) for _, to in moved}
    return function(name) in {function(id_) for id_ in here} - functions


def is_open(name: str) -> bool:
    return "[" in name and name[-1] != "]"


def fit(name: str, beginning: str) -> tuple[str, str] | None:
    """What a star stands for and what follows; None if a node id does not begin so."""
    if "*" in beginning:
        text = ".*" if "[" in beginning else r"[^/:\[]*"
        head, tail = map(re.escape, beginning.split("*"))
        pattern = f"{head}({text}){tail}" + ("()" if "[" in beginning else r"(|(?:/|::|\[).*)")
        found = re.fullmatch(pattern, name)
        return found and (found[1], found[2])
    rest = name.removeprefix(beginning)
    whole = rest == "" or rest.startswith(("/", "::", "["))
    return ("", rest) if name.startswith(beginning) and (is_open(beginning) or whole) else None
