"""The tables of the pages name what there is, and nothing else."""

from __future__ import annotations

import json
import re

import pytest

from docs.make_options import PAGE, options_page
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.models.llm import parse_model_name
from pytest_llmeval.reports.sentences import verdict_words
from pytest_llmeval.reports.terminal.tables import _COLUMNS
from pytest_llmeval.settings import every_option
from pytest_llmeval.vendors import VENDORS
from tests.docs.pages import PAGES, blocks, chapter, in_backticks, text_of
from tests.project import Project

REPORT_FORMAT = "docs/report-format.md"


def test_the_page_of_options_is_made_from_their_rows() -> None:
    assert PAGE.read_text(encoding="utf-8") == options_page(), "run: make docs"


def test_the_page_of_options_has_every_name_that_can_be_typed(pytester: pytest.Pytester) -> None:
    help_text = str(pytester.runpytest("--help").stdout)
    offered = set(re.findall(r"--(?:no-)?llm-[a-z-]+", help_text))
    named = set(in_backticks("docs/options.md"))

    assert {name.partition("=")[0] for name in named if name.startswith("--")} - {
        "--llm-alpha"
    } == offered - {"--llm-alpha"}
    assert named >= {option.key for option in every_option() if option.ini}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_options_that_exist_alone(page: str) -> None:
    options = every_option()
    flags = {option.flag for option in options} | {
        option.flag.replace("--", "--no-", 1) for option in options if not option.metavar
    }
    text = text_of(page)

    assert set(re.findall(r"--(?:no-)?llm-[a-z][a-z-]*[a-z]", text)) <= flags
    keys = {option.key for option in options}
    assert set(re.findall(r"^(llm_[a-z_]+) *=", text, re.MULTILINE)) <= keys


def test_every_marker_argument_of_its_table_exists(project: Project) -> None:
    section = chapter("docs/cases.md", "Arguments of the mark")
    table = re.findall(r"^\| `([a-z_]+)` \|", section, re.MULTILINE)

    assert table == [
        "repeats",
        "min_score",
        "gate",
        "better",
        "cluster",
        "wording",
        "concurrency",
        "intercept",
    ]
    project.write(
        test_evals="""
        import pytest
        from pytest_llmeval import llm_eval

        @llm_eval(
            repeats=2, min_score=0.1, gate="pass", better="higher", cluster="doc", wording="doc",
            concurrency="serial", intercept=True,
        )
        @pytest.mark.parametrize("doc", ["a", "b"])
        def test_it(doc): pass
        """
    )
    assert project.run().ret == 0


def test_every_fixture_of_its_table_exists_and_the_other_way_round(
    pytester: pytest.Pytester,
) -> None:
    shown = str(pytester.runpytest("--fixtures").stdout)
    section = shown.partition("fixtures defined from pytest_llmeval")[2].partition("\n----")[0]
    offered = set(re.findall(r"^(\w+) --", section, re.MULTILINE))
    table = chapter("docs/models.md", "Fixtures")

    assert set(re.findall(r"`(\w+)`(?= \|)", table)) == offered


def test_every_provider_of_its_table_exists_and_the_other_way_round() -> None:
    section = chapter("docs/models.md", "Name a model")
    table = re.findall(r"^\| `([a-z]+)` \| `([^`]+)`", section, re.MULTILINE)

    assert {parse_model_name(example).provider for _, example in table} == {"function", *VENDORS}
    assert {provider for provider, _ in table} == {"function", *VENDORS}


def test_the_snippet_of_the_report_format_runs(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.run("--llm-report=report.json")
    monkeypatch.chdir(project.path)
    (snippet,) = blocks(REPORT_FORMAT, language="python")

    exec(compile(snippet.text, "snippet", "exec"), {})  # noqa: S102 - the manual's own lines

    assert "test_evals.py::test_says_yes not_gated" in capsys.readouterr().out


def test_every_key_of_the_report_is_told(project: Project) -> None:
    project.run()
    _, report = project.gate("--llm-baseline=main")
    (function,) = report["functions"]
    told = set(re.findall(r"`([a-z_]+)`", text_of(REPORT_FORMAT)))

    keys = set(report) | set(function) | set(function["compared"][0]) | set(report["run"])
    assert keys | set(report["baseline"]) | set(report["settings"]) <= told | {"id"}
    assert json.loads((project.path / "out" / "report.json").read_text()) == report


def test_the_glossary_has_each_verdict_and_each_column_of_the_section() -> None:
    glossary = text_of("docs/glossary.md")

    for verdict in set(Verdict) - {Verdict.NOT_GATED}:
        assert f"`{verdict_words(verdict)}`" in glossary
    columns = {name.partition(" [")[0] for name in _COLUMNS} - {"verdict", "bar"}
    titles = {"interval": "90% interval", "test function": "function"}
    for name in columns:
        assert titles.get(name, name) in glossary, name


def test_a_default_in_a_sentence_is_that_of_the_option() -> None:
    defaults = {name: one.default for one in every_option() for name in (one.flag, one.key)}
    told = [
        (name, default)
        for page in PAGES
        for name, default in re.findall(
            r"`(--llm-[a-z-]+|llm_[a-z_]+)(?:=[A-Z]+)?`(?: seconds)? \(([\d.]+)\)", text_of(page)
        )
    ]

    assert len(told) >= 8
    for name, default in told:
        assert defaults[name] == default, name
