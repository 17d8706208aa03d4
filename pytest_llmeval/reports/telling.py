"""Choose what terminal, Markdown and page show first, and write its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log1p
from typing import NamedTuple

from pytest_llmeval.errors import counted, listed_names
from pytest_llmeval.gate.results import CaseDescription, FunctionComparison, Verdict
from pytest_llmeval.records import MEASURED_METRICS
from pytest_llmeval.reports import notation, provenance, sentences
from pytest_llmeval.reports.common_causes import other_differences
from pytest_llmeval.reports.notation import decimals, factor, number
from pytest_llmeval.reports.report import (
    CaseEntry,
    ComparedFunction,
    DescribedFunction,
    MovedCase,
    Report,
    Side,
    UngatedFunction,
)

AnyFunction = ComparedFunction | DescribedFunction
AnyMoved = MovedCase[CaseEntry] | MovedCase[CaseDescription]

MEAN_ALONE = "only the mean was tested: single cases may be worse"
_MOST_NAMES = 3
_MOST_UNDETECTED = 4
_SEVERITY = list(Verdict)


def not_seen(report: Report) -> str:
    """Say how many connections the cache did not see: ``, 3 connections not seen``."""
    count = sum(one.count for one in report.connections)
    return f", {counted(count, 'connection')} not seen" if count else ""


def worst_first(functions: Iterable[ComparedFunction]) -> list[ComparedFunction]:
    """Order functions: failing ones first, then by verdict, then by loss."""
    return sorted(functions, key=lambda one: severity(one.of))


def severity(one: FunctionComparison) -> tuple[bool, int, float]:
    """The sort key of the functions of a comparison, the worst first."""
    return not one.fails, _SEVERITY.index(one.verdict), one.effect.difference or 0.0


def ordered(side: Side) -> Sequence[AnyFunction]:
    """Sort the compared functions, the worst first; described ones keep their order."""
    return worst_first(side.compared) or side.described


def moved_functions(side: Side) -> list[ComparedFunction]:
    """Return the functions of a comparison that need words, worst first."""
    return [one for one in worst_first(side.compared) if not _is_silent(one)]


def _is_silent(function: ComparedFunction) -> bool:
    """Whether nothing new was measured of a function, and none of its cases was edited."""
    return function.of.verdict is Verdict.UNCHANGED and not function.edited


def title(report: Report, side: Side, reference: Callable[[str], str] = str) -> str:
    """Write the verdict of the comparison that is shown.

    Args:
        report: all of it.
        side: of the report: the session, or the anchor's comparison.
        reference: writes the name of the anchor.
    """
    accepted = side.verdict == Verdict.REGRESSED and not side.fails
    words = sentences.verdict_words(side.verdict, accepted=accepted)
    if side is report.side or side.baseline is None:
        return words
    return f"{words} against the anchor {reference(side.baseline.reference)}"


def failing_side(report: Report) -> Side:
    """Return the comparison to be shown first: the anchor's if only it fails."""
    side, anchor = report.side, report.anchor
    fails = any(one.of.fails for one in side.compared) or side.why
    return anchor if anchor and anchor.fails and not fails else side


def is_unchanged(report: Report) -> bool:
    """Whether nothing new was measured, and nothing else is to be said."""
    functions = [one for side in (report.side, report.anchor) if side for one in side.compared]
    is_silent = report.side.verdict == Verdict.UNCHANGED and all(map(_is_silent, functions))
    return is_silent and not report.side.fails


def is_tested(comparison: FunctionComparison) -> bool:
    """Whether the words on a function speak of chance: not if only scores changed."""
    return comparison.effect.method != "none" and not sentences.scored_otherwise(comparison)


def tells_drop(one: FunctionComparison, *, target: float) -> bool:
    """Whether the smallest detectable drop is worth saying beside the ruled-out target."""
    drop, why = one.evidence.smallest_detectable_drop, one.evidence.ruled_out_by
    is_larger = drop is None or drop > (log1p(target) if one.scale == "log" else target)
    found_one = one.verdict in (Verdict.REGRESSED, Verdict.IMPROVED)
    is_told = drop is not None or not found_one or one.effect.method == "same-shift"
    return is_told and is_tested(one) and (why in (None, "smallest_drop") or not is_larger)


