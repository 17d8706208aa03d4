"""The judgement on a run: held against its baseline and anchor, or described without one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmeval.cache.queries import DATABASE
from pytest_llmeval.cache.requests import origins_asked
from pytest_llmeval.errors import SettingsError, listed_names
from pytest_llmeval.gate.changes import replaced_calls
from pytest_llmeval.gate.results import MOST_NAMED, Comparison, Fact, FunctionDescription, Why
from pytest_llmeval.gate.scoring import CostOf
from pytest_llmeval.models.prices import Prices
from pytest_llmeval.records import Call, Run, Slowdown, TokenPrice, distinct_names
from pytest_llmeval.runs.keyless import Keyless, find_keyless, gone_unjudged, without_keyless
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.reshaping import renames_to_nothing, under_new_names
from pytest_llmeval.settings import Settings, is_to_be_gated

if TYPE_CHECKING:
    from pytest_llmeval.cache.parameters import Parameters

GONE = 2  # the row of the decision table
_EXCERPTS = 20  # of the cases of a function that fell most, and that rose most
_ALL_EXCERPTS = 200
_LOOKED_FOR = 100  # draws of a function


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All the facts of which the section and the report files are made.

    Attributes:
        run: what was recorded; None if no eval trial finished.
        path: the run file; None if there is none, ``unsaved`` then says why.
        baseline: None for an ungated session; ``not_gated`` then says why.
        recorded: baseline and anchor under the names that they were recorded with.
        comparison: None without a baseline, or if the gate ``could_not_judge``.
        anchor: the second baseline, None without one; ``anchored`` is the comparison with it.
        descriptions: means and intervals of an ungated session.
        headlines: first line of the first failure, by case. Of this session only: it may
            quote a reply, which a run file must not.
        excerpts: one line of a reply of the baseline and one of this run, by case, for those
            that fell or rose most; None for a side whose reply is not here. As private.
        absent: ids of draws of the baseline and the anchor whose requests got other replies here,
            and which are not in the cache; of a function not all are looked for.
        edited: parameters of the baseline and of this run, by case, for those that are not compared
            because they were edited; None for a side whose parameters are not here. As private.
        serial: how many cases ran their trials one after the other, by reason.
        seconds: wall time of the session.
        slowdowns: one for each provider that asked us to slow down.
        connections: how many the cache did not see, by host, test function and the library that
            is not seen, "" where that is not known or seen.
        notes: what came up on the way (a damaged cache set aside).
        keyless: the cases that asked something new without a key; none of the comparisons has
            them. None if there is none, and where the session was not to be gated.
        may_defer: where all that such a case lacks is a key, it is left to the merge queue.
        typed: what the user typed of the selection, see ``gate.compare``; ``lost`` are files
            of the baseline that are not there any more.
    """

    settings: Settings
    run: Run | None = None
    path: Path | None = None
    unsaved: Fact | None = None
    baseline: Baseline | None = None
    not_gated: str = ""
    recorded: tuple[Baseline | None, Baseline | None] = (None, None)
    comparison: Comparison | None = None
    anchor: Baseline | None = None
    anchored: Comparison | None = None
    could_not_judge: Fact | None = None
    descriptions: tuple[FunctionDescription, ...] = ()
    headlines: Mapping[str, str] = field(default_factory=dict)
    excerpts: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    edited: Mapping[str, tuple[Parameters | None, Parameters | None]] = field(default_factory=dict)
    slowdowns: tuple[Slowdown, ...] = ()
    connections: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    notes: tuple[Fact | str, ...] = ()
    serial: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    keyless: Keyless | None = None
    may_defer: bool = False
    typed: Sequence[str] | None = None
    lost: Collection[str] = ()

    @property
    def runs(self) -> tuple[Run | None, Run | None]:
        """The run of the baseline, and the one that is held against it."""
        return None if self.baseline is None else self.baseline.run, self.run

    @property
    def names(self) -> dict[str, str]:
        """What to call each function of these runs, by its node id."""
        cases = (case.function for run in self.runs if run for case in run.cases)
        return distinct_names([*cases, *(function for _, function, _ in self.connections)])

    @property
    def fails(self) -> bool:
        """Whether the session may not end green."""
        is_unjudged = bool(self.could_not_judge or self.unsaved)
        return self.found_worse or is_unjudged or bool(self.keyless and not self.is_deferred)

    @property
    def found_worse(self) -> bool:
        """Whether a comparison fails."""
        judged = [one for one in (self.comparison, self.anchored) if one is not None]
        return any(one.fails for one in judged)

    @property
    def against_anchor(self) -> Judgement | None:
        """The same run held against the anchor; the replies at hand are of the baseline."""
        if self.anchor is None or self.anchored is None:
            return None
        return replace(self, baseline=self.anchor, comparison=self.anchored, excerpts={}, edited={})

    @property
    def is_deferred(self) -> bool:
        """Whether the cases without a key, and they alone, are left to the merge queue.

        The one exception to the rule that a gate which could not judge does not pass.
        """
        keyless, baseline = self.keyless, self.baseline
        if not self.may_defer or keyless is None or baseline is None:
            return False
        # The baseline's ini file says so too: no branch may let itself off.
        says = self.settings.gate.keyless, baseline.run.rules.get("keyless")
        return says == ("defer", "defer") and not (keyless.lost_more or keyless.refused)


