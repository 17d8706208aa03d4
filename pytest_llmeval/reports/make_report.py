"""Make the report on a judgement: its result, both runs, and further remarks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from pytest_llmeval.errors import Lost
from pytest_llmeval.gate.results import Comparison, Verdict
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.records import Run
from pytest_llmeval.reports import common_causes, entries, next_run, provenance, remarks, report
from pytest_llmeval.reports.cost import cost_of_run
from pytest_llmeval.reports.notation import case_count, in_form
from pytest_llmeval.reports.reasons import unjudgeable, why_failed, without_key, worded
from pytest_llmeval.reports.unseen_connections import unseen, unseen_cases, unseen_connections
from pytest_llmeval.runs.pooled import own_trials


def make_report(judgement: Judgement) -> report.Report:
    """Say a judgement in figures and words."""
    comparison, run, keyless = judgement.comparison, judgement.run, judgement.keyless
    rules, prices = judgement.settings.gate, Prices(judgement.settings.prices)
    differing = tuple(provenance.differences(judgement))
    return report.Report(
        schema_version=report.SCHEMA_VERSION,
        side=_session(judgement, prices),
        settings=rules,
        run=None if run is None else _run(run, prices, path=judgement.path),
        differences=differing,
        common_causes=tuple(common_causes.common_causes(judgement, differing)),
        request_changes=judgement.request_changes,
        scope=(
            *filter(None, remarks.scope(comparison, judgement.settings) if comparison else ()),
            *(remarks.trials_saved(run) if run else ()),
        ),
        ungated=tuple(map(entries.ungated_function, comparison.ungated)) if comparison else (),
        not_judged=tuple(_not_judged(comparison)) if comparison else (),
        keyless=report.KeylessCases(tuple(keyless.cases), judgement.is_deferred)
        if keyless
        else None,
        anchor=_anchor(judgement, prices),
        connections=tuple(_connections(judgement)),
        unseen_cases=() if judgement.is_of_tables else tuple(unseen_cases(run)),
        notes=tuple(_notes(judgement)),
        to_decide=next_run.to_decide(judgement),
    )


def _session(judgement: Judgement, prices: Prices) -> report.Side:
    """Describe the result of the session, which may fail though the comparison does not."""
    comparison, settings = judgement.comparison, judgement.settings
    why = unjudgeable(judgement.could_not_judge)
    if comparison is not None:
        why = why or why_failed(comparison, settings)
    why = why or without_key(judgement) or worded(judgement.unsaved)
    why = in_form(why, toml=settings.toml)
    return _side(judgement, prices, _verdict(judgement), why, fails=judgement.fails)


def _side(
    judgement: Judgement, prices: Prices, verdict: report.SessionVerdict, why: str, *, fails: bool
) -> report.Side:
    """Describe the comparison of a judgement, or its run alone."""
    found, run, comparison, baseline = judgement.baseline, judgement.run, judgement.comparison, None
    if found is not None:
        created = [datetime.fromisoformat(one.created) for one in (found.run, run) if one]
        age = (created[1] - created[0]).total_seconds() if run else None
        recorded = _run(own_trials(found.run), prices, path=found.path)
        baseline = report.taken_from(
            report.BaselineEntry, found, recorded=recorded, age=age, notes=found.remarks
        )
    return report.Side(
        verdict=verdict,
        fails=fails,
        why=why,
        baseline=baseline,
        functions=entries.compared_functions(judgement, comparison)
        if comparison
        else entries.described_functions(judgement),
    )


def _verdict(judgement: Judgement) -> report.SessionVerdict:
    """Return the verdict of the session, which is never good if cases were not judged."""
    comparison, keyless = judgement.comparison, judgement.keyless
    if judgement.could_not_judge:
        return "could_not_judge"
    if comparison is not None and (comparison.fails or keyless is None):
        return comparison.verdict
    if keyless is None:
        return Verdict.NOT_GATED
    if judgement.is_deferred:
        return "deferred"
    return "could_not_judge" if judgement.baseline is None else Verdict.NOT_COMPARABLE


def _anchor(judgement: Judgement, prices: Prices) -> report.Side | None:
    """Describe the second comparison like the first."""
    against = judgement.against_anchor
    if against is None or against.comparison is None:
        return None
    found, why = against.comparison, why_failed(against.comparison, judgement.settings)
    return _side(against, prices, found.verdict, why, fails=found.fails)


def _notes(judgement: Judgement) -> Iterator[str]:
    said = partial(in_form, toml=judgement.settings.toml)
    if judgement.not_gated:
        yield said(judgement.not_gated)
    yield from map(said, unseen(judgement))
    yield from (said(worded(note)) for note in judgement.notes)
    yield from map(said, unseen_connections(judgement))
    if judgement.comparison is not None:
        yield from (said(worded(note)) for note in judgement.comparison.notes)


def _connections(judgement: Judgement) -> Iterator[report.Connections]:
    """List host and function, with unseen libraries and the number of connections."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for (host, function, library), count in sorted(judgement.connections.items()):
        found.setdefault((host, function), []).append((library, count))
    for (host, function), each in found.items():
        libraries = tuple(library for library, _ in each if library)
        count = sum(count for _, count in each)
        yield report.Connections(host=host, function=function, libraries=libraries, count=count)


def _not_judged(comparison: Comparison) -> Iterator[report.NotJudged]:
    names = comparison.names
    for one in comparison.not_judged:
        function, cases = one.figures
        yield report.NotJudged(str(function), names[str(function)], int(cases), str(one.why))


def _run(run: Run, prices: Prices, *, path: Path | None) -> report.RunEntry:
    calls, cost = [call for trial in run.trials for call in trial.calls], cost_of_run(run, prices)
    return report.taken_from(
        report.RunEntry,
        run,
        cases=case_count(run),
        trials=len(run.trials),
        models=_distinct(call.model for call in calls),
        served=_distinct(call.served for call in calls),
        fingerprints=_distinct(call.fingerprint for call in calls),
        hosts=_distinct(call.host for call in calls),
        calls=report.CallCounts(
            made=sum(call.was_paid for call in calls),
            replayed=sum(call.replayed for call in calls),
            failed=sum(call.failure is not None for call in calls),
            outside=run.outside_calls,
            attempts=run.attempts,
            capped=sum(call.lost is Lost.CAP for call in calls),
        ),
        cost=report.CostOfRun(
            currency="USD",
            spent=None if cost.spent.unknown else float(cost.spent.known),
            saved=None if cost.saved.unknown else float(cost.saved.known),
            unknown=tuple(
                report.UnknownCost(one or None, n, why) for (one, why), n in cost.unknown
            ),
        ),
        file=None if path is None else _as_typed(path),
    )


def _distinct(texts: Iterator[str | None]) -> tuple[str, ...]:
    return tuple(sorted(filter(None, {*texts})))


def _as_typed(path: Path) -> str:
    """Write a path as it can be typed here, relative if possible, to hide the machine's folders."""
    try:
        here = Path.cwd()
    except OSError:  # a test removed it
        return path.as_posix()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()
