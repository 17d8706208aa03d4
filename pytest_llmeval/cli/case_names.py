"""The names of cases and of test functions, as every command takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import click

from pytest_llmeval.errors import listed_names, nearest
from pytest_llmeval.records import PASS_METRIC, SCORE_METRIC, Case, bare, function_of
from pytest_llmeval.transcripts.scan import ScannedRun

_CANDIDATES = 5  # the most cases that are named where a part of an id fits several


def case_named(text: str, cases: Iterable[str], worst: Callable[[Sequence[str]], str]) -> str:
    """Find the case of a name: a node id with or without its file, a function, or a part of one.

    Args:
        text: as it was typed.
        cases: their node ids.
        worst: picks the case that a function without one means.

    Raises:
        click.UsageError: no case has it, or several have.
    """
    ids = list(cases)
    fits = (
        lambda case: text in (case, case.partition("::")[2]),
        lambda case: text in _names(function_of(case)),
        lambda case: text == f"{bare(function_of(case))}[{_parameters(case)}",
        lambda case: f"{text}]" == _parameters(case),
        lambda case: text in case,
    )
    found = next((like for fit in fits if (like := list(filter(fit, ids)))), [])
    functions = set(map(function_of, found))
    if len(found) == 1:
        return found[0]
    if len(functions) == 1 and not any(text in _parameters(case) for case in found):
        chosen = worst(found)
        click.echo(f"{text} fits {len(found)} cases: this is {chosen}", err=True)
        return chosen
    if not found:
        near = listed_names(nearest(text, ids, likeness=0.4), _CANDIDATES)
        hint = f". Did you mean: {near}" if near else ""
        raise click.UsageError(f"{text}: no case has that in its name{hint}")
    named = listed_names(sorted(functions) if len(functions) > 1 else found, _CANDIDATES)
    raise click.UsageError(f"{text}: {len(found)} cases have that: {named}. Name one of them")


def functions_named(text: str, cases: Iterable[str]) -> set[str]:
    """Find the functions of a name, else the functions with it in part, also in a case's id.

    Args:
        text: as it was typed, with or without a case in brackets.
        cases: node ids.
    """
    ids = list(cases)
    exact = {function_of(case) for case in ids if is_named(text, [case])}
    return exact or {function_of(case) for case in ids if text in case}


def is_named(text: str, cases: Iterable[str]) -> bool:
    """Whether a text names one of these cases, or the function of one."""
    return any(
        function_of(text) in _names(function_of(case)) or f"{text}]" == _parameters(case)
        for case in cases
    )


def _names(function: str) -> tuple[str, str, str]:
    return function, function.partition("::")[2], bare(function)


def _parameters(case: str) -> str:
    return case.partition("[")[2]


def lowest(scanned: ScannedRun, cases: Sequence[str]) -> str:
    """Pick the case with the worst mean; the first one of those without any."""
    means = scanned.means
    known = {case.id: case for case in scanned.header.run.cases}
    found = [
        (value, place)
        for place, case in enumerate(cases)
        if case in known
        for value in turned_means(known[case], means.get(case, {})).values()
    ]
    return cases[min(found, default=(0.0, 0))[1]]


def turned_means(case: Case, means: Mapping[str, float]) -> dict[str, float]:
    """Pick the means of a case that show its quality, turned so that larger ones are better."""
    metrics = case.gate or (SCORE_METRIC if SCORE_METRIC in means else PASS_METRIC,)
    return {
        metric: means[metric] * (1 if case.direction(metric) == "higher" else -1)
        for metric in metrics
        if metric in means
    }
