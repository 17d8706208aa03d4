"""All comparisons of a session: what each p-value is worth beside the others, and accepted drops.

What ``llm_accept`` lets pass it lets pass for as long as the baseline is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_llmeval.checks import ACCEPTED_AT
from pytest_llmeval.gate.results import Comparison, Fact, FunctionComparison, Verdict, Why
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.multiplicity import benjamini_hochberg, fixed_sequence, holm
from pytest_llmeval.stats.sample import Tails

ADJUST = {"holm": holm, "bh": benjamini_hochberg}

# a test function and a metric of it
Name = tuple[str, str]
# the commit of a baseline, and what was held against it
Judged = tuple[str | None, Comparison]
_SHOWN = 7  # digits of a hash


class Family:
    """The comparisons of a session that were tested, and so share the error rate.

    Each function on each gated metric is a member. What the order of the rules names is tested in
    that order, each at the full level as long as all before it were found. The others come
    after, adjusted together, and count only if all that were named did.

    Attributes:
        adjusted: the adjusted p-values of each member.
        size: the number of members.
    """

    def __init__(self, tests: Mapping[Name, Tails], rules: GateRules) -> None:
        """Adjust the p-values.

        Args:
            tests: the p-values of every comparison that was tested.
            rules: the order, and how the others are adjusted.
        """
        ranked = [name for entry in rules.order for name in tests if bears(entry, *name)]
        self._named = list(dict.fromkeys(ranked))
        self._rest = [name for name in tests if name not in self._named]
        self._rules = rules
        worse = self._together({name: tails.worse for name, tails in tests.items()})
        better = self._together({name: tails.better for name, tails in tests.items()})
        self.adjusted = {name: Tails(worse=worse[name], better=better[name]) for name in tests}
        self.size = len(tests)

    def penalty(self, name: Name) -> int:
        """Return by what a p-value is multiplied where all others show nothing."""
        return 1 if name in self._named else len(self._rest)

    def _together(self, p_values: Mapping[Name, float]) -> dict[Name, float]:
        in_turn = fixed_sequence([p_values[name] for name in self._named])
        floor = max(in_turn, default=0.0)
        adjust = ADJUST[self._rules.multiplicity]
        others = adjust([p_values[name] for name in self._rest])
        return dict(zip(self._named, in_turn, strict=True)) | {
            name: max(floor, p) for name, p in zip(self._rest, others, strict=True)
        }


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
