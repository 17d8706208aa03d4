"""Drops that are meant: what ``llm_accept`` lets pass, for as long as the baseline is the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_llmeval.checks import ACCEPTED_AT
from pytest_llmeval.gate.family import bears
from pytest_llmeval.gate.results import Comparison, Fact, FunctionComparison, Verdict, Why

# the commit of a baseline, and what was held against it
Judged = tuple[str | None, Comparison]
_SHOWN = 7  # digits of a hash


def accept(
    functions: Sequence[FunctionComparison], entries: Sequence[str], *, commit: str | None
) -> tuple[FunctionComparison, ...]:
    """Let regressions pass that the branch says are meant, and nothing else.

    Args:
        functions: with their verdicts; p-values were adjusted with those that pass.
        entries: ``function:metric @ commit``.
        commit: of the baseline.
    """
    passing = set()
    for entry in entries:
        found = [one for one in functions if _names(entry, one.function, one.metric)]
        if len(found) == 1 and _is_of(entry, commit) and found[0].verdict is Verdict.REGRESSED:
            passing.add((found[0].function, found[0].metric))
    return tuple(
        replace(one, accepted=True, fails=False) if (one.function, one.metric) in passing else one
        for one in functions
    )


def notes_on_accepted(entries: Sequence[str], judged: Sequence[Judged]) -> Iterator[Fact]:
    """Tell which entries let nothing pass, and why.

    Args:
        entries: ``function:metric @ commit``.
        judged: the comparison with the baseline, and that with the anchor.
    """
    for entry in entries:
        of_commit = [comparison for commit, comparison in judged if _is_of(entry, commit)]
        if not of_commit:
            commits = (commit[:_SHOWN] if commit else "no commit" for commit, _ in judged)
            yield Fact(Why.ACCEPTED_FOR_ANOTHER, (entry, ", ".join(dict.fromkeys(commits))))
            continue
        metric = _name(entry).rpartition(":")[2]
        named = {
            function
            for comparison in of_commit
            for function in (
                *(one.function for one in comparison.functions if one.metric == metric),
                *(str(one.figures[0]) for one in comparison.not_judged),
            )
            if _names(entry, function, metric)
        }
        if not named:
            yield Fact(Why.ACCEPTED_NOTHING, (entry,))
        elif len(named) > 1:
            yield Fact(Why.ACCEPTED_SEVERAL, (entry, len(named), f"{min(named)}:{metric}"))


def _name(entry: str) -> str:
    return entry.rpartition(ACCEPTED_AT)[0]


def _names(entry: str, function: str, metric: str) -> bool:
    name = _name(entry)
    return name.endswith(f":{metric}") and bears(name, function, metric)


def _is_of(entry: str, commit: str | None) -> bool:
    return commit is not None and commit.startswith(entry.rpartition(ACCEPTED_AT)[2])
