"""The judgement on a run: held against its baseline and anchor, or described without one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pytest_llmeval.gate.results import Comparison, Fact, FunctionDescription, Why
from pytest_llmeval.gate.scoring import CostOf
from pytest_llmeval.models.prices import Prices
from pytest_llmeval.records import Call, Run, Slowdown, TokenPrice
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.reshaping import renames_to_nothing
from pytest_llmeval.settings import Settings

GONE = 2  # the row of the decision table


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All the facts of which the section and the report files are made.

    Attributes:
        run: what was recorded; None if no eval trial finished.
        path: the run file; None if there is none, ``unsaved`` then says why.
        baseline: None for an ungated session; ``not_gated`` then says why.
        comparison: None without a baseline, or if the gate ``could_not_judge``.
        anchor: the second baseline, None without one; ``anchored`` is the comparison with it.
        descriptions: means and intervals of an ungated session.
        headlines: first line of the first failure, by case. Of this session only: it may
            quote a reply, which a run file must not.
        serial: how many cases ran their trials one after the other, by reason.
        seconds: wall time of the session.
        slowdowns: one for each provider that asked us to slow down.
        notes: what came up on the way (a damaged cache set aside).
        typed: what the user typed of the selection, see ``gate.compare``; ``lost`` are files
            of the baseline that are not there any more.
    """

    settings: Settings
    run: Run | None = None
    path: Path | None = None
    unsaved: Fact | None = None
    baseline: Baseline | None = None
    not_gated: str = ""
    comparison: Comparison | None = None
    anchor: Baseline | None = None
    anchored: Comparison | None = None
    could_not_judge: Fact | None = None
    descriptions: tuple[FunctionDescription, ...] = ()
    headlines: Mapping[str, str] = field(default_factory=dict)
    slowdowns: tuple[Slowdown, ...] = ()
    notes: tuple[Fact | str, ...] = ()
    serial: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    typed: Sequence[str] | None = None
    lost: Collection[str] = ()

    @property
    def fails(self) -> bool:
        """Whether the session may not end green."""
        judged = [one for one in (self.comparison, self.anchored) if one is not None]
        return any(one.fails for one in judged) or bool(self.could_not_judge or self.unsaved)


def judged(judgement: Judgement, run: Run) -> Judgement:
    """Hold a run against the baseline and the anchor, or describe it if there is no baseline."""
    settings, baseline, anchor = judgement.settings, judgement.baseline, judgement.anchor
    cost_of = pricing(settings.prices)
    judgement = replace(judgement, run=run)
    try:
        from pytest_llmeval.gate.accepted import notes_on_accepted
        from pytest_llmeval.gate.compare import compare  # numpy and scipy
        from pytest_llmeval.gate.describe import describe, oddities

        held_against = partial(
            compare,
            run=run,
            rules=settings.gate,
            cost_of=cost_of,
            typed=judgement.typed,
            lost=judgement.lost,
        )
        judgement = replace(judgement, notes=(*judgement.notes, *oddities(run)))
        if anchor is not None:
            # Another question, so a family of its own: both answers must hold.
            anchored = held_against(anchor.run, main=None if baseline is None else baseline.run)
            judgement = replace(judgement, anchored=anchored)
        if baseline is None:
            described = describe(run, alpha=settings.gate.alpha, cost_of=cost_of)
            why = next((one.why for one in described if one.why), None)
            return replace(judgement, descriptions=described, could_not_judge=why)
        comparison = held_against(baseline.run)
        missing = {one.function for one in comparison.functions if one.row == GONE and one.fails}
        misnamed = renames_to_nothing(sorted(missing), settings.renamed)
        compared = [(baseline.run.commit, comparison)]
        if anchor is not None and judgement.anchored is not None:
            compared.append((anchor.run.commit, judgement.anchored))
        notes = (*judgement.notes, *misnamed, *notes_on_accepted(settings.gate.accept, compared))
        return replace(judgement, comparison=comparison, notes=notes)
    except Exception as exc:
        return replace(judgement, could_not_judge=Fact(Why.RAISED, (type(exc).__name__, str(exc))))


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
