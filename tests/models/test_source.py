"""Digests of test functions: what changes one, and what does not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_llmeval.models.source import SourceFiles

FILE = '''
"""Evals."""
import pytest
from pytest_llmeval import llm_eval

@pytest.fixture
def judge():
    return strict

def strict(text):
    """Score a text."""
    return float("please" in text)

def unused(text):
    return 1.0

@llm_eval(repeats=5)
@pytest.mark.parametrize("tone", ["warm", "cold"])
def test_polite(llm, judge, tone):
    # asks for a tone
    assert judge(llm.ask(f"Be {tone:>{9}}").text) > 0.5

class TestTone:
    def score(self, text):
        return len(text)

    def test_long(self, llm, more=[]):
        assert self.score(llm.ask("Talk").text) > 10
'''


def digest(source: str, tmp_path: Path, name: str = "test_polite") -> str | None:
    path = tmp_path / "test_it.py"
    path.write_text(source)
    return SourceFiles().digest(print, file=path, name=name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("> 0.5", "> 0.6"),
        ('"please" in text', '"thank" in text'),
        ("return strict", "return unused"),
        ("def test_polite(llm, judge, tone)", "def test_polite(llm, judge, tone='warm')"),
        ("@llm_eval(repeats=5)\n", "@llm_eval(repeats=5)\n@twice\n"),
    ],
    ids=["body", "helper of a fixture", "fixture", "arguments", "decorator"],
)
def test_an_edit_of_the_test_or_of_what_it_names_in_its_file_changes_it(
    old: str, new: str, tmp_path: Path
) -> None:
    assert old in FILE
    assert digest(FILE, tmp_path) != digest(FILE.replace(old, new), tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# asks for a tone", '"""Ask for a tone."""'),
        ('"""Score a text."""', ""),
        ("repeats=5", "repeats=9, min_score=0.5"),
        ('["warm", "cold"]', '["warm", "dry"]'),
        ("return 1.0", "return 2.0"),
        ("@pytest.fixture\n", "@pytest.fixture(scope='session')\n"),
    ],
    ids=["docstring", "docstring of a helper", "marker", "parameters", "another test's", "scope"],
)
def test_what_is_no_change_of_the_test_leaves_it(old: str, new: str, tmp_path: Path) -> None:
    assert old in FILE
    assert digest(FILE, tmp_path) == digest(FILE.replace(old, new), tmp_path)


def test_a_test_that_is_renamed_keeps_its_digest(tmp_path: Path) -> None:
    renamed = FILE.replace("test_polite", "test_is_polite")
    assert digest(FILE, tmp_path) == digest(renamed, tmp_path, "test_is_polite")


def test_methods_count_that_a_method_calls(tmp_path: Path) -> None:
    other = FILE.replace("len(text)", "len(text.split())")
    assert digest(FILE, tmp_path, "TestTone.test_long") != digest(
        other, tmp_path, "TestTone.test_long"
    )
    assert digest(FILE, tmp_path) == digest(other, tmp_path)


def test_no_version_of_python_words_it_otherwise(tmp_path: Path) -> None:
    """Python 3.13 leaves empty fields out of a dump, and 3.15 contexts."""
    found = digest(FILE, tmp_path), digest(FILE, tmp_path, "TestTone.test_long")
    assert found == (
        "067911078cda0b5c663dfa100000752f9030250a60273d3671aef25218e97fbd",
        "c34020015dc5a5492a14e80d7be35a6959992d61cee7fe6611c2b55a1c657992",
    )


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    def load(source: str) -> ModuleType:
        path = tmp_path / "made.py"
        path.write_text(source)
        loaded = ModuleType("made")
        exec(compile(source, str(path), "exec"), vars(loaded))  # noqa: S102 - our own code
        return loaded

    return load


MADE = """
import functools
from pytest_llmeval import llm_eval

def make(word):
    @functools.cache
    @llm_eval(repeats=2)
    def test_made(llm):
        assert word in llm.ask("Hi").text
    return test_made

test_it = make("hello")
"""


def test_a_test_that_a_factory_made_is_found_by_its_code(
    module: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    files = {"old": MADE, "new": MADE.replace("in llm", "not in llm")}
    found: dict[str, Any] = {}
    for name, source in files.items():
        function = functools.partial(module(source).test_it)
        file = tmp_path / "made.py"
        found[name] = SourceFiles().digest(function, file=file, name="test_it")
    assert None not in found.values()
    assert found["old"] != found["new"]


@pytest.mark.parametrize(
    ("source", "function"),
    [(None, print), ("def (", print), ("x = 1", print), ("x = 1", functools.partial(len))],
    ids=["no file", "no Python", "no such name", "builtin"],
)
def test_without_source_there_is_no_digest(
    source: str | None, function: Callable[..., object], tmp_path: Path
) -> None:
    path = tmp_path / "test_it.py"
    if source is not None:
        path.write_text(source)
    assert SourceFiles().digest(function, file=path, name="test_it") is None


def test_code_whose_lines_are_not_in_its_file_has_none(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text("x = 1\n")
    space: dict[str, Any] = {}
    exec(compile("\n\ndef f(): pass", str(path), "exec"), space)  # noqa: S102 - our own code
    assert SourceFiles().digest(space["f"], file=path, name="test_it") is None


def test_a_name_that_is_no_function_is_looked_for_by_code(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text("class test_it:\n    pass\n")
    assert SourceFiles().digest(print, file=path, name="test_it") is None


CONFTEST = '''
import pytest

RUBRIC = "Say A or B."
POINTS: dict[str, float] = {"A": 1.0}
UNUSED, STRICT = 1, 2

def ask(llm, text):
    return llm.ask(text, system=RUBRIC)

@pytest.fixture
def judge(llm):
    """Grade a reply."""
    return lambda text: POINTS[ask(llm, text).text]
'''


def fixture_digest(source: str, tmp_path: Path) -> str | None:
    path = tmp_path / "conftest.py"
    path.write_text(source)
    module = ModuleType("conftest")
    bare = source.replace("@pytest.fixture", "@staticmethod")
    exec(compile(bare, path, "exec"), vars(module))  # noqa: S102 - the text above
    return SourceFiles().code_digest(module.judge.__wrapped__)


@pytest.mark.parametrize(
    ("old", "new"), [("Say A or B", "Say B"), ("1.0", "0.5"), ("llm.ask", "llm.a")]
)
def test_what_a_fixture_names_changes_it_also_a_constant(
    old: str, new: str, tmp_path: Path
) -> None:
    first = fixture_digest(CONFTEST, tmp_path)

    assert first is not None
    assert fixture_digest(CONFTEST.replace(old, new), tmp_path) != first


@pytest.mark.parametrize(
    ("old", "new"),
    [("= 1, 2", "= 3, 4"), ("Grade a", "Score a"), ("import pytest\n", "import pytest\n# a\n")],
)
def test_what_a_fixture_does_not_name_changes_nothing(old: str, new: str, tmp_path: Path) -> None:
    assert fixture_digest(CONFTEST.replace(old, new), tmp_path) == fixture_digest(
        CONFTEST, tmp_path
    )


def test_a_fixture_without_source_has_no_digest() -> None:
    assert SourceFiles().code_digest(print) is None
