"""Facts of the page in words: what was compared, its cost, its doubts and its origin."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from pytest_llmeval.errors import counted
from pytest_llmeval.gate.describe import History, MeanOfRun
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports import common_causes, json_report, sentences, telling
from pytest_llmeval.reports.notation import dollars, ends, figure, is_own_hash
from pytest_llmeval.reports.report import BaselineEntry, ComparedFunction, Report, RunEntry, Side

_DAY = 86_400

Facts = Iterator[tuple[str, str]]  # a name, and what it says


def facts(report: Report, side: Side) -> Facts:
    """Say in a few words what was compared, at which cost, and which drops could not be seen."""
    run, baseline, target = report.run, side.baseline, report.settings.target
    if baseline is not None:
        yield "Baseline", _baseline(baseline)
    if run is not None:
        yield "Here", _place(run)
    worst = next((one for one in telling.moved_functions(side) if one.of.evidence.interval), None)
    if worst and (interval := telling.figures(worst.of, target=target).interval):
        right = f"{10 - 20 * report.settings.alpha:g} times in 10"
        text = f"in {worst.label} {sentences.between(interval)}; such a range is right {right}"
        yield "The real difference", text
    drops, has_size = telling.undetected_drops(side, target=target)
    missed = "; ".join(f"in {label} {drop}" for label, drop in drops)
    missed += f" (a drop of that size is found {sentences.CAUGHT})" if has_size else ""
    better = ", ".join(telling.better_means(side))
    better = f"in {better} {telling.MEAN_ALONE}" if better else ""
    if hidden := "; ".join(filter(None, [missed, better])):
        yield "What this run cannot see", hidden
    if parts := telling.part_judged(report):
        yield "Only a part was judged", parts
    unseen = telling.not_seen(report)
    if run is not None and (any(run.calls) or unseen):
        calls, failed = run.calls, f", {run.calls.failed} failed" if run.calls.failed else ""
        yield "Calls", f"{calls.made} made, {calls.replayed} replayed{unseen}{failed}"
        cost = {"Cost": run.cost.spent, "Saved by replays": run.cost.saved}
        yield from ((name, dollars(Decimal(repr(each)))) for name, each in cost.items() if each)
    if others := common_causes.other_differences(report):
        yield "Differs besides", ", ".join(one.fact for one in others)


def _place(run: RunEntry) -> str:
    if not (run.ref or run.commit):
        return run.id  # of a score table: its file
    at = f" at {run.commit[:12]}" if run.commit else ""
    return f"{run.ref or 'no branch'}{at}{', with changes' * run.dirty}"


def _baseline(baseline: BaselineEntry) -> str:
    run, reference = baseline.recorded, baseline.reference
    text = _place(run) if reference == run.id else reference
    if run.commit and text == reference and not is_own_hash(reference, run.commit):
        text += f" at {run.commit[:12]}"
    text += f", recorded {run.created[:10]}"
    if baseline.distance:
        text += f", {counted(baseline.distance, 'commit')} back"
    if baseline.age is not None and baseline.age >= _DAY:
        text += f", {counted(int(baseline.age // _DAY), 'day')} old"
    return text


def provenance(report: Report, side: Side) -> Facts:
    """Tell where both runs come from, and how to compare them again."""
    baseline, run = side.baseline.recorded if side.baseline else None, report.run
    for name, found in (("Baseline", baseline), ("Here", run)):
        if found is not None:
            yield f"{name}: run", f"{found.id} of {found.created[:16]}"
        if found is not None and not (side.baseline and side.baseline.is_table):
            yield f"{name}: commit", f"{found.commit or 'none'}{' (dirty)' * found.dirty}"
            yield f"{name}: models", ", ".join(found.models) or "none"
            yield f"{name}: served", ", ".join(found.served) or "not told"
            yield f"{name}: versions", _named(found.versions)
            if found.ci and found.ci.url:
                yield f"{name}: job", found.ci.url
    for one in report.differences:
        old, new = (", ".join(values) for values in (one.baseline, one.here))
        yield f"Differs: {one.fact}", f"{old} \N{RIGHTWARDS ARROW} {new}"
    yield "Settings", _named(json_report.dumped(report.settings))
    yield from (("Holds for", line) for line in report.scope)
    yield from (("Note", line) for line in report.notes)
    if baseline is not None and run is not None:
        yield "Again", shlex.join(["llmeval", "compare", baseline.id, run.id])


def _named(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def doubts(judgement: Judgement, side: Side, history: History) -> Iterator[str]:
    """Say for each function the doubts about its figures.

    Args:
        judgement: with the run, and the baseline if there is one.
        side: its comparison as the report has it.
        history: of the runs here, both of the judgement included.
    """
    run, baseline = judgement.run, judgement.baseline.run if judgement.baseline else None
    for one in side.functions:
        points = history.get((one.of.function, one.of.metric), [])
        described = {point.run.id: point.described for point in points}
        for name, recorded in (("in the baseline", baseline), ("here", run)):
            if recorded and recorded.id in described and described[recorded.id].drifts:
                doubt = "its trials were not made under one condition"
                yield f"{one.label}: the repeats drift {name}; {doubt}"
        if isinstance(one, ComparedFunction) and (one.of.effect.difference or 0) < 0:
            yield from _luck(one, points, judgement)
        yield from _of_repeats_and_cases(one)


def _luck(
    one: ComparedFunction, points: Sequence[MeanOfRun], judgement: Judgement
) -> Iterator[str]:
    """Compare the baseline with the prediction from the run before it, for the same trials."""
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
            f"{one.label}: the baseline's mean of {figure(own.mean, own.metric)} lies outside "
            f"{ends(before)}, the range that the run before it predicts: a lucky baseline, or a "
            "change that made it better; a fall back into that range is no harm of this change"
        )


def _planned(point: MeanOfRun) -> set[tuple[str, int]]:
    function = point.described.function
    return {(case.id, case.repeats) for case in point.run.cases if case.function == function}


def _of_repeats_and_cases(one: telling.AnyFunction) -> Iterator[str]:
    repeats = one.of.evidence if isinstance(one, ComparedFunction) else one.of
    if repeats.identical_repeats:
        yield f"{one.label}: {sentences.ONE_DRAW}"
    if not isinstance(one, ComparedFunction) or not (one.of.effect.changed and one.of.are_hits):
        return
    cases, good = one.compared, int(one.of.better == "higher")
    seen = [{*case.baseline_scores, *case.scores} for case in cases]
    always, never = seen.count({good}), seen.count({1 - good})
    if always + never:
        every = f"{always} of {counted(len(cases), 'case')} passed in every trial of both runs"
        such = "such cases cannot show a small change"
        yield f"{one.label}: {every}, and {never} in no trial: {such}"
