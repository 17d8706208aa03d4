"""Sessions with --llm-sequential: which trials they make, and what they record of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_llmeval.records import Run
from pytest_llmeval.runs.store import RunStore
from tests.forked import run_forked
from tests.project import Project, made_once

# Answers depend on the question and the trial alone; each call is noted.
MODEL = """
from pathlib import Path

CALLS = Path(__file__).with_name("calls.log")


def answer(messages, *, draw, **params):
    question = messages[-1]["content"]
    with CALLS.open("a") as file:
        file.write(f"{question} #{draw.trial}\\n")
    rate = float(question.rpartition("rate=")[2])
    return "yes" if draw.rng.random() < rate else "no"
"""
CASES = """
CASES = [f"case-{i}" for i in range(30)]


def question(case, text):
    number = int(case.partition("-")[2])
    return f"{text} {case}. rate={RATE if number % 3 else RATE / 2}"
"""
EVALS = """
import pytest
from pytest_llmeval import llm_eval
from app import CASES, TEXT, question


@llm_eval(repeats=5)
@pytest.mark.parametrize("case", CASES)
def test_it(llm, case):
    assert llm.ask(question(case, TEXT)).text == "yes"
"""
APP = 'TEXT, RATE = "Say yes to", 1\n' + CASES
GATED = ("--llm-baseline=main", "--llm-sequential")


def record(project: Project) -> None:
    project.write(model=MODEL, app=APP, test_evals=EVALS)
    project.commit()
    project.run("-q")
    project.calls()
    project.git("switch", "-qc", "branch")


@pytest.fixture
def project(pytester: pytest.Pytester, originals: Path) -> Project:
    """Thirty cases recorded on main, and a branch begun."""
    return made_once(originals / "early", pytester, record)


def reword(project: Project, text: str = "Please say yes to", rate: float = 1) -> None:
    project.write(app=APP.replace("Say yes to", text).replace('", 1', f'", {rate}'))
    project.commit()


def last_run(project: Project) -> Run:
    found = RunStore(project.path / ".llmeval").newest()
    assert found is not None
    return found.run


def asked(project: Project) -> list[str]:
    """Return the questions and trials that were asked since the last time, sorted."""
    log = project.path / "calls.log"
    found = sorted(log.read_text().splitlines()) if log.exists() else []
    log.unlink(missing_ok=True)
    return found


IT = "test_evals.py::test_it"


def test_a_build_in_which_nothing_changed_stops_and_a_later_one_goes_on(project: Project) -> None:
    reword(project)

    result, report = project.gate(*GATED)

    stopped, calls = last_run(project), asked(project)
    stop = stopped.looks[IT]
    assert stop < 5
    assert len(set(calls)) == len(calls) == 30 * stop
    assert (result.ret, report["verdict"]) == (0, "no_significant_change")
    assert not stopped.complete
    assert {trial.index for trial in stopped.trials} == {*range(stop)}

    result, _ = project.gate("--llm-baseline=main", "--no-llm-sequential", "--llm-repeats=7")

    rest = asked(project)
    assert (last_run(project).looks, last_run(project).complete) == ({}, True)
    assert len({*calls, *rest}) == len(calls) + len(rest) == 30 * 7


@pytest.mark.parametrize("workers", [(), ("-n2", "--dist=loadscope")], ids=["here", "workers"])
def test_main_itself_runs_all_repeats_as_the_next_branches_need_its_run(
    project: Project, workers: tuple[str, ...]
) -> None:
    project.git("switch", "-q", "main")
    reword(project)

    result, report = project.gate(*GATED, *workers)

    assert (result.ret, report["baseline"]["how"]) == (0, "earlier commit")
    assert (last_run(project).looks, last_run(project).complete) == ({}, True)
    assert len(asked(project)) == 30 * 5


def test_a_bad_branch_stops_after_two_repeats(project: Project) -> None:
    reword(project, rate=0.4)

    result, report = project.gate(*GATED)

    assert last_run(project).looks == {IT: 2}
    assert len(asked(project)) == 60
    assert (result.ret, report["verdict"]) == (1, "regressed")


def test_what_the_ini_file_leaves_out_makes_no_stopped_run_a_part(project: Project) -> None:
    ini = (project.path / "pytest.ini").read_text()
    project.git("switch", "-q", "main")
    project.write(pytest_ini=f"{ini}addopts = -k 'case-1 or case-2'\n")
    project.commit()
    project.run("-q")
    project.git("switch", "-qc", "chosen")
    reword(project)

    result, report = project.gate(*GATED, "--llm-strict")

    assert last_run(project).stopped
    (function,) = report["functions"]
    assert (function["partial"], report["verdict"]) == (False, "no_significant_change")
    assert "partial" not in str(result.stdout)
    assert result.ret == 0


def test_the_mean_that_a_line_accepts_is_of_all_repeats(project: Project) -> None:
    """An early fall is too large on average: it would not be accepted where the whole one is."""
    reword(project, rate=0.4)
    result, _ = project.gate(*GATED)
    (line,) = re.findall(r"llm_accept = (.*)", str(result.stdout))
    project.write(pytest_ini=f"{(project.path / 'pytest.ini').read_text()}llm_accept = {line}\n")
    project.commit()

    result, report = project.gate(*GATED)

    assert last_run(project).looks == {IT: 5}
    (function,) = report["functions"]
    assert (result.ret, function["accepted"], function["stopped_at"]) == (0, True, None)


def test_without_a_baseline_all_repeats_run(project: Project) -> None:
    reword(project)

    result = project.run("-q", "--llm-sequential", "--llm-repeats=3")

    assert (last_run(project).looks, last_run(project).complete) == ({}, True)
    assert len(asked(project)) == 90
    assert "early looks" not in str(result.stdout)


MORE = """
@llm_eval(repeats=5)
@pytest.mark.parametrize("case", CASES[:7])
def test_few(llm, case):
    assert llm.ask(question(case, "few " + TEXT)).text == "yes"


