"""The judgement on a run: compared with its baseline and anchor, or described without one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_llmeval.cache.case_parameters import Parameters
from pytest_llmeval.gate.results import Comparison, Fact, FunctionDescription
from pytest_llmeval.gate.scoring import CostOf
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.records import Call, Run, Slowdown, distinct_names
from pytest_llmeval.runs.keyless import Keyless
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import Settings, TokenPrice
from pytest_llmeval.transcripts.common_change import RequestChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The facts from which the section and the report files are made.

    Attributes:
        run: the recorded run; None if no eval trial finished.
        path: the run file; None if there is none, ``unsaved`` then says why.
        baseline: None for an ungated session; ``not_gated`` then says why.
        recorded: baseline and anchor under the names that they were recorded with.
        comparison: None without a baseline, or if the gate ``could_not_judge``.
        anchor: the second baseline, None without one; ``anchored`` is the comparison with it.
        descriptions: means and intervals of an ungated session.
        headlines: first line of the first failure, by case. Of this session only: it may
            quote a reply, which a run file must not.
        excerpts: one line of a reply of the baseline and one of this run, by case, for the cases
            that fell or rose most; None for a side whose reply is not here. Of this session only,
            likewise.
        request_changes: the changes of requests that most changed cases have. Of this session only,
            likewise.
        absent: ids of draws of the baseline and the anchor whose requests got other replies here,
            and which are not in the cache; only some of a function are looked for.
        edited: parameters of the baseline and of this run, by case, for the cases that are not
            compared because they were edited; None for a side whose parameters are not here. Of
            this session only, likewise.
        serial: how many cases ran their trials one after the other, by reason.
        seconds: wall time of the session.
        slowdowns: one for each provider that asked us to slow down.
        connections: how many the cache did not see, by host, test function and unseen library, ""
            for a library that is seen or not known.
        notes: events on the way (a damaged cache set aside).
        keyless: the cases that asked something new without a key; none of the comparisons has
            them. None if there is none, and where the session was not to be gated.
        may_defer: a case that lacks a key and nothing else is left to the merge queue.
        typed: what the user typed of the selection, see ``gate.compare``.
        lost: files of the baseline that are not there any more.
        tries: how many runs with paid calls were compared with this baseline, this one included,
            those that went on with another counted as one; 0 in CI, and where all of this one came
            from the cache.
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
    request_changes: tuple[RequestChange, ...] = ()
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
    tries: int = 0

    @property
    def runs(self) -> tuple[Run | None, Run | None]:
        """The run of the baseline, and the run that is compared with it."""
        return None if self.baseline is None else self.baseline.run, self.run

    @property
    def is_of_tables(self) -> bool:
        """Whether two score tables are compared."""
        return self.baseline is not None and self.baseline.is_table

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
        return any(one.fails for one in (self.comparison, self.anchored) if one is not None)

    @property
    def against_anchor(self) -> Judgement | None:
        """The same run compared with the anchor; the replies at hand are of the baseline."""
        if self.anchor is None or self.anchored is None:
            return None
        return replace(
            self,
            baseline=self.anchor,
            comparison=self.anchored,
            excerpts={},
            request_changes=(),
            edited={},
        )

    @property
    def is_deferred(self) -> bool:
        """Whether the cases without a key, and they alone, are left to the merge queue.

        The one exception to the rule that a gate which could not judge does not pass.
        """
        keyless, baseline = self.keyless, self.baseline
        if not self.may_defer or keyless is None or baseline is None:
            return False
        # The baseline's ini file says so, too: a branch alone cannot defer.
        says = self.settings.gate.keyless, baseline.run.rules.get("keyless")
        return says == ("defer", "defer") and not (keyless.lost_more or keyless.refused)


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
