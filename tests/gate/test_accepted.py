"""Drops that are meant pass until main has the line, and nothing else does."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_llmeval.gate.accepted import accepting, may_accept, notes_on_accepted
from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Comparison
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.judging import judged
from pytest_llmeval.records import Run
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import GateRules, Settings
from tests.gate.builders import a_case, a_run

ELSEWHERE = "evals/other.py"
MEANT = "test_f:pass >= 0"


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


def said(entries: Sequence[str], *pairs: tuple[Run, Comparison]) -> list[str]:
    return [worded(note) for note in notes_on_accepted(entries, pairs)]


def having(run: Run, *entries: str) -> Run:
    """The same run, of a session whose ini file had these lines."""
    return dataclasses.replace(run, rules={"accept": entries})


@pytest.mark.parametrize("entry", [MEANT, "test_f:pass >= -1.5", "test_suite.py::test_f:pass >= 0"])
def test_a_drop_that_is_meant_is_regressed_and_does_not_fail(entry: str) -> None:
    found = held(BASELINE, WORSE, entry)

    (one,) = found.functions
    assert (found.verdict, found.fails) == ("regressed", False)
    assert (one.verdict, one.accepted, one.fails) == ("regressed", True, False)
    assert said([entry], (BASELINE, found)) == []


def test_a_line_outlives_every_commit_but_the_one_that_brings_it_to_main() -> None:
    for commit in ("d" * 40, None):
        moved_on = dataclasses.replace(BASELINE, commit=commit)
        assert not held(moved_on, WORSE, MEANT).fails
    for known in (MEANT, "test_suite.py::test_f:pass >= 0"):
        main = having(BASELINE, known)
        found = held(main, WORSE, MEANT)
        assert (found.fails, found.functions[0].accepted) == (True, False)
        assert said([known], (main, found)) == []
    others = having(BASELINE, "test_f:pass >= 0.1", "test_g:pass >= 0", "f:pass @ 97a1bbe", "x")
    assert not held(others, WORSE, MEANT).fails


@pytest.mark.parametrize(
    ("entry", "note"),
    [
        ("test_f:pass >= 0.1", "says 'test_f:pass >= 0.1', and the mean here is 0: no such drop"),
        ("test_f:pass <= 0.5", "says 'test_f:pass <= 0.5', and of pass higher is better: write >="),
        ("test_f:score >= 0", "names 'test_f:score >= 0', and no test function with that metric"),
        ("f:pass >= 0", "names 'f:pass >= 0', and no test function with that metric is called so"),
        ("test_g:pass >= 0", "names 'test_g:pass >= 0', and no test function with that metric is"),
    ],
    ids=["below", "turned", "another metric", "part of a name", "another function"],
)
def test_a_line_that_does_not_fit_lets_nothing_pass_and_is_named(entry: str, note: str) -> None:
    found = held(BASELINE, WORSE, entry)
    assert (found.fails, found.functions[0].accepted) == (True, False)
    (sentence,) = said([entry], (BASELINE, found))
    assert sentence.startswith(f"llm_accept {note}")
    assert said([entry], (having(BASELINE, entry), found)) == []


@pytest.mark.parametrize(
    ("entry", "known", "may"),
    [
        (MEANT, (), True),
        ("test_suite.py::test_f:score >= 1", (), True),
        ("f:pass >= 0", (), False),
        (MEANT, (MEANT,), False),
    ],
)
def test_a_line_that_acts_may_accept_a_drop_of_its_function(
    entry: str, known: Sequence[str], may: bool
) -> None:
    function = BASELINE.cases[0].function
    assert may_accept(function, [entry], baseline=having(BASELINE, *known)) is may


def test_the_line_to_paste_acts_and_a_further_fall_is_red() -> None:
    half = a_run(*(a_case(str(at), "pppmm"[at % 3 :] + "mm", request="v2") for at in range(8)))
    (one,) = held(BASELINE, half).functions
    entry = accepting("test_f", one, baseline=BASELINE)
    assert one.effect.mean_interval is not None
    low = one.effect.mean_interval[0]
    assert entry == f"test_f:pass >= {int(low * 100) / 100:g}"
    assert not held(BASELINE, half, entry).fails
    assert held(BASELINE, WORSE, entry).fails

    known = having(BASELINE, entry)
    again = accepting("test_f", one, baseline=known)
    assert again != entry
    assert held(known, half, entry).fails
    assert not held(known, half, again).fails


def test_a_mean_that_is_the_bound_but_for_rounding_is_accepted() -> None:
    before = suite("p", cases=15)
    letters = ["pmmmm", *["ppmmm"] * 10, *["pppmm"] * 4]  # 33 of 75
    after = a_run(*(a_case(str(at), of, request="v2") for at, of in enumerate(letters)))
    (one,) = held(before, after).functions
    assert one.effect.mean is not None
    assert one.effect.mean < 0.44

    assert not held(before, after, "test_f:pass >= 0.44").fails
    assert held(before, after, "test_f:pass >= 0.4401").fails


def test_where_lower_is_better_the_bound_is_the_higher_end() -> None:
    def paid(*values: float, request: str) -> Run:
        cases = [
            a_case(str(at), scores=[v, v], gate=("score",), better="lower", request=request)
            for at, v in enumerate(values)
        ]
        return a_run(*cases)

    before = paid(1, 1, 1, 1, 1, 1, 1, 1, request="v1")
    after = paid(5, 6, 7, 8, 5, 6, 7, 8, request="v2")
    (one,) = held(before, after).functions
    entry = accepting("test_f", one, baseline=before)
    assert one.effect.mean_interval is not None
    assert entry.startswith("test_f:score <= ")
    assert one.effect.mean_interval[1] <= float(entry.rpartition(" ")[2]) < 8
    assert not held(before, after, entry).fails


def test_a_mean_without_an_interval_is_the_bound_itself() -> None:
    one = held(BASELINE, WORSE).functions[0]
    for mean, line in ((0.4567, "0.45"), (0.0, "0"), (-12.34, "-13")):
        effect = dataclasses.replace(one.effect, mean=mean, mean_interval=None)
        found = accepting("f", dataclasses.replace(one, effect=effect), baseline=BASELINE)
        assert found == f"f:pass >= {line}"
    effect = dataclasses.replace(one.effect, mean=0.0, mean_interval=None)
    all_known = having(BASELINE, MEANT)
    last = accepting("test_f", dataclasses.replace(one, effect=effect), baseline=all_known)
    assert last == "test_f:pass >= -0.01"


def test_a_name_that_fits_two_functions_accepts_neither() -> None:
    found = held(both(BASELINE, moved(BASELINE)), both(WORSE, moved(WORSE)), MEANT)
    assert [one.accepted for one in found.functions] == [False, False]
    assert found.fails
    (note,) = said([MEANT], (BASELINE, found))
    assert note.endswith(
        "fits 2 test functions and so accepts none: name one, as in evals/other.py::test_f:pass"
    )

    entry = f"{ELSEWHERE}::test_f:pass >= 0"
    found = held(both(BASELINE, moved(BASELINE)), both(WORSE, moved(WORSE)), entry)
    assert {one.function: one.accepted for one in found.functions} == {
        "test_suite.py::test_f": False,
        "evals/other.py::test_f": True,
    }
    assert found.fails


def test_a_function_of_that_name_without_the_metric_makes_no_line_unclear() -> None:
    ways = {"v1": 1.0, "v2": 0.0}
    before, after = (
        a_run(*(a_case(str(at), scores=[v, v], gate=("score",), request=way) for at in range(8)))
        for way, v in ways.items()
    )
    baseline = both(before, moved(BASELINE))
    found = held(baseline, both(after, moved(suite("p", request="v2"))), "test_f:score >= 0")
    assert [one.accepted for one in found.functions] == [True, False]
    assert not found.fails
    gone = held(baseline, after, "test_f:score >= 0")
    assert [one.accepted for one in gone.functions] == [True, False]


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
    assert said([MEANT], (baseline, found)) == []


def test_a_function_of_that_name_that_was_left_out_makes_no_line_unclear() -> None:
    baseline = both(BASELINE, moved(BASELINE))
    selected = dataclasses.replace(
        WORSE, selection=("-k suite",), partial=(f"{ELSEWHERE}::test_f",)
    )
    found = compare(baseline, selected, GateRules(accept=(MEANT,)), typed=("-k suite",))
    assert found.not_judged
    assert [one.accepted for one in found.functions] == [True]
    assert said([MEANT], (baseline, found)) == []


def test_a_line_that_main_has_acts_against_an_anchor_that_has_it_not(tmp_path: Path) -> None:
    settings = Settings(directory=tmp_path, session="", gate=GateRules(accept=(MEANT,)))

    def judged_with(main: Run, anchor: Run) -> Judgement:
        named = [
            Baseline(reference=name, run=run, path=tmp_path, how="commit")
            for name, run in (("main", main), ("v1", anchor))
        ]
        return judged(Judgement(settings=settings, baseline=named[0], anchor=named[1]), WORSE)

    assert not judged_with(having(WORSE, MEANT), BASELINE).fails
    assert judged_with(having(WORSE, MEANT), having(BASELINE, MEANT)).fails
    assert judged_with(having(BASELINE, MEANT), BASELINE).fails
