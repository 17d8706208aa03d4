"""The rules by which a run is judged: its own rules, and its baseline's where they are stricter.

Whoever changes a prompt can change the ini file beside it. So the ini file of a branch can tighten
the rules that the baseline was recorded with, and cannot loosen them. Only a typed option can.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.gate.results import Fact, Why
from pytest_llmeval.records import Setting
from pytest_llmeval.settings import GateRules, checked, options_of

# Which of two values makes a regression easier to find, or a gap in the comparison less welcome.
_STRICTER: Mapping[str, Callable[[Any, Any], Any]] = {
    "alpha": max, "margin": min, "target": min, "max_gone": min, "strict": max,
}  # fmt: skip
# The stricter word of two; neither of two tests is stricter, so the baseline's stays.
_STRICTEST = {"test": None, "multiplicity": "bh", "edited": "compare"}


def stricter_rules(
    own: GateRules, recorded: Mapping[str, Setting], *, typed: Collection[str]
) -> tuple[GateRules, tuple[Fact, ...]]:
    """Return the rules by which a run is judged, and which of its own were not followed.

    Args:
        own: of the session that made the run.
        recorded: the rules that the baseline was recorded with, as its file has them. A rule that
            is not there, or has no valid value, changes nothing.
        typed: names of the rules that were typed on the command line, which hold as typed.
    """
    options = options_of(GateRules)
    changed: dict[str, Any] = {}
    notes = []
    for name in (*_STRICTER, *_STRICTEST):
        if name not in recorded or name in typed:
            continue
        try:
            theirs = checked(name, options[name].check, recorded[name])
        except SettingsError:
            continue
        mine = getattr(own, name)
        if name in _STRICTER:
            chosen = _STRICTER[name](theirs, mine)
        else:
            chosen = mine if mine == _STRICTEST[name] else theirs
        if name == "target" and chosen <= changed.get("margin", own.margin):
            continue  # a margin that was typed is below the target beside it
        if chosen != mine:
            changed[name] = chosen
            notes.append(Fact(Why.LOOSENED, (options[name].key, _text(mine), _text(chosen))))
    return replace(own, **changed), tuple(notes)


def _text(value: float | str | bool) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
