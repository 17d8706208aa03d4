"""Functions and cases of the report: figures of the gate, sentences, and where replies are."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from posixpath import normpath

from pytest_llmeval.gate.results import CaseComparison, Comparison, FunctionComparison, Verdict
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Trial, first_failed, trials_by_case
from pytest_llmeval.reports import edits, remarks, report, sentences
from pytest_llmeval.reports.notation import in_form, label, short
from pytest_llmeval.reports.reasons import unjudgeable, worded

MOST = 10  # cases of a function whose replies can be found
_MOST_OF_ONE_WAY = 7  # of these, where others went the other way
_MOST_REQUESTS = 20  # of one side of a case

Trials = dict[str, list[Trial]]  # by case


def compared_functions(
    judgement: Judgement, comparison: Comparison
) -> tuple[report.ComparedFunction, ...]:
    """Describe a comparison in words and figures, with the cases that moved most."""
    moved = [_most_moved_both_ways(one) for one in comparison.functions]
    trials = trials_of_both(judgement, {case.case for cases in moved for case in cases})
    return tuple(
        _compared_function(judgement, one, cases, trials)
        for one, cases in zip(comparison.functions, moved, strict=True)
    )


def _compared_function(
    judgement: Judgement,
    one: FunctionComparison,
    moved: Iterable[CaseComparison],
    trials: tuple[Trials, Trials],
) -> report.ComparedFunction:
    said, place = partial(in_form, toml=judgement.settings.toml), place_of(judgement, one.function)
    cases = {
        case.case: report.taken_from(report.CaseEntry, case, unchanged=case.kind is None)
        for case in one.compared
    }
    return report.ComparedFunction(
        of=one,
        name=short(one),
        label=label(one),
        place=place,
        why=said(worded(one.why)),
        sentence=said(sentences.sentence(one, judgement.settings.gate)),
        remarks=tuple(map(said, remarks.remarks(judgement, one))),
        accepting_line=remarks.accepting_line(judgement, one) or None,
        confirmation=None
        if one.confirmation is None
        else report.ConfirmationEntry(of=one.confirmation, why=worded(one.confirmation.why)),
        pass_hat=one.pass_hat,
        edited=tuple(
            report.EditedEntry(of=each, changes=tuple(edits.changes_of(judgement, each)))
            for each in one.edited
        ),
        moved=tuple(_moved(judgement, cases[case.case], place, trials) for case in moved),
        compared=tuple(cases.values()),
    )


def described_functions(judgement: Judgement) -> tuple[report.DescribedFunction, ...]:
    """Describe the functions of a run that is compared with nothing."""
    descriptions, said = judgement.descriptions, partial(in_form, toml=judgement.settings.toml)
    names = {case.case for one in descriptions for case in one.worst[:MOST]}
    trials = trials_of_both(judgement, names)
    places = [place_of(judgement, one.function) for one in descriptions]
    return tuple(
        report.DescribedFunction(
            of=one,
            name=short(one),
            label=label(one),
            place=place,
            why=said(unjudgeable(one.why)),
            verdict=Verdict.NOT_GATED,
            moved=tuple(_moved(judgement, case, place, trials) for case in one.worst[:MOST]),
        )
        for one, place in zip(descriptions, places, strict=True)
    )


def ungated_function(one: FunctionComparison) -> report.UngatedFunction:
    """Give the figures of a metric that decides nothing."""
    return report.taken_from(report.UngatedFunction, one, one.effect, one.evidence, name=short(one))


def _most_moved_both_ways(comparison: FunctionComparison) -> list[CaseComparison]:
    """Return the cases that fell most, then the cases that rose most, ``MOST`` in all."""
    improved = comparison.verdict is Verdict.IMPROVED
    others = sentences.most_moved(comparison, MOST, improved=not improved)
    most = max(_MOST_OF_ONE_WAY, MOST - len(others))
    leading = sentences.most_moved(comparison, most, improved=improved)
    others = others[: MOST - len(leading)]
    return [*others, *leading] if improved else [*leading, *others]


def place_of(judgement: Judgement, function: str) -> report.PlaceOfTest:
    """Find the place of a test function; for a function that is gone its last place."""
    runs = [run for run in reversed(judgement.runs) if run]
    file, separator, _ = function.partition("::")
    if not separator or judgement.is_of_tables:
        return report.PlaceOfTest()
    places = (run.places[function] for run in runs if function in run.places)
    file, _, line = next(places, f"{file}:").rpartition(":")
    return report.PlaceOfTest(normpath(f"{runs[0].root}/{file}"), int(line) if line else None)


def first_failure(judgement: Judgement, case: str, trials: Iterable[Trial]) -> str:
    """Say why the first trial of a case that did not pass failed; "" if each with a score passed.

    A recorded run has the type of the exception and its line, and no text of a reply.
    """
    failed = first_failed(trials)
    return "" if failed is None else judgement.headlines.get(case) or failed.message


def trials_of_both(judgement: Judgement, cases: Collection[str]) -> tuple[Trials, Trials]:
    """Return the trials of some cases, in the baseline and in this run."""
    none: Trials = {case: [] for case in cases}
    before, after = (trials_by_case(run, cases) if run else none for run in judgement.runs)
    return before, after


def _moved(
    judgement: Judgement, case: report.C, place: report.PlaceOfTest, trials: tuple[Trials, Trials]
) -> report.MovedCase[report.C]:
    """Say where a case stands, why it failed and where its replies are found."""
    before, after = (of_side[case.case] for of_side in trials)
    rose = getattr(case, "difference", 0.0) > 0  # such an excerpt shows a good trial
    excerpt = judgement.excerpts.get(case.case)
    return report.MovedCase(
        of=case,
        place=place,
        failure="" if rose else first_failure(judgement, case.case, after),
        replies=report.Replies(_requests(before), _requests(after)),
        excerpt=None if excerpt is None else report.Excerpt(*excerpt),
    )


def _requests(trials: Iterable[Trial]) -> report.Requests:
    """List the requests of a case, each once, with its draws in the order of the trials."""
    draws: dict[str, dict[str, None]] = {}
    for call in (call for trial in trials for call in trial.calls):
        of_request = draws.setdefault(call.key, {})
        if call.draw is not None:
            of_request[call.draw] = None
    listed = [report.RequestDraws(key, tuple(of_request)) for key, of_request in draws.items()]
    return report.Requests(len(listed), tuple(listed[:_MOST_REQUESTS]))
