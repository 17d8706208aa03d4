"""A fall turns a session red only where main and the branch, asked again, show it again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_llmeval.records import CONFIRM, Run
from pytest_llmeval.runs.run_file import read_run
from tests.forked import run_forked
from tests.project import EVALS, Project, make_project

GATE = ("--llm-baseline=main", "--llm-confirm")
# Says yes at the rate of the prompt, less what the provider has lost since. Notes who asked.
MODEL = """
import os
from pathlib import Path
import app


def answer(messages, *, draw, **params):
    provider = Path(os.environ["PROVIDER"])
    with (provider / "asked").open("a") as file:
        file.write(f"{app.__file__} {draw.trial}\\n")
    last = provider / "calls_left"
    if last.exists():
        left = len(last.read_text()) - 1
        last.write_text("." * left)
        if left < 0:
            os._exit(9)
    rate = float(messages[-1]["content"].rpartition("rate=")[2])
    lost = float((provider / "lost").read_text())
    return "yes" if draw.rng.random() < rate - lost else "no"
"""
FINE = 'PROMPT = "Say yes to {case}. rate=0.9"\n'
WORSE = 'PROMPT = "Say yes to {case}. rate=0.3"\n'
OTHER = 'PROMPT = "Please say yes to {case}. rate=0.9"\n'
CASES, REPEATS = 20, 5


class Asked(NamedTuple):
    """A call that was paid for."""

    app: str
    trial: int


class Provider:
    """What all sessions of a test ask."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.lose(0)

    def lose(self, rate: float) -> None:
        """Answer worse from now on."""
        (self.folder / "lost").write_text(str(rate))

    def die_after(self, calls: int | None) -> None:
        """End the process that asks once so many more calls were answered."""
        file = self.folder / "calls_left"
        file.unlink(missing_ok=True)
        if calls is not None:
            file.write_text("." * calls)

    def taken(self) -> list[Asked]:
        """The calls since the last time."""
        file = self.folder / "asked"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [Asked(app, int(trial)) for app, trial in (line.split() for line in lines)]


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Provider:
    provider = Provider(tmp_path / "provider")
    monkeypatch.setenv("PROVIDER", str(provider.folder))
    return provider


@pytest.fixture
def project(pytester: pytest.Pytester, provider: Provider, scratch: Path) -> Project:
    """A main that was recorded, and a branch off it."""
    project = make_project(pytester)
    project.write(model=MODEL, app=FINE, test_evals=EVALS)
    project.commit("fine")
    project.run()
    assert len(provider.taken()) == CASES * REPEATS
    project.git("switch", "-qc", "feature")
    return project


def only(report: dict[str, Any]) -> dict[str, Any]:
    (function,) = report["functions"]
    found: dict[str, Any] = function
    return found


def confirmations(project: Project) -> list[Run]:
    return [run for run in map(read_run, project.runs()) if run.made == CONFIRM]


def test_a_worse_branch_is_red_and_says_what_main_scored_now(
    project: Project, provider: Provider, scratch: Path
) -> None:
    project.write(app=WORSE)
    head = project.commit("worse")

    result, report = project.gate(*GATE)

    found = only(report)["confirmation"]
    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "regressed")
    assert (found["outcome"], found["reference"], found["repeats"]) == ("confirmed", "main", 3)
    assert found["baseline_mean"] - found["mean"] > 0.3
    calls = provider.taken()
    own = str(project.path / "app.py")
    first, later = calls[: CASES * REPEATS], calls[CASES * REPEATS :]
    assert sorted(call.trial for call in first) == sorted([*range(REPEATS)] * CASES)
    again = sorted((call.app == own, call.trial) for call in later)
    assert again == sorted((side, at) for side in (0, 1) for at in (5, 6, 7) for _ in range(CASES))
    main = project.git("rev-parse", "main")
    runs = {run.commit: run for run in confirmations(project)}
    assert set(runs) == {main, head}
    for run in runs.values():
        assert {trial.index for trial in run.trials} == {5, 6, 7}
        assert not run.complete
    assert list(scratch.glob("llmeval-*")) == []
    result.stdout.fnmatch_lines(
        [
            "llm evals: something seems to have fallen: 20 cases run 3 times more, on main*",
            "*; confirmed: main, asked again, scored 0.*; all trials of this branch 0.*; chance *",
            "note: further calls, to see whether the fall comes again: 120",
        ]
    )


def test_the_same_question_is_answered_by_the_same_draws(
    project: Project, provider: Provider
) -> None:
    project.write(app=WORSE)
    project.commit("worse")
    _, first = project.gate(*GATE)
    provider.taken()

    result, report = project.gate(*GATE)

    assert provider.taken() == []
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert only(report)["confirmation"] == only(first)["confirmation"]
    assert only(report)["p"] == only(first)["p"]  # so the same functions are suspects
    result.stdout.no_fnmatch_line("*further calls*")


