"""`llmeval selfcheck`: how often the gate cries wolf on a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.records import Run
from pytest_llmeval.reports.terminal.planning import Checked
from pytest_llmeval.stats.selfcheck import self_check
from tests.cli.recording import record
from tests.gate.builders import CallsOfTrial, CaseAndTrials, a_call, a_case, a_run


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def selfcheck(run: Run, *arguments: str) -> Result:
    record(run)
    return CliRunner().invoke(main, ["selfcheck", "last", *arguments], catch_exceptions=False)


def steady(cases: int = 30, repeats: int = 6, **more: str) -> list[CaseAndTrials]:
    random = np.random.default_rng(1)
    rates = random.choice([0.15, 0.5, 0.9], size=(cases, 1))
    hits = random.random((cases, repeats)) < rates
    return [
        a_case(f"c{at}", "".join("p" if hit else "m" for hit in row), **more)
        for at, row in enumerate(hits)
    ]


def test_a_steady_run_is_told_its_rate_of_alarms_with_an_error_bar() -> None:
    run = a_run(*steady())
    samples = [[trial.scores["pass"] for trial in one.trials] for one in steady()]
    check = self_check(samples)
    assert check is not None

    result = selfcheck(run)

    assert result.exit_code == 0
    first, _, row, legend = result.stdout.splitlines()
    assert first == f"run {run.id}"
    assert f"2000    {check.rate:.1%}" in row
    assert "[{:.1%}, {:.1%}]".format(*check.interval) in row
    assert "promises at most 5.0%" in legend


def test_the_first_half_is_held_against_the_second() -> None:
    result = selfcheck(a_run(*(a_case(f"c{at}", "ppmm" if at % 4 else "ppmp") for at in range(8))))

    assert "1.000 -> 0.125" in result.stdout
    assert "test_f: the gate calls its second half worse" in result.stdout


def test_a_run_that_drifts_exits_1() -> None:
    result = selfcheck(a_run(*(a_case(f"c{at}", "pmpm") for at in range(20))))

    assert result.exit_code == 1
    assert "test_f: its repeats drift" in result.stdout


def test_level_may_be_named() -> None:
    result = selfcheck(a_run(*steady()), "--alpha=0.2")
    assert "a level of 0.2 promises at most 20.0%" in result.stdout


def test_single_trials_and_cases_that_are_tied_are_told() -> None:
    cases = [*steady(cluster="doc"), a_case("single", "p", cluster="doc")]
    result = selfcheck(a_run(*cases))

    assert "test_f: 1 case with a single scored trial left out" in result.stdout
    assert "test_f: 31 cases, 1 independent" in result.stdout


def test_clusters_are_what_is_tested() -> None:
    cases = [
        dataclasses.replace(one, case=dataclasses.replace(one.case, cluster=f"doc{at // 3}"))
        for at, one in enumerate(steady(cases=36))
    ]
    samples = [[trial.scores["pass"] for trial in one.trials] for one in cases]
    in_order = sorted(range(36), key=lambda at: cases[at].case.id)
    check = self_check([samples[at] for at in in_order], [at // 3 for at in in_order])
    assert check is not None

    result = selfcheck(a_run(*cases))

    assert "test_f: 36 cases, 12 independent" in result.stdout
    assert f"2000    {check.rate:.1%}" in result.stdout


def test_wordings_are_told_to_be_taken_as_they_are() -> None:
    cases = [
        dataclasses.replace(
            one, case=dataclasses.replace(one.case, topic=f"t{at // 3}", wording=f"w{at % 3}")
        )
        for at, one in enumerate(steady())
    ]
    result = selfcheck(a_run(*cases))
    assert "test_f: the gate takes its wordings as a sample, this check as they are" in (
        result.stdout
    )


def test_a_function_without_repeats_is_told_beside_others() -> None:
    result = selfcheck(a_run(*steady(), a_case("a", "p", function="test_g")))

    assert result.exit_code == 0
    assert "no case has two scored trials" in result.stdout


@pytest.mark.parametrize("outcome", ["p", "e"])
def test_a_run_without_repeats_is_refused(outcome: str) -> None:
    result = selfcheck(a_run(a_case("a", outcome), a_case("b", outcome)))

    assert result.exit_code == 4
    [line] = result.stderr.splitlines()
    assert line.startswith("ERROR: no case has two scored trials")
    assert "--llm-repeats=5" in line


def test_a_function_may_be_named() -> None:
    run = a_run(*steady(), *steady(function="test_g"))
    result = selfcheck(run, "--function=test_g")
    assert "test_f" not in result.stdout


def test_scores_that_never_vary_leave_drift_open() -> None:
    result = selfcheck(a_run(*(a_case(f"c{at}", "pppp") for at in range(8))))

    assert result.exit_code == 0
    assert "0.0%" in result.stdout
    assert "1.000 -> 1.000" in result.stdout


def test_halves_without_a_common_case_are_left_open() -> None:
    cases = [a_case(f"c{at}", ("eepm", "eemp")[at % 2]) for at in range(8)]
    result = selfcheck(a_run(*cases))

    assert result.exit_code == 0
    assert "->" not in result.stdout.splitlines()[2]


def test_a_gate_that_cries_wolf_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checked, "cries_wolf", lambda *_: True)
    result = selfcheck(a_run(*steady()))

    assert result.exit_code == 1
    assert "raises more false alarms than its level" in result.stdout


def test_seconds_are_checked_as_ratios() -> None:
    random = np.random.default_rng(2)
    seconds = random.lognormal(size=(20, 6))

    def calls(at: int) -> CallsOfTrial:
        return lambda index: [
            dataclasses.replace(a_call("A", f"d{at}/{index}"), seconds=float(seconds[at, index]))
        ]

    cases = [a_case(f"c{at}", "pppppp", calls=calls(at), gate=("seconds",)) for at in range(20)]
    in_order = sorted(range(20), key=lambda at: f"c{at}")
    check = self_check([(-np.log(seconds[at])).tolist() for at in in_order])
    assert check is not None

    result = selfcheck(a_run(*cases))

    assert f"{check.deals}    {check.rate:.1%}" in result.stdout
    assert "test_f (seconds)" in result.stdout


def test_a_score_table_is_checked() -> None:
    rows = [f"c{at},{n},{int(hit)}" for at, one in enumerate(steady()) for n, hit in hits_of(one)]
    Path("t.csv").write_text("\n".join(["case_id,repeat,score", *rows]))
    result = CliRunner().invoke(main, ["selfcheck", "t.csv"], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.startswith("table t.csv\n")
    assert "scores" in result.stdout


def hits_of(one: CaseAndTrials) -> list[tuple[int, float]]:
    return [(trial.index, trial.scores["pass"]) for trial in one.trials]
