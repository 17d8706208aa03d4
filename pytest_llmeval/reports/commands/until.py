"""Words for `llmeval until`, at each look and at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_llmeval.gate.scoring import FunctionScores
from pytest_llmeval.records import Run
from pytest_llmeval.reports import words
from pytest_llmeval.reports.commands.planned import name_of

if TYPE_CHECKING:
    from pytest_llmeval.stats.expected import ExpectedMean

ROW = "{:>7}  {:>10}  {:>7}  {:>18}  {:>6}  {:>18}  {}"
MANY_REPEATS = 10_000

Found = Sequence[tuple[FunctionScores, "ExpectedMean | None"]]


def heading(confidence: float) -> str:
    """Name the columns."""
    interval = f"{confidence:.0%} next run"
    return ROW.format(
        "repeats", "calls paid", "mean", interval, "width", "by repeats alone", "test function"
    )


def look(repeats: int, run: Run, found: Found) -> Iterator[str]:
    """Word one look, a line for each function.

    Args:
        repeats: that were asked for.
        run: what was recorded.
        found: each function and what is expected of it; None without a score.
    """
    paid = sum(call.was_paid for trial in run.trials for call in trial.calls)
    for row, (function, expected) in enumerate(found):
        first = ("", "") if row else (str(repeats), str(paid))
        name = name_of(function)
        if expected is None:
            yield ROW.format(*first, "", "", "", "", f"{name}: no trial has a score")
            continue
        note = ": its repeats drift, so by them alone" if expected.drifts else ""
        yield ROW.format(
            *first,
            f"{expected.mean:.3f}",
            _ends(expected.interval),
            "" if expected.width is None else f"{expected.width:.3f}",
            _ends(expected.by_repeats),
            name + note,
        )


def ending(repeats: int, found: Found, *, width: float, most: int) -> Iterator[str]:
    """Say whether that is enough, and what would be."""
    for function, expected in found:
        name = name_of(function)
        if expected is None:
            yield f"{name}: no trial has a score, so no number of repeats would do"
        elif expected.width is None:
            yield f"{name}: no two repeats of a case differ, so how far they scatter is unknown"
        elif expected.width > width:
            yield _not_narrow(name, expected, width=width, most=most)
        else:
            yield (
                f"{name}: narrow enough with {words.counted(repeats, 'repeat')}: "
                f"{expected.width:.3f} of {width:g} allowed"
            )
    yield "looking again from 3 repeats on leaves an interval its confidence (docs/statistics.md)"


def _not_narrow(name: str, expected: ExpectedMean, *, width: float, most: int) -> str:
    from pytest_llmeval.stats.expected import repeats_for_width

    needed = repeats_for_width(expected, width=width, limit=MANY_REPEATS)
    hint = f" About {needed} would do: --max-repeats={needed}" if needed else ""
    return f"{name}: {expected.width:.3f} wide, not {width:g}, at --max-repeats={most}.{hint}"


def _ends(interval: tuple[float, float] | None) -> str:
    return "unknown" if interval is None else "[{:.3f}, {:.3f}]".format(*interval)
