"""Reports for people who are not at the terminal: Markdown, and the summary of a job on GitHub."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main as command
from tests.plugin.test_gating import WORSE, record_few
from tests.project import Project, made_once

BASELINE = "--llm-baseline=main"


@pytest.fixture
def main(pytester: pytest.Pytester, originals: Path) -> Project:
    """Main, recorded, and a branch begun."""
    return made_once(originals / "few", pytester, record_few)


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that GitHub shows on the page of the job, in which an earlier step wrote."""
    file = tmp_path / "summary.md"
    file.write_text("An earlier step.\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    return file


def titles(summary: Path) -> list[str]:
    """What our sessions wrote, by their first lines."""
    lines = summary.read_text().splitlines()
    assert lines[0] == "An earlier step."
    return [line for line in lines if "LLM evals" in line]


def test_a_session_writes_markdown_and_appends_it_to_the_summary(
    main: Project, summary: Path
) -> None:
    main.write(app=WORSE)

    assert main.run(BASELINE, "--llm-report=out/report.md").ret == 1

    page = (main.path / "out" / "report.md").read_text()
    assert page.startswith("## LLM evals: REGRESSED\n\n**test_says_yes fell by ")
    assert "AssertionError: assert 'no' == 'yes'" in page
    assert summary.read_text() == f"An earlier step.\n{page}\n"
    assert main.run(BASELINE).ret == 1
    assert titles(summary) == ["## LLM evals: REGRESSED"] * 2


def test_a_session_writes_a_page_with_the_replies(main: Project) -> None:
    main.write(app=WORSE)

    assert main.run(BASELINE, "--llm-report=out/report.html").ret == 1

    page = (main.path / "out" / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>\n")
    assert '<h1><span class="word">REGRESSED</span></h1>' in page
    assert "AssertionError: assert &#39;no&#39; == &#39;yes&#39;" in page
    assert "<del>yes</del>" in page
    assert "<ins>no</ins>" in page


def test_a_refused_session_writes_a_page_that_says_why(project: Project) -> None:
    assert project.run("--llm-baseline=nowhere", "--llm-report=report.html").ret == 4

    page = (project.path / "report.html").read_text()
    assert ">could not judge</span></h1>" in page
    assert "nowhere" in page


def test_a_worker_appends_nothing(main: Project, summary: Path) -> None:
    assert main.run("-n1", "-p", "xdist", BASELINE).ret == 0

    assert len(titles(summary)) == 1


def test_the_run_of_a_base_appends_nothing(main: Project, summary: Path) -> None:
    main.write(app=WORSE)
    main.commit()
    for run in main.runs():
        run.unlink()

    result = main.run(BASELINE, "--llm-on-missing=rerun")

    assert result.ret == 1
    assert titles(summary) == ["## LLM evals: REGRESSED"]


def test_a_summary_that_cannot_be_written_is_one_line_and_fails_nothing(
    main: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(main.path))

    result = main.run(BASELINE)

    assert result.ret == 0
    told = [line for line in result.outlines if "STEP_SUMMARY" in line]
    assert len(told) == 1
    assert told[0].startswith(f"GITHUB_STEP_SUMMARY={main.path}: not written: ")


def test_a_report_that_cannot_be_written_in_the_end_fails_the_session(main: Project) -> None:
    main.write(conftest="def pytest_runtest_logfinish(): open('taken', 'w').close()")

    result = main.run(BASELINE, "--llm-report=taken/report.md")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["--llm-report=*taken/report.md: not written: *"])


def test_a_refusal_of_ours_is_told_in_the_summary(main: Project, summary: Path) -> None:
    assert main.run("--llm-baseline=nowhere").ret == 4

    assert titles(summary) == ["## LLM evals: could not judge"]
    told = summary.read_text()
    assert "nowhere" in told
    assert "\\n" not in told


@pytest.mark.parametrize("arguments", [("no-such-file",), ("test_plain.py",), ("--co",)])
def test_what_is_no_session_of_evals_leaves_the_summary_alone(
    main: Project, summary: Path, arguments: tuple[str, ...]
) -> None:
    main.write(test_plain="def test_plain(): pass")

    main.run(*arguments)

    assert titles(summary) == []


def test_two_recorded_runs_compare_as_markdown(
    main: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.write(app=WORSE)
    main.commit()
    main.run()
    monkeypatch.chdir(main.path)

    result = CliRunner().invoke(command, ["compare", "main", "last", "--markdown"])

    assert result.exit_code == 1
    assert result.stdout.startswith("## LLM evals: REGRESSED\n")
    assert "AssertionError test_evals.py:10" in result.stdout


@pytest.mark.parametrize("file", ["pytest.ini", "pytest.toml"])
def test_commands_quote_no_reply_where_the_ini_file_says_so(
    main: Project, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    main.write(app=WORSE)
    main.commit()
    main.run()
    monkeypatch.chdir(main.path)
    words = ["compare", "main", "last", "--markdown"]
    assert "reply here" in CliRunner().invoke(command, words).stdout

    (main.path / file).write_text("[pytest]\nllm_show_texts = false\n")

    result = CliRunner().invoke(command, words)
    assert result.exit_code == 1
    assert "reply here" not in result.stdout


def test_an_ini_file_that_says_neither_is_refused_in_a_line(
    main: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(main.path)
    (main.path / "pytest.ini").write_text("[pytest]\nllm_show_texts = maybe\n")

    result = CliRunner().invoke(command, ["compare", "main", "last"])

    assert result.exit_code == 4
    assert result.stderr == "ERROR: llm_show_texts=maybe in the ini file: must be true or false\n"
