"""Make runs of score tables, for the gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import (
    OWN_DIRECTIONS,
    PASS_METRIC,
    SCORE_METRIC,
    Better,
    Case,
    Outcome,
    Run,
    Trial,
    bare_run,
)
from pytest_llmeval.runs.score_tables.reader import ScoreTable

FUNCTION = "scores"
NO_SCORE = "the score is empty"


def runs_of(
    baseline: ScoreTable, candidate: ScoreTable, *, better: Better | None = None
) -> tuple[Run, Run]:
    """Make a run of each table: one function for each metric, one case for each id.

    A metric without a name is ``pass`` where every score on both sides is 0 or 1, since
    more can be said of those, and ``score`` elsewhere, also where lower is better.

    Args:
        baseline: what is compared with.
        candidate: what is judged.
        better: which direction of all metrics is good; None for that of each, or higher.

    Raises:
        SettingsError: ``better`` turns nothing.
    """
    tables = (baseline, candidate)
    passes = better != "lower" and all(table.may_be_passes for table in tables)
    unnamed = PASS_METRIC if passes else SCORE_METRIC
    metrics = dict.fromkeys(metric or unnamed for table in tables for metric in table.scores)
    if better is not None and all(OWN_DIRECTIONS.get(m, better) != better for m in metrics):
        raise SettingsError(
            f"--better={better} has nothing to turn: {' and '.join(metrics)} has a direction of "
            "its own; leave it out"
        )
    is_alone = len(metrics) == 1
    first, second = (
        _run_of(table, unnamed=unnamed, is_alone=is_alone, better=better or "higher")
        for table in tables
    )
    return first, second


def _run_of(table: ScoreTable, *, unnamed: str, is_alone: bool, better: Better) -> Run:
    cases: list[Case] = []
    trials: list[Trial] = []
    for name, scores in table.scores.items():
        metric = name or unnamed
        known: dict[float, Mapping[str, float]] = {}  # a million trials have few scores
        for case_id, of_case in scores.items():
            topic, wording = table.wordings.get(case_id, (None, None))
            case = Case(
                # the same case is another one of each metric
                id=case_id if is_alone else f"{metric}::{case_id}",
                function=FUNCTION if is_alone else f"{FUNCTION}::{metric}",
                repeats=len(of_case),
                gate=(metric,),
                better=better,
                cluster=table.clusters.get(case_id),
                wording=wording,
                topic=topic,
            )
            cases.append(case)
            trials += _trials(case, of_case, metric=metric, known=known)
    run = bare_run(table.reference, created=table.created)
    return replace(run, cases=tuple(cases), trials=tuple(trials))


def _trials(
    case: Case,
    scores: Mapping[int, float | None],
    *,
    metric: str,
    known: dict[float, Mapping[str, float]],
) -> Iterator[Trial]:
    for index, score in sorted(scores.items()):
        if score is None:
            yield Trial(case=case.id, index=index, outcome=Outcome.ERRORED, message=NO_SCORE)
            continue
        missed = metric == PASS_METRIC and not score
        yield Trial(
            case=case.id,
            index=index,
            outcome=Outcome.MISSED if missed else Outcome.PASSED,
            scores=known.setdefault(score, {metric: score}),
        )
