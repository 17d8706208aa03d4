"""--llm-on-missing=rerun: the base is run now, in a worktree, by a pytest of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pytest_llmeval.records import Outcome
from pytest_llmeval.runs.run_file import read_run
from tests.project import EVALS, Project, make_project
from tests.warm_python import PYTHON

RERUN = ("--llm-baseline=main", "--llm-on-missing=rerun")
WORSE = 'PROMPT = "Say yes to {case}. rate=0.2"\n'
# Says which app was tested, and in which process.
MODEL = """
import os
import app


def answer(messages, *, draw, **params):
    with open(os.environ["ASKED"], "a") as file:
        file.write(f"{app.__file__}\\n")
    rate = float(messages[-1]["content"].rpartition("rate=")[2])
    return "yes" if draw.rng.random() < rate else "no"
"""
SMALL = EVALS.replace("range(20)", "range(8)").replace("repeats=5", "repeats=3")


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with a line for each call: where the app lay that asked."""
    file = tmp_path / "asked"
    monkeypatch.setenv("ASKED", str(file))
    return file


@pytest.fixture
def project(pytester: pytest.Pytester, asked: Path, scratch: Path) -> Project:
    """A branch off main, none of whose runs is stored."""
    project = make_project(pytester)
    project.write(model=MODEL, test_evals=SMALL)
    project.commit("small")
    branch_off(project)
    return project


def branch_off(project: Project) -> None:
    """Begin a branch that differs from main in nothing that an eval reads."""
    project.git("switch", "-qC", "feature")
    project.git("commit", "-qm", "begun", "--allow-empty")


def callers(asked: Path) -> list[str]:
    return asked.read_text().splitlines()


def test_a_worse_prompt_is_held_against_the_run_made_now(
    project: Project, asked: Path, scratch: Path
) -> None:
    project.write(app=WORSE)
    project.commit("worse")

    result, report = project.gate(*RERUN)

    base = project.git("rev-parse", "main")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert report["verdict"] == "regressed"
    told = {key: report["baseline"][key] for key in ("commit", "how", "distance", "dirty")}
    assert told == {"commit": base, "how": "rerun", "distance": 0, "dirty": False}
    own = str(project.path / "app.py")
    assert [caller == own for caller in callers(asked)] == [False] * 24 + [True] * 24
    assert list(scratch.glob("llmeval-*")) == []
    assert project.git("status", "--porcelain") == ""


def test_an_unchanged_prompt_costs_nothing_twice(project: Project, asked: Path) -> None:
    (project.path / "notes.md").write_text("harmless\n")
    project.commit("harmless")

    result, report = project.gate(*RERUN)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.OK, "unchanged")
    assert len(callers(asked)) == 24
    assert (report["run"]["calls"]["made"], report["run"]["calls"]["replayed"]) == (0, 24)


def test_cases_that_the_base_lacks_are_counted_and_said(project: Project, asked: Path) -> None:
    more = "import os\nMORE = 12 if os.path.exists('out/more') else 0\n"
    project.write(test_evals=more + SMALL.replace("range(8)", "range(8 + MORE)"))
    project.commit("more cases where there is a file that git ignores")
    project.git("branch", "-f", "main")
    branch_off(project)
    (project.path / "out").mkdir()
    (project.path / "out" / "more").touch()

    result, report = project.gate(*RERUN)

    assert (report["verdict"], report["run"]["calls"]["made"]) == ("unchanged", 36)
    result.stdout.fnmatch_lines(
        [
            "unchanged (all that was compared was replayed): 1 function vs main@*",
            "test_says_yes: unchanged (all that was compared *), with 12 cases only here*",
            "  the base, run now, lacks 12 of 20 cases: new on this branch, or made from files *",
        ]
    )
    assert "nothing new was measured" not in str(result.stdout)


def test_a_new_metric_of_cases_that_the_base_has_lacks_no_case(
    project: Project, asked: Path
) -> None:
    named = SMALL.replace("(llm, case)", "(llm, case, llm_score)")
    named = named.replace("    assert", '    llm_score(0.5, "length")\n    assert')
    named = named.replace("repeats=3", 'repeats=3, gate=("pass", "length")')
    project.write(test_evals=named)
    project.commit("a metric more")

    result, report = project.gate(*RERUN)

    assert {one["verdict"] for one in report["functions"]} == {"unchanged", "new"}
    assert "the base, run now" not in str(result.stdout)


