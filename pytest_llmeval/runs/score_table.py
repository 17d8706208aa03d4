"""Score tables: the results of any other harness, one row a trial, and the runs made of them.

A table has the columns ``case_id``, ``repeat`` and ``score``, and may have ``metric``,
``cluster``, ``wording`` and ``condition``. An empty score is an errored trial. A case that
is asked in several wordings is a case in each of them.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pytest_llmeval import records
from pytest_llmeval.errors import SettingsError, TableError, did_you_mean, listed_names
from pytest_llmeval.runs import table_rows as rows
from pytest_llmeval.runs.directions import NONE_TYPED, Directions, check_directions
from pytest_llmeval.runs.readers.choice import ENDINGS as OF_OTHERS
from pytest_llmeval.runs.readers.choice import results_of

NO_SCORE = "it has no score"

_TWICE = "; name one condition (FILE::CONDITION) or metric (--metric), or number the repeats"
_ONE_SIDED = "a score on one side alone, as --max-errored allows"

# by case, by repeat; None for an errored trial
Scores = dict[str, dict[int, float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTable:
    """One condition of a table.

    Attributes:
        reference: what the user typed.
        created: when the file was written: UTC, ISO 8601 with seconds.
        scores: by metric; under None where the table does not name its metric.
        clusters: label of each case that has one.
        wordings: of each case that has one: its ``case_id`` and the name of the wording.
        better: which direction of a metric is good, where the table says so.
        notes: what the file lacks, in a sentence each.
    """

    reference: str
    path: Path
    created: str
    scores: dict[str | None, Scores] = field(default_factory=dict)
    clusters: dict[str, str] = field(default_factory=dict)
    wordings: dict[str, tuple[str, str]] = field(default_factory=dict)
    better: dict[str | None, records.Better] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def may_be_passes(self) -> bool:
        """Whether the metric has no name and every score is 0 or 1."""
        trials = self.scores.get(None, {}).values()
        values = {score for of_case in trials for score in of_case.values()}
        return None in self.scores and values <= {None, *rows.PASSES}


Pair = tuple[ScoreTable, ScoreTable]


def table_named(reference: str) -> tuple[Path, str | None] | None:
    """Tell whether a name means a score table.

    Args:
        reference: ``FILE`` or ``FILE::CONDITION``.

    Returns:
        The file and the condition, if one is named; None for a run file and anything else.

    Raises:
        TableError: there is no such file.
    """
    name, separator, condition = reference.partition("::")
    if Path(reference).is_file():
        name, separator = reference, ""
    path = Path(name)
    if not rows.has_ending(path, (*rows.ENDINGS, *OF_OTHERS)):
        if path.suffix.lower() == ".txt" and path.is_file():
            raise TableError(f"{path}: a score table ends in {', '.join(rows.ENDINGS)}")
        return None
    if not path.is_file():
        what = "it is a directory" if path.is_dir() else "there is no such file"
        raise TableError(f"{path}: {what}")
    return None if _is_run_file(path) else (path, condition if separator else None)


def read_table(
    path: Path, *, reference: str, condition: str | None = None, metric: str | None = None
) -> ScoreTable:
    """Read the scores of a table, or of a result file of another harness.

    Args:
        path: a file that ``table_named`` found.
        reference: what the user typed for it.
        condition: which rows count, by the column ``condition``, or of promptfoo by the provider;
            None if there is one condition.
        metric: which rows count, by the column ``metric``, or without such a column the
            name of the column with the scores. None for every metric.

    Raises:
        TableError: a column is missing, a value is no score, a trial is there twice, or no
            row is left.
    """
    results = results_of(path, metric=metric)
    if results is None:
        columns = rows.columns_of(path, condition=condition, metric=metric)
        named, lines = "metric" in columns, rows.read_rows(path, columns)
    else:
        named, lines = True, enumerate(results.rows)
    table = ScoreTable(
        reference=reference,
        path=path,
        created=datetime.fromtimestamp(int(path.stat().st_mtime), UTC).isoformat(),
        notes=() if results is None else tuple(results.notes),
    )
    cure = _TWICE if results is None else ""
    reader = _Reader(table=table, condition=condition, metric=metric, named=named, cure=cure)
    for line, row in lines:
        try:
            reader.take(row)
        except ValueError as exc:
            where = path if results is not None else f"{path}, line {line}"
            raise TableError(f"{where}: {exc}") from None
    reader.check_end()
    return table


def _is_run_file(path: Path) -> bool:
    """Tell a recorded run, whose first line says its schema, from a table of that ending."""
    if not path.name.endswith(".jsonl.gz"):
        return False
    try:
        return "schema" in rows.read_columns(path)
    except TableError:
        return True  # its reader knows what to say of damage


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Gathers the rows of one condition in a table; a value that is no score is an error.

    Attributes:
        table: gets the rows.
        condition: which rows count; None if the table has but one.
        metric: which rows count, or what the scores are of; None for every metric.
        named: a column names the metric.
        cure: what to do about a trial that is there twice, the end of a sentence.
    """

    table: ScoreTable
    condition: str | None
    metric: str | None
    named: bool
    cure: str
    _conditions: dict[str | None, None] = field(default_factory=dict)
    _metrics: dict[str, None] = field(default_factory=dict)

    def take(self, row: rows.Row) -> None:
        """Take in one row, if it is of the condition and metric that count.

        Raises:
            ValueError: a value in it is not what it should be.
        """
        condition = rows.read_label(row.get("condition"))
        self._conditions[condition] = None
        is_alone = len(self._conditions) == 1
        if not (is_alone if self.condition is None else condition == self.condition):
            return
        metric = self.metric
        if self.named:
            metric = rows.read_metric(row.get("metric"))
            self._metrics[metric] = None
            if self.metric not in (None, metric):
                return
        case, wording = rows.read_case(row["case_id"]), rows.read_label(row.get("wording"))
        if wording is not None:
            self.table.wordings[f"{case}[{wording}]"] = case, wording
            case = f"{case}[{wording}]"
        of_case = self.table.scores.setdefault(metric, {}).setdefault(case, {})
        index = rows.read_repeat(row["repeat"])
        if index in of_case:
            raise ValueError(f"repeat {index} of case {case!r} is there a second time{self.cure}")
        of_case[index] = rows.read_score(row["score"], metric=metric)
        cluster = rows.read_label(row.get("cluster"))
        known = cluster if cluster is None else self.table.clusters.setdefault(case, cluster)
        if known != cluster:
            raise ValueError(f"case {case!r} is in cluster {cluster!r} here and in {known!r} above")
        if row.get("better") is not None:
            better = rows.read_better(row["better"])
            own = records.OWN_DIRECTIONS.get(str(metric), better)
            if own != better:
                raise ValueError(f"better is {better!r}, and of {metric} {own} is always better")
            if self.table.better.setdefault(metric, better) != better:
                raise ValueError(f"better is {better!r} here and another one above")

    def check_end(self) -> None:
        """Refuse a table of which no row was taken.

        Raises:
            TableError: no row was taken, or rows of several conditions.
        """
        path = self.table.path
        conditions = [name or "" for name in self._conditions]
        if self.condition is None and len(conditions) > 1:
            typed = shlex.quote(f"{path}::{conditions[0]}")
            raise TableError(
                f"{path} holds {len(conditions)} conditions: name one, such as {typed}; "
                f"it has {listed_names(conditions, rows.LISTED)}"
            )
        if self.table.scores:
            return
        if self._conditions and self.condition not in (None, *self._conditions):
            known = [name for name in self._conditions if name is not None]
            raise self._unknown("condition", str(self.condition), known)
        if self.metric is not None and self._metrics:
            raise self._unknown("metric", self.metric, list(self._metrics))
        raise TableError(f"{path}: no row follows the header")

    def _unknown(self, what: str, name: str, known: list[str]) -> TableError:
        hint = did_you_mean(name, known, most=rows.LISTED)
        return TableError(f"{self.table.path}: no row of {what} {name!r}. {hint}")


