"""Each block of README and docs/ is run, in the language that it is in."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main
from tests.docs.pages import PAGES, ROOT, Block, blocks, commands, languages, text_of
from tests.project import Project, made_once
from tests.servers.openai_server import OpenAIServer

MODEL = '''
CAPITALS = {"France": "Paris", "Peru": "Lima"}


def answer(messages, **params):
    """Knows two capitals, and says everything else back."""
    question = messages[-1]["content"]
    return next((CAPITALS[name] for name in CAPITALS if name in question), question)
'''
EVALS = """
from pytest_llmeval import llm_eval
from app import PROMPT

@llm_eval(repeats=2)
def test_tone(llm):
    assert llm.ask(PROMPT).text
"""

# pages whose blocks are run by tests of their own, and those whose blocks are pictures
WITH_TESTS_OF_THEIR_OWN = ("docs/judges.md", "docs/planning.md", "docs/report-format.md")
PICTURES = ("docs/design.md",)
RUN_HERE = {"python", "ini", "console", "csv"}
# yaml: tests/ci/test_recipes.py; json: tests/runs/test_golden.py
RUN_ELSEWHERE = {"yaml", "json", "sql"}
of_each_eval = pytest.mark.parametrize(
    "block",
    [
        one
        for one in blocks(language="python")
        if one.is_eval and one.page not in WITH_TESTS_OF_THEIR_OWN
    ],
    ids=str,
)


def test_a_block_has_a_language_in_which_it_is_run() -> None:
    without = {block.page for block in blocks(language="")}

    assert without <= {"README.md", "docs/sharing.md", *PICTURES}
    assert languages() - {""} <= RUN_HERE | RUN_ELSEWHERE


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    def answer(body: Mapping[str, Any], number: int) -> str:
        return "Paris"

    with OpenAIServer(answer) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield running


@of_each_eval
def test_an_eval_of_the_pages_passes(project: Project, server: OpenAIServer, block: Block) -> None:
    project.write(model=MODEL, test_evals=block.text)

    result = project.run("-v")

    assert result.ret == 0
    assert "5/5 passed" in str(result.stdout)


@pytest.mark.parametrize("block", blocks(language="ini"), ids=str)
def test_a_line_of_an_ini_file_is_understood(project: Project, block: Block) -> None:
    project.write(test_evals=EVALS)
    project.run()
    given = block.text.partition("[pytest]\n")[2]
    project.write(pytest_ini=f"[pytest]\npythonpath = .\n{given}")

    result = project.run(
        "--strict-config", "--llm-model=function/model:answer", "--llm-baseline=last"
    )

    assert result.ret == 0


def recorded(project: Project) -> None:
    """Make a project with runs of main, of a release and of a branch; a branch is checked out."""
    project.write(test_evals=EVALS)
    project.commit("main")
    project.git("tag", "v1.0")
    project.run()
    project.git("switch", "-qc", "my-branch")
    project.write(app='PROMPT = "Say yes, please. rate=1.0"')
    project.commit("polite")
    project.run()
    project.git("switch", "-qc", "side", "main")
    project.write(app='PROMPT = "Say it. rate=1.0"')
    project.commit("short")
    project.run()


class Reader:
    """Types the commands of a page in a project with runs."""

    def __init__(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project = project
        self._patch = monkeypatch

    def types(self, command: str) -> int:
        """Run a command; an exit code of 1 is a verdict."""
        program, *arguments = shlex.split(command)
        if program == "export":
            name, _, value = arguments[0].partition("=")
            self._patch.setenv(name, value)
            return 0
        if program == "pytest":
            return int(self.project.run(*arguments).ret)
        if program == "llmeval":
            self._patch.chdir(self.project.path)
            return CliRunner().invoke(main, arguments, catch_exceptions=False).exit_code
        if program == "make":
            dry = ["make", "--dry-run", *arguments]
            return subprocess.run(dry, cwd=ROOT, capture_output=True, check=False).returncode
        assert program == "git", command
        self.project.git(*arguments)
        return 0


@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands(page) and page not in WITH_TESTS_OF_THEIR_OWN]
)
def test_the_commands_of_a_page_work_one_after_the_other(
    originals: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    reader = Reader(made_once(originals / "recorded", pytester, recorded), monkeypatch)

    for command in commands(page):
        assert reader.types(command) == 0, command


def test_the_score_table_of_the_page_can_be_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (table,) = blocks("docs/compare.md", language="csv")
    (tmp_path / "scores.csv").write_text(table.text)
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(main, ["compare", "scores.csv::gpt-4", "scores.csv::gpt-3"])

    assert done.exit_code in (0, 1), done.output


def anchors(page: str) -> set[str]:
    """Return the names by which a link leads to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_each_link_leads_somewhere(page: str) -> None:
    for link, anchor in re.findall(r"\]\(([^):#]*)(?:#([^)]*))?\)", text_of(page)):
        target = (ROOT / page).parent / link if link else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(os.path.relpath(target, ROOT)), f"{link}#{anchor}"


def test_the_readme_is_short() -> None:
    lines = text_of("README.md").splitlines()

    assert len(lines) <= 150
    assert max(map(len, lines)) <= 100
