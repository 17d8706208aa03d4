"""The files of a commit that may hold evals, and those that a selection leaves out."""

from __future__ import annotations

import pytest

from pytest_llmeval.runs.sharing.suite_files import suite_files, unreached

EVAL = "from pytest_llmeval import llm_eval\n"


@pytest.fixture
def suite(project):
    files = {
        "evals/test_a.py": EVAL,
        "evals/deep/test_b.py": EVAL,
        "evals/helper.py": EVAL,
        "evals/check_c.py": EVAL,
        "tests/test_unit.py": "",
        "marked/conftest.py": EVAL,
        "marked/test_wörd.py": "",
    }
    for name, text in files.items():
        (project.top / name).parent.mkdir(parents=True, exist_ok=True)
        (project.top / name).write_text(text)
    project.commit()
    return project


def files_of(project, **changes):
    return suite_files(project.head, **{"top": project.top, "root": ".", **changes})


def test_test_files_that_name_the_marker_or_lie_below_a_conftest_that_does(suite):
    assert files_of(suite) == (
        "evals/deep/test_b.py",
        "evals/test_a.py",
        "marked/test_wörd.py",
        "test_evals.py",
    )


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"root": "evals"}, ("deep/test_b.py", "test_a.py")),
        ({"testpaths": ["evals/deep"]}, ("evals/deep/test_b.py",)),
        ({"patterns": ["check_*.py"]}, ("evals/check_c.py",)),
        ({"patterns": ["deep/*.py"]}, ("evals/deep/test_b.py",)),
        ({"root": "tests"}, ()),
        ({"root": "tests", "patterns": ["*"]}, ()),
    ],
)
def test_the_ini_file_decides_which_are_looked_at(suite, changes, wanted):
    assert files_of(suite, **changes) == wanted


def test_of_a_commit_that_is_not_here_nothing_is_known(suite):
    assert suite_files("ab" * 20, top=suite.top, root=".") is None


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        ((), ()),
        (("evals/test_a.py",), ("evals/deep/test_b.py", "marked/test_c.py")),
        (("evals", "marked"), ()),
        (("evals", "--ignore=marked"), ()),
        (("evals", "--ignore-glob=*_c.py"), ()),
        (("evals", "--deselect=marked"), ("marked/test_c.py",)),
    ],
)
def test_files_that_no_path_reaches_are_listed(selection, wanted):
    files = ("evals/deep/test_b.py", "evals/test_a.py", "marked/test_c.py")
    assert unreached(files, selection=selection) == wanted
