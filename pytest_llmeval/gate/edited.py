"""Edited cases: their parameters are others than in the baseline, so no fall is a regression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_llmeval.gate.changes import are_replays
from pytest_llmeval.gate.scoring import Side
from pytest_llmeval.gate.units import draws_of
from pytest_llmeval.records import Case
from pytest_llmeval.settings import EditedCases


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """The edited cases of a test function, sorted by how the gate treats them.

    Attributes:
        own: cases whose requests and draws are the baseline's own: out of the test. The id here,
            and the id in the baseline, which may be another where it is made of the parameters.
        asked: cases with other requests or draws: out of the test, counted with the gone ones.
        settled: likewise, but not counted: against an anchor, cases that main edited alike.
        compared: edited cases that are compared all the same.
        mismatched: ids made from positions at which another case is now: out of the test, and
            counted with the gone ones.
    """

    own: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()

    @property
    def left_out(self) -> frozenset[str]:
        """The ids in the baseline that are not compared."""
        return frozenset((*self.not_lost, *self.asked, *self.mismatched))

    @property
    def not_lost(self) -> frozenset[str]:
        """The ids in the baseline that are not compared, and count for nothing."""
        return frozenset((*self.own.values(), *self.settled))

    @property
    def shown(self) -> dict[str, str]:
        """The cases that are out of the test because they were edited: ids here, and before."""
        return {**self.own, **{name: name for name in self.asked}}


def find_edits(
    baseline: Side, current: Side, *, rule: EditedCases, main: Side | None = None
) -> Edits:
    """Find the edited cases of a function, and say what becomes of each.

    A case with the same requests and draws cannot have become worse. Where most cases are edited,
    their parameters hold what is under test, such as a prompt.

    Args:
        baseline: the function in the baseline.
        current: the function in this run, every case that was collected.
        rule: ``compare`` to compare them all.
        main: the function in the baseline proper, where this one is an anchor.
    """
    matched = [name for name in baseline.cases if name in current.cases]
    edited = [name for name in matched if _is_edited(baseline.cases[name], current.cases[name])]
    own: dict[str, str] = {}
    if rule != "compare":
        pairs = ((baseline.trials[name], current.trials[name]) for name in edited)
        replayed = map(are_replays, *zip(*pairs, strict=True)) if edited else ()
        own = {name: name for name, same in zip(edited, replayed, strict=True) if same}
        own |= _under_another_id(baseline, current)
    others = [name for name in edited if name not in own]
    are_few = rule != "compare" and 2 * len(edited) <= len(matched)
    mismatched = _mismatched(baseline, current, others, are_few=are_few)
    rest = tuple(name for name in others if name not in mismatched)
    if are_few:
        known = {} if main is None else main.cases
        settled = tuple(
            name
            for name in rest
            if name in known and known[name].parameters == current.cases[name].parameters
        )
        asked = tuple(name for name in rest if name not in settled)
        return Edits(own=own, asked=asked, settled=settled, mismatched=mismatched)
    return Edits(own=own, compared=rest, mismatched=mismatched)


def _mismatched(
    baseline: Side, current: Side, edited: Sequence[str], *, are_few: bool
) -> tuple[str, ...]:
    """Name the edited cases whose id counts positions, so that the id may be another case's now."""
    digests = [{case.parameters for case in side.cases.values()} for side in (baseline, current)]
    common = digests[0] & digests[1]
    found = []
    for name in edited:
        cases = baseline.cases[name], current.cases[name]
        has_moved = any(case.parameters in common for case in cases)
        if any(case.positional for case in cases) and (has_moved or not are_few):
            found.append(name)
    return tuple(found)


def _is_edited(one: Case, other: Case) -> bool:
    """Tell whether an id has other parameters; parameters without a digest count as equal."""
    return None not in (one.parameters, other.parameters) and one.parameters != other.parameters


def _under_another_id(baseline: Side, current: Side) -> Iterator[tuple[str, str]]:
    """Pair cases that are gone with new cases that have the very same draws.

    pytest makes an id of the parameters where ``ids=`` names none, so an edit changes it.
    """
    places = {name: at for at, name in enumerate(current.cases) if name not in baseline.cases}
    holders: dict[str, list[str]] = {}
    for name in places:
        for draw in draws_of(current.trials[name]):
            holders.setdefault(draw, []).append(name)
    taken: set[str] = set()
    for name, case in baseline.cases.items():
        if name in current.cases:
            continue
        draws = draws_of(baseline.trials[name])
        sharing = {other for draw in draws for other in holders.get(draw, ())}
        for other in sorted(sharing, key=places.__getitem__):
            is_edited = _is_edited(case, current.cases[other])
            if (
                other not in taken
                and is_edited
                and are_replays(baseline.trials[name], current.trials[other])
            ):
                taken.add(other)
                yield other, name
                break
