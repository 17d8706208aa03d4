"""Each block of README and docs/ is run, in the language that it is in."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import duckdb
import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main
from tests.docs.pages import PAGES, ROOT, Block, blocks, commands, in_backticks, languages, text_of
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

CAPITALS = """
import pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats=2)
@pytest.mark.parametrize("country", ["Peru"])
def test_capital(llm, country):
    assert llm.ask(f"Capital of {country}? rate=1.0").text
"""

# pages whose blocks are run by tests of their own, named test_PAGE.py or test_reference.py
WITH_TESTS_OF_THEIR_OWN = (
    "coming-from.md", "howto.md", "judges.md", "planning.md", "report-format.md", "sharing.md",
    "swap-model.md", "tutorial.md",
)  # fmt: skip
PICTURES = ("docs/design.md",)
# text: stories/test_printed_section.py, tests/cli/test_reading.py; yaml: tests/ci/test_recipes.py;
# json: tests/runs/test_golden.py; diff: tests/fresh/test_tutorial.py
LANGUAGES = {"python", "ini", "console", "csv", "sql", "text", "yaml", "json", "diff", "groovy"}


def of_pages(language: str) -> list[Block]:
    """List the blocks that are run here."""
    return [
        block
        for block in blocks(language=language)
        if not block.page.endswith(WITH_TESTS_OF_THEIR_OWN)
    ]


def test_a_block_has_a_language_in_which_it_is_run() -> None:
    assert {block.page for block in blocks(language="")} <= set(PICTURES)
    assert languages() - {""} <= LANGUAGES


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    def answer(body: Mapping[str, Any], number: int) -> str:
        return "Lima" if "Peru" in body["messages"][-1]["content"] else "Paris"

    with OpenAIServer(answer) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield running


def pages_of(found: list[Block]) -> list[str]:
    return sorted({block.page for block in found})


def evals() -> list[Block]:
    return [block for block in of_pages("python") if block.is_eval]


def files_of(page: str) -> dict[str, str]:
    """Return the modules of a page, by name.

    The first line of a block may name its module. A block that imports nothing goes on with the
    module before it.
    """
    files: dict[str, str] = {}
    name = ""
    for number, block in enumerate(one for one in of_pages("python") if one.page == page):
        named = re.match(r"# (\w+)\.py\n", block.text)
        if named or block.is_eval:
            has_imports = re.search(r"^(?:from|import) ", block.text, re.MULTILINE)
            name = named[1] if named else f"test_{number}" if has_imports else name
            files[name] = files.get(name, "") + block.text
    return files


@pytest.mark.parametrize("page", pages_of(evals()))
def test_the_evals_of_a_page_pass(project: Project, server: OpenAIServer, page: str) -> None:
    (project.path / "test_evals.py").unlink()
    texts = [block.text for block in evals() if block.page == page]
    project.write(model=MODEL, **files_of(page))
    for table in blocks(page, language="csv"):
        (project.path / "capitals.csv").write_text(table.text)

    result = project.run("-v")

    assert result.ret == 0
    passed = re.findall(r"(\d)/5 passed", str(result.stdout))
    assert len(passed) >= len(texts)
    assert set(passed) == {"5"}


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


@pytest.mark.parametrize("page", pages_of(blocks(language="ini")))
def test_the_lines_of_ini_files_on_a_page_are_understood(
    originals: Path, pytester: pytest.Pytester, page: str
) -> None:
    project = made_once(originals / "recorded", pytester, recorded)
    given = [block.text.partition("[pytest]\n")[2] for block in blocks(page, language="ini")]
    project.write(pytest_ini=f"[pytest]\npythonpath = .\n{''.join(given)}")

    result = project.run(
        "--strict-config", "--llm-model=function/model:answer", "--llm-baseline=last"
    )

    assert result.ret == 0


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
            return int(self.project.pytester.runpytest(*arguments).ret)
        if program == "llmeval":
            self._patch.chdir(self.project.path)
            done = CliRunner().invoke(main, arguments, input="y\n", catch_exceptions=False)
            return done.exit_code
        if program == "eval":
            script = subprocess.run(
                ["bash", "-c", f"{command} && complete -p llmeval"],
                env={"PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.defpath])},
                check=False,
            )
            return script.returncode
        # tests/fresh walks the README, packages and all; tests/compatibility has the watcher
        if program in ("make", "pip", "ptw"):
            dry = [program, *arguments, "--dry-run"] if program == "make" else ["true"]
            return subprocess.run(dry, cwd=ROOT, capture_output=True, check=False).returncode
        assert program == "git", command
        self.project.git(*arguments)
        return 0


@pytest.mark.parametrize("page", pages_of(of_pages("console")))
def test_the_commands_of_a_page_work_one_after_the_other(
    originals: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    project = made_once(originals / "recorded", pytester, recorded)
    reader = Reader(project, monkeypatch)
    write_results(project.path)

    for command in commands(page):
        assert reader.types(command) == 0, command


def test_the_score_table_of_the_page_can_be_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (table,) = blocks("docs/compare.md", language="csv")
    (tmp_path / "scores.csv").write_text(table.text)
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(main, ["compare", "scores.csv::gpt-6-sol", "scores.csv::gpt-6-luna"])

    assert done.exit_code in (0, 1), done.output


def anchors(page: str) -> set[str]:
    """Return the names by which a link leads to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("block", [one for one in of_pages("python") if not one.is_eval], ids=str)
