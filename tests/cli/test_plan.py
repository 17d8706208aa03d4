"""`llmeval plan`: what a suite finds, and what would be needed."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.records import Run, Trial
from pytest_llmeval.stats.sample import CaseScores
from pytest_llmeval.stats.suite_size import (
    Design,
    assumed_components,
    cases_needed,
    detectable_drop,
    estimated_components,
    fallen,
    power_of,
    recorded_components,
)
from tests.cli.recording import record
from tests.gate.builders import CallsOfTrial, a_call, a_case, a_run


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def plan(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["plan", *map(str, arguments)], catch_exceptions=False)


def mixed(cases: int = 40) -> Run:
    return a_run(
        *(a_case(f"c{at}", ("ppppp", "pmpmp", "ppppm", "mmmmp")[at % 4]) for at in range(cases))
    )


def assert_refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 4
    [line] = result.stderr.splitlines()
    for part in ("ERROR: ", *parts):
        assert part in line


def early_line(result: Result) -> list[str]:
    return [line for line in result.stdout.splitlines() if "llm_sequential" in line]


def test_the_repeats_that_early_looks_leave_are_said_where_they_are_on(tmp_path: Path) -> None:
    arguments = "--rates=0.15,0.5,0.9", "--cases=200", "--baseline-repeats=10", "--drop=0.2"
    assert early_line(plan(*arguments)) == []
    (tmp_path / "pytest.ini").write_text("[pytest]\nllm_sequential = true\n")
    assert early_line(plan(*arguments)) == [
        "  llm_sequential stops after 2.0 of 5 repeats on average, and after 3.0 if nothing changed"
    ]
    (tmp_path / "pytest.ini").write_text("[pytest]\nllm_sequential = sometimes\n")
    assert_refused(plan(*arguments), "llm_sequential=sometimes in the ini file")


def test_assumed_rates_are_planned_with_before_the_first_run() -> None:
    rates = [0.1, 0.5, 0.9, 0.9]
    design = Design(
        cases=60, baseline=10, current=5, components=assumed_components(rates, fallen(rates, 0.05))
    )
    result = plan(
        "--rates=0.1, 0.5,0.9,0.9", "--cases=60", "--repeats=5", "--baseline-repeats=10",
        "--drop=0.05", "--power=0.9",
    )  # fmt: skip

    assert result.exit_code == 0
    assert "60 cases x 5 repeats, baseline 10 repeats, mean 0.600" in result.stdout
    power = power_of(design, drop=0.05)
    assert (
        f"a drop of 0.05 (0.600 -> 0.550) is found in {power:.0%}".replace("%", " %")
        in result.stdout
    )
    needed = cases_needed(design, drop=0.05, power=0.9)
    assert (
        f"{needed} cases of 5 repeats ({needed - 60} more): {5 * needed} trials a run"
        in result.stdout
    )
    assert re.search(r"^ +5 +300 .* <- now$", result.stdout, re.MULTILINE)
    assert re.search(r"^ +60 +300 .* <- now$", result.stdout, re.MULTILINE)


def test_the_last_run_is_planned_with_unless_one_is_named() -> None:
    record(mixed())
    result = plan()

    assert result.exit_code == 0
    assert result.stdout == plan("last").stdout
    first, second, *_ = result.stdout.splitlines()
    assert first == "run 20261121T084100-1a2b3c"
    assert second == "test_f: 40 cases x 5 repeats, baseline 5 repeats, mean 0.650"


def test_more_of_everything_finds_more() -> None:
    record(mixed())
    found = [
        int(re.search(r"is found in (\d+) %", plan(*more).stdout)[1])  # type: ignore[index]
        for more in (
            [],
            ["--repeats=10"],
            ["--baseline-repeats=20"],
            ["--cases=80"],
            ["--alpha=0.2"],
        )
    ]
    assert min(found[1:]) > found[0]


def test_calls_are_those_of_the_run_and_its_trials() -> None:
    record(mixed())
    assert re.search(r"^ +40 +200 .* <- now$", plan().stdout, re.MULTILINE)
    cases = [a_case(f"c{at}", "pmp", calls=lambda _: ()) for at in range(8)]
    record(a_run(*cases))
    assert re.search(r"^ +cases +trials", plan().stdout, re.MULTILINE)


def test_enough_is_called_enough() -> None:
    record(mixed(400))
    assert "this is enough" in plan("--drop=0.2").stdout


def test_what_no_number_does_is_told() -> None:
    record(mixed())
    result = plan("--drop=0.0001", "--baseline-repeats=1")

    assert "more than a million cases" in result.stdout
    assert "no number of repeats of 40 cases is enough on the branch alone" in result.stdout


def test_a_single_case_finds_nothing() -> None:
    result = plan("--rates=0.5,0.9", "--cases=1")

    assert "is found in 0 % of builds" in result.stdout
    assert "smallest drop found in 80" not in result.stdout


def test_few_cases_are_told_to_take_another_test() -> None:
    record(mixed(4))
    assert "fewer than 6 cases" in plan().stdout


def test_where_lower_is_better_a_drop_raises_the_mean() -> None:
    scores = [0.0, 0.0, 0.0, 1.0, 0.0]
    record(a_run(*(a_case(f"c{at}", scores=scores, better="lower") for at in range(20))))
    assert "a drop of 0.1 (0.200 -> 0.300)" in plan().stdout


def test_other_scores_are_planned_with_too() -> None:
    record(a_run(*(a_case(f"c{at}", scores=[2 + at, 3 + at]) for at in range(9))))
    assert "test_f (score): 9 cases x 2 repeats" in plan().stdout


def test_cases_that_are_tied_are_told_to_find_less() -> None:
    tied = [a_case(f"c{at}", ("pmp", "ppp")[at % 2], cluster=f"doc{at // 4}") for at in range(12)]
    record(a_run(*tied))
    assert "(its 12 cases are 3 independent ones, which find less than this)" in plan().stdout
    record(mixed())
    assert "independent" not in plan().stdout


def test_several_functions_are_planned_one_by_one_or_one_is_named() -> None:
    cases = [
        a_case(f"c{at}", "pmp", function=name) for name in ("test_f", "test_g") for at in range(8)
    ]
    record(a_run(*cases))

    assert "each of 2 is planned by itself" in plan().stdout
    only = plan("--function=test_g").stdout
    assert "test_f" not in only
    assert "each of" not in only


def taking(seconds: float) -> CallsOfTrial:
    return lambda index: [
        dataclasses.replace(a_call("A", f"d{index}"), seconds=seconds * (1 + index / 10))
    ]


def test_seconds_are_planned_with_as_factors() -> None:
    cases = [a_case(f"c{at}", "pmp", calls=taking(1 + at), gate=("seconds",)) for at in range(8)]
    record(a_run(*cases))
    lines = plan("--drop=0.1").stdout.splitlines()
    assert re.fullmatch(r"test_f \(seconds\): 8 cases x 3 .*, mean 4\.\d+", lines[1])
    assert "each rises by one factor" in lines[2]
    assert re.match(r"  a rise by a factor of 1\.1 \(4\.\d+ -> 4\.\d+\) is found in", lines[3])
    # as all are slowed down by one factor, cases that take unlike times differ by nothing
    gains = [[-math.log((1 + at) * (1 + index / 10)) for index in range(3)] for at in range(8)]
    found = recorded_components(gains, drop=math.log(1.1), pass_scores=False)
    assert found is not None
    design = Design(
        cases=8, baseline=3, current=3, components=dataclasses.replace(found, between=0.0)
    )
    factor = math.exp(detectable_drop(design) or 0.0)
    assert lines[4] == f"  the smallest factor found in 80 % of builds is x{factor:.3g}"
    assert any(line.endswith("smallest factor") for line in lines)


def test_a_function_that_cannot_fall_so_far_is_told_beside_others() -> None:
    low = [a_case(f"c{at}", "mmm" if at else "mpm", function="test_low") for at in range(8)]
    record(a_run(*low, *(a_case(f"c{at}", "pmp") for at in range(8))))
    result = plan("--drop=0.05")
    assert result.exit_code == 0
    assert "test_low: its mean pass rate, 0.042, cannot fall by 0.05" in result.stdout
    assert "test_f: 8 cases" in result.stdout


def test_a_run_without_repeats_or_scores_cannot_be_planned_with() -> None:
    record(a_run(a_case("a", "p"), a_case("b", "m"), a_case("c", "e", function="test_g")))
    result = plan()

    assert result.exit_code == 0
    assert "pytest --llm-repeats=5" in result.stdout
    assert "test_g: no trial has a score" in result.stdout


def test_a_plan_from_one_run_holds_if_the_change_acts_alike() -> None:
    record(mixed())
    sentence = "a change that hurts some cases and spares others is found less often"
    assert sentence in plan().stdout
    assert sentence in plan("--rates=0.5,0.9").stdout


def unlike(cases: int = 12) -> Run:
    """A run after a change that acts on every second case alone."""
    return dataclasses.replace(
        a_run(
            *(a_case(f"c{at}", ("pppmp", "mmmpm")[at % 2], request="v2") for at in range(cases)),
            *(a_case(f"r{at}", "ppmpp") for at in range(cases)),
        ),
        id="20261121T094100-1a2b3d",
    )


def test_a_plan_like_a_change_takes_over_how_unlike_it_acted() -> None:
    before = a_run(*(a_case(f"{name}{at}", "ppmpp") for name in "cr" for at in range(12)))
    record(before)
    record(unlike())
    cases = [
        CaseScores(baseline=(1, 1, 0, 1, 1), current=((1, 1, 1, 0, 1), (0, 0, 0, 1, 0))[at % 2])
        for at in range(12)
    ]
    parts = estimated_components(cases)  # of the changed cases alone
    assert parts is not None
    design = Design(cases=24, baseline=5, current=5, components=parts)

    result = plan(before.id, "--like=last")

    assert result.exit_code == 0
    assert f"run {before.id}" in result.stdout
    assert "spares others" not in result.stdout
    spread = math.sqrt(parts.between)
    assert f"they differ as those of --like do (standard deviation {spread:.3f})" in result.stdout
    power = f"{power_of(design, drop=0.1):.0%}".replace("%", " %")
    assert f"(0.800 -> 0.700) is found in {power} of builds" in result.stdout


def test_a_plan_is_for_the_baseline_and_for_the_drop_that_the_gate_looks_for() -> None:
    record(mixed())
    later = dataclasses.replace(unlike(), compared_with="20261121T084100-1a2b3c")
    record(dataclasses.replace(later, id="20261121T094100-1a2b3d"))
    Path("pytest.ini").write_text("[pytest]\nllm_target = 0.07\n")

    lines = plan().stdout

    assert lines.startswith("run 20261121T084100-1a2b3c\n")
    assert "a drop of 0.07 (" in lines
    assert "a drop of 0.02 (" in plan("--drop=0.02").stdout
    assert plan("last").stdout.startswith("run 20261121T094100-1a2b3d\n")


def test_a_plan_like_a_change_that_asked_nothing_anew_cannot_be_made() -> None:
    record(mixed())
    record(dataclasses.replace(mixed(), id="20261121T094100-1a2b3d"))
    result = plan("20261121T084100-1a2b3c", "--like=last")
    assert result.exit_code == 0
    assert "test_f: --like: no case of it is on both sides with other replies" in result.stdout


def test_ratios_are_planned_like_a_change_too() -> None:
    def slower(by: float) -> Run:
        cases = [
            a_case(
                f"c{at}", "pmp", calls=taking((1 + at) * (by if at % 2 else 1)), gate=("seconds",)
            )
            for at in range(8)
        ]
        return a_run(*cases)

    record(slower(1))
    draws = dataclasses.replace(slower(2), id="20261121T094100-1a2b3d")
    record(dataclasses.replace(draws, trials=tuple(map(redrawn, draws.trials))))
    result = plan("20261121T084100-1a2b3c", "--like=last")
    # of logarithms: half of the cases by log 2, half by nothing
    noise = 2 / 3 * statistics.variance([math.log(1 + index / 10) for index in range(3)])
    spread = math.sqrt(8 / 7 * (math.log(2) / 2) ** 2 - noise)
    assert f"standard deviation {spread:.3f} of logarithms" in result.stdout


def redrawn(trial: Trial) -> Trial:
    calls = tuple(dataclasses.replace(call, draw=f"{call.draw} again") for call in trial.calls)
    return dataclasses.replace(trial, calls=calls)


def test_tables_and_conditions_are_planned_with() -> None:
    rows = [
        f"c{case},{repeat},{int(repeat < hits)},{name}"
        for name, hits in (("old", 4), ("new", 2))
        for case in range(9)
        for repeat in range(5)
    ]
    Path("t.csv").write_text("\n".join(["case_id,repeat,score,condition", *rows]))
    assert (
        "scores: 9 cases x 5 repeats, baseline 5 repeats, mean 0.800" in plan("t.csv::old").stdout
    )
    assert "those of --like" in plan("t.csv::old", "--like=t.csv::new").stdout
    alike = plan("t.csv::old", "--like=t.csv::old").stdout
    assert alike.startswith("note: A and B are the very same scores: nothing can differ\n")
    assert_refused(plan("t.csv"), "holds 2 conditions")
    assert_refused(
        plan("last", "--like=t.csv::new"), "t.csv::new is a score table and last is none"
    )


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--drop=0"], "--drop=0: must be above 0"),
        (["--drop=0.7"], "--drop=0.7: must be below the mean pass rate, 0.650"),
        (["--rates=0.5", "--drop=0.5"], "--drop=0.5: must be below"),
        (["--power=1"], "--power=1: must lie above 0 and below 1"),
        (["--alpha=0.5"], "--alpha=0.5"),
        (["--repeats=0"], "--repeats"),
        (["--rates=0.5,x"], "--rates=0.5,x: each must be a number"),
        (["--rates=0.5,1.5"], "between 0 and 1"),
        (["last", "--rates=0.5"], "leave RUN"),
        (["--like=last", "--rates=0.5"], "leave RUN, --like"),
        (["--like=no-such-run"], "no-such-run"),
        (["last", "--like=last"], "no run besides"),
        (["--function=test_x"], "has test_f"),
        (["no-such-run"], "no-such-run"),
    ],
)
def test_a_mistake_is_one_line_and_exit_4(arguments: list[str], part: str) -> None:
    record(mixed())
    assert_refused(plan(*arguments), part)


def test_without_a_run_the_rates_are_asked_for(tmp_path: Path) -> None:
    assert_refused(plan(), "last: no run", "Record one: pytest", "--rates")


def test_the_command_is_light_before_it_plans() -> None:
    script = (
        "import sys, pytest_llmeval.cli; print({'numpy', 'scipy', 'pytest'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
