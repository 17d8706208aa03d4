"""The functions that two runs have, paired on every gated metric and examined."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_llmeval.gate.changes import CallsOfBoth
from pytest_llmeval.gate.conclusion import conclude_new, describe_ungated, examine
from pytest_llmeval.gate.edited import find_edits
from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.results import Fact, FunctionComparison, Name, Why
from pytest_llmeval.gate.scoring import Side, gated_metrics, records, sides_of, ungated_metrics
from pytest_llmeval.gate.significance import Examined
from pytest_llmeval.records import Better, Case, Run
from pytest_llmeval.settings import GateRules
from pytest_llmeval.vendors import MODEL_FIXTURES

Entry = FunctionComparison | Examined


class BothRuns:
    """The functions of both runs, and the calls of those that both have.

    Attributes:
        sides: the functions of the baseline; ``current`` those of this run.
        of_main: where the baseline is an anchor, the functions of the baseline proper; else None.
        baseline: the run that is compared with; ``run`` the run that is judged.
        rules: of the gate.
    """

    def __init__(self, baseline: Run, run: Run, rules: GateRules, *, main: Run | None) -> None:
        self.sides, self.current = sides_of(baseline), sides_of(run)
        self.of_main = None if main is None else sides_of(main)
        self.baseline, self.run, self.rules = baseline, run, rules
        self._calls = {
            name: CallsOfBoth(self.sides[name].trials, side.trials)
            for name, side in self.current.items()
            if name in self.sides
        }
        of_main = self.of_main or {}
        self._edits = {
            name: find_edits(
                self.sides[name], self.current[name], rule=rules.edited, main=of_main.get(name)
            )
            for name in self._calls
        }

    def gated_names(self) -> Iterator[Name]:
        """Name every metric that is gated here, of every function that both runs have."""
        for function in self._calls:
            sides = self.current[function], self.sides[function]
            metrics = dict.fromkeys(metric for side in sides for metric in gated_metrics(side))
            yield from ((function, metric) for metric in metrics)

    def collected(
        self, given_up: Collection[Name] = (), in_part: Collection[str] = ()
    ) -> Iterator[Entry]:
        """Examine every gated metric of every function that this run came to.

        Args:
            given_up: what this run may do without.
            in_part: functions of which the user asked for some cases alone.
        """
        for function, side in self.current.items():
            if not side.every_trial():
                continue  # the session was stopped before it came to this function
            baseline, in_full = self.sides.get(function), function not in in_part
            compared = {} if baseline is None else self._compared(baseline, side, given_up)
            for metric in dict.fromkeys((*gated_metrics(side), *compared)):
                if metric in compared:
                    better = compared[metric]
                    pairing = self._pairing(function, metric, better, self.rules, in_full=in_full)
                    yield examine(pairing)
                else:
                    partial = not (in_full and side.ran_in_full)
                    yield conclude_new(side, metric, baseline, partial=partial, rules=self.rules)

    def _compared(
        self, baseline: Side, side: Side, given_up: Collection[Name]
    ) -> Mapping[str, Better]:
        """Return the metrics of a function that are compared, with the better direction of each.

        One more that this run gates would make a fall on those of main harder to find. So it is
        compared only in the place of one that is given up; or if main gates it since the anchor.
        """
        gates, of_main = gated_metrics(baseline), (self.of_main or {}).get(side.function)
        kept = [metric for metric in gates if (side.function, metric) not in given_up]
        others = [
            metric
            for metric in gated_metrics(side)
            if metric not in gates and records(baseline.every_trial(), metric)
        ]
        since = [one for one in others if of_main and one in gated_metrics(of_main)]
        instead = [one for one in others if one not in since][: len(gates) - len(kept)]
        return {one: baseline.better(one) for one in kept} | {
            one: side.better(one) for one in (*since, *instead)
        }

    def _pairing(
        self, function: str, metric: str, better: Better, rules: GateRules, *, in_full: bool = True
    ) -> Pairing:
        return Pairing(
            self.sides[function],
            self.current[function],
            metric,
            calls=self._calls[function],
            better=better,
            rules=rules,
            in_full=in_full,
            edits=self._edits[function],
            replaced=self._replaced(function),
        )

    def ungated(self, functions: Sequence[FunctionComparison]) -> Iterator[FunctionComparison]:
        """Describe whatever else the functions of both runs have."""
        plain = replace(self.rules, test="paired-t")
        for function in self._calls:
            side = self.current[function]
            gated = [one.metric for one in functions if one.function == function]
            trials = [*self.sides[function].every_trial(), *side.every_trial()]
            for metric in ungated_metrics(trials, gated):
                pairing = self._pairing(function, metric, side.better(metric), plain)
                if pairing.pairs:
                    yield describe_ungated(pairing)

    def with_changes_of_test(self, one: FunctionComparison) -> FunctionComparison:
        """Note whether the code of the test, or of one of its fixtures, has changed."""
        name = one.function
        if name not in self._calls:
            return one
        digests = {side.tests.get(name) for side in (self.baseline, self.run)}
        old, new = (side.fixtures.get(name, {}) for side in (self.baseline, self.run))
        return replace(
            one,
            test_changed=len(digests - {None}) > 1,
            fixtures_changed=tuple(
                sorted(one for one in old.keys() & new.keys() if old[one] != new[one])
            ),
        )

    def _replaced(self, function: str) -> Collection[str]:
        """Name the fixtures of ours that the project replaces here, and not in the baseline."""
        old, new = (side.fixtures.get(function, {}) for side in (self.baseline, self.run))
        return MODEL_FIXTURES & (new.keys() - old.keys())

    def notes(self) -> Iterator[Fact]:
        """Tell where a fixture of ours was replaced, and where the markers of the runs disagree."""
        for function in self._calls:
            if replaced := self._replaced(function):
                yield Fact(Why.FIXTURE_REPLACED, (function, ", ".join(sorted(replaced))))
        both = [
            (side, self.current[name]) for name, side in self.sides.items() if name in self.current
        ]
        for side, other in both:
            for metric in gated_metrics(side):
                better, wanted = side.better(metric), other.better(metric)
                if better != wanted:
                    yield Fact(Why.OTHER_DIRECTION, (f"{side.function}:{metric}", better, wanted))
        for side, other in both:
            common = [
                (one, other.cases[name]) for name, one in side.cases.items() if name in other.cases
            ]
            if any(_ties(one) != _ties(another) for one, another in common):
                yield Fact(Why.TIED_OTHERWISE, (side.function,))


def _ties(case: Case) -> tuple[str | None, str | None, str | None]:
    return case.cluster, case.wording, case.topic
