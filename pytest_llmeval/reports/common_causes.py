"""Changes that functions or cases have in common, in words.

A model, a parameter or a set of tools is often changed for a whole suite. One line says that, with
what became of all cases, in the place of one in each function. What else changed in the requests of
cases is shown once, too: ``[-lost-] {+new+}``, and how many cases have it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_llmeval.errors import counted, listed_names
from pytest_llmeval.gate.compare import compare_together
from pytest_llmeval.gate.results import FunctionComparison, Verdict
from pytest_llmeval.judgement import Judgement, pricing
from pytest_llmeval.models.message import ROLES
from pytest_llmeval.records import COST_METRIC, PASS_METRIC, SECONDS_METRIC
from pytest_llmeval.reports.entries import ungated_function
from pytest_llmeval.reports.notation import decimals, factor, label, number
from pytest_llmeval.reports.provenance import PARAMETERS, Difference
from pytest_llmeval.reports.report import Change, CommonCause, Fall, Report
from pytest_llmeval.reports.sentences import between, difference_interval, verb
from pytest_llmeval.safe_text import printable
from pytest_llmeval.transcripts.common_change import RequestChange
from pytest_llmeval.transcripts.word_diff import MessageDiff, Piece

_CAUSES = ("model", *PARAMETERS)
_OF_MODEL = {"served": "model", "fingerprint": "model"}  # facts that follow from another
# what the request calls it where the difference of both runs tells it already
_IN_REQUESTS = {"function": "model", "path": "model", "topP": "top_p"} | dict.fromkeys(
    ROLES, "prompt"
)
# what vendors put around settings
_AROUND = frozenset(("params", "options", "generationConfig", "inferenceConfig", "toolConfig"))
_MARKS = {" ": ("", ""), "-": ("[-", "-]"), "+": ("{+", "+}")}
_MOST_NAMES = 2

Functions = tuple[str, ...]


def common_causes(judgement: Judgement, differing: Sequence[Difference]) -> Iterator[CommonCause]:
    """Find what changed in several functions at once, and compare all their cases together.

    Args:
        judgement: on a run.
        differing: the differences of both runs besides the application.
    """
    if judgement.comparison is None:
        return
    changed = [one for one in judgement.comparison.functions if one.effect.changed]
    for functions, changes in _by_functions(judgement, differing, changed).items():
        of_them = [one for one in changed if one.function in functions and one.scale == "linear"]
        metrics = Counter(one.metric for one in of_them).most_common(1)
        alike = [one for one in of_them if one.metric == metrics[0][0]]
        if len(alike) > 1:
            yield _cause(judgement, functions, changes, alike)


def _by_functions(
    judgement: Judgement, differing: Sequence[Difference], changed: Sequence[FunctionComparison]
) -> dict[Functions, tuple[Change, ...]]:
    """Gather the changes that the same functions have; each has several."""
    every = tuple(dict.fromkeys(one.function for one in changed))
    found: dict[Functions, dict[str, Change]] = {}
    for one in differing:
        if one.fact in _CAUSES:
            functions = tuple(name for name in every if name in (one.functions or every))
            values = _listed(one.baseline, one.here), _listed(one.here, one.baseline)
            found.setdefault(functions, {})[one.fact] = Change(one.fact, *values)
    known = {name for changes in found.values() for name in changes}
    for change in judgement.request_changes:
        functions = tuple(name for name in every if name in change.functions)
        if change.cases == change.looked_at:
            names = {_field(part.role) for part in change.parts} - known
            found.setdefault(functions, {}).update((name, Change(name, "", "")) for name in names)
    return {
        functions: tuple(changes.values())
        for functions, changes in found.items()
        if len(functions) > 1 and changes
    }


def _listed(values: Sequence[str], others: Sequence[str]) -> str:
    return ", ".join([value for value in values if value not in others] or values)


def _field(role: str) -> str:
    """Name a part of a request, as ``differences`` do: ``params.tools[0].name`` is of ``tools``."""
    names = (name for name in re.findall(r"[^\W\d]\w*", role) if name not in _AROUND)
    name = next(names, role)
    return _IN_REQUESTS.get(name, name)


def _cause(
    judgement: Judgement,
    functions: Functions,
    changes: tuple[Change, ...],
    alike: Sequence[FunctionComparison],
) -> CommonCause:
    baseline, run = judgement.runs
    assert baseline is not None and run is not None  # noqa: S101, PT018 - they were compared
    rules, metric = judgement.settings.gate, alike[0].metric
    cases = {case.case for one in alike for case in one.compared}
    cost_of = pricing(judgement.settings.prices)
    together = compare_together(baseline, run, cases, metric, rules, cost_of=cost_of)
    worst = min(alike, key=lambda one: one.effect.difference or 0.0)
    figures = [*together.functions, *together.ungated]
    told = ", ".join(_told(change) for change in changes)
    of = "their" if len(alike) == len(functions) else f"the {len(alike)} with {metric}:"
    return CommonCause(
        changes=changes,
        functions=functions,
        sentence=f"{told} in {counted(len(functions), 'function')}: over "
        f"{of} {len(cases)} cases {_moved(figures, target=rules.target)}; {_worst(worst)}",
        figures=tuple(map(ungated_function, figures)),
        worst=Fall(worst.function, worst.effect.difference or 0.0),
    )


def _told(change: Change) -> str:
    if not change.baseline:
        return f"the {change.field} changed"
    values = f"{change.baseline} -> {change.here}"
    return values if change.field == "model" else f"{change.field} {values}"


def _moved(figures: Sequence[FunctionComparison], *, target: float) -> str:
    """Write the means, their difference and its interval, and by which factors cost and time went.

    Args:
        figures: the gated metric, then the others.
        target: the drop beside which the interval is read.
    """
    score = figures[0]
    effect, interval = score.effect, score.evidence.interval
    name = "" if score.metric == PASS_METRIC else f"{score.metric} "
    means = [decimals(mean) for mean in (effect.baseline_mean, effect.mean) if mean is not None]
    likely = f", {between(difference_interval(interval, None, target=target))}" if interval else ""
    text = f"{name}{' -> '.join(means)} ({number(effect.difference or 0.0, signed=True)}{likely})"
    paid = {one.metric: one.evidence.ratio for one in figures[1:]}
    known = [(name, paid.get(name)) for name in sorted((COST_METRIC, SECONDS_METRIC))]
    ratios = ", ".join(f"{name} {factor(ratio)}" for name, ratio in known if ratio is not None)
    return f"{text}; {ratios}" if ratios else text


def _worst(one: FunctionComparison) -> str:
    fell, by = verb(one.better, improved=False), one.effect.difference or 0.0
    if by >= 0:
        return f"no function {fell}"
    if one.verdict is Verdict.REGRESSED:
        return f"{label(one)} {fell} most, by {number(-by)}"
    return f"no function {fell} by more than {number(-by)} ({label(one)})"


def other_differences(report: Report) -> list[Difference]:
    """List the differences that no common cause tells."""
    return [one for one in report.differences if not _is_told(one, report)]


def _is_told(one: Difference, report: Report) -> bool:
    every = {each.of.function for each in report.side.compared if each.of.effect.changed}
    fact, functions = _OF_MODEL.get(one.fact, one.fact), every.intersection(one.functions) or every
    return any(
        functions == {*cause.functions} and fact in {change.field for change in cause.changes}
        for cause in report.common_causes
    )


def marked(piece: Piece) -> str:
    """Mark words that one side alone has, without the blanks and line ends before them."""
    begin, end = _MARKS[piece.op]
    text = piece.text.lstrip() if begin else piece.text
    if not text:  # nothing but blanks has changed
        return f"{begin}{printable(piece.text)}{end}"
    return f"{piece.text[: len(piece.text) - len(text)]}{begin}{text}{end}"


def changed_words(part: MessageDiff) -> str:
    """Write the changed words of a message, or a setting, in one line."""
    return " ".join("".join(map(marked, part.pieces)).split())


def told_changes(report: Report) -> Iterator[tuple[str, RequestChange]]:
    """List the changes of requests, each with its heading, without what a common cause tells."""
    for one in report.request_changes:
        told = {  # with both values
            change.field
            for cause in report.common_causes
            for change in cause.changes
            if change.baseline and {*one.functions} <= {*cause.functions}
        }
        if parts := tuple(part for part in one.parts if _field(part.role) not in told):
            change = replace(one, parts=parts)
            yield _heading(change, report), change


def _heading(change: RequestChange, report: Report) -> str:
    """Say in which functions and in how many cases a request changed so."""
    names = {one.of.function: one.name for one in report.side.compared}
    noun = "prompt" if ROLES.issuperset(part.role for part in change.parts) else "request"
    of = listed_names([names.get(one, one) for one in change.functions], _MOST_NAMES)
    text = f"what changed in the {noun} of {of}"
    if change.cases == change.looked_at:
        return text if change.cases == 1 else f"{text}, the same in all {change.cases} cases"
    if change.cases > 1:
        return f"{text}, the same in {change.cases} of {counted(change.looked_at, 'case')}"
    rest = f"the {change.looked_at} changed cases have no change in common"
    return f"what changed in the {noun} of {change.case.rpartition('::')[2]}; {rest}"