class Figures(NamedTuple):
    """The figures of a compared function as text; "" for a figure that it lacks."""

    verdict: str
    changed: str
    before: str
    after: str
    difference: str
    interval: str
    p: str


def figures(one: FunctionComparison, *, target: float, with_ends: bool = False) -> Figures:
    """Write the figures of a compared function, means with the ends of their own intervals or not.

    On the scale of logarithms each difference is written as a ratio.
    """
    effect, evidence, chance = one.effect, one.evidence, sentences.p_of(one)
    is_log = one.scale == "log" or one.metric in MEASURED_METRICS
    own = (effect.baseline_mean_interval, effect.mean_interval) if with_ends else (None, None)
    difference = interval = ""
    if effect.difference is not None:
        difference = number(effect.difference, signed=True)
    if evidence.ratio is not None:
        difference = factor(evidence.ratio)
    if is_tested(one) and evidence.interval is not None:
        ratios = evidence.ratio_interval
        interval = sentences.difference_interval(evidence.interval, ratios, target=target)
    return Figures(
        verdict=sentences.verdict_words(one.verdict, accepted=one.accepted),
        changed=f"{effect.changed} of {counted(effect.cases, 'case')}" if effect.cases else "",
        before=notation.mean_with_ends(effect.baseline_mean, own[0], log=is_log),
        after=notation.mean_with_ends(effect.mean, own[1], log=is_log),
        difference=difference,
        interval=interval,
        p=notation.p_value(chance) if chance is not None and is_tested(one) else "",
    )


def are_hits(function: AnyFunction) -> bool:
    """Whether every score of a function is a hit or a miss, whatever the metric is called."""
    if isinstance(function, ComparedFunction):
        return function.of.are_hits
    return all(case.of.interval for case in function.moved)  # Wilson's, of hits alone


def has_moved(one: UngatedFunction) -> bool:
    """Whether the figures that are shown of a metric differ at all."""
    return len(set(_means(one))) > 1


def _means(one: UngatedFunction) -> list[str]:
    return [notation.digits(mean) for mean in (one.baseline_mean, one.mean) if mean is not None]


def moved_ungated(one: UngatedFunction) -> str:
    """Write how an ungated metric moved: ``0.41 -> 0.52 (x1.27)``."""
    difference = number(one.difference or 0.0, signed=True)
    moved = difference if one.ratio is None else factor(one.ratio)
    if one.interval:
        moved += f" {sentences.difference_interval(one.interval, one.ratio_interval)}"
    return f"{' -> '.join(_means(one))} ({moved})"


def undetected_drops(side: Side, *, target: float) -> tuple[list[tuple[str, str]], bool]:
    """Write the drops of some moved functions that fewer than 4 of 5 builds find.

    Returns:
        The function and its drop in words, and whether one of these has a size.
    """
    tested = [one for one in moved_functions(side) if tells_drop(one.of, target=target)]
    told = tested[:_MOST_UNDETECTED]
    has_size = any(one.of.evidence.smallest_detectable_drop is not None for one in told)
    return [(one.label, _undetected_drop(one.of)) for one in told], has_size


def _undetected_drop(one: FunctionComparison) -> str:
    effect, drop = one.effect, one.evidence.smallest_detectable_drop
    if drop is None and effect.method == "same-shift":
        return f"a drop of unknown size, as {sentences.moved_alike(effect)}"
    if drop is None:
        return f"any drop, as {notation.too_few_units(one)}"
    if one.scale == "linear":
        return f"some drops smaller than {number(drop)}"
    return f"some changes for the worse by less than {sentences.drop_as_factor(drop, one.better)}"


def better_means(side: Side) -> list[str]:
    """Name the first functions of which a better mean may hide worse cases."""
    labels = [one.label for one in moved_functions(side) if is_mean_alone(one.of)]
    return labels[:_MOST_UNDETECTED]