def test_a_provider_that_moved_is_to_blame_and_no_build_fails(
    project: Project, provider: Provider
) -> None:
    provider.lose(0.5)
    project.write(app=OTHER)
    project.commit("harmless")

    result, report = project.gate(*GATE)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.OK, "not_confirmed")
    assert only(report)["confirmation"]["outcome"] == "base_fell"
    result.stdout.fnmatch_lines(["*not confirmed: it fell by 0.*, and main fell as well: main, *"])
    assert "these cases fell by more" not in str(result.stdout)
    strict, _ = project.gate(*GATE, "--llm-strict")
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    alone, report = project.gate("--llm-baseline=main")
    assert (alone.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "regressed")


def test_main_is_recorded_again_as_the_line_says(project: Project, provider: Provider) -> None:
    provider.lose(0.5)
    project.write(app=OTHER)
    project.commit("harmless")
    result, _ = project.gate(*GATE)
    (line,) = re.findall(r"record it again:  pytest (\S+)", " ".join(result.outlines))[:1]
    project.git("switch", "-q", "main")
    project.run(line)
    project.git("switch", "-q", "feature")
    provider.taken()

    result, report = project.gate("--llm-baseline=main")

    assert (result.ret, provider.taken()) == (pytest.ExitCode.OK, [])
    assert report["verdict"] != "regressed"


def test_nobody_is_asked_again_where_nothing_fell(project: Project, provider: Provider) -> None:
    project.write(app=FINE.replace("0.9", "1.0"))
    project.commit("better")

    result, report = project.gate(*GATE)

    assert (result.ret, len(provider.taken())) == (pytest.ExitCode.OK, CASES * REPEATS)
    assert "confirmation" not in only(report)
    assert "seems to have fallen" not in str(result.stdout)
    result.stdout.fnmatch_lines(["llm evals: up to 320 calls more, to confirm a fall of all cases"])


def test_another_branch_gets_draws_of_main_of_its_own(project: Project, provider: Provider) -> None:
    project.write(app=WORSE)
    project.commit("worse")
    project.gate(*GATE)
    provider.taken()
    project.write(app=WORSE.replace("Say", "Do say"))
    project.commit("worse still")

    _, report = project.gate(*GATE)

    own = str(project.path / "app.py")
    assert sum(call.app != own for call in provider.taken()) == CASES * 3
    assert only(report)["confirmation"]["outcome"] == "confirmed"


def test_the_first_look_stands_in_a_replay(project: Project, provider: Provider) -> None:
    project.write(app=WORSE)
    project.commit("worse")
    project.gate("--llm-baseline=main")
    provider.taken()

    result, report = project.gate(*GATE, "--llm-cache=replay")

    assert (result.ret, provider.taken()) == (pytest.ExitCode.TESTS_FAILED, [])
    assert only(report)["confirmation"]["outcome"] == "impossible"
    result.stdout.fnmatch_lines(
        ["*(could not be confirmed: a session that only replays asks nobody)*"]
    )


def test_the_caps_hold_for_what_is_asked_again(project: Project, provider: Provider) -> None:
    project.write(app=WORSE)
    project.commit("worse")

    result, report = project.gate(*GATE, "--llm-max-calls=150")

    assert len(provider.taken()) == 150
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = only(report)["confirmation"]
    assert found["outcome"] == "impossible"
    assert found["why"].endswith(": cap --llm-max-calls=150")


def test_what_was_paid_for_before_a_kill_is_not_asked_again(
    project: Project, provider: Provider
) -> None:
    project.write(app=WORSE)
    project.commit("worse")
    project.gate("--llm-baseline=main")
    provider.taken()
    provider.die_after(50)

    result, report = project.gate(*GATE, "--llm-concurrency=1")

    found = only(report)["confirmation"]
    assert (result.ret, found["outcome"]) == (pytest.ExitCode.TESTS_FAILED, "impossible")
    assert "did not run to their end" in found["why"]
    paid = provider.taken()
    provider.die_after(None)
    result, report = project.gate(*GATE)
    assert only(report)["confirmation"]["outcome"] == "confirmed"
    unanswered = 2  # at most: by the two processes that ended
    assert CASES * 3 * 2 <= len(paid) + len(provider.taken()) <= CASES * 3 * 2 + unanswered


