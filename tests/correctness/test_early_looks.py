"""Early looks with workers: where all cases of a function are dealt to one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.plugin.stories.test_early_stopping import (
    EVALS,
    GATED,
    IT,
    asked,
    last_run,
    record,
    reword,
)
from tests.project import Project, made_once

WORKERS = ("-q", "-n", "2", *GATED)


@pytest.fixture
def project(pytester: pytest.Pytester, originals: Path) -> Project:
    """Thirty cases recorded on main, and a branch begun."""
    return made_once(originals / "early", pytester, record)


@pytest.mark.parametrize("dist", ["loadscope", "loadfile"])
def test_a_worker_that_has_all_cases_of_a_function_stops_where_one_process_does(
    project: Project, dist: str
) -> None:
    reword(project)
    result = project.run(*WORKERS, f"--dist={dist}")
    found, calls = last_run(project), asked(project)
    project.run("-q", *GATED, "--llm-cache=refresh")
    alone = last_run(project)

    assert found.looks == alone.looks
    assert found.looks[IT] < 5
    assert len({*calls}) == len(calls) == len(found.trials) == 30 * found.looks[IT]
    assert "no early looks" not in str(result.stdout)


def test_a_worker_compares_with_the_draws_of_older_runs_too(project: Project) -> None:
    """By the newest run alone, of two repeats, nothing is decided at the first look."""
    project.git("switch", "-q", "main")
    project.write(test_evals=EVALS.replace("=5", "=2"))
    project.commit()
    for _ in range(4):
        project.run("-q", "--llm-cache=refresh")
    project.git("switch", "-qc", "pooled")
    project.write(test_evals=EVALS)
    reword(project)
    project.run("-q", *GATED)
    alone = last_run(project).looks
    project.run("-q", *GATED, "-o", "llm_baseline_repeats=0")
    assert last_run(project).looks != alone

    project.run(*WORKERS, "--dist=loadfile")

    assert last_run(project).looks == alone


@pytest.mark.parametrize("dist", ["load", "worksteal", "loadgroup"])
def test_workers_that_share_a_function_take_no_look_and_say_what_to_type(
    project: Project, dist: str
) -> None:
    reword(project)

    result = project.run(*WORKERS, f"--dist={dist}")

    assert (last_run(project).looks, last_run(project).complete) == ({}, True)
    assert len(asked(project)) == 150
    told = " ".join(str(result.stdout).split())
    assert told.count("no early looks, as xdist deals the cases of a function to several") == 1
    (typed,) = re.findall(r"type (--dist=\w+)", told)
    reword(project, rate=0.4)
    project.run(*WORKERS, typed)
    assert last_run(project).looks == {IT: 2}
