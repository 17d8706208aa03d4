"""Cases that are drawn from a generator."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from pytest_llmeval import sample_cases
from pytest_llmeval.engine.sampling import is_sampled
from pytest_llmeval.errors import SettingsError
from tests.project import Project


def pair(rng: random.Random) -> tuple[int, int]:
    return rng.randrange(1000), rng.randrange(1000)


def test_the_same_seed_gives_the_same_cases() -> None:
    assert sample_cases(pair, 5, seed=7) == sample_cases(pair, 5, seed=7)
    assert sample_cases(pair, 5, seed=8)[0].values != sample_cases(pair, 5, seed=7)[0].values


def test_a_larger_sample_keeps_the_cases_that_were_there() -> None:
    assert sample_cases(pair, 9, seed=7)[:5] == sample_cases(pair, 5, seed=7)


def test_cases_are_the_same_in_every_process_and_python() -> None:
    assert [case.values for case in sample_cases(pair, 2, seed=7)] == [(722, 362), (56, 565)]


def test_ids_name_seed_and_index() -> None:
    assert [case.id for case in sample_cases(pair, 2, seed=7)] == ["seed7-0", "seed7-1"]


def test_a_tuple_is_one_value_for_each_argument_and_anything_else_a_single_one() -> None:
    assert len(sample_cases(pair, 1, seed=0)[0].values) == 2
    [single] = sample_cases(lambda rng: [rng.random()], 1, seed=0)
    assert len(single.values) == 1


@pytest.mark.parametrize(
    ("n", "seed", "part"),
    [(0, 1, "n must be 1 or more, not 0"), (2.5, 1, "n must be a whole"), (3, "x", "seed must be")],
)
def test_numbers_that_are_none_are_refused(n: int, seed: int, part: str) -> None:
    with pytest.raises(SettingsError, match=part):
        sample_cases(pair, n, seed=seed)


@pytest.mark.parametrize(
    ("id_", "sampled"),
    [
        ("seed7-0", True),
        ("seed-7-12", True),
        ("Peru-seed7-0", True),
        ("seed7-0-Peru", True),
        ("seed7", False),
        ("birdseed7-0", False),
        ("Peru", False),
    ],
)
def test_sampled_ids_are_told_from_others(id_: str, sampled: bool) -> None:
    assert is_sampled(id_) is sampled


def test_importing_it_imports_neither_pytest_nor_numpy() -> None:
    script = "import sys; from pytest_llmeval import sample_cases; "
    script += "print({'pytest', '_pytest', 'numpy'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


EVALS = """
import pytest
from pytest_llmeval import llm_eval, sample_cases

@llm_eval(repeats=2)
@pytest.mark.parametrize("number", sample_cases(lambda rng: rng.randrange({most}), 20, seed=3))
def test_says_yes(llm, number):
    assert llm.ask(f"Say yes to {{number}}. rate=1").text == "yes"
"""


def test_an_edited_generator_makes_cases_that_are_not_paired(project: Project) -> None:
    project.write(test_evals=EVALS.format(most=10**6))
    project.commit()
    project.run()
    project.write(test_evals=EVALS.format(most=10**9))

    _, report = project.gate("--llm-baseline=main")

    [function] = report["functions"]
    assert len(function["mismatched"]) == 20


def test_a_larger_sample_replays_what_was_paid_for(project: Project) -> None:
    project.write(test_evals=EVALS.format(most=10**6))
    project.commit()
    project.run()
    project.calls()
    project.write(test_evals=EVALS.format(most=10**6).replace("20,", "22,"))

    _, report = project.gate("--llm-baseline=main")

    assert project.calls() == 4
    assert report["verdict"] == "unchanged"
