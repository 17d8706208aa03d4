"""Entries of the JSON report: test functions, their cases, the replies of those that moved."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, fields
from functools import partial
from posixpath import normpath
from typing import Any

from pytest_llmeval.gate.results import CaseComparison, Comparison, FunctionComparison, Verdict
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Trial, first_failed, trials_by_case
from pytest_llmeval.reports.edits import edited_entries
from pytest_llmeval.reports.formats import in_form, label, short
from pytest_llmeval.reports.reasons import unjudgeable, worded
from pytest_llmeval.reports.remarks import accepting_line, remarks
from pytest_llmeval.reports.sentences import most_moved, sentence

MOST = 10  # cases of a function whose replies can be found
_MOST_OF_ONE_WAY = 7  # of these, where others went the other way
_SIDES = ("baseline", "here")
_MOST_REQUESTS = 20  # of one side of a case
_OF_CASES = ("case", "kind", "difference", "baseline_scores", "scores", "baseline_mean", "mean")
_OF_UNGATED = (
    *("function", "name", "metric", "better", "scale", "cases", "changed", "difference"),
    *("baseline_mean", "mean", "interval", "interval_level", "ratio", "ratio_interval"),
)

Entry = dict[str, Any]
Trials = dict[str, list[Trial]]  # by case


def compared_functions(judgement: Judgement, comparison: Comparison) -> list[Entry]:
    """Write a comparison, in words and figures, with the cases that moved most."""
    functions, said = comparison.functions, partial(in_form, toml=judgement.settings.toml)
    moved = [most_moved_both_ways(one) for one in functions]
    names = {case.case for cases in moved for case in cases}
    trials = trials_of_both(judgement, names)
    return [
        {
            **flat_entry(one),
            "name": short(one),
            **place_of(judgement, one.function),
            "label": label(one),
            "why": said(worded(one.why)),
            "sentence": said(sentence(one, judgement.settings.gate)),
            "remarks": [*map(said, remarks(judgement, one))],
            "accepting_line": accepting_line(judgement, one) or None,
            "pass_hat": one.pass_hat and one.pass_hat._asdict(),
            "edited": edited_entries(judgement, one),
            "moved": _moved(judgement, one.function, map(_case, cases), trials),
            "compared": list(map(_case, one.compared)),
        }
        for one, cases in zip(functions, moved, strict=True)
    ]


def described_functions(judgement: Judgement) -> list[Entry]:
    """Write the descriptions of a run that is compared with nothing."""
    descriptions, said = judgement.descriptions, partial(in_form, toml=judgement.settings.toml)
    names = {case.case for one in descriptions for case in one.worst[:MOST]}
    trials = trials_of_both(judgement, names)
    return [
        {
            **asdict(one),
            "name": short(one),
            **place_of(judgement, one.function),
            "label": label(one),
            "why": said(unjudgeable(one.why)),
            "verdict": "not_gated",
            "pass_hat": one.pass_hat and one.pass_hat._asdict(),
            "moved": _moved(judgement, one.function, map(asdict, one.worst[:MOST]), trials),
        }
        for one in descriptions
    ]


def ungated_function(function: FunctionComparison) -> Entry:
    """Write a metric that decides nothing."""
    return {name: value for name, value in flat_entry(function).items() if name in _OF_UNGATED}


def most_moved_both_ways(comparison: FunctionComparison) -> list[CaseComparison]:
    """Return the cases that fell most, then those that rose most, ``MOST`` in all."""
    improved = comparison.verdict is Verdict.IMPROVED
    leading = most_moved(comparison, MOST, improved=improved)
    others = most_moved(comparison, MOST, improved=not improved)
    leading = leading[: max(_MOST_OF_ONE_WAY, MOST - len(others))]
    others = others[: MOST - len(leading)]
    return [*others, *leading] if improved else [*leading, *others]


def place_of(judgement: Judgement, function: str) -> Entry:
    """Tell where a test function stands: its file below git's top, and its line.

    Of a function that is gone the place where it was. The line is None where no run tells it, and
    so is the file of what is no test.
    """
    runs = [run for run in reversed(judgement.runs) if run]
    file, separator, _ = function.partition("::")
    if not separator or (judgement.baseline and judgement.baseline.how == "table"):
        return {"file": None, "line": None}
    places = (run.places[function] for run in runs if function in run.places)
    file, _, line = next(places, f"{file}:").rpartition(":")
    return {"file": normpath(f"{runs[0].root}/{file}"), "line": int(line) if line else None}


def first_failure(judgement: Judgement, case: str, trials: Iterable[Trial]) -> str:
    """Say why the first trial of a case that did not pass failed; "" if all passed.

    A recorded run tells the type of the exception and its line, no text of a reply.
    """
    failed = first_failed(trials)
    return judgement.headlines.get(case) or (failed.message if failed else "")


def flat_entry(function: FunctionComparison) -> Entry:
    """Write a comparison with its figures in line, in the order in which they are declared."""
    entry: Entry = {}
    for name, value in ((field.name, getattr(function, field.name)) for field in fields(function)):
        entry |= asdict(value) if name in ("effect", "evidence") else {name: value}
    del entry["compared"]
    return entry | {"why": worded(function.why)}


def _case(case: CaseComparison) -> Entry:
    return {name: getattr(case, name) for name in _OF_CASES} | {"unchanged": case.kind is None}


def trials_of_both(judgement: Judgement, cases: Collection[str]) -> tuple[Trials, Trials]:
    """Return the trials of some cases, in the baseline and in this run."""
    none: Trials = {case: [] for case in cases}
    before, after = (trials_by_case(run, cases) if run else none for run in judgement.runs)
    return before, after


def _moved(
    judgement: Judgement, function: str, cases: Iterable[Entry], trials: tuple[Trials, Trials]
) -> list[Entry]:
    """Tell of cases where they stand, why they failed and where their replies are found."""
    entries, place = list[Entry](), place_of(judgement, function)
    for case in cases:
        name, found = case["case"], [of_side[case["case"]] for of_side in trials]
        rose = (case.get("difference") or 0) > 0  # its excerpt is of a trial that did well
        failure = "" if rose else first_failure(judgement, name, found[1])
        entry = {**case, **place, "failure": failure}
        entry["replies"] = dict(zip(_SIDES, map(_replies, found), strict=True))
        if name in judgement.excerpts:
            entry["excerpt"] = dict(zip(_SIDES, judgement.excerpts[name], strict=True))
        entries.append(entry)
    return entries


def _replies(trials: Iterable[Trial]) -> Entry:
    """List what a case asked: each request once, with its draws in the order of the trials."""
    draws: dict[str, dict[str, None]] = {}
    for call in (call for trial in trials for call in trial.calls):
        of_request = draws.setdefault(call.key, {})
        if call.draw is not None:
            of_request[call.draw] = None
    listed = [{"key": key, "draws": list(of_request)} for key, of_request in draws.items()]
    return {"requests": len(listed), "listed": listed[:_MOST_REQUESTS]}