def named_alike(pair: Pair) -> tuple[Pair, tuple[str, ...]]:
    """Give scores without a name the one that the other table has.

    Returns:
        The tables, and a sentence on what was taken for what.

    Raises:
        TableError: the other table has several metrics, or a ``pass`` that these scores are not.
    """
    table, other = pair if None in pair[0].scores else pair[::-1]
    names = [name for name in other.scores if name is not None]
    if None not in table.scores or not names or records.SCORE_METRIC in names:
        return pair, ()
    name = names[0]
    if len(names) > 1 or (name == records.PASS_METRIC and not table.may_be_passes):
        raise TableError(
            f"{table.reference} does not name its metric, and {other.reference} has "
            f"{listed_names(names, rows.LISTED)}: write which it is in a column 'metric'"
        )
    named = replace(table, scores={name: table.scores[None]}, better={})
    named.better.update((name, way) for way in table.better.values())
    first, second = (named if one is table else one for one in pair)
    note = f"{table.reference} does not name its metric: its scores are taken for {name}"
    return (first, second), (note,)


def runs_of(
    baseline: ScoreTable, candidate: ScoreTable, *, better: Directions = NONE_TYPED
) -> tuple[records.Run, records.Run]:
    """Make a run of each table: one function for each metric, one case for each id.

    A metric without a name is ``pass`` where every score on both sides is 0 or 1, since the gate
    can say more of such scores. Elsewhere, and where lower is better, it is ``score``.

    Args:
        baseline: what is compared with.
        candidate: what is judged.
        better: which direction of a metric is good, for ``""`` of the only one. Without an entry a
            column ``better`` decides; without a column higher is better.

    Cases are tied by the clusters of either table; where both have one, by the baseline's.

    Raises:
        SettingsError: ``better`` turns nothing, or more than one metric without naming it.
    """
    tables = (baseline, candidate)
    said = {**candidate.better, **baseline.better}
    is_turned = "lower" in (better.get(""), better.get(records.SCORE_METRIC), said.get(None))
    passes = not is_turned and all(table.may_be_passes for table in tables)
    unnamed = records.PASS_METRIC if passes else records.SCORE_METRIC
    metrics = dict.fromkeys(metric or unnamed for table in tables for metric in table.scores)
    check_directions(better, metrics)
    for name, way in candidate.better.items():
        if said[name] != way and not better.keys() & {"", name or unnamed}:
            raise SettingsError(
                f"of {name or unnamed} {baseline.reference} says that {said[name]} is better, and "
                f"{candidate.reference} {way}: write the same in both, or type --better=lower"
            )
    only = {name: better[""] for name in metrics if "" in better}
    directions = {name or unnamed: way for name, way in said.items()} | only | {**better}
    is_alone = len(metrics) == 1
    first, second = (
        _run_of(
            # labels that one table lacks tie its cases too
            replace(table, clusters={**candidate.clusters, **baseline.clusters}),
            unnamed=unnamed,
            is_alone=is_alone,
            better=directions,
        )
        for table in tables
    )
    return first, second


