"""The end of a session: its run, and what the gate says of it or why it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_llmeval.gate.results import Comparison, Fact, FunctionDescription
from pytest_llmeval.records import Run, Slowdown
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import Settings


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
        notes: sentences that came up on the way (a damaged cache set aside).
    """

    settings: Settings
    run: Run | None = None
    path: Path | None = None
    unsaved: str = ""
    baseline: Baseline | None = None
    not_gated: str = ""
    comparison: Comparison | None = None
    anchor: Baseline | None = None
    anchored: Comparison | None = None
    could_not_judge: Fact | str = ""
    descriptions: tuple[FunctionDescription, ...] = ()
    headlines: Mapping[str, str] = field(default_factory=dict)
    slowdowns: tuple[Slowdown, ...] = ()
    notes: tuple[Fact | str, ...] = ()
    serial: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def fails(self) -> bool:
        """Whether the session may not end green."""
        judged = [one for one in (self.comparison, self.anchored) if one is not None]
        return any(one.fails for one in judged) or bool(self.could_not_judge or self.unsaved)