def judged(judgement: Judgement, run: Run) -> Judgement:
    """Hold a run against the baseline and the anchor, or describe it if there is no baseline."""
    settings = judgement.settings
    if settings.renamed and any(judgement.recorded):
        judgement = _renamed(judgement, run)
    baseline, anchor = judgement.baseline, judgement.anchor
    main = None if baseline is None else baseline.run
    keyless = None
    if is_to_be_gated(settings):  # else each such case is an error of its own
        is_rerun = baseline is not None and baseline.how == "rerun"
        stored = partial(origins_asked, settings.directory / "cache" / DATABASE)
        aliases = settings.origin_aliases
        keyless = find_keyless(run, main, aliases=aliases, stored=stored if is_rerun else None)
    judgement = replace(judgement, run=run, keyless=keyless)
    if keyless and main and (gone := gone_unjudged(main, run, keyless)):
        fact = Fact(Why.GONE_UNJUDGED, (len(gone), listed_names(gone, MOST_NAMED)))
        judgement = replace(judgement, notes=(*judgement.notes, fact))
    try:
        from pytest_llmeval.gate.describe import (
            describe,
            missed_throughout,
            oddities,
        )  # numpy and scipy

        judgement = replace(judgement, notes=(*judgement.notes, *oddities(run)))
        if anchor is not None:
            # Another question, so a family of its own: both answers must hold.
            judgement = replace(judgement, anchored=_held_against(anchor.run, judgement, main=main))
        if main is None:
            answered = without_keyless(run, run, keyless)
            cost_of = pricing(settings.prices)
            described = describe(answered, alpha=settings.gate.alpha, cost_of=cost_of)
            why = next((one.why for one in described if one.why), None)
            notes = (*judgement.notes, *missed_throughout(run))
            return replace(judgement, descriptions=described, could_not_judge=why, notes=notes)
        judgement = replace(judgement, comparison=_held_against(main, judgement))
        judgement = replace(
            judgement,
            excerpts=_excerpts(judgement),
            absent=_absent(judgement),
            edited=_edited(judgement),
        )
        notes = (*judgement.notes, *_notes_on_lines(judgement), *_varying(judgement))
        return replace(judgement, notes=notes)
    except Exception as exc:
        return replace(judgement, could_not_judge=Fact(Why.RAISED, (type(exc).__name__, str(exc))))


def _renamed(judgement: Judgement, run: Run) -> Judgement:
    """Rename the baselines' cases, but those that are still here, which was not known before."""
    here = {case.id for case in run.cases}
    try:
        baseline, anchor = (
            one and under_new_names(one, judgement.settings.renamed, here=here)
            for one in judgement.recorded
        )
    except SettingsError as exc:
        return replace(judgement, notes=(*judgement.notes, str(exc)))
    return replace(judgement, baseline=baseline, anchor=anchor)


def _held_against(
    baseline: Run, judgement: Judgement, *, main: Run | None = None
) -> Comparison | None:
    """Compare the run of a judgement with another; None if every case of both lacks a key.

    Args:
        baseline: the other one.
        judgement: with the run.
        main: where that is the anchor, the baseline proper.
    """
    from pytest_llmeval.gate.compare import compare

    run, keyless, settings = judgement.run, judgement.keyless, judgement.settings
    assert run is not None  # noqa: S101 - whatever is judged ran
    before, answered = (without_keyless(side, run, keyless) for side in (baseline, run))
    if keyless and not (before.cases or answered.cases):
        return None
    return compare(
        before,
        answered,
        settings.gate,
        cost_of=pricing(settings.prices),
        typed=judgement.typed,
        lost=judgement.lost,
        main=main,
    )