def test_what_both_runs_ask_is_refreshed_once(project: Project, asked: Path) -> None:
    project.gate(*RERUN)
    shutil.rmtree(project.path / ".llmeval" / "runs")

    _, report = project.gate(*RERUN, "--llm-cache=refresh")

    assert len(callers(asked)) == 2 * 24
    assert (report["verdict"], report["run"]["calls"]["replayed"]) == ("unchanged", 24)


def test_the_run_stands_for_its_commit_from_then_on(project: Project, asked: Path) -> None:
    project.gate(*RERUN)
    _, report = project.gate(*RERUN)

    assert report["baseline"]["how"] == "merge-base"
    assert len(callers(asked)) == 24


def test_a_changed_working_tree_is_held_against_its_own_commit(
    project: Project, asked: Path
) -> None:
    project.git("switch", "-q", "main")
    project.write(app=WORSE)

    _, report = project.gate(*RERUN)

    assert (report["verdict"], report["baseline"]["how"]) == ("regressed", "rerun")


@pytest.mark.parametrize("typed", [("test_new.py",), ("test_new.py", "test_evals.py")])
def test_files_that_the_base_lacks_are_compared_with_nothing(
    project: Project, asked: Path, typed: tuple[str, ...]
) -> None:
    project.write(test_new=SMALL.replace("test_says_yes", "test_new"))
    project.commit("new")

    result, report = project.gate(*RERUN, *typed)

    verdicts = {one["function"]: one["verdict"] for one in report["functions"]}
    known = {"test_evals.py::test_says_yes": "unchanged"} if len(typed) > 1 else {}
    assert verdicts == {"test_new.py::test_new": "new", **known}
    assert result.ret == pytest.ExitCode.OK


def test_a_single_case_is_run_there_too(project: Project, asked: Path) -> None:
    typed = ("test_evals.py::test_says_yes[case-3]", "test_evals.py::test_added")
    project.write(test_evals=f"{SMALL}\n\n@llm_eval\ndef test_added(llm): assert llm.ask('rate=1')")
    project.commit("added")

    _, report = project.gate(*RERUN, *typed)

    verdicts = {one["function"].partition("::")[2]: one["verdict"] for one in report["functions"]}
    assert verdicts == {"test_says_yes": "unchanged", "test_added": "new"}
    assert len(callers(asked)) == 3 + 5


def test_options_in_addopts_do_not_make_it_run_for_ever(project: Project, asked: Path) -> None:
    project.git("switch", "-q", "main")
    ini = (project.path / "pytest.ini").read_text()
    addopts = "addopts = --llm-baseline=main --llm-on-missing=rerun --llm-report=base.json -x"
    project.write(pytest_ini=f"{ini}{addopts}\n", test_ordinary="def test_it(): assert 0\n")
    project.commit("addopts")
    branch_off(project)

    result, report = project.gate()

    assert report["baseline"]["how"] == "rerun"
    assert report["verdict"] == "unchanged"
    assert result.ret == pytest.ExitCode.TESTS_FAILED  # of the ordinary test, which ran here alone


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_the_caps_hold_for_both_runs_together(
    project: Project, asked: Path, workers: tuple[str, ...]
) -> None:
    project.write(app=WORSE)
    project.commit("worse")

    _, report = project.gate(*RERUN, "--llm-max-calls=30", *workers)

    assert len(callers(asked)) == 30
    assert report["run"]["calls"]["capped"] == 18
    assert not (project.path / ".llmeval" / "caps").exists()


def test_a_base_that_ran_into_a_cap_is_no_baseline(project: Project, asked: Path) -> None:
    result = project.run(*RERUN, "--llm-max-calls=20")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*4 of 24 trials of run * errored (cap --llm-max-calls=20), more than 5 %*"]
    )
    assert len(callers(asked)) == 20


def test_a_base_that_lacks_what_git_ignores_is_no_baseline(project: Project) -> None:
    with (project.path / ".gitignore").open("a") as file:
        file.write("data/\n")
    project.git("switch", "-q", "main")
    reads = SMALL.replace("    assert", "    open('data/questions.txt')\n    assert")
    project.write(test_evals=reads)
    project.commit("reads")
    branch_off(project)
    (project.path / "data").mkdir()
    (project.path / "data" / "questions.txt").touch()

    result = project.run(*RERUN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "*is no baseline, 24 of 24 trials of test_says_yes crashed before they asked anything "
            "(FileNotFoundError test_evals.py:*); see above. It lacks what git ignores (data/): *"
        ]
    )


def test_workers_test_the_base_too(project: Project, asked: Path) -> None:
    project.write(app=WORSE)
    project.commit("worse")

    _, report = project.gate(*RERUN, "-n", "2")

    assert report["verdict"] == "regressed"
    own = str(project.path / "app.py")
    assert sorted(caller == own for caller in callers(asked)) == [False] * 24 + [True] * 24