def is_mean_alone(one: FunctionComparison) -> bool:
    """Whether a better mean may hide cases that became worse."""
    return one.verdict is Verdict.IMPROVED and one.effect.cases > 1 and is_tested(one)


def lead(report: Report, functions: Sequence[ComparedFunction]) -> list[str]:
    """Say the worst first, in sentences without their full stops; none where nothing moved.

    Args:
        report: all of it.
        functions: those that moved, worst first.
    """
    models = [one.sentence for one in report.common_causes]
    models += [_other_model(one) for one in other_differences(report) if one.fact == "model"]
    if report.side.why:
        return [*models, report.side.why]
    if report.side.verdict == Verdict.NOT_GATED:
        return ["No baseline, so these are the means of this run alone"]
    if not functions:
        return models
    worst = functions[0]
    also = sentences.within_case_remark(worst.of, report.settings)
    return [*models, sentences.with_name(worst.sentence, worst.label), *filter(None, [also])]


def _other_model(difference: provenance.Difference) -> str:
    """Write that another model is asked, which explains more than any figure."""
    old, new = (", ".join(models) for models in (difference.baseline, difference.here))
    functions = difference.functions
    of = f" in {counted(len(functions), 'function')}" if functions else ""
    return f"Another model is asked: {new}, not {old}{of}"


def pass_hat_words(function: ComparedFunction) -> Iterator[str]:
    """Say how often all trials of a case pass, on both sides, where that has moved."""
    hat = function.pass_hat
    if hat is not None and hat.baseline is not None and hat.baseline != hat.here:
        chances = f"{decimals(hat.baseline)} -> {decimals(hat.here)}"
        yield f"pass^{hat.k}, all of {hat.k} trials pass: {chances}"


def moved_counts(function: ComparedFunction) -> str:
    """Count the cases of a function that fell and rose."""
    differences = [case.difference for case in function.compared]
    return sentences.count_moved(differences, function.of.better, scale=function.of.scale)


def moved_in_brief(case: CaseEntry, function: ComparedFunction) -> str:
    """Write how a case moved behind the name of its function: ``[Peru] 10/10 -> 1/5``."""
    name = notation.case_name(case.case, function.of)
    hits = function.of.are_hits
    sides = sentences.scores_of_both(case, function.of.metric, are_hits=hits, is_brief=True)
    return f"{name.removeprefix(function.name).removeprefix('::')} {' -> '.join(sides)}"


def telling_cases(
    functions: Iterable[ComparedFunction],
) -> list[tuple[ComparedFunction, MovedCase[CaseEntry]]]:
    """Return the cases that show why functions have their verdicts, each with its function.

    The cases that moved most come first.
    """
    moved = [
        (one, case)
        for one in functions
        for case in one.moved
        if case.of.difference < 0 or one.of.verdict is Verdict.IMPROVED
    ]
    return sorted(moved, key=lambda each: -abs(each[1].of.difference))


def worst_cases(
    functions: Iterable[DescribedFunction],
) -> list[tuple[DescribedFunction, MovedCase[CaseDescription]]]:
    """Return the cases that fell short, the worst first, each with its function."""
    found = [(one, case) for one in functions for case in one.moved]
    return sorted(found, key=lambda each: sentences.shortfall(each[0].of.better, each[1].of.mean))


def part_judged(report: Report) -> str:
    """Name the functions that were judged in part, or not at all; "" if there are none."""
    parts = [sentences.partial_words(one.of) for one in report.side.compared if one.of.lacks_cases]
    if functions := [one.name for one in report.not_judged]:
        parts.append(f"not judged: {listed_names(functions, _MOST_NAMES)}")
    return "; ".join(parts)


def consequence(report: Report) -> str:
    """Say whether the build fails."""
    if report.side.fails:
        return "This fails the build."
    accepted = any(one.of.accepted for one in report.side.compared)
    return f"It does not fail the build{': the ini file accepts this drop' * accepted}."
