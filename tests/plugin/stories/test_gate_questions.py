"""What else the gate can be asked: other metrics, tests, orders, wordings, a second baseline."""

from __future__ import annotations

from typing import Any

import pytest

from tests.project import APP, Project

WORSE = APP.replace("rate=0.8", "rate=0.3")


@pytest.fixture
def project(small_project: Project) -> Project:
    return small_project


TIMED = """
import pytest
from pytest_llmeval import llm_eval
from app import PROMPT


@llm_eval(repeats=2, gate=("pass", "seconds"))
@pytest.mark.parametrize("case", [f"case-{i}" for i in range(8)])
def test_is_quick(llm, case):
    assert llm.ask(PROMPT.format(case=case)).text == "yes"
"""
SLOW = '''
import time



def answer(messages, *, draw, **params):
    """Takes its time, which depends on the case."""
    case = int(messages[-1]["content"].partition("case-")[2].split(".")[0])
    time.sleep({seconds} * (1 + case / 10))
    return "yes"
'''
WORDED = """
import pytest
from pytest_llmeval import llm_eval
from app import PROMPT


@llm_eval(repeats=3, wording="template")
@pytest.mark.parametrize("template", {templates})
@pytest.mark.parametrize("case", [f"case-{{i}}" for i in range(6)])
def test_says_yes(llm, case, template):
    assert llm.ask(template + PROMPT.format(case=case)).text == "yes"
"""
TWO_FUNCTIONS = """
import pytest
from pytest_llmeval import llm_eval
from app import PROMPT

CASES = pytest.mark.parametrize("case", [f"case-{i}" for i in range(12)])


@llm_eval(repeats=2)
@CASES
def test_safe(llm, case):
    assert llm.ask("Be safe. " + PROMPT.format(case=case)).text == "yes"


@llm_eval(repeats=2)
@CASES
def test_useful(llm, case):
    assert llm.ask(PROMPT.format(case=case)).text == "yes"
"""


def slow_model(seconds: float) -> str:
    return SLOW.format(seconds=seconds)


def branch_with(project: Project, **files: str) -> None:
    project.git("switch", "-qc", "branch")
    project.write(**files)
    project.commit()


