"""Comparison of a run with a baseline: every function on every gated metric, and one verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_llmeval.gate.accepted import accept
from pytest_llmeval.gate.both_runs import BothRuns, Entry
from pytest_llmeval.gate.conclusion import conclude
from pytest_llmeval.gate.early_stopping import LooksAtRun
from pytest_llmeval.gate.family import adjusted_together
from pytest_llmeval.gate.gone import Missing
from pytest_llmeval.gate.looks import Looked
from pytest_llmeval.gate.results import Comparison, FunctionComparison, Name, Verdict
from pytest_llmeval.gate.scoring import CostOf, measured
from pytest_llmeval.gate.significance import Examined
from pytest_llmeval.records import Run, as_stopped, distinct_names, filters_of, stops_of
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.sample import CaseScores

TOGETHER = "all cases"  # the name of the one function that has the cases of several


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
    before, after = measured(baseline, cost_of=cost_of), measured(run, cost_of=cost_of)
    looks = LooksAtRun(before, after, rules, main=main)
    both = BothRuns(before, looks.run, rules, main=main)
    missing = Missing(both, typed=typed, lost=lost)
    in_part, stops = _in_part(baseline, run, typed=typed), stops_of(run)
    names = distinct_names([*both.sides, *both.current])
    entries = [*both.collected(missing.given_up, in_part), *missing.concluded()]
    concluded = [
        replace(
            both.with_changes_of_test(one),
            name=names[one.function],
            stopped_at=stops.get(one.function),
        )
        for one in _concluded(entries, looks.at(entries, in_part=in_part), rules)
    ]
    functions = accept(concluded, rules.accept, baseline=before)
    found = Comparison(
        verdict=Verdict.NOT_COMPARABLE,
        fails=False,
        functions=functions,
        ungated=tuple(replace(one, name=names[one.function]) for one in both.ungated(functions)),
        not_judged=missing.not_judged,
        notes=(*missing.notes_on_metrics(), *both.notes(), *missing.notes_on_entries()),
    )
    return summed_up(found, rules)


def summed_up(found: Comparison, rules: GateRules) -> Comparison:
    """Return a comparison with the verdict on all of its functions.

    Args:
        found: with every function.
        rules: whether the gate is strict.
    """
    verdicts = {one.verdict for one in found.functions}
    fell = any(one.fails for one in found.functions)
    lacks_parts = rules.strict and bool(found.not_judged or found.judged_in_part)
    return replace(
        found,
        verdict=next((v for v in Verdict if v in verdicts), Verdict.NOT_COMPARABLE),
        fails=fell or found.compared_nothing or lacks_parts,
    )


def _in_part(baseline: Run, run: Run, *, typed: Sequence[str] | None) -> Collection[str]:
    """Name the functions of which this run has fewer cases because the user asked for fewer."""
    further = filters_of(run.selection) - filters_of(baseline.selection)
    meant = further if typed is None else further & filters_of(typed)
    return () if run.is_whole and not meant else run.partial


def _concluded(
    entries: Sequence[Entry], looks: Mapping[Name, Looked], rules: GateRules
) -> Iterator[FunctionComparison]:
    """Adjust the p-values of all tests together, then give each its verdict."""
    judged = [
        looks[one.name].judged(one) if isinstance(one, Examined) and one.name in looks else one
        for one in entries
    ]
    tests = {one.name: one.found.tails for one in judged if isinstance(one, Examined)}
    family = adjusted_together(tests, rules)
    for one in judged:
        if isinstance(one, Examined):
            yield conclude(one, family, looks=looks.get(one.name))
        else:
            yield one


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
    run = as_stopped(run)
    halves = {case.id: case.repeats // 2 for case in run.cases}
    cases = tuple(replace(c, repeats=halves[c.id]) for c in run.cases if halves[c.id])
    repeats = {case.id: case.repeats for case in run.cases}
    first = [t for t in run.trials if t.index < halves[t.case]]
    last = [t for t in run.trials if repeats[t.case] - t.index <= halves[t.case]]
    before, after = (replace(run, cases=cases, trials=tuple(half)) for half in (first, last))
    return compare(before, after, GateRules(alpha=alpha), cost_of=cost_of).functions


def compare_together(
    baseline: Run,
    run: Run,
    cases: Collection[str],
    metric: str,
    rules: GateRules,
    *,
    cost_of: CostOf | None = None,
) -> Comparison:
    """Compare cases of several functions as if one function had them all.

    What ties cases of unlike functions, such as a shared draw or a cluster, makes them one unit.

    Args:
        baseline: the run to compare with.
        run: the run that is judged.
        cases: ids of cases that were compared in their own functions.
        metric: that is compared; the others are described.
        rules: of which those that name functions do not count.
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.

    Returns:
        A comparison with one function, of which the verdict means nothing.
    """
    before, after = (
        replace(
            one,
            cases=tuple(
                replace(case, function=TOGETHER, gate=(metric,))
                for case in one.cases
                if case.id in cases
            ),
            trials=tuple(trial for trial in one.trials if trial.case in cases),
        )
        for one in map(as_stopped, (baseline, run))
    )
    plain = replace(rules, accept=(), accept_gone=(), edited="compare")
    return compare(before, after, plain, cost_of=cost_of)


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
