"""The branch changes what is gated, or how: what main gates stays gated, and is told."""

from __future__ import annotations

import json
from gzip import decompress
from pathlib import Path

import pytest

from tests.plugin.test_gating import WORSE, record_main
from tests.project import EVALS, INI, SMALL, Project, made_once

TONE = EVALS.replace("repeats=5", 'repeats=5, gate="tone"').replace("(llm,", "(llm, llm_score,")
TONE += '    llm_score(1, "tone")\n'


@pytest.fixture
def main(pytester: pytest.Pytester, originals: Path) -> Project:
    """Main, recorded with 10 repeats, and a branch begun."""
    return made_once(originals / "main", pytester, record_main)


def test_another_gate_on_the_branch_hides_no_fall(main: Project) -> None:
    main.write(app=WORSE, test_evals=TONE)
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    assert result.ret == 1
    verdicts = {one["metric"]: one["verdict"] for one in report["functions"]}
    assert verdicts == {"tone": "new", "pass": "regressed"}
    result.stdout.fnmatch_lines(
        [
            "note: test_evals.py::test_says_yes:pass is gated in the baseline and not here: it "
            "stays gated, unless * llm_accept_gone = test_evals.py::test_says_yes:pass"
        ]
    )


def test_settings_of_the_gate_are_recorded_and_told_where_they_differ(main: Project) -> None:
    main.write(pytest_ini=f"{INI}llm_max_gone = 0.05\n")

    result, report = main.gate("--llm-baseline=main", "--llm-alpha=0.2", "--llm-strict")

    header = json.loads(decompress(main.runs()[-1].read_bytes()).splitlines()[0])
    assert header["gate"]["alpha"] == 0.2
    assert header["gate"]["accept"] == []
    assert set(header["gate"]) == set(report["settings"])
    told = {one["fact"]: (one["baseline"], one["here"]) for one in report["differences"]}
    assert told == {
        "llm_alpha": (["0.05"], ["0.2"]),
        "llm_max_gone": (["0.1"], ["0.05"]),
        "llm_strict": (["false"], ["true"]),
    }
    result.stdout.fnmatch_lines(["differs from the baseline: llm_alpha: 0.05 -> 0.2"])


def test_a_gated_metric_that_is_never_recorded_fails_without_a_baseline_too(
    project: Project,
) -> None:
    project.write(test_evals=TONE.replace('1, "tone"', '1, "tune"'))

    result, report = project.gate()

    assert result.ret == 1
    assert len(project.runs()) == 1
    assert (report["verdict"], report["fails"]) == ("could_not_judge", True)
    result.stdout.fnmatch_lines(
        [
            "could not judge: test_evals.py::test_says_yes: tone is gated, but the trials recorded "
            'only pass, tune: record it in every trial, by llm_score(value, "tone")*',
            "test_says_yes (tone) *",
        ]
    )


def test_a_changed_scorer_is_told_as_such(main: Project) -> None:
    # a looser assertion read "improved", "asked anew", "chance alone would do this in ..."
    main.write(test_evals=SMALL.replace('== "yes"', 'in ("yes", "no")'))
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    (function,) = report["functions"]
    assert (result.ret, function["verdict"], main.calls()) == (0, "improved", 0)
    assert set(function["changed_kinds"]) == {"score"}
    result.stdout.fnmatch_lines(
        [
            "improved  test_says_yes * ?/10",
            "test_says_yes rose by 0.* (0.* -> 0.*); the same replies got other scores "
            "(* cases): "
            "the test or the application changed, not the model",
        ]
    )
    result.stdout.no_fnmatch_line("*chance alone*")


def test_a_new_function_and_new_cases_show_their_means(main: Project) -> None:
    more = SMALL.replace("test_says_yes", "test_new")
    main.write(test_evals=SMALL.replace("range(10)", "range(12)") + more.partition("PROMPT\n")[2])
    main.commit()

    result, _ = main.gate("--llm-baseline=main")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "new  test_new *0.???",
            "*with 2 cases only here (mean *): not compared",
            "test_new: new: the baseline does not have it (mean 0.??? [[]0.??, 0.??[]])",
        ]
    )