def by_metric(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {function["metric"]: function for function in report["functions"]}


def test_seconds_are_gated_where_they_are_named(project: Project) -> None:
    project.write(test_evals=TIMED, model=slow_model(0.02))
    project.commit()
    assert project.run().ret == 0
    branch_with(project, model=slow_model(0.08))

    result, report = project.gate("--llm-baseline=main")

    seconds = by_metric(report)["seconds"]
    assert result.ret == 1
    assert by_metric(report)["pass"]["verdict"] != "regressed"
    assert (seconds["verdict"], seconds["method"]) == ("regressed", "log-ratio")
    assert seconds["ratio"] > 1.5
    result.stdout.fnmatch_lines(
        [
            "REGRESSED * test_is_quick (seconds) * x* [[]x*, x*[]] *",
            "*test_is_quick (seconds) worsened by a factor of *; chance alone would do this in *",
        ]
    )


def test_a_replay_took_as_long_as_its_call(project: Project) -> None:
    project.write(test_evals=TIMED, model=slow_model(0.01))
    project.commit()
    project.run()
    branch_with(project, app=APP + "# a comment\n")

    result, report = project.gate("--llm-baseline=main")

    assert result.ret == 0
    assert {one["verdict"] for one in report["functions"]} == {"unchanged"}
    assert by_metric(report)["seconds"]["ratio"] == 1.0


def test_what_is_not_gated_is_described_in_a_line(project: Project) -> None:
    project.run()
    branch_with(project, app=APP.replace("Say yes", "Please say yes"))

    result, report = project.gate("--llm-baseline=main", "-v")

    (seconds,) = report["ungated"]
    assert (seconds["metric"], seconds["scale"], seconds["changed"]) == ("seconds", "log", 10)
    result.stdout.fnmatch_lines(["not gated  test_says_yes  seconds * -> * (x* [[]x*, x*[]])"])


def test_a_metric_of_the_plugin_cannot_be_scored(project: Project) -> None:
    project.write(
        test_evals="""
        from pytest_llmeval import llm_eval

        @llm_eval
        def test_it(llm_score):
            llm_score(0.3, "seconds")
        """
    )
    result = project.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(['*"seconds" is measured from the calls of a trial; give a value*'])


def test_min_score_holds_for_the_score_beside_seconds(project: Project) -> None:
    quick = TIMED.replace('gate=("pass", "seconds")', 'gate=("pass", "seconds"), min_score=0.9')
    project.write(test_evals=quick, model=slow_model(0.0))
    assert project.run().ret == 0


def test_min_score_without_a_score_is_a_mistake(project: Project) -> None:
    project.write(test_evals=TIMED.replace('("pass", "seconds")', '"seconds", min_score=0.9'))
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *min_score holds for scores*seconds alone*"])


# the test


def test_another_test_can_be_chosen(project: Project) -> None:
    project.run()
    branch_with(project, app=WORSE)

    result, report = project.gate("--llm-baseline=main", "--llm-test=sign-flip")

    (function,) = report["functions"]
    assert (function["method"], function["verdict"]) == ("sign-flip", "regressed")
    assert report["settings"]["test"] == "sign-flip"
    assert result.ret == 1


def test_a_chosen_test_that_does_not_fit_says_so(project: Project) -> None:
    project.run()
    branch_with(project, app=WORSE)

    result, report = project.gate("--llm-baseline=main", "--llm-test=mcnemar")

    assert (result.ret, report["verdict"]) == (1, "not_comparable")
    result.stdout.fnmatch_lines(["*the test mcnemar does not fit: it pairs single trials, and*"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--llm-test=cmh"], "--llm-test=cmh: is not valid for a gate (docs/statistics.md*"),
        (["--llm-test=exact-within-case"], "*holds for these very cases only*"),
        (["--llm-test=t"], "--llm-test=t: must be one of paired-t, log-ratio, *"),
        (["--llm-test=mcnemar", "--llm-margin=0.02"], "*takes no margin. Leave the margin out*"),
        (["--llm-multiplicity=none"], "--llm-multiplicity=none: must be one of holm, bh"),
        (["--llm-anchor=v1"], "--llm-anchor=v1: an anchor is a second baseline*"),
    ],
)
def test_an_impossible_choice_is_one_line(
    project: Project, arguments: list[str], expected: str
) -> None:
    result = project.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {expected}"])


# several functions


def test_an_order_of_an_earlier_version_is_refused_here_and_not_where_main_is_run(
    project: Project,
) -> None:
    ini = "[pytest]\nllm_model = function/model:answer\npythonpath = .\n"
    old = f"{ini}llm_gate_order =\n    test_safe\n    test_useful\n"
    project.write(test_evals=TWO_FUNCTIONS, pytest_ini=old)
    project.commit()

    refused = project.run()

    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in refused.stderr.lines if line]
    assert line.startswith("ERROR: llm_gate_order in the ini file: this key was removed")
    branch_with(project, app=WORSE, pytest_ini=ini)
    _, report = project.gate("--llm-baseline=main", "--llm-on-missing=rerun")
    verdicts = {one["label"]: one["verdict"] for one in report["functions"]}
    assert verdicts["test_useful"] == "regressed"


def test_benjamini_hochberg_is_named(project: Project) -> None:
    project.write(test_evals=TWO_FUNCTIONS)
    project.commit()
    project.run()
    branch_with(project, app=WORSE)
    result, _ = project.gate("--llm-baseline=main", "--llm-multiplicity=bh")
    result.stdout.fnmatch_lines(["p: Benjamini-Hochberg over 2 functions and metrics*"])


# wordings


@pytest.mark.parametrize(
    ("wordings", "method", "claim"),
    [
        (4, "crossed", "cases and wordings like these (4 wordings)"),
        (2, "paired-t", "these 12 cases and these 2 wordings only"),
        (1, "paired-t", "these 6 cases and this wording only"),
    ],
)
def test_the_section_says_for_which_wordings_it_holds(
    project: Project, wordings: int, method: str, claim: str
) -> None:
    templates = [f"Wording {number}. " for number in range(wordings)]
    project.write(test_evals=WORDED.format(templates=templates))
    project.commit()
    project.run()
    branch_with(project, app=APP.replace("rate=0.8", "rate=0.6"))

    result, report = project.gate("--llm-baseline=main")

    (function,) = report["functions"]
    assert (function["method"], function["wordings"]) == (method, wordings)
    assert function["units"] == 6
    assert f"test_says_yes: the verdict is about {claim}" in str(result.stdout)


def test_no_template_is_in_a_run_file(project: Project) -> None:
    import gzip

    project.write(test_evals=WORDED.format(templates=["Kindly. "]))
    project.run()
    (path,) = project.runs()
    header = gzip.decompress(path.read_bytes()).splitlines()[0]
    assert b'"wording":"' in header
    assert b'"topic":"' in header


def test_a_wording_that_is_no_parameter_is_a_mistake(project: Project) -> None:
    project.write(test_evals=WORDED.format(templates=["a"]).replace('"template")\n@', '"tone")\n@'))
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: *wording must name an argument of parametrize (*), not 'tone'"]
    )


