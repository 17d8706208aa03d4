"""The rules by which a run is judged: its own, where those of its baseline are not stricter.

Whoever changes a prompt can change the ini file beside it. So a branch can tighten the rules that
the baseline was recorded with, and cannot loosen them but by what is typed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.gate.results import Fact, Why
from pytest_llmeval.records import Setting
from pytest_llmeval.settings import GateRules, checked, options_of


def _baselines(theirs: Any, own: Any) -> Any:
    """Keep what the baseline had: of two tests none is the stricter."""
    return theirs


def _one_of(strict: str) -> Callable[[Any, Any], Any]:
    return lambda theirs, own: strict if strict in (theirs, own) else own


# Which of two values makes a regression easier to find, or a gap in the comparison less welcome.
_STRICTER: Mapping[str, Callable[[Any, Any], Any]] = {
    "alpha": max,
    "margin": min,
    "target": min,
    "max_gone": min,
    "strict": max,
    "test": _baselines,
    "multiplicity": _one_of("bh"),
    "edited": _one_of("compare"),
}


def stricter_rules(
    own: GateRules, recorded: Mapping[str, Setting], *, typed: Collection[str]
) -> tuple[GateRules, tuple[Fact, ...]]:
    """Return the rules by which a run is judged, and which of its own were not followed.

    Args:
        own: of the session that made the run.
        recorded: those that the baseline was recorded with, as its file has them. What is not
            there, or is no value of a rule, changes nothing.
        typed: names of the rules that were typed on the command line: they hold as they are.
    """
    options = options_of(GateRules)
    changed: dict[str, Any] = {}
    notes = []
    for name, stricter in _STRICTER.items():
        if name not in recorded or name in typed:
            continue
        try:
            theirs = checked(name, options[name].check, recorded[name])
        except SettingsError:
            continue
        mine = getattr(own, name)
        chosen = stricter(theirs, mine)
        if name == "target" and chosen <= changed.get("margin", own.margin):
            continue  # a margin that was typed is below the target beside it
        if chosen != mine:
            changed[name] = chosen
            notes.append(Fact(Why.LOOSENED, (options[name].key, _text(mine), _text(chosen))))
    return replace(own, **changed), tuple(notes)


def _text(value: float | str | bool) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
