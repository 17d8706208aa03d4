"""Drops that are meant pass, for one baseline, and nothing else does."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.family import notes_on_accepted
from pytest_llmeval.gate.results import Comparison
from pytest_llmeval.judgement import Judgement, judged
from pytest_llmeval.records import Run
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import GateRules, Settings
from tests.gate.builders import a_case, a_run

COMMIT = "c" * 40  # of every run here
ELSEWHERE = "evals/other.py"
MEANT = f"test_f:pass @ {COMMIT[:7]}"


def suite(letter: str, *, function: str = "test_f", request: str = "v1", cases: int = 8) -> Run:
    ids = range(cases)
    return a_run(*(a_case(str(at), letter * 5, function=function, request=request) for at in ids))


def both(one: Run, other: Run) -> Run:
    return dataclasses.replace(one, cases=one.cases + other.cases, trials=one.trials + other.trials)


def moved(run: Run) -> Run:
    """The same cases in another file."""
    name = run.cases[0].function.partition("::")[0]
    cases = (
        dataclasses.replace(
            case,
            id=case.id.replace(name, ELSEWHERE),
            function=case.function.replace(name, ELSEWHERE),
        )
        for case in run.cases
    )
    trials = (dataclasses.replace(t, case=t.case.replace(name, ELSEWHERE)) for t in run.trials)
    return dataclasses.replace(run, cases=tuple(cases), trials=tuple(trials))


BASELINE, WORSE = suite("p"), suite("m", request="v2")


def held(baseline: Run, run: Run, *entries: str) -> Comparison:
    return compare(baseline, run, GateRules(accept=entries))


def said(entries: Sequence[str], *pairs: tuple[str | None, Comparison]) -> list[str]:
    return [worded(note) for note in notes_on_accepted(entries, pairs)]


@pytest.mark.parametrize(
    "entry",
    [
        MEANT,
        f"test_f:pass @ {COMMIT}",
        f"test_suite.py::test_f:pass @ {COMMIT[:12]}",
    ],
)
def test_a_drop_that_is_meant_is_regressed_and_does_not_fail(entry: str) -> None:
    found = held(BASELINE, WORSE, entry)

    (one,) = found.functions
    assert (found.verdict, found.fails) == ("regressed", False)
    assert (one.verdict, one.accepted, one.fails) == ("regressed", True, False)
    assert said([entry], (COMMIT, found)) == []


@pytest.mark.parametrize(
    ("entry", "note"),
    [
        ("test_f:pass @ ddddddd", "and the baseline is of ccccccc: the line is void, remove it"),
        (f"test_f:score @ {COMMIT}", "and no test function with that metric is called so here"),
        (f"f:pass @ {COMMIT}", "and no test function with that metric is called so here"),
        (f"test_g:pass @ {COMMIT}", "and no test function with that metric is called so here"),
    ],
    ids=["another baseline", "another metric", "part of a name", "another function"],
)
def test_a_line_that_does_not_fit_lets_nothing_pass_and_is_named(entry: str, note: str) -> None:
    found = held(BASELINE, WORSE, entry)
    assert (found.fails, found.functions[0].accepted) == (True, False)
    (sentence,) = said([entry], (COMMIT, found))
    assert sentence.startswith(f"llm_accept names '{entry}', {note}")


def test_a_baseline_without_a_commit_fits_no_line() -> None:
    found = held(dataclasses.replace(BASELINE, commit=None), WORSE, MEANT)
    assert found.fails
    assert "the baseline is of no commit: the line is void" in said([MEANT], (None, found))[0]


def test_a_name_that_fits_two_functions_accepts_neither() -> None:
    found = held(both(BASELINE, moved(BASELINE)), both(WORSE, moved(WORSE)), MEANT)
    assert [one.accepted for one in found.functions] == [False, False]
    assert found.fails
    (note,) = said([MEANT], (COMMIT, found))
    assert note.endswith(
        "fits 2 test functions and so accepts none: name one, as in evals/other.py::test_f:pass"
    )

    entry = f"{ELSEWHERE}::test_f:pass @ {COMMIT}"
    found = held(both(BASELINE, moved(BASELINE)), both(WORSE, moved(WORSE)), entry)
    assert {one.function: one.accepted for one in found.functions} == {
        "test_suite.py::test_f": False,
        "evals/other.py::test_f": True,
    }
    assert found.fails


def test_what_is_accepted_stays_in_the_family() -> None:
    other = suite("p", function="test_g"), suite("p", function="test_g", request="v2")
    runs = both(BASELINE, other[0]), both(WORSE, other[1])
    plain, meant = held(*runs), held(*runs, MEANT)
    assert [one.evidence for one in plain.functions] == [one.evidence for one in meant.functions]
    assert [one.evidence.family_size for one in meant.functions] == [2, 2]


def test_another_function_that_regressed_still_fails() -> None:
    other = suite("p", function="test_g"), suite("m", function="test_g", request="v2")
    found = held(both(BASELINE, other[0]), both(WORSE, other[1]), MEANT)
    assert found.fails
    assert [one.fails for one in found.functions] == [False, True]


def test_what_could_not_be_judged_is_never_accepted() -> None:
    errored = suite("e", request="v2")
    found = held(BASELINE, errored, MEANT)
    assert (found.verdict, found.fails) == ("not_comparable", True)
    gone = held(BASELINE, suite("p", function="test_g"), MEANT)
    assert (gone.functions[-1].verdict, gone.fails) == ("not_comparable", True)
    strict = GateRules(accept=(MEANT,), strict=True)
    open_ = compare(suite("p", cases=2), suite("m", cases=1, request="v2"), strict)
    assert open_.fails


def test_a_function_that_was_left_out_is_not_called_unknown() -> None:
    run = suite("p", function="test_g")
    baseline = both(BASELINE, run)
    selected = dataclasses.replace(
        run, selection=("-k test_g",), partial=("test_suite.py::test_f",)
    )
    found = compare(baseline, selected, GateRules(accept=(MEANT,)), typed=("-k test_g",))
    assert found.not_judged
    assert said([MEANT], (COMMIT, found)) == []


def test_a_line_for_the_anchor_is_not_void(tmp_path: Path) -> None:
    anchor = dataclasses.replace(BASELINE, commit="a" * 40)
    lines = (MEANT, "test_f:pass @ aaaaaaa", "test_f:pass @ bbbbbbb")
    settings = Settings(directory=tmp_path, session="", gate=GateRules(accept=lines))
    named = [
        Baseline(reference=name, run=run, path=tmp_path, how="commit")
        for name, run in (("main", BASELINE), ("v1", anchor))
    ]
    found = judged(Judgement(settings=settings, baseline=named[0], anchor=named[1]), WORSE)

    assert not found.fails
    (note,) = [worded(note) for note in found.notes]
    assert note == (
        "llm_accept names 'test_f:pass @ bbbbbbb', and the baseline is of ccccccc, aaaaaaa: the "
        "line is void, remove it"
    )
