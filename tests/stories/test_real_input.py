"""Recorded outcomes of real models, replayed through the whole plugin.

The data lie beside the repository and are never part of it. Without them these tests are skipped;
a sample that is made by code (tests/recorded.py) takes the same way in test_recorded_answers.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.special import stdtr

from pytest_llmeval.cli import main
from pytest_llmeval.runs.score_table import read_table
from pytest_llmeval.stats.t_tests import paired_test
from tests.recorded import Recorded, compare

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def data() -> Path:
    if not DATA.is_dir():
        pytest.skip("the recorded outcomes of real models are not beside the repository")
    return DATA


@pytest.fixture
def recorded(data: Path, originals: Path, pytester: pytest.Pytester) -> Recorded:
    return Recorded(data, originals, pytester)


def test_a_concise_prompt_made_gpt_35_worse(recorded: Recorded, data: Path) -> None:
    status, function = recorded.gate("gpt-35-turbo", "concise")

    assert status == 1
    assert function["verdict"] == "regressed"
    assert function["method"] == "paired-t"
    assert function["dof"] == 99
    assert function["difference"] == pytest.approx(-0.154333, abs=5e-7)
    assert function["t"] == pytest.approx(-5.880436, abs=5e-7)
    assert function["baseline_trials"]["errored"] == 7
    assert function["baseline_mean"] == pytest.approx(0.584333, abs=5e-7)
    assert function["mean"] == pytest.approx(0.430000, abs=5e-7)
    # the scores alone, without the replies, are worth the same
    table = compare(data, AQUA, CHAIN, f"{GPT_35}|concise")
    for figure in ("metric", "verdict", "method", "cases", "dof"):
        assert table[figure] == function[figure]
    for figure in ("difference", "t", "p", "interval", "smallest_detectable_drop"):
        assert table[figure] == pytest.approx(function[figure])


def test_a_composite_prompt_is_no_regression_of_gpt_35(recorded: Recorded) -> None:
    status, function = recorded.gate("gpt-35-turbo", "composite")

    assert status == 0
    assert function["verdict"] != "regressed"
    assert function["difference"] == pytest.approx(-0.023333, abs=5e-7)
    assert function["t"] == pytest.approx(-1.231042, abs=5e-7)


def test_a_concise_prompt_is_no_regression_of_gpt_4(recorded: Recorded) -> None:
    status, function = recorded.gate("gpt-4", "concise")

    assert status == 0
    assert function["verdict"] != "regressed"
    assert function["difference"] == pytest.approx(-0.018000, abs=5e-7)
    assert function["t"] == pytest.approx(-1.109097, abs=5e-7)


# --- llmeval compare ---------------------------------------------------------------------

AQUA, AQUA_4 = "aqua_prompts.gpt-35-turbo.jsonl.gz", "aqua_prompts.gpt-4.jsonl.gz"
MCQ, EXTRACTION = "mcq_temperature_scores.csv.gz", "json_extraction.jsonl.gz"
GPT_35, GPT_4, LLAMA = "gpt-35-turbo", "gpt-4", "llama3_8b|extraction"
CHAIN = f"{GPT_35}|chain_of_thought"

# the table that came with the data: cases, both means, difference, t, two-sided p
REFERENCE = [
    (AQUA, CHAIN, f"{GPT_35}|concise", 100, 0.584333, 0.430000, -0.154333, -5.880436, 5.556e-08),
    (AQUA_4, f"{GPT_4}|chain_of_thought", f"{GPT_4}|concise", 100, 0.762000, 0.744000, -0.018000,
     -1.109097, 0.2701),
    (AQUA, CHAIN, f"{GPT_35}|composite", 100, 0.584333, 0.561000, -0.023333, -1.231042, 0.2212),
    (AQUA, f"{GPT_35}|baseline", CHAIN, 100, 0.341000, 0.584333, 0.243333, 6.409250, 4.99e-09),
    (MCQ, f"{CHAIN}|t=0.5", f"{CHAIN}|t=0.6", 99, 0.587879, 0.575758, -0.012121, -0.864923, 0.3892),
    (MCQ, f"{CHAIN}|t=1.0", f"{CHAIN}|t=1.4", 99, 0.574747, 0.457576, -0.117172, -5.873735,
     5.851e-08),
    (MCQ, f"{CHAIN}|t=0.7", f"{GPT_4}|chain_of_thought|t=0.7", 99, 0.598990, 0.760606, 0.161616,
     4.858831, 4.483e-06),
    (EXTRACTION, f"{LLAMA}|C3_temp0.0", f"{LLAMA}|C3_temp0.7", 30, 0.840000, 0.744444, -0.095556,
     -3.970673, 0.0004332),
    (EXTRACTION, f"{LLAMA}|C1_fixed_seed", f"{GPT_4}|extraction|C2_same_params", 30, 0.840000,
     0.925333, 0.085333, 4.982914, 2.66e-05),
]  # fmt: skip


@pytest.mark.parametrize("row", REFERENCE, ids=[f"{row[1]} {row[2]}" for row in REFERENCE])
def test_the_reference_numbers_come_out_of_compare(data: Path, row: tuple[Any, ...]) -> None:
    file, before, here, cases, mean_before, mean, difference, t, p = row
    function = compare(data, file, before, here)

    assert (function["method"], function["cases"], function["dof"]) == (
        "paired-t",
        cases,
        cases - 1,
    )
    assert function["baseline_mean"] == pytest.approx(mean_before, abs=5e-7)
    assert function["mean"] == pytest.approx(mean, abs=5e-7)
    assert function["difference"] == pytest.approx(difference, abs=5e-7)
    assert function["t"] == pytest.approx(t, abs=5e-7)
    # the test's own p, printed with four digits; the gate may take a larger one from the
    # exact test where a case has fewer trials here than in the baseline
    assert 2 * stdtr(cases - 1, -abs(function["t"])) == pytest.approx(p, rel=2e-4)
    one_sided = function["p"] if difference < 0 else function["p_improved"]
    assert 2 * one_sided >= p * (1 - 2e-4)
    if function["trials"]["scored"] >= function["baseline_trials"]["scored"]:
        assert 2 * one_sided == pytest.approx(p, rel=2e-4)


def test_a_difference_without_spread_is_an_improvement(data: Path) -> None:
    before, here = f"{LLAMA}|C1_fixed_seed", f"{GPT_4}|extraction|C2_same_params"
    function = compare(data, EXTRACTION, before, here, "--metric=json_raw_ok")

    assert (function["method"], function["difference"]) == ("same-shift", 1.0)
    assert function["verdict"] == "improved"


def test_two_conditions_that_are_identical_in_every_case_never_differ(data: Path) -> None:
    function = compare(
        data, EXTRACTION, "gemma2_9b|extraction|C1_fixed_seed", "gemma2_9b|extraction|C2_var_seed"
    )

    assert (function["difference"], function["p"]) == (0.0, 1.0)
    assert function["verdict"] not in ("regressed", "improved", "unchanged")


def test_unequal_repeats_and_a_failed_call_are_compared(data: Path) -> None:
    before, here = f"{GPT_4}|extraction|C3_temp0.0", f"{GPT_4}|extraction|C3_temp0.7"
    unequal = compare(data, EXTRACTION, before, here)
    sonnet = "sonnet-4-5|extraction|C1_fixed_seed", "sonnet-4-5|extraction|C2_var_seed"
    timed_out = compare(data, EXTRACTION, *sonnet)

    assert unequal["baseline_trials"]["scored"] == 45
    assert unequal["trials"]["scored"] == 55
    assert unequal["difference"] is not None
    assert timed_out["baseline_trials"]["errored"] == 1
    assert timed_out["cases"] == 10


def test_a_collapse_with_many_failed_calls_is_not_judged_by_what_is_left(data: Path) -> None:
    function = compare(data, MCQ, f"{CHAIN}|t=1.0", f"{CHAIN}|t=1.6")

    assert function["trials"]["errored"] > 0.05 * 1000
    assert function["verdict"] == "not_comparable"


# --- llmeval plan --like -----------------------------------------------------------------


def scores_of(data: Path, condition: str) -> dict[str, list[float]]:
    table = read_table(data / AQUA, reference=AQUA, condition=condition)
    return {
        case: [score for score in trials.values() if score is not None]
        for case, trials in table.scores[None].items()
    }


def share_found(before: dict[str, list[float]], after: dict[str, list[float]], cases: int) -> float:
    """Draw cases at random, and 5 of their 10 recorded repeats on each side."""
    ids = [case for case in before if min(len(before[case]), len(after[case])) == 10]
    random = np.random.default_rng(0)
    found = 0
    for _ in range(1000):
        differences = [
            random.choice(after[case], 5, replace=False).mean()
            - random.choice(before[case], 5, replace=False).mean()
            for case in random.choice(ids, cases)
        ]
        found += paired_test(differences).tails.worse < 0.05
    return found / 1000


@pytest.mark.parametrize(
    ("branch", "cases", "drop"),
    [("concise", 20, 0.154333), ("concise", 30, 0.154333), ("baseline", 15, 0.243333)],
)
def test_a_plan_like_a_real_change_finds_what_it_says(
    data: Path, branch: str, cases: int, drop: float
) -> None:
    def planned(*more: str) -> int:
        options = [f"--drop={drop}", f"--cases={cases}", "--repeats=5", "--baseline-repeats=5"]
        result = CliRunner().invoke(main, ["plan", f"{data / AQUA}::{CHAIN}", *options, *more])
        return int(re.findall(r"is found in (\d+) %", result.stdout)[0])

    found = 100 * share_found(scores_of(data, CHAIN), scores_of(data, f"{GPT_35}|{branch}"), cases)
    like = planned(f"--like={data / AQUA}::{GPT_35}|{branch}")
    assert like == pytest.approx(found, abs=4)
    assert planned() > like + 7


# --- llmeval doctor ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "condition", "said"),
    [
        (AQUA_4, f"{GPT_4}|chain_of_thought", "of 100 cases 45 passed and 4 missed in each trial"),
        (AQUA, f"{GPT_35}|concise", "nothing to advise"),
        (MCQ, f"{CHAIN}|t=1.6", "840 of 1000 trials errored"),
        (EXTRACTION, f"{LLAMA}|C3_temp0.7", "nothing to advise"),
    ],
)
def test_the_doctor_reads_recorded_answers(
    data: Path, file: str, condition: str, said: str
) -> None:
    result = CliRunner().invoke(main, ["doctor", f"{data / file}::{condition}"])
    assert said in result.output
    assert result.exit_code == 0
    assert len(result.output.splitlines()) <= 11
