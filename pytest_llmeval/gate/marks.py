"""The marks of a branch, held to what those of main ask for: least means of cases, and repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_llmeval.errors import listed_names
from pytest_llmeval.gate.results import MOST_NAMED, Comparison, Fact, Verdict, Why
from pytest_llmeval.gate.scoring import FunctionScores, Side, gated_metrics
from pytest_llmeval.records import MEASURED_METRICS, POOLED, Case, Run, Trial, trials_by_case

_TOLERANCE = 1e-9  # 0.7 + 0.1 is not quite 0.8
_Pair = tuple[Case, Case]  # in the baseline, and here


def gated_means(trials: Sequence[Trial], case: Case) -> dict[str, float | None]:
    """Compute the mean of a case on each metric that is gated; None without a score."""
    side = Side(function=case.function, cases={case.id: case}, trials={case.id: tuple(trials)})
    of_test = [metric for metric in gated_metrics(side) if metric not in MEASURED_METRICS]
    scored = {metric: FunctionScores(side, metric).of_case[case.id] for metric in of_test}
    return {metric: scores.mean if scores else None for metric, scores in scored.items()}


def below_min_score(trials: Sequence[Trial], case: Case) -> tuple[str, str] | None:
    """Return the first gated metric whose mean is below ``min_score``, and the mean; else None."""
    if case.min_score is None:
        return None
    for metric, mean in gated_means(trials, case).items():
        if mean is None or mean < case.min_score - _TOLERANCE:
            return metric, "none" if mean is None else f"{round(mean, 12):.3f}"
    return None


def held_to_marks(found: Comparison, baseline: Run, run: Run, *, is_green: bool) -> Comparison:
    """Fail a comparison that would have failed under the marks of the baseline.

    A case must reach the baseline's ``min_score``, if it did so there. Too little data fails where
    the mark asks for fewer repeats than the baseline's.

    Args:
        found: of both runs.
        baseline: the run that is compared with, under the names that its cases have here.
        run: the run that is judged.
        is_green: no case failed by itself; else its own ``min_score`` may have told of it.
    """
    main = {case.id: case for case in baseline.cases}
    pairs = [(main[case.id], case) for case in run.cases if case.id in main]
    fewer = _fewer_repeats(pairs, found.names)
    lower, below = _lower_min_scores(pairs, found.names, baseline, run)
    functions = tuple(
        replace(one, fails=True)
        if one.function in fewer and one.verdict is Verdict.INCONCLUSIVE
        else one
        for one in found.functions
    )
    told = Fact(Why.BELOW_MIN_SCORE, (listed_names(below, MOST_NAMED),))
    return replace(
        found,
        functions=functions,
        below=told if below and is_green else None,
        fails=found.fails or any(one.fails for one in functions) or bool(below and is_green),
        notes=(*found.notes, *lower.values(), *fewer.values()),
    )


def _fewer_repeats(pairs: Sequence[_Pair], names: Mapping[str, str]) -> dict[str, Fact]:
    """Find the functions whose mark asks for fewer repeats than the baseline's."""
    return {
        new.function: Fact(
            Why.FEWER_REPEATS, (names.get(new.function, new.function), new.repeats, old.marked)
        )
        for old, new in pairs
        if new.marked == new.repeats < old.marked
    }


def _lower_min_scores(
    pairs: Sequence[_Pair], names: Mapping[str, str], baseline: Run, run: Run
) -> tuple[dict[str, Fact], list[str]]:
    """Find the functions with a lower ``min_score``, and the cases that are below the baseline's.

    Where the baseline did not reach its own number nothing is asked for.
    """
    bounded = [(old, new) for old, new in pairs if old.min_score is not None]
    before = trials_by_case(baseline, [old.id for old, _ in bounded])
    after = trials_by_case(run, [new.id for _, new in bounded])
    lower, below = dict[str, Fact](), list[str]()
    for old, new in bounded:
        own = [trial for trial in before.get(old.id, ()) if trial.index < POOLED]
        if old.min_score is None or below_min_score(own, old):
            continue
        name = names.get(new.function, new.function)
        if new.min_score is None or new.min_score < old.min_score:
            asked = "None" if new.min_score is None else f"{new.min_score:g}"
            lower[new.function] = Fact(Why.LOWER_MIN_SCORE, (name, asked, f"{old.min_score:g}"))
        short = below_min_score(after[new.id], old)
        if short and any(trial.outcome.is_scored for trial in after[new.id]):
            metric, mean = short
            case = name + new.id.removeprefix(new.function)
            below.append(f"{case} ({metric} {mean}, {old.min_score:g})")
    return lower, below
