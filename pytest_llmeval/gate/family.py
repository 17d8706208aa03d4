"""All comparisons of a session: what each p-value is worth beside the others, and accepted drops.

What ``llm_accept`` lets pass it lets pass for as long as the baseline is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_llmeval.checks import ACCEPTED_AT
from pytest_llmeval.gate.results import Comparison, Fact, FunctionComparison, Verdict, Why
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.multiplicity import benjamini_hochberg, holm
from pytest_llmeval.stats.sample import Tails

ADJUST = {"holm": holm, "bh": benjamini_hochberg}

# a test function and a metric of it
Name = tuple[str, str]
# the commit of a baseline, and what was held against it
Judged = tuple[str | None, Comparison]
_SHOWN = 7  # digits of a hash


# the comparisons of a session that were tested, and so share the error rate
Family = Mapping[Name, Tails]


def adjusted_together(tests: Family, rules: GateRules) -> Family:
    """Adjust the p-values of every comparison that was tested.

    Each function on each gated metric is a member.

    Args:
        tests: the p-values of each member.
        rules: how they are adjusted.
    """
    adjust = ADJUST[rules.multiplicity]
    worse = adjust([tails.worse for tails in tests.values()])
    better = adjust([tails.better for tails in tests.values()])
    columns = zip(tests, worse, better, strict=True)
    return {name: Tails(worse=low, better=high) for name, low, high in columns}


def bears(entry: str, function: str, metric: str) -> bool:
    """Tell whether an entry names a function, with the metric behind a colon or without."""
    bare = entry.removesuffix(f":{metric}")
    return function == bare or function.endswith(f"::{bare}")


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