def _excerpts(judgement: Judgement) -> dict[str, tuple[str | None, str | None]]:
    """Look up one line of a reply of each side, for the cases that moved most."""
    from pytest_llmeval.transcripts.transcript import Moved, StoredTexts, excerpts

    baseline, run, comparison = judgement.baseline, judgement.run, judgement.comparison
    if not (judgement.settings.show_texts and baseline and run and comparison):
        return {}
    moved: list[tuple[float, Moved]] = []
    for one in comparison.functions:
        changed = sorted((case.difference, case.case) for case in one.compared if case.difference)
        fell, rose = changed[:_EXCERPTS], changed[_EXCERPTS:][-_EXCERPTS:]
        moved += [
            (-abs(difference), Moved(case, one.metric, one.better, difference < 0))
            for difference, case in (*fell, *rose)
        ]
    most = [each for _, each in sorted(moved)[:_ALL_EXCERPTS]]
    with StoredTexts(judgement.settings.directory) as stored:
        return excerpts(baseline.run, run, most, stored)


def _absent(judgement: Judgement) -> frozenset[str]:
    """Look for the replies that were replaced by others."""
    from pytest_llmeval.transcripts.transcript import StoredTexts

    sides = [one for one in (judgement.comparison, judgement.anchored) if one is not None]
    with StoredTexts(judgement.settings.directory) as stored:
        return frozenset(
            str(call.draw)
            for function in (function for side in sides for function in side.functions)
            for call in islice(replaced_calls(function.compared), _LOOKED_FOR)
            if not stored.has(call)
        )


def _edited(judgement: Judgement) -> dict[str, tuple[Parameters | None, Parameters | None]]:
    """Look up what the edited cases were, and what they are."""
    from pytest_llmeval.transcripts.transcript import StoredTexts

    comparison, runs = judgement.comparison, [run for run in judgement.runs if run]
    cases = [case for one in comparison.functions for case in one.edited] if comparison else []
    if not cases:
        return {}
    old, new = ({case.id: case.parameters for case in run.cases} for run in runs)
    with StoredTexts(judgement.settings.directory) as stored:
        return {
            one.case: (stored.parameters(old[one.was]), stored.parameters(new[one.case]))
            for one in cases
        }


def _varying(judgement: Judgement) -> Iterator[Fact]:
    """Name the functions of which each request differs from the baseline's in a date or an id."""
    from pytest_llmeval.transcripts.transcript import StoredTexts
    from pytest_llmeval.transcripts.varying import differ_in_varying

    comparison, names = judgement.comparison, dict[str, None]()
    with StoredTexts(judgement.settings.directory) as stored:
        for one in comparison.functions if comparison else ():
            if not one.compared or any(case.kind != "request" for case in one.compared):
                continue
            case = one.compared[0]
            sides = [side.trials[0].calls for side in (case.every_baseline, case.every_current)]
            pairs = ((old.key, new.key) for old, new in zip(*sides, strict=False))
            parted = next((pair for pair in pairs if pair[0] != pair[1]), ())
            asked = [found for key in parted if (found := stored.request(key))]
            if len(asked) > 1 and differ_in_varying(*asked):
                names[one.name] = None
    if names:
        yield Fact(Why.VARYING, (listed_names([*names], MOST_NAMED),))


def _notes_on_lines(judgement: Judgement) -> Iterator[Fact | str]:
    """Tell which lines of the ini file did nothing in the comparisons."""
    from pytest_llmeval.gate.accepted import notes_on_accepted

    both = (judgement.baseline, judgement.comparison), (judgement.anchor, judgement.anchored)
    compared = [(side.run, found) for side, found in both if side and found]
    settings, comparison = judgement.settings, judgement.comparison
    if comparison is not None:
        missing = {one.function for one in comparison.functions if one.row == GONE and one.fails}
        yield from renames_to_nothing(sorted(missing), settings.renamed)
        yield from notes_on_accepted(settings.gate.accept, compared)


def pricing(own: Mapping[str, TokenPrice]) -> CostOf:
    """Price the calls of all runs alike, at today's prices.

    Args:
        own: the user's own prices, by ``provider/model``.
    """
    prices = Prices(own)

    def cost_of(call: Call) -> float | None:
        cost = prices.cost(call)
        return None if cost is None else float(cost)

    return cost_of