LOADED_FROM_HERE = """
import importlib.util
import sys

found = importlib.util.spec_from_file_location("app", os.environ["APP"])
module = importlib.util.module_from_spec(found)
found.loader.exec_module(module)
sys.modules["app"] = module
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "workers"])
def test_code_of_this_checkout_is_no_baseline(
    project: Project, asked: Path, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    # A path that is not written as one, so that it cannot be changed.
    project.git("switch", "-q", "main")
    inner = f"APP = 'x{project.path / 'app.py'}'[1:]\n"
    project.write(conftest=LOADED_FROM_HERE.replace('os.environ["APP"]', "APP").replace(
        "import sys\n", f"import sys\n{inner}"))  # fmt: skip
    project.commit("a path")
    branch_off(project)

    result = project.run(*RERUN, *workers)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    base = project.git("rev-parse", "--short=7", "main")
    message = f"*the run of {base} is no baseline: it read app.py, which is of this checkout*"
    result.stderr.fnmatch_lines([message])
    [file] = project.runs()
    assert read_run(file).unseen  # so it never stands for the commit


def test_variables_that_name_this_checkout_name_the_worktree(
    project: Project, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.path))
    project.git("switch", "-q", "main")
    project.write(app="import os\nfrom pathlib import Path\n"
                  "PROMPT = Path(os.environ['GITHUB_WORKSPACE'], 'prompt.txt').read_text()\n",
                  prompt_txt="Say yes to {case}. rate=0.8")  # fmt: skip
    project.commit("prompts")
    branch_off(project)
    project.write(prompt_txt="Say yes to {case}. rate=0.2")
    project.commit("worse")

    _, report = project.gate(*RERUN)

    assert report["verdict"] == "regressed"


def test_variables_are_those_of_before_the_conftest_files(project: Project, asked: Path) -> None:
    project.git("switch", "-q", "main")
    prompt = "import os\nos.environ.setdefault('PROMPT', 'Say yes to {{case}}. rate={}')\n"
    project.write(app="import os\nPROMPT = os.environ['PROMPT']\n", conftest=prompt.format(0.8))
    project.commit("by a variable")
    branch_off(project)
    project.write(conftest=prompt.format(0.2))
    project.commit("worse")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROMPT", "")  # what the session sets is taken away again
        patch.delenv("PROMPT")
        _, report = project.gate(*RERUN)

    assert report["verdict"] == "regressed"


def test_rootdir_may_lie_below_the_top(
    project: Project, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.git("switch", "-q", "main")
    (project.path / "bots" / "evals" / "src").mkdir(parents=True)
    for name in ("model.py", "test_evals.py", "pytest.ini"):
        project.git("mv", name, "bots/evals")
    project.git("mv", "app.py", "bots/evals/src")
    evals = project.path / "bots" / "evals"
    ini = (evals / "pytest.ini").read_text()
    (evals / "pytest.ini").write_text(ini.replace("pythonpath = .", "pythonpath = . src"))
    project.commit("moved")
    branch_off(project)
    (evals / "src" / "app.py").write_text(WORSE)
    project.commit("worse")
    monkeypatch.chdir(evals)

    result = project.run(*RERUN, "--llm-report=report.json")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    report = json.loads((evals / "report.json").read_text())
    assert (report["verdict"], report["baseline"]["how"]) == ("regressed", "rerun")


def test_a_base_without_evals_is_an_empty_one(project: Project, asked: Path) -> None:
    project.git("switch", "-q", "main")
    evals = (project.path / "test_evals.py").read_text()
    project.write(test_evals="def test_ordinary(): assert 0\n")
    project.commit("none")
    branch_off(project)
    project.write(test_evals=evals)
    project.commit("the first")

    result, report = project.gate(*RERUN)

    assert result.ret == pytest.ExitCode.OK
    assert report["baseline"]["how"] == "nothing yet"


def test_evals_that_were_moved_do_not_pass_as_new_ones(
    project: Project, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.path / "evals").mkdir()
    for name in ("app.py", "model.py", "test_evals.py", "pytest.ini"):
        project.git("mv", name, "evals")
    project.commit("moved")

    monkeypatch.chdir(project.path / "evals")

    result = project.run(*RERUN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*has evals, and none was found there with rootdir 'evals'*"])


def test_a_base_that_was_collected_in_part_is_an_error(project: Project, asked: Path) -> None:
    project.git("switch", "-q", "main")
    project.write(test_broken="import missing\n")
    project.commit("broken")
    branch_off(project)

    result = project.run(*RERUN, "--continue-on-collection-errors")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*is no baseline, incomplete: not everything was collected*"])


def test_a_base_that_cannot_be_collected_is_an_error(project: Project, asked: Path) -> None:
    project.git("switch", "-q", "main")
    project.write(app="import missing\n")
    broken = project.commit("broken")
    branch_off(project)
    project.write(app=WORSE)
    project.commit("mended")

    result = project.run(*RERUN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    message = f"*the evals of {broken[:7]} did not run to their end: their pytest ended with 2*"
    result.stderr.fnmatch_lines([message])
    assert not asked.exists()


def test_what_may_be_unlike_is_noted(project: Project, asked: Path) -> None:
    project.git("switch", "-q", "main")
    (project.path / ".gitmodules").write_text('[submodule "x"]\n\tpath = data\n\turl = ../x\n')
    project.commit("elsewhere")
    branch_off(project)
    (project.path / "requirements.txt").write_text("openai\n")
    (project.path / "pyproject.toml").write_text("[tool.ruff]\n")
    project.commit("requirements")

    _, report = project.gate(*RERUN)

    requirements, submodule = report["baseline"]["notes"]
    assert requirements.startswith("requirements.txt differs: the run was made with the packages")
    assert submodule == "the submodule data was empty in that run"


def wait_for(condition: Path, session: subprocess.Popen[bytes]) -> None:
    while not condition.exists():
        assert session.poll() is None
        time.sleep(0.01)


SLOW = """
import os
import time
from pathlib import Path
from pytest_llmeval import llm_eval