def test_objects_are_told_apart_by_how_they_are_written(project: Project) -> None:
    templates = "[object(), object(), object()], ids=['a', 'b', 'c']"
    project.write(
        test_evals=WORDED.format(templates=templates).replace("template +", '"" if template else')
    )
    project.commit()
    project.run()
    branch_with(project, app=APP.replace("rate=0.8", "rate=0.5"))
    _, report = project.gate("--llm-baseline=main")
    assert report["functions"][0]["wordings"] == 3


# the anchor


def anchored(project: Project) -> None:
    """A release, then main a little worse, then a branch like main."""
    project.run("--llm-repeats=10")
    project.git("tag", "v1")
    project.write(app=WORSE)
    project.commit("worse")
    project.run("--llm-repeats=10")
    branch_with(project, app=WORSE + "# a comment\n")


def test_a_drop_since_the_anchor_fails_though_nothing_fell_since_main(project: Project) -> None:
    anchored(project)

    result, report = project.gate("--llm-baseline=main", "--llm-anchor=v1")

    assert result.ret == 1
    assert (report["verdict"], report["fails"]) == ("unchanged", True)
    assert report["anchor"]["verdict"] == "regressed"
    assert report["anchor"]["baseline"]["reference"] == "v1"
    result.stdout.fnmatch_lines(
        [
            "llm evals: anchor v1@*",
            "REGRESSED: 1 function vs the anchor v1@???????",
            "unchanged (all replayed, nothing new was measured): 1 function vs main@???????",
            "* test function *v1 *here *difference *",
            "REGRESSED  test_says_yes *",
            "against the anchor: test_says_yes fell by *",
            "  fell most  test_says_yes[[]*",
            "read both replies:  llmeval diff 'test_says_yes[[]*[]]' v1 20*",
            "!* llm evals: against the anchor: test_says_yes fell by *!",
        ]
    )


def test_nothing_confirms_a_drop_since_the_anchor_and_the_line_says_so(project: Project) -> None:
    anchored(project)

    result, report = project.gate("--llm-baseline=main", "--llm-anchor=v1", "--llm-confirm")

    assert result.ret == 1
    (fallen,) = report["anchor"]["functions"]
    assert fallen["verdict"] == "regressed"
    assert fallen["confirmation"]["outcome"] == "impossible"
    said = "*(could not be confirmed: an anchor is never run again)*"
    result.stdout.fnmatch_lines(["llm evals: anchor v1@*", said])


def test_without_a_drop_since_the_anchor_all_is_well(project: Project) -> None:
    project.run()
    project.git("tag", "v1")
    branch_with(project, app=APP + "# a comment\n")

    result, report = project.gate("--llm-baseline=main", "--llm-anchor=v1")

    assert result.ret == 0
    assert report["anchor"]["verdict"] == "unchanged"
    assert "against the anchor" not in str(result.stdout)


def test_a_missing_anchor_stops_before_anything_is_run(project: Project) -> None:
    project.git("tag", "v0")
    project.write(app=APP + "# more\n")
    project.commit()
    project.run()
    project.calls()
    project.git("switch", "-qc", "branch")

    result = project.run("--llm-baseline=main", "--llm-anchor=v0", "--llm-repeats=7")

    assert (result.ret, project.calls()) == (pytest.ExitCode.USAGE_ERROR, 0)
    result.stderr.fnmatch_lines(
        [
            "ERROR: --llm-anchor=v0: no complete run recorded for v0 *",
            "*or, if that has no evals, run without a comparison:  add --llm-on-missing=warn",
        ]
    )


def test_a_missing_anchor_can_be_done_without(project: Project) -> None:
    project.git("tag", "v0")
    project.write(app=APP + "# more\n")
    project.commit()
    project.run()
    project.git("switch", "-qc", "branch")

    result, report = project.gate("--llm-baseline=main", "--llm-anchor=v0", "--llm-on-missing=warn")

    assert (result.ret, report["verdict"], report["anchor"]) == (0, "unchanged", None)
    result.stdout.fnmatch_lines(["note: no anchor: --llm-anchor=v0: no complete run *"])


def test_nothing_in_common_with_the_anchor_fails(project: Project) -> None:
    project.run()
    project.git("tag", "v1")
    renamed = TWO_FUNCTIONS
    project.write(test_evals=renamed)
    project.commit()
    project.run()
    branch_with(project, app=APP + "# a comment\n")

    result, report = project.gate("--llm-baseline=main", "--llm-anchor=v1")

    assert (result.ret, report["verdict"]) == (1, "unchanged")
    result.stdout.fnmatch_lines(
        [
            "against the anchor: nothing was judged: 2 new, 1 gone",
            "!*against the anchor: nothing*",
        ]
    )
