"""Doubts about the figures: drift, equal repeats, cases that tell nothing, a lucky baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_llmeval.gate.describe import History, MeanOfRun
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import PASS_METRIC
from pytest_llmeval.reports.document import Entry
from pytest_llmeval.reports.formats import counted, ends, figure


def doubts(judgement: Judgement, side: Entry, history: History) -> list[str]:
    """Say of each function what the figures cannot be trusted for; empty for nothing.

    Args:
        judgement: with the run, and the baseline if there is one.
        side: its comparison as the report has it.
        history: of the runs here, those two among them.
    """
    run, baseline = judgement.run, judgement.baseline.run if judgement.baseline else None
    found: list[str] = []
    for one in side["functions"]:
        points = history.get((one["function"], one["metric"]), [])
        described = {point.run.id: point.described for point in points}
        for name, recorded in (("in the baseline", baseline), ("here", run)):
            if recorded and recorded.id in described and described[recorded.id].drifts:
                found.append(
                    f"{one['label']}: the repeats drift {name}; its trials were not made under "
                    "one condition"
                )
        if (one.get("difference") or 0) < 0:
            found += _luck(one, points, judgement)
        found += _of_entry(one)
    return found


def _luck(one: Entry, points: Sequence[MeanOfRun], judgement: Judgement) -> Iterator[str]:
    """Hold the baseline against what the run before it lets expect, of the same trials."""
    ids = [judgement.baseline.run.id] if judgement.baseline else []
    at = next((at for at, point in enumerate(points) if point.run.id in ids), 0)
    earlier = [each for each in points[:at] if not (each.run.dirty or each.run is judgement.run)]
    if not earlier or _planned(earlier[-1]) != _planned(points[at]):
        return
    own, before = points[at].described, earlier[-1].described.prediction
    if own.mean is None or before is None:
        return
    sign = 1 if own.better == "higher" else -1
    best = max(sign * end for end in before)
    if sign * own.mean > best:
        yield (
            f"{one['label']}: the baseline's mean of {figure(own.mean, own.metric)} lies beyond "
            f"{ends(before)}, where the run before it lets expect it: a lucky baseline, or a "
            "change that made it better; a fall back to the usual is no harm of this change"
        )


def _planned(point: MeanOfRun) -> set[tuple[str, int]]:
    function = point.described.function
    return {(case.id, case.repeats) for case in point.run.cases if case.function == function}


def _of_entry(one: Entry) -> Iterator[str]:
    if one.get("identical_repeats"):
        yield f"{one['label']}: all repeats are identical, so they are one draw"
    cases = one.get("compared", [])
    if one["metric"] != PASS_METRIC or not one.get("changed"):
        return
    always = sum(min([*case["baseline_scores"], *case["scores"]]) == 1 for case in cases)
    never = sum(max([*case["baseline_scores"], *case["scores"]]) == 0 for case in cases)
    if always + never:
        yield (
            f"{one['label']}: {always} of {counted(len(cases), 'case')} passed in every trial of "
            f"both runs, and {never} in no trial: such cases cannot show a small change"
        )
