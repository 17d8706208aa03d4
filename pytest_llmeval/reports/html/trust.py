"""Doubts about the figures: drift, equal repeats, cases that tell nothing, a lucky baseline."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_llmeval.gate.describe import History
from pytest_llmeval.gate.results import FunctionDescription
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import PASS_METRIC, Run
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
        described = {
            point.run.id: point.described
            for point in history.get((one["function"], one["metric"]), [])
        }
        sides = [("in the baseline", baseline), ("here", run)]
        for name, recorded in sides:
            if recorded and recorded.id in described and described[recorded.id].drifts:
                found.append(
                    f"{one['label']}: the repeats drift {name}; its trials were not made under "
                    "one condition"
                )
        if baseline is not None and baseline.id in described:
            found += _luck(one, described, baseline)
        found += _of_entry(one)
    return found


def _luck(one: Entry, described: dict[str, FunctionDescription], baseline: Run) -> Iterator[str]:
    """Hold the baseline against what the run before it lets expect."""
    own = described[baseline.id]
    earlier = list(described)[: list(described).index(baseline.id)]
    before = described[earlier[-1]].prediction if earlier else None
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


def _of_entry(one: Entry) -> Iterator[str]:
    if one.get("identical_repeats"):
        yield f"{one['label']}: all repeats are identical, so they are one draw"
    cases = one.get("compared", [])
    if one["metric"] != PASS_METRIC or not one.get("changed"):
        return
    always = sum(min(*case["baseline_scores"], *case["scores"]) == 1 for case in cases)
    never = sum(max(*case["baseline_scores"], *case["scores"]) == 0 for case in cases)
    if always + never:
        yield (
            f"{one['label']}: {always} of {counted(len(cases), 'case')} passed in every trial of "
            f"both runs, and {never} in no trial: such cases cannot show a small change"
        )