@llm_eval(repeats=5)
class TestShared:
    @pytest.fixture(scope="class")
    def shared(self):
        return "shared "

    @pytest.mark.parametrize("case", CASES)
    async def test_async(self, async_llm, shared, case):
        assert (await async_llm.ask(question(case, shared + TEXT))).text == "yes"


@pytest.fixture(params=["a", "b"], scope="module")
def letter(request):
    return request.param


@llm_eval(repeats=3)
@pytest.mark.parametrize("case", CASES[:6])
def test_by_letter(llm, letter, case):
    assert llm.ask(question(case, letter + TEXT)).text == "yes"


@llm_eval(repeats=3, concurrency="serial")
@pytest.mark.parametrize("case", CASES[:6])
def test_serial(llm, case):
    assert llm.ask(question(case, "serial " + TEXT)).text == "yes"
"""


def test_functions_of_every_kind_stop_apart(project: Project) -> None:
    project.git("switch", "-q", "main")
    project.write(test_evals=EVALS + MORE)
    project.commit()
    project.run("-q")
    project.git("switch", "-qc", "kinds")
    asked(project)
    reword(project)

    result, _ = project.gate(*GATED)

    looks = {name.rpartition("::")[2]: at for name, at in last_run(project).looks.items()}
    assert looks["test_it"] < 5
    assert looks["test_async"] < 5
    assert looks["test_few"] == 5
    assert {*looks} == {"test_it", "test_async", "test_few"}
    calls = asked(project)
    made = 30 * (looks["test_it"] + looks["test_async"]) + 7 * 5 + 12 * 3 + 6 * 3
    assert len({*calls}) == len(calls) == made
    told = str(result.stdout)
    assert "no early looks at test_by_letter: its cases do not all overlap" in told
    assert "no early looks at test_serial: its trials run one after the other" in told


def test_a_skipped_case_waits_for_nobody_and_has_as_many_trials(project: Project) -> None:
    skipped = 'pytest.param("case-1", marks=pytest.mark.skip), *CASES[1:]'
    reword(project)
    project.write(test_evals=EVALS.replace("CASES)", f"[{skipped}])"))

    project.run("-q", *GATED)

    found = last_run(project)
    stop = found.looks[IT]
    assert stop < 5
    counts = {case.id: sum(one.case == case.id for one in found.trials) for case in found.cases}
    assert {*counts.values()} == {stop}


def test_the_first_failure_may_end_a_session_so_it_takes_no_look(project: Project) -> None:
    reword(project)

    result = project.run("-q", "-x", *GATED)

    assert last_run(project).looks == {}
    assert len(asked(project)) == 150
    said = "no early looks at test_it: -x may end the session at its first failure"
    assert said in " ".join(str(result.stdout).split())


INTERRUPTED = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    trials.append(item)
    if len(trials) == 20:  # with the first item itself
        raise KeyboardInterrupt

trials = []
"""


def test_a_session_that_was_interrupted_in_a_round_goes_on_from_there(
    project: Project, pytester: pytest.Pytester
) -> None:
    """Seven cases are never settled, so the second round begins."""
    app = APP.replace("range(30)", "range(7)").replace("Say yes to", "Please say yes to")
    project.write(app=app, conftest=INTERRUPTED)
    project.commit()
    run_forked(pytester, "-q", "-p", "no:cacheprovider", *GATED)

    stopped, calls = last_run(project), asked(project)
    assert (stopped.looks, stopped.complete) == ({IT: 5}, False)
    assert {0, 1} <= {trial.index for trial in stopped.trials} <= {0, 1, 2}

    (project.path / "conftest.py").unlink()
    project.run("-q", *GATED)

    assert last_run(project).looks == {IT: 5}
    rest = asked(project)
    assert len({*calls, *rest}) == 35


def test_errors_in_a_later_round_decide_nothing(project: Project) -> None:
    """At the first look seven of thirty cases decide nothing, at the second most are errored."""
    few = APP.replace("range(30)", "range(7)").replace("Say yes to", "Please say yes to")
    lost = 'if draw.trial > 1:\n        raise ConnectionError("down")\n    return'
    project.write(app=few, model=MODEL.replace("return", lost))

    result, report = project.gate(*GATED)

    assert last_run(project).looks == {IT: 5}
    assert {*map(str, range(5))} == {line.rpartition("#")[2] for line in asked(project)}
    assert (result.ret, report["verdict"]) == (1, "not_comparable")
    first = " ".join(str(result.stdout).partition("first of them")[2].split())
    assert "AssertionError" not in first.partition("differs")[0]  # that is of an earlier trial


def test_a_case_that_is_run_again_has_the_trials_of_its_function(project: Project) -> None:
    reword(project)

    project.run("-q", "-p", "rerunfailures", "--reruns=1", "--llm-fail-on-miss", *GATED)

    found, calls = last_run(project), asked(project)
    assert found.looks[IT] < 5
    assert len({*calls}) == len(calls) == len(found.trials) == 30 * found.looks[IT]


def test_cases_that_failed_last_are_looked_at_too(project: Project) -> None:
    reword(project)
    project.pytester.runpytest("-q", "--llm-fail-on-miss", *GATED)
    first = asked(project)

    project.pytester.runpytest("-q", "--lf", "--llm-fail-on-miss", *GATED)

    found, rest = last_run(project), asked(project)
    assert 0 < len(found.cases) < 30
    assert len({*first, *rest}) == len(first) + len(rest)
    assert len(found.trials) == len(found.cases) * found.looks[IT]
