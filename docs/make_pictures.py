"""The pictures of docs/why.md and the figures in its text, from simulation. Run: ``make docs``.

A third of the cases of each simulated suite passes 9 times in 10, a third 7 times in 10, a third
5 times in 10. Seeds are fixed, so that a picture changes with this file or with the statistics
only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pytest_llmeval.stats.suite_size import Design, assumed_components, detectable_drop, fallen
from pytest_llmeval.stats.t_tests import paired_test, welch

FOLDER = Path(__file__).with_name("pictures")
Array = NDArray[np.float64]

SUITES = 4000
LEVEL = 0.05
REPEATS = (1, 2, 5, 10, 20)
CASES = (20, 50, 100, 200, 400)

WIDTH, LEFT, RIGHT, TOP, ROW = 680, 190, 24, 34, 34
# Dark text on white, light text on nearly black, whatever the page around it is.
STYLE = """
svg { font: 13px system-ui, sans-serif } .paper { fill: #fff } text { fill: #222 }
.axis, .grid { stroke: #888 } .grid { stroke-dasharray: 2 4 } .first { fill: #1f5fa8; stroke: #1f5fa8 }
.second { fill: #b3470e; stroke: #b3470e } .line { fill: none; stroke-width: 2.5 } .dash { stroke-dasharray: 7 4 }
.dot { stroke: none; fill-opacity: .55 } text.first, text.second { stroke: none }
@media (prefers-color-scheme: dark) {
.paper { fill: #16181d } text { fill: #ddd } .first { fill: #8cbcf2; stroke: #8cbcf2 } text.first { fill: #8cbcf2 }
.second { fill: #f2a873; stroke: #f2a873 } text.second { fill: #f2a873 } .line { fill: none } }
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, and the figures that the text takes from it."""

    svg: str
    figures: tuple[str, ...]


def rates(cases: int) -> Array:
    """Return the chance to pass of each case."""
    return np.resize([0.9, 0.7, 0.5], cases)


def means(random: np.random.Generator, of: Array, *, repeats: int, suites: int = SUITES) -> Array:
    """Run suites: the share of trials that passed, shape (suites, cases)."""
    passed = random.random((suites, *of.shape[-1:], repeats)) < of[..., None]
    found: Array = passed.mean(axis=-1)
    return found


def alarms(differences: Array, errors: Array, dof: float) -> Array:
    """Tell in which suites a one-sided t-test finds a drop."""
    critical = special.stdtrit(dof, LEVEL)
    found: Array = differences < critical * errors
    return found


def error_of(values: Array) -> Array:
    """Return the standard error of each row's mean."""
    found: Array = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    return found


def why_repeat() -> Picture:
    """Draw the means of sessions in which nothing changed, by repeats."""
    random = np.random.default_rng(1)
    rows, figures = [], []
    for repeats in (1, 5, 20):
        found = means(random, rates(30), repeats=repeats, suites=40).mean(axis=1)
        rows.append((f"{repeats} repeat{'s' * (repeats > 1)}", found))
        figures += [f"{found.min():.2f}", f"{found.max():.2f}"]
    return Picture(strips(rows, ends=(0.5, 0.9), label="mean of the 30 cases"), tuple(figures))


def why_pair() -> Picture:
    """Draw the means of the cases of two runs, and their differences."""
    random = np.random.default_rng(3)
    before = np.linspace(0.15, 0.95, 20)
    (baseline,) = means(random, before, repeats=10, suites=1)
    (current,) = means(random, fallen(before, 0.08), repeats=10, suites=1)
    paired, unpaired = paired_test(current - baseline), welch(baseline, current)
    rows = [("main", baseline), ("here", current), ("here less main", current - baseline)]
    figures = (
        f"{baseline.mean():.2f}",
        f"{current.mean():.2f}",
        f"{unpaired.tails.worse:.2f}",
        f"{paired.tails.worse:.2f}",
    )
    return Picture(strips(rows, ends=(-0.6, 1.0), label="a dot is a case", zero=True), figures)


def why_the_case() -> Picture:
    """Draw false alarms where a change helps some cases and harms others alike."""
    random = np.random.default_rng(3)
    by_case, by_trial = [], []
    before = rates(60)
    for repeats in REPEATS:
        shift = random.choice([-0.1, 0.1], size=(SUITES, before.size))
        baseline, current = (
            random.random((SUITES, before.size, repeats)) < of[..., None]
            for of in (np.broadcast_to(before, shift.shape), before + shift)
        )
        moved = current.astype(float) - baseline
        trials, cases = moved.reshape(SUITES, -1), moved.mean(axis=2)
        for found, values in ((by_trial, trials), (by_case, cases)):
            dof = values.shape[1] - 1
            found.append(alarms(values.mean(axis=1), error_of(values), dof).mean())
    lines = [("each trial counted", by_trial), ("each case counted once", by_case)]
    drawn = curves(REPEATS, lines, top=0.2, across="repeats", up="builds that fail", marked=LEVEL)
    return Picture(drawn, (percent(by_trial[-1]), percent(min(by_case)), percent(max(by_case))))


def why_not_unpaired() -> Picture:
    """Draw how often a drop of five points is found, with and without pairs."""
    random = np.random.default_rng(4)
    with_pairs, without = [], []
    for cases in CASES:
        before = rates(cases)
        baseline = means(random, before, repeats=5)
        current = means(random, fallen(before, 0.05), repeats=5)
        moved = current - baseline
        with_pairs.append(alarms(moved.mean(axis=1), error_of(moved), cases - 1).mean())
        error = np.hypot(error_of(baseline), error_of(current))
        without.append(alarms(moved.mean(axis=1), error, 2 * cases - 2).mean())
    lines = [("paired", with_pairs), ("unpaired", without)]
    drawn = curves(CASES, lines, top=1.0, across="cases, 5 repeats each", up="drops found")
    return Picture(drawn, (percent(with_pairs[2]), percent(without[2])))


def what_if_underpowered() -> Picture:
    """Draw the smallest drop that is found in 4 of 5 builds."""
    lines, figures = [], []
    for repeats in (1, 5):
        found = []
        for cases in CASES:
            before = rates(cases)
            parts = assumed_components(before, fallen(before, 0.05))
            design = Design(cases=cases, baseline=repeats, current=repeats, components=parts)
            found.append(detectable_drop(design) or 1.0)
        lines.append((f"{repeats} repeat{'s' * (repeats > 1)}", found))
        figures += [f"{found[0]:.2f}", f"{found[-1]:.2f}"]
    drawn = curves(CASES, lines, top=0.5, across="cases", up="smallest drop found")
    return Picture(drawn, tuple(figures))


def why_not_temperature_0() -> Picture:
    """Draw differences between two wordings that are equally good."""
    random = np.random.default_rng(6)
    before, rows, figures = rates(30), [], []
    for label, draws in (("5 equal repeats", 1), ("5 answers", 5)):
        one, other = (means(random, before, repeats=draws, suites=60).mean(axis=1) for _ in "ab")
        rows.append((label, other - one))
        figures.append(f"{np.std(other - one):.3f}")
    label = "difference between two wordings"
    return Picture(strips(rows, ends=(-0.4, 0.4), label=label, zero=True), tuple(figures))


def when_a_baseline_is_lucky() -> Picture:
    """Draw false alarms of branches that changed nothing, by the luck of their baseline."""
    random = np.random.default_rng(7)
    before, lines, figures = rates(60), [], []
    for repeats in (5, 20):
        baseline = means(random, before, repeats=repeats, suites=2 * SUITES)
        current = means(random, before, repeats=5, suites=2 * SUITES)
        moved = current - baseline
        red = alarms(moved.mean(axis=1), error_of(moved), before.size - 1)
        fifths = np.array_split(red[np.argsort(baseline.mean(axis=1))], 5)
        found = [fifth.mean() for fifth in fifths]
        lines.append((f"{repeats} repeats of main", found))
        figures += [percent(found[-1]), percent(found[0])]
    places = ("unluckiest", "", "middle", "", "luckiest")
    drawn = curves(
        places,
        lines,
        top=0.25,
        across="fifth of the baselines",
        up="builds that fail",
        marked=LEVEL,
    )
    return Picture(drawn, tuple(figures))


def percent(share: float) -> str:
    """Write a share as the text has it."""
    return f"{100 * share:.0f} %"


def strips(
    rows: Sequence[tuple[str, Array]], *, ends: tuple[float, float], label: str, zero: bool = False
) -> str:
    """Draw a row of dots for each of several lists, with a line at its mean."""
    low, high = ends
    scale = (WIDTH - LEFT - RIGHT) / (high - low)
    bottom = TOP + ROW * len(rows)
    parts = [_axis(bottom, label)]
    for tick in np.arange(low, high + 0.01, 0.1 if high - low < 1 else 0.2):
        parts.append(_tick(LEFT + (tick - low) * scale, bottom, f"{round(tick, 1) + 0:.1f}"))
    if zero:
        x = LEFT - low * scale
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP - 12}V{bottom}"/>')
    for number, (name, values) in enumerate(rows):
        y, kind = TOP + ROW * number, ("first", "second")[number % 2]
        parts.append(f'<text x="{LEFT - 14}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        for place, value in enumerate(values):
            x, up = LEFT + (value - low) * scale, 3 * (place % 5 - 2)
            parts.append(f'<circle class="{kind} dot" cx="{x:.1f}" cy="{y + up}" r="3.5"/>')
        x = LEFT + (values.mean() - low) * scale
        parts.append(f'<path class="{kind} line" d="M{x:.1f} {y - 13}V{y + 13}"/>')
    return _svg(parts, bottom + 48)


def curves(
    across_values: Sequence[object],
    lines: Sequence[tuple[str, Sequence[float]]],
    *,
    top: float,
    across: str,
    up: str,
    marked: float | None = None,
) -> str:
    """Draw lines over equally spaced places, each named at its end."""
    height, left, right = 190, 74, 190
    bottom, step = TOP + height, (WIDTH - left - right) / (len(across_values) - 1)
    parts = [f'<text x="14" y="18">{escape(up)}</text>', _axis(bottom, across, left, right)]
    for number, value in enumerate(across_values):
        parts.append(_tick(left + number * step, bottom, str(value)))
    for tick in np.linspace(0, top, 5 if top in (0.2, 1.0) else 6):
        y = bottom - tick / top * height
        parts.append(f'<text x="{left - 10}" y="{y + 4:.1f}" text-anchor="end">{tick:.2f}</text>')
    if marked is not None:
        y = bottom - marked / top * height
        parts.append(f'<path class="grid" d="M{left} {y:.1f}H{WIDTH - right}"/>')
    last = [values[-1] for _, values in lines]
    is_close = abs(last[0] - last[1]) / top * height < ROW / 2
    for (name, values), kind in zip(lines, ("second", "first"), strict=True):
        points = [
            (left + place * step, bottom - value / top * height)
            for place, value in enumerate(values)
        ]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dash = " dash" * (kind == "second")
        parts.append(f'<path class="{kind} line{dash}" d="M{path}"/>')
        parts += [f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points]
        x, y = points[-1]
        y += is_close * (8 if values[-1] == min(last) else -8)
        parts.append(f'<text class="{kind}" x="{x + 12:.1f}" y="{y + 4:.1f}">{escape(name)}</text>')
    return _svg(parts, bottom + 48)


def _axis(y: float, label: str, left: int = LEFT, right: int = RIGHT) -> str:
    middle = (left + WIDTH - right) / 2
    return (
        f'<path class="axis" d="M{left} {y}H{WIDTH - right}"/>'
        f'<text x="{middle:.0f}" y="{y + 38}" text-anchor="middle">{escape(label)}</text>'
    )


def _tick(x: float, y: float, text: str) -> str:
    return (
        f'<path class="axis" d="M{x:.1f} {y}v5"/>'
        f'<text x="{x:.1f}" y="{y + 19}" text-anchor="middle">{escape(text)}</text>'
    )


def _svg(parts: Sequence[str], height: int) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">\n<style>{STYLE}</style>\n'
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>\n{body}\n</svg>\n'
    )


PICTURES = {
    "repeat": why_repeat,
    "pair": why_pair,
    "unit": why_the_case,
    "unpaired": why_not_unpaired,
    "power": what_if_underpowered,
    "temperature": why_not_temperature_0,
    "lucky": when_a_baseline_is_lucky,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, make in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(make().svg, encoding="utf-8")
