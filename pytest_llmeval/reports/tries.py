"""Words on the tries of a loop at a prompt, which are compared with one baseline."""

from __future__ import annotations

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports.terminal.headline import place

_LARGE = 0.4  # a share that is not written as 1 in N
_OF_NO_COMMIT = ("file", "last", "run id")  # ways to a baseline that cannot be made again


def tries_line(judgement: Judgement) -> str:
    """Say how often luck alone would show an improvement after so many tries, and what to type.

    "" for a first try, in CI, and where nothing was paid for.
    """
    found, settings = judgement.baseline, judgement.settings
    if judgement.tries < 2 or found is None or judgement.comparison is None:  # noqa: PLR2004
        return ""
    # Tries share the trials of their baseline, so the true share is a little smaller.
    share = 1 - (1 - settings.gate.alpha) ** judgement.tries
    way = "run the baseline and that try again, both with --llm-cache=refresh"
    if found.how not in _OF_NO_COMMIT and found.run.commit is not None:
        options = "--llm-on-missing=rerun-always --llm-cache=refresh"
        way = f"pytest --llm-baseline={settings.baseline} {options}"
    number, luck = _ordinal(judgement.tries), f"up to {_one_in(share)} such loops"
    return (
        f"{number} try against {place(found)}: {luck} show an improvement by luck; judge the best "
        f"try once, by fresh trials:  {way}"
    )


def _ordinal(number: int) -> str:
    is_teen = number // 10 % 10 == 1
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _one_in(share: float) -> str:
    return f"1 in {round(1 / share)}" if share < _LARGE else f"{min(9, round(10 * share))} in 10"
