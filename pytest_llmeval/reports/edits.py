"""Edited cases in words: their parameters now and before, and their means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_llmeval.cache.case_parameters import Parameters
from pytest_llmeval.cache.why import shown_apart
from pytest_llmeval.errors import counted
from pytest_llmeval.gate.results import EditedCase, FunctionComparison
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.models.http.masking import masked_keys
from pytest_llmeval.reports.notation import case_name, figure, short
from pytest_llmeval.reports.report import Change
from pytest_llmeval.safe_text import printable

_LISTED_CASES = 3
_LISTED_FIELDS = 3  # of a case
_NO_TEXT = (bool, int, float, type(None))
HIDDEN = "not shown"


def edited_remarks(judgement: Judgement, function: FunctionComparison) -> Iterator[str]:
    """Say which cases are out of the test because they were edited."""
    kinds = (
        (True, "not compared, as the replies are the baseline's own"),
        (False, "not compared, as the replies are others, and counted as gone (llm_max_gone)"),
    )
    for is_replayed, consequence in kinds:
        if cases := [one for one in function.edited if one.is_replayed is is_replayed]:
            told = [_told(judgement, one, function) for one in cases[:_LISTED_CASES]]
            more = [f"and {len(cases) - len(told)} more"] if len(cases) > len(told) else []
            were = "case was" if len(cases) == 1 else "cases were"
            yield f"{len(cases)} {were} edited: {'; '.join([*told, *more])}: {consequence}"


def compared_remark(judgement: Judgement, function: FunctionComparison, cases: str) -> str:
    """Say why edited cases are compared all the same; ``cases`` names some of them."""
    name, count = short(function), len(function.inputs_changed)
    if judgement.settings.gate.edited == "compare":
        return f"{name}: input changed ({counted(count, 'case')}: {cases})"
    changed = f"{name}: input changed in {count} of {counted(function.effect.cases, 'case')}"
    why = "over half of all: this is probably what you test, so they are compared"
    return f"{changed}, {why} ({cases})"


def _told(judgement: Judgement, case: EditedCase, of: FunctionComparison) -> str:
    """Write a case: ``test_c[c3] expects 'sales', was 'legal' (1.000 -> 0.000)``."""
    name, was = (case_name(one, of) for one in (case.case, case.was))
    name += f", was {was}," if was != name else ""
    changes = list(changes_of(judgement, case))
    told = [
        f"{each.field} was edited"
        if HIDDEN in each
        else f"{each.field} {each.here}, was {each.baseline}"
        for each in changes[:_LISTED_FIELDS]
    ]
    more = [f"{len(changes) - len(told)} more"] if len(changes) > len(told) else []
    sides = case.baseline_mean, case.mean
    means = ["no score" if mean is None else figure(mean, of.metric) for mean in sides]
    return " ".join(filter(None, (name, " and ".join([*told, *more]), f"({' -> '.join(means)})")))


def changes_of(judgement: Judgement, case: EditedCase) -> Iterator[Change]:
    """Compare the parameters of both sides, as far as the cache has them.

    A text may be a prompt, so the option that hides replies hides parameters, too.
    """
    before, after = judgement.edited.get(case.case, (None, None))
    if before is None or after is None:
        return
    old, new = dict(_fields(before)), dict(_fields(after))
    names = [name for name in dict.fromkeys((*new, *old)) if old.get(name) != new.get(name)]
    shown = judgement.settings.show_texts
    for name in names:
        values = old.get(name), new.get(name)
        sides = shown_apart(*(None if value is None else repr(value) for value in values))
        if not shown and not all(isinstance(value, _NO_TEXT) for value in values):
            sides = HIDDEN, HIDDEN
        yield Change(*(printable(masked_keys(text)) for text in (name, *sides)))


def _fields(parameters: Parameters) -> Iterator[tuple[str, object]]:
    """List the parts that may differ: parameters, and the columns of a row."""
    row = next(iter(parameters.values()), None)
    whole = row if len(parameters) == 1 and isinstance(row, Mapping) else parameters
    for name, value in whole.items():
        yield from _leaves(str(name), value)


def _leaves(name: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _leaves(f"{name}.{key}", part)
    else:
        yield name, value
