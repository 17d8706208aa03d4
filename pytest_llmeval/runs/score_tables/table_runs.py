"""From score tables to the runs that the gate takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_llmeval.records import PASS_METRIC, SCORE_METRIC, Better, Case, Outcome, Run, Trial
from pytest_llmeval.runs.score_tables.reader import Scores, ScoreTable

FUNCTION = "scores"
NO_SCORE = "the score is empty"


def runs_of(
    baseline: ScoreTable, candidate: ScoreTable, *, better: Better = "higher"
) -> tuple[Run, Run]:
    """Make a run of each table: one function for each metric, one case for each id.

    A metric without a name is ``pass`` where every score on both sides is 0 or 1, since
    more can be said of those, and ``score`` elsewhere, also where lower is better.

    Args:
        baseline: what is compared with.
        candidate: what is judged.
        better: which direction of all metrics is good.
    """
    tables = (baseline, candidate)
    passes = better == "higher" and all(table.may_be_passes for table in tables)
    unnamed = PASS_METRIC if passes else SCORE_METRIC
    metrics = {metric or unnamed for table in tables for metric in table.scores}
    there, here = (
        _Writer(table, unnamed=unnamed, alone=len(metrics) == 1, better=better).run()
        for table in tables
    )
    return there, here


class _Writer:
    """Writes one table as a run."""

    def __init__(self, table: ScoreTable, *, unnamed: str, alone: bool, better: Better) -> None:
        self._table = table
        self._unnamed = unnamed
        self._alone = alone
        self._better = better

    def run(self) -> Run:
        table = self._table
        return Run(
            id=table.reference,
            created=table.created,
            commit=None,
            tree=None,
            dirty=False,
            ref=None,
            root=".",
            versions={},
            selection=(),
            complete=True,
            partial=(),
            cases=tuple(
                case for name, scores in table.scores.items() for case in self._cases(name, scores)
            ),
            trials=tuple(
                trial
                for name, scores in table.scores.items()
                for trial in self._trials(name, scores)
            ),
        )

    def _cases(self, name: str | None, scores: Scores) -> Iterator[Case]:
        metric = name or self._unnamed
        for case, trials in scores.items():
            topic, wording = self._table.wordings.get(case, (None, None))
            yield Case(
                id=self._id(case, metric),
                function=FUNCTION if self._alone else f"{FUNCTION}::{metric}",
                repeats=len(trials),
                gate=(metric,),
                better=self._better,
                cluster=self._table.clusters.get(case),
                wording=wording,
                topic=topic,
            )

    def _trials(self, name: str | None, scores: Scores) -> Iterator[Trial]:
        metric = name or self._unnamed
        known: dict[float, Mapping[str, float]] = {}  # a million trials have few scores
        for case, trials in scores.items():
            id_ = self._id(case, metric)
            for index, score in sorted(trials.items()):
                if score is None:
                    yield Trial(case=id_, index=index, outcome=Outcome.ERRORED, message=NO_SCORE)
                    continue
                missed = metric == PASS_METRIC and not score
                yield Trial(
                    case=id_,
                    index=index,
                    outcome=Outcome.MISSED if missed else Outcome.PASSED,
                    scores=known.setdefault(score, {metric: score}),
                )

    def _id(self, case: str, metric: str) -> str:
        """Name a case: the same one is another case of each metric."""
        return case if self._alone else f"{metric}::{case}"