def undirected(tables: Iterable[ScoreTable], better: Directions = NONE_TYPED) -> list[str]:
    """List the metrics of which lower is usually better, and whose direction nobody said."""
    names = {
        metric: None
        for table in tables
        for metric in table.scores
        if metric and records.is_usually_lower(metric) and metric not in table.better
    }
    return [name for name in names if name not in better and "" not in better]


def _run_of(table: ScoreTable, *, unnamed: str, is_alone: bool, better: Directions) -> records.Run:
    cases: list[records.Case] = []
    trials: list[records.Trial] = []
    for name, scores in table.scores.items():
        metric = name or unnamed
        function = f"{records.TABLE_FUNCTION}::{metric}"
        # A million trials have few scores.
        known: dict[float | None, tuple[records.Outcome, Mapping[str, float], str]]
        known = {None: (records.Outcome.ERRORED, {}, NO_SCORE)}
        for case_id, of_case in scores.items():
            topic, wording = table.wordings.get(case_id, (None, None))
            case = records.Case(
                # each metric has a case of its own
                id=case_id if is_alone else f"{metric}::{case_id}",
                function=records.TABLE_FUNCTION if is_alone else function,
                repeats=len(of_case),
                gate=(metric,),
                better=better.get(metric, "higher"),
                cluster=table.clusters.get(case_id),
                wording=wording,
                topic=topic,
            )
            cases.append(case)
            for index, score in sorted(of_case.items()):
                if score is not None and score not in known:
                    missed = metric == records.PASS_METRIC and not score
                    outcome = records.Outcome.MISSED if missed else records.Outcome.PASSED
                    known[score] = outcome, {metric: score}, ""
                outcome, scored, message = known[score]
                trials.append(
                    records.Trial(
                        case=case.id, index=index, outcome=outcome, scores=scored, message=message
                    )
                )
    run = records.bare_run(table.reference, created=table.created)
    return replace(run, cases=tuple(cases), trials=tuple(trials))


def without_gaps(pair: Pair, *, max_errored: float | None) -> tuple[Pair, tuple[str, ...]]:
    """Leave out trials without a score that both tables lack, or that somebody allows to lack.

    A trial that neither side scored favours no side. A case is left out of both tables if one side
    has no trial of it left.

    Args:
        pair: the baseline and what is judged.
        max_errored: the share of trials without a score that is allowed on a side, in [0, 1];
            None for what the gate allows, which then counts those of one side.

    Returns:
        The tables, and a sentence for each kind of trial that was left out.
    """
    first, second = (
        {
            metric: {case: dict(trials) for case, trials in cases.items()}
            for metric, cases in table.scores.items()
        }
        for table in pair
    )
    left_out = Counter[tuple[str, str]]()
    for metric in first.keys() & second.keys():
        sides = first[metric], second[metric]
        # Of a measured metric a value that is not above 0 is none.
        is_ratio = metric in records.MEASURED_METRICS
        least, score = (0.0, f"{metric} above 0") if is_ratio else (-math.inf, "score")
        lacks = [
            {
                case: {at for at, one in trials.items() if one is None or one <= least}
                for case, trials in side.items()
            }
            for side in sides
        ]
        allowed = max_errored is not None and all(
            sum(map(len, own.values())) <= max_errored * sum(map(len, side.values()))
            for own, side in zip(lacks, sides, strict=True)
        )
        for case in sides[0].keys() & sides[1].keys():
            gaps = [own[case] for own in lacks]
            shared = gaps[0] & gaps[1]
            left_out["trial", f"no {score} on either side"] += len(shared)
            left_out["trial", _ONE_SIDED] += len(gaps[0] ^ gaps[1]) if allowed else 0
            for side, own in zip(sides, gaps, strict=True):
                for at in own if allowed else shared:
                    del side[case][at]
            if not all(side[case] for side in sides):
                left = [side.pop(case) for side in sides]
                left_out["case", "no score on one side"] += any(left)
    tables = replace(pair[0], scores=first), replace(pair[1], scores=second)
    told = ((f"{noun}{'s' * (n > 1)} with {what}", n) for (noun, what), n in left_out.items() if n)
    return tables, tuple(f"left out: {count} {words}" for words, count in told)
