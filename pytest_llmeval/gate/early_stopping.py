"""Early stopping: whether a function needs no more trials, and what a run that stopped has found.

The rule: docs/early-stopping.md. Trials that ran beyond the last look at a function enter no
figure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from pytest_llmeval.gate.both_runs import BothRuns, Entry
from pytest_llmeval.gate.looks import Looked, is_looked_at, looked, z_of
from pytest_llmeval.gate.results import Name
from pytest_llmeval.gate.significance import Examined, limits_of
from pytest_llmeval.records import Run, only_functions, trials_by_case
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.early_looks import calm_below, planned_looks

Settled = Literal["", "red", "calm"]


def family_size(baseline: Run, run: Run, rules: GateRules) -> int:
    """Count the comparisons among which a session shares its level at early looks.

    Args:
        baseline: the run to compare with.
        run: with every case that was collected, with or without trials.
        rules: of the gate.
    """
    sides = BothRuns(baseline, run, rules, main=None)
    return max(1, sum(1 for _ in sides.gated_names()))


def is_settled(
    baseline: Run,
    run: Run,
    rules: GateRules,
    *,
    repeats: Sequence[int],
    family: int,
    only_calm: bool = False,
) -> bool:
    """Tell whether one function needs no more trials.

    Args:
        baseline: the run to compare with, ``measured_if_gated``.
        run: with the cases of one function, and their trials of the rounds so far, likewise.
        rules: level, margin and target.
        repeats: the planned looks up to this one.
        family: how many comparisons share the level.
        only_calm: one that fell goes on to its end, as a second look at it takes all its trials.
    """
    examined: dict[Name, dict[int, Examined | None]] = {}
    for count in repeats:
        found = examined_after(baseline, run, rules, repeats=count, in_part=run.partial)
        for name, tested in found.items():
            examined.setdefault(name, {})[count] = tested
    planned = planned_looks(max(case.repeats for case in run.cases))
    ends = ["calm"] if only_calm else ["calm", "red"]
    # a second look may be had at what is below twice the level, however the others end
    sharing = 0.5 if only_calm else family
    return bool(examined) and all(
        settled(looks, planned=planned, rules=rules, family=sharing) in ends
        for looks in examined.values()
    )


def settled(
    examined: Mapping[int, Examined | None],
    *,
    planned: Sequence[int],
    rules: GateRules,
    family: float,
) -> Settled:
    """Tell whether one comparison needs no more trials: it fell, or it did not; else "".

    Args:
        examined: as ``looked`` takes it.
        planned: after how many repeats there is a look; the last are all.
        rules: level, margin and target.
        family: how many comparisons share the level at early looks.
    """
    looks, last = looked(examined, planned=planned, alpha=rules.alpha), [*examined.values()][-1]
    if looks is None or last is None:  # what cannot be tested decides nothing
        return ""
    pairing = last.pairing
    is_below = pairing.difference + pairing.rules.margin < -pairing.zero
    if is_below and looks.tails.worse * family < rules.alpha:  # red, however the others end
        return "red"
    if not (pairing.moved or calm_below(looks.share)):
        return ""  # what has not moved speaks for neither side yet, though its p is 1
    limits = limits_of(last, alpha=looks.beyond)
    is_ruled_out = limits is not None and limits.lower > -pairing.rules.target
    is_calm = is_ruled_out and z_of(last.found.tails.worse) < calm_below(looks.share)
    # labels may be equal by chance: so many would hardly be so after a drop as large as the target
    trials = sum(len(pair.current) for pair in pairing.changed)
    is_sure = max(0.0, 1 - pairing.rules.target) ** trials < rules.alpha
    return "calm" if is_calm or (is_sure and pairing.identical_repeats) else ""


def examined_after(
    baseline: Run,
    run: Run,
    rules: GateRules,
    *,
    repeats: int,
    in_part: Collection[str] = (),
    main: Run | None = None,
) -> Mapping[Name, Examined | None]:
    """Examine every comparison by the first trials of each case; None where nothing is tested."""
    first = replace(run, trials=tuple(one for one in run.trials if one.index < repeats))
    sides = BothRuns(baseline, first, rules, main=main)
    examined = sides.collected(in_part=in_part)
    return {
        _name_of(one): one if isinstance(one, Examined) and is_looked_at(one) else None
        for one in examined
    }


def _name_of(entry: Entry) -> Name:
    return entry.name if isinstance(entry, Examined) else (entry.function, entry.metric)


class _Course(NamedTuple):
    """The looks at one function: the planned ones, and those for which each case has trials."""

    planned: tuple[int, ...]
    whole: tuple[int, ...]


class LooksAtRun:
    """The looks that a session had at the functions of its run, once the run is compared.

    The looks were at the session's own baseline, and at its anchor. With any other baseline the
    last look alone is one, and keeps its limit.

    Attributes:
        run: without the trials beyond the last whole look at their function.
    """

    def __init__(self, baseline: Run, run: Run, rules: GateRules, *, main: Run | None) -> None:
        self._baseline, self._rules, self._main = baseline, rules, main
        self._is_own = main is not None or run.compared_with == baseline.id
        self._courses = _courses_of(run) if run.looks else {}
        courses = ((case.id, self._courses.get(case.function)) for case in run.cases)
        last = {case: course.whole[-1] for case, course in courses if course}
        trials = (one for one in run.trials if one.index < last.get(one.case, math.inf))
        self.run = replace(run, trials=tuple(trials)) if last else run

    def at(
        self, entries: Iterable[Entry], *, in_part: Collection[str] = ()
    ) -> Mapping[Name, Looked]:
        """Go through the looks at each comparison.

        Args:
            entries: what was examined after the last look.
            in_part: functions of which the user asked for some cases alone.
        """
        if not self._courses:
            return {}
        earlier = {} if not self._is_own else self._earlier(in_part)
        found = {}
        for entry in entries:
            course = self._courses.get(_name_of(entry)[0])
            if course is None or not isinstance(entry, Examined):
                continue
            *before, last = course.whole
            looks = {one: earlier.get(one, {}).get(entry.name) for one in before}
            looks[last] = entry if is_looked_at(entry) else None
            over_all = looked(looks, planned=course.planned, alpha=self._rules.alpha)
            if over_all is not None:
                found[entry.name] = over_all
        return found

    def _earlier(self, in_part: Collection[str]) -> Mapping[int, Mapping[Name, Examined | None]]:
        """Examine every function at its looks before the last one."""
        functions: dict[int, set[str]] = {}
        for name, course in self._courses.items():
            for repeats in course.whole[:-1]:
                functions.setdefault(repeats, set()).add(name)
        return {
            repeats: examined_after(
                only_functions(self._baseline, names),
                only_functions(self.run, names),
                self._rules,
                repeats=repeats,
                in_part=in_part,
                main=self._main,
            )
            for repeats, names in functions.items()
        }


def _courses_of(run: Run) -> Mapping[str, _Course]:
    """Map the functions of a run that have a whole look to their looks."""
    repeats: dict[str, int] = {}
    whole: dict[str, float] = {}
    for case, trials in zip(run.cases, trials_by_case(run).values(), strict=True):
        ran, name = {trial.index for trial in trials}, case.function
        missing = next((at for at in range(case.repeats) if at not in ran), math.inf)
        whole[name] = min(missing, whole.get(name, math.inf))
        repeats[name] = max(case.repeats, repeats.get(name, 0))
    found = {}
    for name in repeats.keys() & run.looks.keys():
        planned, stop = planned_looks(repeats[name]), run.looks[name]
        if looks := tuple(one for one in planned if one <= min(stop, whole[name])):
            found[name] = _Course(planned, looks)
    return found