def test_a_snippet_of_the_pages_runs(
    originals: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, block: Block
) -> None:
    project = made_once(originals / "recorded", pytester, recorded)
    monkeypatch.chdir(project.path)

    exec(compile(block.text, str(block), "exec"), {})  # noqa: S102 - the manual's own lines


def test_the_model_of_the_page_is_one(project: Project) -> None:
    (model,) = (one for one in blocks("docs/models.md", language="python") if not one.is_eval)
    (project.path / "package").mkdir()
    (project.path / "package" / "module.py").write_text(model.text)
    project.write(test_evals=EVALS)

    assert project.run("--llm-model=function/package.module:callable").ret == 0


def test_a_blocking_call_of_the_page_answers_in_a_trial(
    project: Project, server: OpenAIServer
) -> None:
    (fetch,) = (one for one in blocks("docs/overlap.md", language="python") if not one.is_eval)
    address = server.url
    project.write(
        app=fetch.text,
        test_evals=f"""
        import urllib.error
        import pytest
        from pytest_llmeval import llm_eval
        from app import fetch

        @llm_eval(repeats=2)
        def test_fetches():
            with pytest.raises(urllib.error.HTTPError):
                fetch({address!r})
        """,
    )

    assert project.run().ret == 0


def test_the_query_of_the_page_counts_calls(
    originals: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = made_once(originals / "recorded", pytester, recorded)
    monkeypatch.chdir(project.path)
    (query,) = blocks("docs/run-format.md", language="sql")

    rows = duckdb.sql(query.text).fetchall()

    assert [row[1:4] for row in rows] == [("function/model:answer", 6, 6)]


# a table with the conditions that sentences compare
SCORES = "condition,case_id,repeat,score\n" + "".join(
    f"{condition},{case},0,1\n" for condition in ("old", "new", "RUN_ID") for case in range(6)
)
# result files of other harnesses that the pages compare
RESULTS = {
    **dict.fromkeys(
        ("main.json", "branch.json"),
        json.dumps({"results": [{"provider": "openai:gpt-6-luna", "success": True}]}),
    ),
    **dict.fromkeys(
        ("samples_gsm8k_MAIN.jsonl", "samples_gsm8k_BRANCH.jsonl"),
        json.dumps({"doc_id": 0, "resps": [], "metrics": ["acc"], "acc": 1.0}),
    ),
}


def write_results(folder: Path) -> None:
    (folder / "scores.csv").write_text(SCORES)
    for name, text in RESULTS.items():
        (folder / name).write_text(text)
    (folder / "logs").mkdir()
    for name in ("main", "branch"):
        with zipfile.ZipFile(folder / "logs" / f"{name}.eval", "w") as log:
            scores = {"exact": {"value": "C"}}
            log.writestr("summaries.json", json.dumps([{"id": 1, "epoch": 1, "scores": scores}]))


# what stands for the words of sentences that a reader fills in
FILLED = {
    "A": "main", "B": "my-branch", "RUN": "last", "NODEID": "test_evals.py::test_tone",
    "CASE": "test_tone", "FUNCTION": "test_tone", "FILE.jsonl.gz": "replies.jsonl.gz",
}  # fmt: skip
# commands that a sentence names without what they need
_INCOMPLETE = re.compile(
    r"llmeval until\b|llmeval (compare --test|cache import|cache export)$|\.\.\."
    r"|llmeval (diff( CASE| FUNCTION| --full)?|tries --json)$"  # of a run with a baseline
)


def complete_commands(page: str) -> list[str]:
    """List the commands in sentences that can be typed, those with blanks filled in."""
    found = []
    for text in dict.fromkeys(in_backticks(page)):
        words = text.split()
        if words[:1] in (["llmeval"], ["pytest"]) and words[2:] and not _INCOMPLETE.search(text):
            found.append(" ".join(FILLED.get(word, word) for word in words))
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if complete_commands(page)])
def test_a_command_in_a_sentence_can_be_typed(
    originals: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    project = made_once(originals / "recorded", pytester, recorded)
    reader = Reader(project, monkeypatch)
    (project.path / "evals").mkdir()
    (project.path / "evals" / "test_capitals.py").write_text(CAPITALS)
    write_results(project.path)

    for command in complete_commands(page):
        assert reader.types(command) in (0, 1), command


@pytest.mark.parametrize("page", PAGES)
def test_a_command_in_a_sentence_exists(page: str) -> None:
    for text in in_backticks(page):
        program, *words = text.split() or [""]
        if program == "llmeval":
            assert_exists(words)
        if text.startswith("python benchmarks/"):
            assert (ROOT / words[0]).exists(), text


def assert_exists(words: list[str]) -> None:
    """Walk from llmeval to the command that words name, and see that it has their options."""
    command: click.Command = main
    for word in words:
        if isinstance(command, click.Group):
            assert word in command.commands, words
            command = command.commands[word]
        elif word == "--":
            return
        elif word.startswith("--"):
            known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
            assert word.partition("=")[0] in known, words


@pytest.mark.parametrize("page", PAGES)
def test_each_link_leads_somewhere(page: str) -> None:
    for link, anchor in re.findall(r"\]\(([^):#]*)(?:#([^)]*))?\)", text_of(page)):
        target = (ROOT / page).parent / link if link else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(os.path.relpath(target, ROOT)), f"{link}#{anchor}"


def test_the_contents_name_every_page() -> None:
    linked = re.findall(r"\]\((\S+?)\)", text_of("docs/contents.md"))

    named = {os.path.normpath(f"docs/{link}") for link in linked}
    assert {page for page in PAGES if page != "README.md"} - {"docs/contents.md"} <= named


def test_the_readme_names_what_is_needed_and_every_name_once() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    (needs,) = (part for part in text_of("README.md").split("\n\n") if part.startswith("You need"))

    (pytest_needed,) = (one for one in project["dependencies"] if one.startswith("pytest>="))
    oldest = pytest_needed.removeprefix("pytest>=").partition(",")[0]
    assert f"Python {project['requires-python'].removeprefix('>=')} or newer" in needs
    assert f"pytest {oldest} or newer" in needs
    assert "git" in needs
    systems = [one for one in project["classifiers"] if one.startswith("Operating System")]
    assert all(one.rpartition(" ")[2].lower() in needs.lower() for one in systems)
    for name in (project["name"], "pytest_llmeval", *project["scripts"], "@llm_eval"):
        assert needs.count(f"`{name}`") == 1


def test_the_readme_is_short() -> None:
    lines = text_of("README.md").splitlines()

    assert len(lines) <= 150
    assert max(map(len, lines)) <= 100