@llm_eval(repeats=1)
def test_quick():
    assert True


@llm_eval(repeats=1)
def test_slow():
    folder = Path(os.environ["ASKED"])
    (folder.with_name("pid")).write_text(str(os.getpid()))
    folder.write_text("begun")
    time.sleep(3600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both_sessions_and_the_worktree(
    project: Project, asked: Path, scratch: Path, number: signal.Signals
) -> None:
    project.git("switch", "-q", "main")
    project.write(test_evals=SLOW)
    project.commit("slow")
    branch_off(project)
    # Whose processes are gone the moment it has killed them.
    session = subprocess.Popen(
        [PYTHON, "-m", "pytest", *RERUN],
        cwd=project.path,
        env=os.environ | {"TMPDIR": str(scratch)},
    )
    wait_for(asked, session)
    [folder] = scratch.glob("llmeval-*")
    assert (folder / project.path.name / "test_evals.py").exists()

    session.send_signal(number)

    expected = pytest.ExitCode.INTERRUPTED if number == signal.SIGINT else -number
    assert session.wait(300) == expected
    assert list(scratch.glob("llmeval-*")) == []
    if number == signal.SIGINT:
        [trial] = read_run(project.runs()[0]).trials
        assert trial.outcome is Outcome.PASSED
    with pytest.raises(ProcessLookupError):
        os.kill(int(asked.with_name("pid").read_text()), 0)


def test_it_is_told_what_runs_and_how_it_ended(project: Project, asked: Path) -> None:
    result = project.pytester.runpytest_subprocess(*RERUN)

    base = project.git("rev-parse", "--short=7", "main")
    made = read_run(project.runs()[0])
    begin = f"llm evals: the evals of {base} run first, in a worktree"
    end = f"llm evals: end of the run of {base}, recorded as run {made.id}"
    started = "*= test session starts =*"
    told = "the next run is compared with this one"
    result.stdout.fnmatch_lines([begin, started, told, end, started, "llm evals: baseline main@*"])
    result.stdout.no_fnmatch_line("compared with nothing yet*")
    assert (made.made, made.commit) == ("rerun", project.git("rev-parse", "main"))


BRIEF = '{"session": "x", "checkout": "/", "worktree": "/", "selection": [], "outcome": "o.json"}'


@pytest.mark.parametrize(
    ("text", "workers"),
    [("no JSON", ()), (BRIEF, ("-n", "1"))],
    ids=["no JSON", "brief and a worker"],
)
def test_a_variable_makes_no_session_that_of_a_baseline(
    project: Project, monkeypatch: pytest.MonkeyPatch, text: str, workers: tuple[str, ...]
) -> None:
    project.write(app=WORSE)
    project.commit("worse")
    monkeypatch.setenv("LLMEVAL_RERUN", text)
    monkeypatch.setenv("llmeval-brief", text)

    result, report = project.gate(*RERUN, *workers)

    assert (result.ret, report["verdict"]) == (1, "regressed")
    assert not (project.path / "o.json").exists()
