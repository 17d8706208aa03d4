"""Facts read from the JSON report: which functions and which side come first, verdicts in words.

The pages of ``markdown`` and ``html`` are made of that document, so they share what is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_llmeval.errors import listed_names
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.records import MEASURED_METRICS
from pytest_llmeval.reports.formats import (
    counted,
    factor,
    mean_with_ends,
    number,
    p_value,
    too_few_clusters,
)
from pytest_llmeval.reports.sentences import (
    WITHIN_CASES,
    count_moved,
    difference_interval,
    drop_as_factor,
    shortfall,
    verdict_words,
    with_name,
)

Entry = Mapping[str, Any]
_MOST_NAMES = 3
_MOST_UNDETECTED = 4

_ORDER = {str(verdict): at for at, verdict in enumerate(Verdict)}


def not_seen(report: Entry) -> str:
    """Say how many connections the cache did not see: ``, 3 connections not seen``."""
    count = sum(one["count"] for one in report.get("connections", ()))
    return f", {counted(count, 'connection')} not seen" if count else ""


def worst_first(functions: Sequence[Entry]) -> list[Entry]:
    """Order functions: those that fail, then by verdict, then by what they lost."""

    def severity(one: Entry) -> tuple[bool, int, float]:
        return not one.get("fails"), _ORDER[one["verdict"]], one.get("difference") or 0.0

    return sorted(functions, key=severity)


def moved_functions(side: Entry) -> list[Entry]:
    """Return the functions of a comparison of which there is something to say, worst first."""
    return worst_first([one for one in side["functions"] if not _is_silent(one)])


def _is_silent(function: Entry) -> bool:
    """Whether nothing new was measured of a function, and none of its cases was edited."""
    return function["verdict"] == "unchanged" and not function.get("edited")


def title(report: Entry, side: Entry, reference: Callable[[str], str] = str) -> str:
    """Write the verdict of the comparison that is shown.

    Args:
        report: the document.
        side: the report itself, or its anchor.
        reference: writes the name of the anchor.
    """
    accepted = side["verdict"] == "regressed" and not side["fails"]
    words = verdict_words(side["verdict"], accepted=accepted)
    if side is report:
        return words
    return f"{words} against the anchor {reference(side['baseline']['reference'])}"


def failing_side(report: Entry) -> Entry:
    """Return the comparison to be shown first: the anchor's where that alone fails."""
    anchor = report["anchor"]
    fails = any(one.get("fails") for one in report["functions"]) or report["why"]
    return anchor if anchor and anchor["fails"] and not fails else report


def is_unchanged(report: Entry) -> bool:
    """Whether nothing new was measured, and nothing else is to be said."""
    sides = [report, *([report["anchor"]] if report["anchor"] else [])]
    functions = [one for side in sides for one in side["functions"]]
    is_silent = report["verdict"] == "unchanged" and all(map(_is_silent, functions))
    return is_silent and not report["fails"]


def is_tested(function: Entry) -> bool:
    """Whether chance has a part in what is said of a function: none if only scores changed."""
    changed = function["changed"]
    is_scored_otherwise = changed and function["changed_kinds"].get("score") == changed
    return function["method"] != "none" and not is_scored_otherwise


class Figures(NamedTuple):
    """The figures of a compared function as text; "" for what there is not."""

    verdict: str
    changed: str
    before: str
    after: str
    difference: str
    interval: str
    p: str


def figures(function: Entry, *, target: float, with_ends: bool = False) -> Figures:
    """Write the figures of a compared function, means with the ends of their own intervals or not.

    On the scale of logarithms each difference is told as a ratio.
    """
    is_log = function["scale"] == "log" or function["metric"] in MEASURED_METRICS
    ends = ("baseline_mean_interval", "mean_interval")
    own = [function[name] if with_ends else None for name in ends]
    before = mean_with_ends(function["baseline_mean"], own[0], log=is_log)
    after = mean_with_ends(function["mean"], own[1], log=is_log)
    difference = interval = p = ""
    if function["difference"] is not None:
        difference = number(function["difference"], signed=True)
    if function["ratio"] is not None:
        difference = factor(function["ratio"])
    if is_tested(function):
        if function["interval"] is not None:
            interval = difference_interval(
                function["interval"], function["ratio_interval"], target=target
            )
        direction = "p_improved_adjusted" if function["verdict"] == "improved" else "p_adjusted"
        p = "" if function[direction] is None else p_value(function[direction])
    word = verdict_words(function["verdict"], accepted=function["accepted"])
    cases, changed = function["cases"], function["changed"]
    part = f"{changed} of {counted(cases, 'case')}" if cases else ""
    return Figures(word, part, before, after, difference, interval, p)


