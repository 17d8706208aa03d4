"""Functions and metrics that the baseline has and this run lacks: left out, given up, or gone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from pytest_llmeval.gate.both_runs import BothRuns
from pytest_llmeval.gate.conclusion import conclude_gone
from pytest_llmeval.gate.results import Fact, FunctionComparison, Why
from pytest_llmeval.gate.scoring import Side, gated_metrics
from pytest_llmeval.records import bare, filters_of, is_below, paths_of

_ENTRY = re.compile(r"(?P<function>.*[^:]):(?P<metric>[^:]+)")
# pytest does not tell which cases these leave out; that depends on the session before
BY_LAST_RUN = frozenset(("--lf", "--stepwise", "--llm-missed"))
_BY_NAME = ("-k ", "-m ", "--deselect=")

Sides = Mapping[str, Side]


class Missing:
    """What the baseline gates and this run does not, although nobody left it out by hand.

    Against an anchor, what is gone from the baseline proper as well was given up before.

    Attributes:
        not_judged: the functions that the user left out, or that were not reached.
        given_up: functions and metrics that are not missed, functions with the metric "".

    Args:
        both: the baseline, and the run that is judged. Its rules have the functions, or
            ``function:metric``, that are given up; or patterns of them.
        typed: what the user typed of the selection of the run; None if all of it was meant.
        lost: files of the baseline that exist no more: nobody leaves those out.
    """

    def __init__(
        self, both: BothRuns, *, typed: Sequence[str] | None, lost: Collection[str]
    ) -> None:
        self._sides, self._current = both.sides, both.current
        self.not_judged = tuple(_left_out(both, typed, lost))
        unknown = {one.figures[0] for one in self.not_judged}
        self._functions = [name for name in both.sides if name not in {*both.current, *unknown}]
        self._metrics = [
            (name, metric)
            for name in both.sides
            if name in both.current
            for metric in gated_metrics(both.sides[name])
            if metric not in gated_metrics(both.current[name])
        ]
        gone = {*self._metrics, *((name, "") for name in self._functions)}
        settled = set() if both.of_main is None else gone - _gated(both.of_main)
        recorded = both.baseline.rules.get("accept_gone")
        self._known = recorded if isinstance(recorded, tuple) else ()
        self._entries = both.rules.accept_gone
        self._reasons = {entry: self._why_void(entry) for entry in self._entries}
        valid = [entry for entry in self._entries if not self._reasons[entry]]
        given_up = {one for one in gone if any(_names(entry, *one) for entry in valid)}
        self.given_up = frozenset(settled | given_up)
        self._missed = gone - self.given_up
        # a function that did not run may be gone or not
        self._maybe = gone | {one for one in _gated(both.sides) if one[0] in unknown}

    def concluded(self) -> Iterator[FunctionComparison]:
        """Write down the functions that were not collected, in the order of the baseline."""
        for function in self._functions:
            side, why = self._sides[function], None
            if (function, "") not in self.given_up:  # say both ways to accept that it is gone
                renaming = _renaming(function, baseline=self._sides, current=self._current)
                why = Fact(Why.GONE, (len(side.cases), *renaming, self._form(function)))
            first, *others = gated_metrics(side)
            yield conclude_gone(side, first, why=why)
            for metric in others:
                yield conclude_gone(side, metric, why=why and Fact(Why.GONE_WITH, (first,)))

    def notes_on_metrics(self) -> Iterator[Fact]:
        """Tell which metrics are gated in the baseline alone."""
        for function, metric in self._metrics:
            if (function, metric) in self.given_up:
                yield Fact(Why.METRIC_GIVEN_UP, (f"{function}:{metric}",))
            else:
                form = self._form(function, metric)
                yield Fact(Why.METRIC_STILL_GATED, (f"{function}:{metric}", form))

    def notes_on_entries(self) -> Iterator[Fact]:
        """Tell which entries of ``llm_accept_gone`` give nothing up, and why."""
        for entry, why in self._reasons.items():
            if why and any(_names(entry, *one) for one in self._missed):
                yield Fact(why, (entry,))
        cases = [case for side in self._sides.values() for case in side.cases]
        for entry in self._entries:
            if any(_names(entry, *one) for one in self._maybe):
                continue
            is_case = any(f"::{case}".endswith(f"::{entry}") for case in cases)
            yield Fact(Why.ENTRY_FOR_A_CASE if is_case else Why.ENTRY_FOR_NOTHING, (entry,))

    def _why_void(self, entry: str) -> Why | None:
        """Return why an entry gives nothing up, whatever it names, else None."""
        if entry in self._known:
            return Why.KNOWN_ENTRY
        parts = [part for part in _parts(entry) if part]
        alike = [one for one in _gated(self._sides) if bool(one[1]) is (len(parts) > 1)]
        are_patterns = all(set("*?[") & set(part) for part in parts)
        if are_patterns and all(_names(entry, *one) for one in alike):
            return Why.FITS_EVERY_METRIC if len(parts) > 1 else Why.FITS_EVERY_FUNCTION
        return None

    def _form(self, function: str, metric: str = "") -> str:
        """Write an entry for ``llm_accept_gone`` that is not among the known entries."""
        end = f":{metric}" if metric else ""
        forms = [f"{spelling}{end}" for spelling in _spellings(function)[1:]]
        return next((one for one in forms if one not in self._known), forms[0])


def _left_out(both: BothRuns, typed: Sequence[str] | None, lost: Collection[str]) -> Iterator[Fact]:
    for function, side in both.sides.items():
        if function not in both.current:
            is_lost = function.partition("::")[0] in lost
            if not is_lost and _was_meant(function, both, typed):
                yield Fact(Why.DESELECTED, (function, len(side.cases)))
        elif not both.current[function].every_trial():
            yield Fact(Why.NOT_RUN, (function, len(side.cases)))


def _gated(sides: Sides) -> set[tuple[str, str]]:
    """Return every function, with the metric "", and every gated metric of it."""
    return {(name, metric) for name, side in sides.items() for metric in ("", *gated_metrics(side))}


def _was_meant(function: str, both: BothRuns, typed: Sequence[str] | None) -> bool:
    """Tell whether a function of the baseline is missing because the user asked for others."""
    run = both.run
    if typed is None:
        if not run.is_whole:
            return True
        typed = run.selection
    if BY_LAST_RUN.intersection(typed):
        return True
    if paths_of(typed) and not any(_reaches(path, function) for path in paths_of(run.selection)):
        return True
    was_collected = function in run.partial
    return any(
        was_collected if option.startswith(_BY_NAME) else _ignores(option, function)
        for option in filters_of(typed) - filters_of(both.baseline.selection)
    )


def _renaming(function: str, *, baseline: Sides, current: Sides) -> tuple[str, str]:
    """Guess what was renamed (function, class, file or folder): the old name and the new."""
    new = _counterpart(function, baseline=baseline, current=current)
    if new is None:
        return function, "NEW_NODE_ID"
    above, above_new = _parting(function, new)
    inside = [name for name in baseline if is_below(name, above)]
    moved_together = len(inside) > 1 and all(
        name not in current and above_new + name.removeprefix(above) in current for name in inside
    )
    is_free = all(name in inside or not is_below(name, above_new) for name in baseline)
    return (above, above_new) if above_new and moved_together and is_free else (function, new)


def _counterpart(function: str, *, baseline: Sides, current: Sides) -> str | None:
    """Find the new function that has the name of one that is gone, or else its cases."""
    new = [name for name in current if name not in baseline]
    named = [name for name in new if bare(name) == bare(function)]
    if named:
        shortest = min(len(_parting(function, name)[0]) for name in named)
        found = [name for name in named if len(_parting(function, name)[0]) == shortest]
        return found[0] if len(found) == 1 else None
    cases, file = _brackets(baseline, function), function.partition("::")[0]
    alike = [name for name in new if _brackets(current, name) == cases]
    rivals = [n for n in baseline if n not in current and _brackets(baseline, n) == cases]
    for where in (f"{file}::", ""):
        found = [name for name in alike if name.startswith(where)]
        if len(found) == 1 == sum(name.startswith(where) for name in rivals):
            return found[0]
    return None


def _parting(old: str, new: str) -> tuple[str, str]:
    """Return the beginnings of two node ids, without the names at their ends that are equal."""
    ends, ends_new = (re.split(r"(/|::)", name) for name in (old, new))
    while ends and ends_new and ends[-1] == ends_new[-1]:
        ends.pop()
        ends_new.pop()
    return "".join(ends), "".join(ends_new)


def _brackets(sides: Sides, function: str) -> set[str]:
    """Return what tells the cases of a function apart."""
    return {case.removeprefix(function) for case in sides[function].cases}


def _reaches(path: str, function: str) -> bool:
    """Tell whether a path argument selects cases of a function."""
    return path == "." or is_below(function, path) or path.startswith(f"{function}[")


def _ignores(option: str, function: str) -> bool:
    path = PurePosixPath(function.partition("::")[0])
    pattern = option.partition("=")[2]
    return any(fnmatchcase(str(part), pattern) for part in (path, *path.parents))


def _names(entry: str, function: str, metric: str) -> bool:
    """Tell whether an entry of ``llm_accept_gone`` names a function, or a metric of it."""
    wanted, of_metric = _parts(entry)
    if bool(metric) is not bool(of_metric) or not fnmatchcase(metric, of_metric):
        return False
    return any(fnmatchcase(spelling, wanted) for spelling in _spellings(function))


def _parts(entry: str) -> tuple[str, str]:
    parts = _ENTRY.fullmatch(entry)
    return (parts["function"], parts["metric"]) if parts else (entry, "")


def _spellings(function: str) -> list[str]:
    """Return the file of a function, its node id, and what of that follows each ``::``."""
    names = function.split("::")
    return [names[0], *("::".join(names[first:]) for first in range(len(names)))]
