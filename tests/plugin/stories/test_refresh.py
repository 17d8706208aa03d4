"""--llm-cache=refresh somewhere takes nothing from others: each replays its own line's draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main as main_command
from tests.project import APP, EVALS, Project, made_once

SMALL = EVALS.replace("range(20)", "range(4)").replace("repeats=5", "repeats=2")
NOT_HERE = "the baseline's cache is not here"


def note(project: Project, text: str) -> None:
    """Commit something that no eval reads."""
    (project.path / f"{text}.md").write_text(text)
    project.commit(text)


def refresh_on_a_branch(project: Project) -> None:
    project.write(test_evals=SMALL)
    project.commit("small")
    assert project.run().ret == 0
    project.git("switch", "-qc", "refreshed")
    note(project, "begun")
    assert project.run("--llm-cache=refresh").ret == 0
    assert project.calls() == 16
    project.git("switch", "-qc", "noop", "main")
    note(project, "harmless")


@pytest.fixture
def project(pytester: pytest.Pytester, originals: Path) -> Project:
    """Main, recorded; one branch that drew everything anew, and one that changed nothing."""
    return made_once(originals / "refreshed", pytester, refresh_on_a_branch)


def draws(project: Project, run: int = -1) -> list[str]:
    """The draws of a run, in its order."""
    import gzip

    lines = gzip.decompress(project.runs()[run].read_bytes()).decode().splitlines()[1:]
    return [call["draw"] for line in lines for call in json.loads(line).get("calls", ())]


def assert_unchanged(result: pytest.RunResult, report: dict[str, Any]) -> None:
    assert (result.ret, report["verdict"]) == (0, "unchanged")
    assert report["run"]["calls"]["made"] == 0
    assert NOT_HERE not in str(result.stdout)


@pytest.mark.parametrize("more", [(), ("--llm-cache=replay",)])
def test_another_branch_replays_the_draws_of_its_baseline(
    project: Project, more: tuple[str, ...]
) -> None:
    assert_unchanged(*project.gate("--llm-baseline=main", *more))


def test_workers_replay_the_draws_of_the_baseline(project: Project) -> None:
    assert_unchanged(*project.gate("--llm-baseline=main", "-n", "2"))


def test_the_branch_that_was_refreshed_is_compared_with_its_own_run(project: Project) -> None:
    project.git("switch", "-q", "refreshed")

    assert_unchanged(*project.gate("--llm-baseline=HEAD"))


def test_each_of_several_baselines_is_replayed(project: Project) -> None:
    project.git("switch", "-q", "main")
    note(project, "nightly")
    project.run("--llm-cache=refresh")

    assert_unchanged(*project.gate("--llm-baseline=HEAD"))
    project.git("switch", "-q", "noop")
    assert_unchanged(*project.gate("--llm-baseline=main"))
    project.git("merge", "-q", "main", "-m", "merged")
    assert_unchanged(*project.gate("--llm-baseline=main"))


def test_where_the_baseline_names_no_draw_that_of_the_anchor_is_replayed(project: Project) -> None:
    project.write(app=APP.replace("rate=0.8", "rate=0.9"))
    other = project.commit("other prompt")
    project.run()
    project.write(app=APP)
    project.commit("the old prompt again")

    result, report = project.gate(f"--llm-baseline={other}", "--llm-anchor=main")

    assert report["anchor"]["verdict"] == "unchanged"
    assert result.ret == 0


def test_a_session_of_main_replays_what_main_recorded(project: Project) -> None:
    project.git("switch", "-q", "main")
    before = draws(project, 0)
    note(project, "harmless")

    project.run()
    assert draws(project) == before
    project.run("-n", "2")
    assert draws(project) == before
    assert project.calls() == 0


def test_a_refresh_of_main_is_what_main_replays_from_then_on(project: Project) -> None:
    project.git("switch", "-q", "main")
    project.run("--llm-cache=refresh")
    drawn = draws(project)

    project.run()

    assert draws(project) == drawn


def test_a_refresh_of_one_file_of_main_leaves_the_other_files_their_draws(
    project: Project,
) -> None:
    project.git("switch", "-q", "main")
    project.write(test_other=SMALL.replace("format(case=", "format(case='other ' + "))
    project.commit("another file")
    project.run()
    first = draws(project)
    project.run("--llm-cache=refresh", "test_other.py")
    second = draws(project)

    project.run()

    assert set(first[8:]).isdisjoint(second)
    assert draws(project) == first[:8] + second


def test_what_is_compared_with_a_refresh_is_not_said_to_lack_its_baseline(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    refreshed, main = (path.name.partition(".")[0] for path in reversed(project.runs()))

    result = CliRunner().invoke(main_command, ["compare", main, refreshed])

    assert "but got new replies (those of the baseline are here, too)" in result.output