def test_ctrl_c_ends_the_session_with_what_the_first_look_found(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    project.write(app=WORSE)
    project.commit("worse")
    monkeypatch.setattr("pytest_llmeval.engine.rerun.asking_again.run_children", interrupt)

    result, report = project.gate(*GATE)

    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert only(report)["verdict"] == "regressed"
    assert only(report)["confirmation"]["why"] == "it was interrupted"


def test_after_ctrl_c_nobody_is_asked_again(project: Project, provider: Provider) -> None:
    interrupts = """
    import pytest

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(item):
        if item.name.endswith("case-15]"):
            raise KeyboardInterrupt
    """
    project.write(app=WORSE, conftest=interrupts)
    project.commit("worse")

    result = run_forked(
        project.pytester, "-p", "no:cacheprovider", "--llm-report=out/report.json", *GATE
    )

    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert {call.trial for call in provider.taken()} <= {*range(REPEATS)}
    assert "further calls" not in str(result.stdout)
    report = json.loads((project.path / "out" / "report.json").read_text())
    found = only(report)["confirmation"]
    assert found["why"].endswith("the session did not come to its end")


def test_a_main_without_evals_fails_nothing(
    pytester: pytest.Pytester, provider: Provider, scratch: Path
) -> None:
    project = make_project(pytester)
    project.write(model=MODEL, app=FINE)
    (project.path / "test_evals.py").unlink()
    project.commit("no evals yet")
    project.git("switch", "-qc", "feature")
    project.write(test_evals=EVALS)
    project.commit("evals")

    result, report = project.gate(*GATE, "--llm-on-missing=rerun")

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.OK, "new")


def test_the_base_is_asked_with_its_own_model_or_not_at_all(
    project: Project, provider: Provider
) -> None:
    """What is typed for the branch is not typed for the base."""
    other = MODEL.replace("float(messages", "0.3 + 0 * float(messages")
    project.write(worse=other)
    project.commit("another model")

    result, report = project.gate(*GATE, "--llm-model=function/worse:answer")

    found = only(report)["confirmation"]
    assert (result.ret, found["outcome"]) == (pytest.ExitCode.TESTS_FAILED, "confirmed")
    assert found["baseline_mean"] > 0.7


def test_a_baseline_of_no_commit_cannot_be_asked_again(project: Project) -> None:
    project.write(app=WORSE)
    project.write(model=MODEL + "# changed\n")
    last = read_run(project.runs()[-1])

    result, report = project.gate("--llm-confirm", "--llm-baseline=last")

    assert last.commit is not None
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert only(report)["confirmation"]["outcome"] in ("confirmed", "impossible")


def test_fresh_trials_of_main_join_its_baseline(project: Project) -> None:
    project.write(app=WORSE)
    project.commit("worse")
    project.gate(*GATE)
    project.git("switch", "-qc", "next", "main")
    project.write(app=OTHER)
    project.commit("other words")

    result, report = project.gate("--llm-baseline=main")

    assert "main: 8 trials a case from 2 runs" in str(result.stdout)
    assert only(report)["baseline_trials"]["scored"] == 8 * CASES


def test_files_that_were_changed_meanwhile_are_not_what_was_compared(
    project: Project, provider: Provider
) -> None:
    """An editor saves a test while its trials run: whoever is asked again has other code."""
    edits = """
    from pathlib import Path

    def pytest_runtest_logfinish(nodeid):
        if nodeid.endswith("case-19]"):
            file = Path(__file__).with_name("test_evals.py")
            file.write_text(file.read_text().replace('== "yes"', '!= "no"'))
    """
    project.write(app=WORSE, conftest=edits)
    project.commit("worse")

    result, report = project.gate(*GATE)

    found = only(report)["confirmation"]
    assert (result.ret, found["outcome"]) == (pytest.ExitCode.TESTS_FAILED, "impossible")
    assert found["why"].endswith("the files here were changed while the tests ran")


def test_a_base_that_a_variable_gave_another_model_is_no_witness(
    project: Project, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be asked with the model of the branch, fall as the branch does, and be blamed."""
    named = EVALS.replace("PROMPT.format(case=case)", "PROMPT.format(case=case), model=MODEL")
    named = named.replace("import pytest", "import os\nimport pytest\n\nMODEL = os.environ['M']\n")
    monkeypatch.setenv("M", "function/model:answer")
    project.git("switch", "-q", "main")
    project.write(test_evals=named, worse=MODEL.replace("float(messages", "0.3 + 0 * len(messages"))
    project.commit("a variable names the model")
    project.run()
    project.git("switch", "-qc", "other")
    project.write(app=OTHER)
    project.commit("other words")
    monkeypatch.setenv("M", "function/worse:answer")

    result, report = project.gate(*GATE)

    found = only(report)["confirmation"]
    assert (result.ret, found["outcome"]) == (pytest.ExitCode.TESTS_FAILED, "impossible")
    assert "the base asked function/worse:answer now" in found["why"]
