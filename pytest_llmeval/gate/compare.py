"""Comparison of a run with a baseline: every function on every gated metric, and one verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from pytest_llmeval.gate.accepted import accept
from pytest_llmeval.gate.changes import CallsOfBoth
from pytest_llmeval.gate.conclusion import (
    conclude,
    conclude_gone,
    conclude_new,
    describe_ungated,
    examine,
)
from pytest_llmeval.gate.edited import find_edits
from pytest_llmeval.gate.family import Name, adjusted_together
from pytest_llmeval.gate.gone import Missing
from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.results import Comparison, Fact, FunctionComparison, Method, Verdict, Why
from pytest_llmeval.gate.scoring import (
    CostOf,
    Side,
    gated_metrics,
    measured,
    records,
    sides_of,
    ungated_metrics,
)
from pytest_llmeval.records import MEASURED_METRICS, Run, distinct_names, filters_of
from pytest_llmeval.settings import AnyTest, GateRules
from pytest_llmeval.stats.sample import CaseScores, SignificanceResult
from pytest_llmeval.vendors import MODEL_FIXTURES

Tested = tuple[Pairing, Method, SignificanceResult]
Entry = FunctionComparison | Tested


def compare(
    baseline: Run,
    run: Run,
    rules: GateRules,
    *,
    cost_of: CostOf | None = None,
    typed: Sequence[str] | None = None,
    lost: Collection[str] = (),
    main: Run | None = None,
) -> Comparison:
    """Compare a run with a baseline.

    Pure: the same runs give the same figures, in whatever order cases and trials come.

    Args:
        baseline: the run to compare with, eligible as such.
        run: the run that is judged; may be partial.
        rules: level, margin, target and strictness, checked for their ranges.
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.
        typed: what the user typed of the selection, ``--lf`` too; None if all of it was meant.
        lost: files of the baseline that are not in the working tree any more.
        main: where the baseline is an anchor, the baseline proper: what this one lacks is given up.

    Returns:
        A comparison for each test function and gated metric, and the verdict on all.
    """
    runs = measured(baseline, cost_of=cost_of), measured(run, cost_of=cost_of)
    both = _BothRuns(*runs, rules, main=main)
    missing = Missing(
        both.sides,
        both.current,
        baseline=baseline,
        run=run,
        typed=typed,
        lost=lost,
        entries=rules.accept_gone,
        main=main,
    )
    return _overall(both, missing, _in_part(baseline, run, typed=typed), rules)


def _overall(
    both: _BothRuns, missing: Missing, in_part: Collection[str], rules: GateRules
) -> Comparison:
    concluded = _concluded([*both.collected(missing, in_part), *both.gone(missing)], rules)
    names = distinct_names([*both.sides, *both.current])
    noted = [replace(both.with_changes_of_test(one), name=names[one.function]) for one in concluded]
    functions = accept(noted, rules.accept, baseline=both.baseline)
    verdicts = {one.verdict for one in functions}
    found = Comparison(
        verdict=next((v for v in Verdict if v in verdicts), Verdict.NOT_COMPARABLE),
        fails=any(one.fails for one in functions),
        functions=functions,
        ungated=tuple(replace(one, name=names[one.function]) for one in both.ungated(functions)),
        not_judged=missing.not_judged,
        notes=(
            *missing.notes_on_metrics(),
            *both.notes_on_fixtures(),
            *both.notes_on_markers(),
            *missing.notes_on_entries(),
        ),
    )
    lacks_parts = rules.strict and bool(missing.not_judged or found.judged_in_part)
    return replace(found, fails=found.fails or found.compared_nothing or lacks_parts)


def _in_part(baseline: Run, run: Run, *, typed: Sequence[str] | None) -> Collection[str]:
    """Name the functions of which this run has fewer cases because the user asked for fewer."""
    further = filters_of(run.selection) - filters_of(baseline.selection)
    meant = further if typed is None else further & filters_of(typed)
    return () if run.complete and not meant else run.partial


class _BothRuns:
    """The functions of both runs, and the calls of those that both have.

    Attributes:
        sides: the functions of the baseline; ``current`` those of this run.
        baseline: the run that is compared with.
    """

    def __init__(self, baseline: Run, run: Run, rules: GateRules, *, main: Run | None) -> None:
        self.sides, self.current = sides_of(baseline), sides_of(run)
        self.baseline = baseline
        self._rules = rules
        self._tests = baseline.tests, run.tests
        self._fixtures = baseline.fixtures, run.fixtures
        self._calls = {
            name: CallsOfBoth(self.sides[name].trials, side.trials)
            for name, side in self.current.items()
            if name in self.sides
        }
        of_main = {} if main is None else sides_of(main)
        self._edits = {
            name: find_edits(
                self.sides[name], self.current[name], rule=rules.edited, main=of_main.get(name)
            )
            for name in self._calls
        }

    def collected(self, missing: Missing, in_part: Collection[str]) -> Iterator[Entry]:
        """Examine every gated metric of every function that this run came to."""
        for function, side in self.current.items():
            if not side.every_trial():
                continue  # the session was stopped before it came to this function
            baseline, in_full = self.sides.get(function), function not in in_part
            main_gates = () if baseline is None else gated_metrics(baseline)
            for metric in dict.fromkeys((*gated_metrics(side), *main_gates)):
                if (function, metric) in missing.given_up:
                    continue
                kept = metric in main_gates
                if baseline is None or not (kept or records(baseline.every_trial(), metric)):
                    partial = not (in_full and side.ran_in_full)
                    yield conclude_new(side, metric, partial=partial, rules=self._rules)
                    continue
                pairing = Pairing(
                    baseline,
                    side,
                    metric,
                    calls=self._calls[function],
                    better=(baseline if kept else side).better(metric),
                    test=_test_of(metric, self._rules.test),
                    in_full=in_full,
                    edits=self._edits[function],
                    replaced=self._replaced(function),
                )
                found = examine(pairing, self._rules)
                yield found if isinstance(found, FunctionComparison) else (pairing, *found)

    def gone(self, missing: Missing) -> Iterator[FunctionComparison]:
        """Write down the functions that only the baseline has."""
        for function in missing.functions:
            for metric in gated_metrics(self.sides[function]):
                yield conclude_gone(self.sides[function], metric, why=missing.why(function))

    def ungated(self, functions: Sequence[FunctionComparison]) -> Iterator[FunctionComparison]:
        """Describe whatever else the functions of both runs have."""
        for function, calls in self._calls.items():
            baseline, side = self.sides[function], self.current[function]
            gated = [one.metric for one in functions if one.function == function]
            trials = [*baseline.every_trial(), *side.every_trial()]
            for metric in ungated_metrics(trials, gated):
                better, test = side.better(metric), _test_of(metric, "paired-t")
                pairing = Pairing(
                    baseline,
                    side,
                    metric,
                    calls=calls,
                    better=better,
                    test=test,
                    edits=self._edits[function],
                )
                if pairing.pairs:
                    yield describe_ungated(pairing, alpha=self._rules.alpha)

    def with_changes_of_test(self, one: FunctionComparison) -> FunctionComparison:
        """Note whether the code of the test, or of one of its fixtures, has changed."""
        name = one.function
        if name not in self._calls:
            return one
        digests = {tests.get(name) for tests in self._tests}
        old, new = (fixtures.get(name, {}) for fixtures in self._fixtures)
        return replace(
            one,
            test_changed=len(digests - {None}) > 1,
            fixtures_changed=tuple(
                sorted(one for one in old.keys() & new.keys() if old[one] != new[one])
            ),
        )

    def _replaced(self, function: str) -> Collection[str]:
        """Name the fixtures of ours that the project replaces here, and not in the baseline."""
        old, new = (fixtures.get(function, {}) for fixtures in self._fixtures)
        return MODEL_FIXTURES & (new.keys() - old.keys())

    def notes_on_fixtures(self) -> Iterator[Fact]:
        """Tell where a fixture that asks a model was replaced by one of the project."""
        for function in self._calls:
            if replaced := self._replaced(function):
                yield Fact(Why.FIXTURE_REPLACED, (function, ", ".join(sorted(replaced))))

    def notes_on_markers(self) -> Iterator[Fact]:
        """Tell where the markers of the two runs disagree."""
        names = [name for name in self.sides if name in self.current]
        both = [(self.sides[name], self.current[name]) for name in names]
        for side, other in both:
            for metric in gated_metrics(side):
                better, wanted = side.better(metric), other.better(metric)
                if better != wanted:
                    yield Fact(Why.OTHER_DIRECTION, (f"{side.function}:{metric}", better, wanted))
        for side, other in both:
            if _tied_otherwise(side, other):
                yield Fact(Why.TIED_OTHERWISE, (side.function,))


def _test_of(metric: str, chosen: AnyTest) -> AnyTest:
    return "log-ratio" if metric in MEASURED_METRICS else chosen


def _concluded(entries: Sequence[Entry], rules: GateRules) -> tuple[FunctionComparison, ...]:
    """Adjust the p-values of all tests together, then give each its verdict."""
    tested = [entry for entry in entries if not isinstance(entry, FunctionComparison)]
    tails = {pairing.name: found.tails for pairing, _, found in tested}
    family = adjusted_together(tails, rules)
    return tuple(
        entry if isinstance(entry, FunctionComparison) else conclude(*entry, family, rules)
        for entry in entries
    )


def _tied_otherwise(baseline: Side, current: Side) -> bool:
    """Tell whether the markers of the two runs put common cases into unlike units."""
    return any(
        (one.cluster, one.wording, one.topic) != (other.cluster, other.wording, other.topic)
        for name, one in baseline.cases.items()
        if (other := current.cases.get(name)) is not None
    )


def compare_halves(
    run: Run, *, alpha: float, cost_of: CostOf | None = None
) -> tuple[FunctionComparison, ...]:
    """Let the gate judge the second half of a run by the first.

    The middle one of an odd number of repeats is left out. Nothing changed between the halves, so
    whatever the gate finds is chance or drift.

    Args:
        run: with two repeats or more of some cases; other cases take no part.
        alpha: one-sided level, in (0, 0.5).
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.
    """
    halves = {case.id: case.repeats // 2 for case in run.cases}
    cases = tuple(replace(c, repeats=halves[c.id]) for c in run.cases if halves[c.id])
    repeats = {case.id: case.repeats for case in run.cases}
    first = [t for t in run.trials if t.index < halves[t.case]]
    last = [t for t in run.trials if repeats[t.case] - t.index <= halves[t.case]]
    before, after = (replace(run, cases=cases, trials=tuple(half)) for half in (first, last))
    return compare(before, after, GateRules(alpha=alpha), cost_of=cost_of).functions


def changed_cases(
    baseline: Run, run: Run, *, cost_of: CostOf | None = None
) -> dict[Name, tuple[CaseScores, ...]]:
    """Return the scores of every changed case on both sides, on the scale of comparison.

    Args:
        baseline: what is compared with.
        run: what changed.
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.
    """
    functions = compare(baseline, run, GateRules(), cost_of=cost_of).functions
    return {
        (one.function, one.metric): tuple(
            CaseScores(baseline=case.every_baseline.values, current=case.every_current.values)
            for case in one.compared
            if case.kind is not None
        )
        for one in functions
    }
