"""The page of the API has all that a test may use, with arguments, results and errors."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import pytest_llmeval
from pytest_llmeval import errors, fixtures
from pytest_llmeval.models.function import Draw
from pytest_llmeval.models.llm import Usage
from tests.docs.pages import chapter, text_of
from tests.docs.stories.test_site import site

__all__ = ["site"]

PAGE = "docs/api.md"
MADE = re.findall(r"^::: (\S+)$", text_of(PAGE), re.MULTILINE)
OUTSIDE_THE_INIT = [fixtures.ScoreRecorder, Usage, Draw]


def test_the_page_has_every_public_name_and_what_they_hand_over() -> None:
    public = {f"pytest_llmeval.{name}" for name in pytest_llmeval.__all__}
    others = {f"{one.__module__}.{one.__qualname__}" for one in OUTSIDE_THE_INIT}

    assert set(MADE) == public | others
    assert len(MADE) == len(set(MADE))


def test_the_page_has_every_fixture_and_no_other(pytester: pytest.Pytester) -> None:
    shown = str(pytester.runpytest("--fixtures").stdout)
    section = shown.partition("fixtures defined from pytest_llmeval")[2].partition("\n----")[0]
    table = chapter(PAGE, "Fixtures").partition("\n\nThe clients")[0]
    first_cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)

    named = re.findall(r"`(\w+)`", " ".join(first_cells))
    assert sorted(named) == sorted(re.findall(r"^(\w+) --", section, re.MULTILINE))


def test_each_error_of_the_page_is_one_and_each_that_a_trial_meets_is_there() -> None:
    table = re.findall(r"^\| `(\w+)` \|", chapter(PAGE, "Errors"), re.MULTILINE)
    models = {one.__name__ for one in errors.ModelError.__subclasses__()}

    assert models | {"SettingsError", "ModelError", "ScoreError"} == set(table)


@pytest.mark.parametrize("name", MADE)
def test_an_entry_is_on_the_site_with_its_docstring(site: Path, name: str) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")

    assert f'id="{name}"' in page or f'id="{_home(name)}"' in page


def _home(name: str) -> str:
    found = getattr(pytest_llmeval, name.rpartition(".")[2])
    return f"{found.__module__}.{found.__qualname__}"


FUNCTIONS = [
    pytest_llmeval.cases_from, pytest_llmeval.sample_cases, pytest_llmeval.waiting,
    pytest_llmeval.Model.ask, pytest_llmeval.Model.chat, fixtures.ScoreRecorder.__call__,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__qualname__)
def test_each_argument_is_told(function: object) -> None:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    text = inspect.getdoc(function) or ""

    for name in set(signature.parameters) - {"self"}:
        assert re.search(rf"^    \**{name}: \S", text, re.MULTILINE), name
    if signature.return_annotation != "None":
        assert "\nReturns:\n" in text


def test_each_argument_of_the_mark_is_told() -> None:
    table = re.findall(
        r"^\| `([a-z_]+)` \|", chapter("docs/cases.md", "Arguments of the mark"), re.MULTILINE
    )
    text = inspect.getdoc(pytest_llmeval.llm_eval) or ""
    told = text.partition("Keyword Args:")[2].partition("Returns:")[0]

    assert re.findall(r"^    ([a-z_]+) \(", told, re.MULTILINE) == table


def test_each_attribute_of_a_record_is_told() -> None:
    for record in (pytest_llmeval.Reply, Usage, Draw):
        text = inspect.getdoc(record) or ""
        for name in record.__dataclass_fields__:
            assert re.search(rf"^    {name}: \S", text, re.MULTILINE), name
