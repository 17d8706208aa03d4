"""Several comparisons in one session: how much each p-value is worth among the others."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.multiplicity import benjamini_hochberg, fixed_sequence, holm
from pytest_llmeval.stats.sample import Tails

ADJUST = {"holm": holm, "bh": benjamini_hochberg}

# a test function and a metric of it
Name = tuple[str, str]


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