def are_hits(function: Entry) -> bool:
    """Whether every score of a function is a hit or a miss, whatever the metric is called."""
    if "compared" not in function:
        return all(case.get("interval") for case in function["moved"])
    cases = function["compared"]
    scores = (one for case in cases for one in (*case["baseline_scores"], *case["scores"]))
    return function["metric"] not in MEASURED_METRICS and all(one in (0, 1) for one in scores)


def has_moved(one: Entry) -> bool:
    """Whether the figures that are shown of a metric differ at all."""
    return len(set(_means(one))) > 1


def _means(one: Entry) -> list[str]:
    return [f"{one[side]:.3g}" for side in ("baseline_mean", "mean") if one[side] is not None]


def moved_ungated(one: Entry) -> str:
    """Write how a metric moved that decides nothing: ``0.41 -> 0.52 (x1.27)``."""
    moved = number(one["difference"] or 0.0, signed=True)
    if one["ratio"] is not None:
        moved = factor(one["ratio"])
    if one["interval"]:
        moved += f" {difference_interval(one['interval'], one['ratio_interval'])}"
    return f"{' -> '.join(_means(one))} ({moved})"


def undetected_drops(side: Entry) -> list[tuple[str, str]]:
    """Write which drops of functions that moved fewer than 4 of 5 builds find; of a few."""
    tested = [one for one in moved_functions(side) if is_tested(one)]
    return [(one["label"], _undetected_drop(one)) for one in tested[:_MOST_UNDETECTED]]


def _undetected_drop(function: Entry) -> str:
    drop = function["smallest_detectable_drop"]
    if drop is None:
        are_tied = 0 < function["units"] < function["changed"]
        clusters = too_few_clusters(function["units"], function["effective_units"])
        return f"any drop, as {clusters if are_tied else 'too few cases moved'}"
    if function["scale"] == "linear":
        return f"a drop smaller than {number(drop)}"
    return f"a change for the worse by less than {drop_as_factor(drop, function['better'])}"


def lead(report: Entry, functions: Sequence[Entry]) -> list[str]:
    """Say the worst first, in sentences without their full stops; none where nothing moved.

    Args:
        report: the document.
        functions: those that moved, worst first.
    """
    models = [_other_model(one) for one in report["differences"] if one["fact"] == "model"]
    if report["why"]:
        return [*models, report["why"]]
    if report["verdict"] == "not_gated":
        return ["No baseline, so these are the means of this run alone"]
    if not functions:
        return models
    worst = functions[0]
    also = [text for text in worst["remarks"] if text.startswith(WITHIN_CASES)]
    return [*models, with_name(worst.get("sentence", ""), worst["label"]), *also]


def _other_model(difference: Entry) -> str:
    """Write that another model is asked: it explains more than any figure."""
    old, new = (", ".join(difference[side]) for side in ("baseline", "here"))
    functions = difference["functions"]
    of = f" in {counted(len(functions), 'function')}" if functions else ""
    return f"Another model is asked: {new}, not {old}{of}"


def moved_counts(function: Entry) -> str:
    """Count the cases of a function that fell and rose."""
    differences = [case["difference"] or 0.0 for case in function["compared"]]
    return count_moved(differences, function["better"])


def telling_cases(functions: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    """Return the cases that show why functions have their verdicts, each with its function.

    Those that moved most come first; of cases that were compared with nothing the lowest mean.
    """

    def is_telling(function: Entry, case: Entry) -> bool:
        difference = case.get("difference", -1) or 0
        return bool(difference > 0 if function["verdict"] == "improved" else difference < 0)

    moved = [(one, case) for one in functions for case in one["moved"] if is_telling(one, case)]

    def severity(pair: tuple[Entry, Entry]) -> tuple[float, bool, float]:
        one, case = pair
        short_by = shortfall(one["better"], case["mean"] or 0.0)
        return -abs(case.get("difference") or 0.0), *short_by

    return sorted(moved, key=severity)


def part_judged(report: Entry) -> str:
    """Name what was judged in part, or not at all; "" where that is nothing."""
    parts = [line for line in report["scope"] if line.startswith("partial")]
    if functions := [one["name"] for one in report["not_judged"]]:
        parts.append(f"not judged: {listed_names(functions, _MOST_NAMES)}")
    return "; ".join(parts)


def consequence(report: Entry) -> str:
    """Say whether the build fails."""
    if report["fails"]:
        return "This fails the build."
    if any(one.get("accepted") for one in report["functions"]):
        return "It does not fail the build: the ini file says that it is meant."
    return "It does not fail the build."
