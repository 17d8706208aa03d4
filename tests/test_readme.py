"""What the README shows is run: its tests, its options, its commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from pytest_llmeval.checks import CacheMode
from pytest_llmeval.models.llm import parse_model_name
from pytest_llmeval.settings import Option, every_option
from pytest_llmeval.vendors import VENDORS
from tests.project import Project

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
REPORT_FORMAT = (ROOT / "docs" / "report-format.md").read_text()

MODEL = '''
CAPITALS = {"France": "Paris", "Peru": "Lima"}


def answer(messages, **params):
    """Knows two capitals, and says everything else back."""
    question = messages[-1]["content"]
    return next((CAPITALS[name] for name in CAPITALS if name in question), question)
'''


def python_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def eval_blocks() -> list[str]:
    return [block for block in python_blocks(README) if "@llm_eval" in block]


def test_there_are_evals_to_try() -> None:
    assert len(eval_blocks()) == 4


@pytest.mark.parametrize("block", eval_blocks(), ids=["capitals", "summary", "async", "wordings"])
def test_every_eval_of_the_readme_runs(project: Project, block: str) -> None:
    project.write(model=MODEL, test_evals=block)

    result = project.run("-v")

    assert result.ret == 0
    assert "5/5 passed" in str(result.stdout)


def test_the_three_commands_of_the_readme_work(project: Project) -> None:
    project.write(model=MODEL, test_evals=eval_blocks()[0])
    project.commit()
    project.run()
    project.git("switch", "-c", "shorter-prompt")

    result, report = project.gate("--llm-baseline=main")

    assert result.ret == 0
    assert report["verdict"] == "unchanged"


def test_every_option_of_the_readme_exists_and_the_other_way_round(
    pytester: pytest.Pytester,
) -> None:
    help_text = str(pytester.runpytest("--help").stdout)
    offered = set(re.findall(r"--(?:no-)?llm-[a-z-]+", help_text))
    told = set(re.findall(r"`?(--(?:no-)?llm-[a-z-]+)", README))

    assert told - {"--llm-"} == offered


def test_the_table_of_the_readme_tells_of_each_option_what_its_row_says() -> None:
    section = README.partition("\n## Options")[2].partition("\n## ")[0]
    table = re.findall(r"^\| `(\S+?)`(?:, `\S+`)? \| (.*?) \|", section, re.MULTILINE)
    named = [option for option in every_option() if option.flag]

    assert sorted(usage.replace("\\", "") for usage, _ in table) == sorted(map(usage_of, named))
    defaults = {usage.partition("=")[0]: told.strip("`") for usage, told in table}
    for option in named:
        if isinstance(option.default, str):
            assert defaults[option.flag] == option.default


def usage_of(option: Option) -> str:
    """Write an option as the README does, which lists the modes of the cache."""
    return option.usage.replace("=MODE", f"={'|'.join(get_args(CacheMode))}")


def test_the_options_of_the_ini_file_alone_are_told_below_the_table() -> None:
    section = README.partition("\nIn the ini file alone:")[2].partition("\n## ")[0]
    keys = {option.key: option for option in every_option() if not option.flag}

    assert set(re.findall(r"`(llm_[a-z_]+)`", section)) == set(keys)
    for key, option in keys.items():
        if isinstance(option.default, str):
            assert f"`{key}` ({option.default}:" in section


def test_every_marker_argument_of_the_readme_exists(project: Project) -> None:
    section = README.partition("## Write an eval")[2].partition("\n## ")[0]
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


def test_every_fixture_of_the_readme_exists_and_the_other_way_round(
    pytester: pytest.Pytester,
) -> None:
    shown = str(pytester.runpytest("--fixtures").stdout)
    section = shown.partition("fixtures defined from pytest_llmeval")[2].partition("\n----")[0]
    offered = set(re.findall(r"^(\w+) --", section, re.MULTILINE))
    table = README.partition("## What a test can ask for")[2].partition("\n## ")[0]

    assert set(re.findall(r"`(\w+)`(?= \|)", table)) == offered


def test_every_provider_of_the_readme_exists_and_the_other_way_round() -> None:
    section = README.partition("## Name a model")[2].partition("\n## ")[0]
    table = re.findall(r"^\| `([a-z]+)` \| `([^`]+)`", section, re.MULTILINE)

    assert {parse_model_name(example).provider for _, example in table} == {"function", *VENDORS}
    assert {provider for provider, _ in table} == {"function", *VENDORS}


def test_the_files_that_the_readme_links_to_exist() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_snippet_of_the_report_format_runs(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.run("--llm-report=report.json")
    monkeypatch.chdir(project.path)
    (snippet,) = python_blocks(REPORT_FORMAT)

    exec(compile(snippet, "snippet", "exec"), {})  # noqa: S102 - the manual's own lines

    assert "test_evals.py::test_says_yes not_gated" in capsys.readouterr().out


def test_every_key_of_the_report_is_told(project: Project) -> None:
    project.run()
    _, report = project.gate("--llm-baseline=main")
    (function,) = report["functions"]
    told = set(re.findall(r"`([a-z_]+)`", REPORT_FORMAT))

    keys = set(report) | set(function) | set(function["compared"][0]) | set(report["run"])
    assert keys | set(report["baseline"]) | set(report["settings"]) <= told | {"id"}
    assert json.loads((project.path / "out" / "report.json").read_text()) == report
