"""Score tables: the results of any other harness, one row a trial, and the runs made of them.

A table has the columns ``case_id``, ``repeat`` and ``score``, and may have ``metric``,
``cluster``, ``wording`` and ``condition``. An empty score is an errored trial. A case that
is asked in several wordings is a case in each of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pytest_llmeval import records
from pytest_llmeval.errors import SettingsError, TableError, did_you_mean, listed_names
from pytest_llmeval.runs import table_rows as rows
from pytest_llmeval.runs.directions import NONE_TYPED, Directions, check_directions
from pytest_llmeval.runs.readers.choice import ENDINGS as OF_OTHERS
from pytest_llmeval.runs.readers.choice import results_of

NO_SCORE = "the score is empty"
LIKE_TABLES = (".tsv", ".txt")

# by case, by repeat; None for an errored trial
Scores = Mapping[str, Mapping[int, float | None]]


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
    scores: Mapping[str | None, Scores]
    clusters: Mapping[str, str]
    wordings: Mapping[str, tuple[str, str]]
    better: Mapping[str | None, records.Better] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def may_be_passes(self) -> bool:
        """Whether the metric has no name and every score is 0 or 1."""
        trials = self.scores.get(None, {}).values()
        values = {score for of_case in trials for score in of_case.values()}
        return None in self.scores and values <= {None, *rows.PASSES}


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
        if path.suffix.lower() in LIKE_TABLES and path.is_file():
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
        lines = rows.read_rows(path, columns)
    else:
        columns, lines = rows.EVERY, enumerate(results.rows, start=1)
    reader = _Reader(path=path, condition=condition, metric=metric, named=columns[3] is not None)
    for line, row in lines:
        reader.take(line, row)
    return ScoreTable(
        reference=reference,
        path=path,
        created=datetime.fromtimestamp(int(path.stat().st_mtime), UTC).isoformat(),
        scores=reader.finished(),
        clusters=reader.clusters,
        wordings=reader.wordings,
        better=reader.better,
        notes=() if results is None else tuple(results.notes),
    )


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
    """Gathers the rows of one condition; a value that is no score is an error.

    Attributes:
        path: of the table.
        condition: which rows count; None if the table has but one.
        metric: which rows count, or what the scores are of; None for every metric.
        named: a column names the metric.
        clusters: label of each case that has one.
        wordings: what is asked, and how, of each case that has a wording.
        better: which direction of a metric is good, where a row says so.
    """

    path: Path
    condition: str | None
    metric: str | None
    named: bool
    clusters: dict[str, str] = field(default_factory=dict)
    wordings: dict[str, tuple[str, str]] = field(default_factory=dict)
    better: dict[str | None, records.Better] = field(default_factory=dict)
    _conditions: dict[str | None, None] = field(default_factory=dict)
    _metrics: dict[str, None] = field(default_factory=dict)
    _scores: dict[str | None, dict[str, dict[int, float | None]]] = field(default_factory=dict)

    def take(self, line: int, row: Sequence[object]) -> None:
        """Take in one row, if it is of the condition and metric that count."""
        try:
            self._take(row)
        except ValueError as exc:
            raise TableError(f"{self.path}, line {line}: {exc}") from None

    def _take(self, row: Sequence[object]) -> None:
        case_id, repeat, score, metric, cluster, wording, condition, better = row
        name = None if condition is None else rows.read_label(condition)
        self._conditions[name] = None
        chosen = len(self._conditions) == 1 if self.condition is None else name == self.condition
        if not chosen:
            return
        of_metric = rows.read_metric(metric) if self.named else self.metric
        if self.named:
            self._metrics[str(of_metric)] = None
            if self.metric not in (None, of_metric):
                return
        case = self._case(rows.read_case(case_id), wording)
        of_case = self._scores.setdefault(of_metric, {}).setdefault(case, {})
        index = rows.read_repeat(repeat)
        if index in of_case:
            raise ValueError(
                f"repeat {index} of case {case!r} is there a second time; "
                "name one condition (FILE::CONDITION) or metric (--metric), or number the repeats"
            )
        of_case[index] = rows.read_score(score, metric=of_metric)
        if cluster is not None:
            self._join(case, rows.read_label(cluster))
        if better is not None:
            said = rows.read_better(better)
            own = records.OWN_DIRECTIONS.get(str(of_metric), said)
            if own != said:
                raise ValueError(f"better is {said!r}, and of {of_metric} {own} is always better")
            if self.better.setdefault(of_metric, said) != said:
                raise ValueError(f"better is {said!r} here and another one above")

    def finished(self) -> Mapping[str | None, Scores]:
        """Return the scores by metric.

        Raises:
            TableError: no row was taken, or rows of several conditions.
        """
        conditions = [name or "" for name in self._conditions]
        if self.condition is None and len(conditions) > 1:
            typed = shlex.quote(f"{self.path}::{conditions[0]}")
            raise TableError(
                f"{self.path} holds {len(conditions)} conditions: name one, such as {typed}; "
                f"it has {listed_names(conditions, rows.LISTED)}"
            )
        if self._scores:
            return self._scores
        if self._conditions and self.condition not in (None, *self._conditions):
            known = [name for name in self._conditions if name is not None]
            raise self._unknown("condition", str(self.condition), known)
        if self.metric is not None and self._metrics:
            raise self._unknown("metric", self.metric, list(self._metrics))
        raise TableError(f"{self.path}: no row follows the header")

    def _case(self, name: str, wording: object) -> str:
        if wording is None:
            return name
        label = rows.read_label(wording)
        case = f"{name}[{label}]"
        self.wordings[case] = name, label
        return case

    def _join(self, case: str, label: str) -> None:
        known = self.clusters.setdefault(case, label)
        if known != label:
            raise ValueError(f"case {case!r} is in cluster {label!r} here and in {known!r} above")

    def _unknown(self, what: str, name: str, known: list[str]) -> TableError:
        hint = did_you_mean(name, known, most=rows.LISTED)
        return TableError(f"{self.path}: no row of {what} {name!r}. {hint}")


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
        known: dict[float, Mapping[str, float]] = {}  # a million trials have few scores
        for case_id, of_case in scores.items():
            topic, wording = table.wordings.get(case_id, (None, None))
            case = records.Case(
                # each metric has a case of its own
                id=case_id if is_alone else f"{metric}::{case_id}",
                function=records.TABLE_FUNCTION
                if is_alone
                else f"{records.TABLE_FUNCTION}::{metric}",
                repeats=len(of_case),
                gate=(metric,),
                better=better.get(metric, "higher"),
                cluster=table.clusters.get(case_id),
                wording=wording,
                topic=topic,
            )
            cases.append(case)
            trials += _trials(case, of_case, metric=metric, known=known)
    run = records.bare_run(table.reference, created=table.created)
    return replace(run, cases=tuple(cases), trials=tuple(trials))


def _trials(
    case: records.Case,
    scores: Mapping[int, float | None],
    *,
    metric: str,
    known: dict[float, Mapping[str, float]],
) -> Iterator[records.Trial]:
    for index, score in sorted(scores.items()):
        if score is None:
            yield records.Trial(
                case=case.id, index=index, outcome=records.Outcome.ERRORED, message=NO_SCORE
            )
            continue
        missed = metric == records.PASS_METRIC and not score
        yield records.Trial(
            case=case.id,
            index=index,
            outcome=records.Outcome.MISSED if missed else records.Outcome.PASSED,
            scores=known.setdefault(score, {metric: score}),
        )
