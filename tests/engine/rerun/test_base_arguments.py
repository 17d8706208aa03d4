"""The other pytest is given what was typed, but what only this session is to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_llmeval.engine.rerun.base_arguments import BaseArguments, base_arguments
from pytest_llmeval.engine.rerun.relocation import Relocation
from pytest_llmeval.pytest_options import started


@pytest.fixture
def trees(pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory) -> Relocation:
    """A checkout, which is the working directory, and a worktree that lacks a file of it."""
    trees = Relocation(pytester.path, tmp_path_factory.mktemp("tmp") / "tree")
    for name in ("test_a.py", "test_b.py", "inner/test_c.py", "pytest.ini"):
        for top in (trees.checkout, trees.worktree):
            if (top, name) != (trees.worktree, "test_b.py"):
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).touch()
    return trees


def given(pytester: pytest.Pytester, trees: Relocation, *typed: str | Path) -> BaseArguments:
    config = pytester.parseconfig(*typed)
    directory = trees.checkout / ".llmeval"
    begun = started(config)
    return base_arguments(config, begun.parser, trees, typed=begun.typed, directory=directory)


def kept(pytester: pytest.Pytester, trees: Relocation, *typed: str | Path) -> list[str]:
    """What is passed on of what was typed, before what is added."""
    arguments = list(given(pytester, trees, *typed).arguments)
    end = next(at for at, one in enumerate(arguments) if one.startswith("--rootdir="))
    # pytester adds an option of its own
    return [one for one in arguments[:end] if not one.startswith("--basetemp")]


def test_paths_are_those_of_the_worktree(pytester: pytest.Pytester, trees: Relocation) -> None:
    typed = ("test_a.py", "./inner/../test_a.py", trees.checkout / "inner")
    place = str(trees.worktree / "test_a.py")
    assert kept(pytester, trees, *typed) == [place, place, str(trees.worktree / "inner")]


def test_a_node_id_becomes_its_file(pytester: pytest.Pytester, trees: Relocation) -> None:
    assert kept(pytester, trees, "test_a.py::TestIt::test_it[a::b]") == [
        str(trees.worktree / "test_a.py")
    ]


def test_a_path_that_is_not_there_is_dropped(pytester: pytest.Pytester, trees: Relocation) -> None:
    found = given(pytester, trees, "test_b.py::test_it", "test_a.py")
    assert found.dropped == ("test_b.py::test_it",)
    assert found.has_tests
    assert not given(pytester, trees, "test_b.py").has_tests
    assert given(pytester, trees).has_tests


def test_the_value_of_an_option_is_no_path(pytester: pytest.Pytester, trees: Relocation) -> None:
    assert kept(pytester, trees, "-k", "test_b.py", "test_b.py", "--tb", "short") == [
        *("-k", "test_b.py", "--tb", "short")
    ]


def test_a_number_may_be_a_path_too(pytester: pytest.Pytester, trees: Relocation) -> None:
    (trees.checkout / "2").mkdir()
    assert kept(pytester, trees, "--maxfail", "2", "2") == ["--maxfail", "2"]


def test_a_path_elsewhere_stays(
    pytester: pytest.Pytester, trees: Relocation, tmp_path: Path
) -> None:
    pytester.path.parent.joinpath("elsewhere").mkdir(exist_ok=True)
    assert kept(pytester, trees, "../elsewhere") == ["../elsewhere"]


def test_paths_of_other_options_are_moved_where_something_is(
    pytester: pytest.Pytester, trees: Relocation
) -> None:
    here = trees.checkout
    typed = (f"--ignore={here / 'inner'}", "--confcutdir", here, f"--ignore={here / 'test_b.py'}")
    assert kept(pytester, trees, *typed) == [
        f"--ignore={trees.worktree / 'inner'}",
        "--confcutdir",
        str(trees.worktree),
        f"--ignore={here / 'test_b.py'}",
    ]


def test_what_goes_by_the_last_session_is_left_out(
    pytester: pytest.Pytester, trees: Relocation
) -> None:
    assert kept(pytester, trees, "--lf", "--sw", "--llm-missed", "--pdb", "-q") == ["-q"]


def test_files_of_this_session_are_not_written_over(
    pytester: pytest.Pytester, trees: Relocation
) -> None:
    typed = ("--junitxml=a.xml", "--log-file=a.log", "--basetemp=tmp", "-x")
    arguments = given(pytester, trees, *typed).arguments
    scratch = trees.worktree.parent
    for undone in (
        "--junitxml=",
        f"--log-file={os.devnull}",
        "--maxfail=0",
        f"--basetemp={scratch / 'basetemp'}",
        f"cache_dir={scratch / 'cache'}",
        f"--llm-dir={trees.checkout / '.llmeval'}",
    ):
        assert arguments.index(undone) > arguments.index("-x")


def test_nothing_is_taken_back_that_was_not_asked_for(
    pytester: pytest.Pytester, trees: Relocation
) -> None:
    arguments = given(pytester, trees, "-p", "no:cacheprovider", "-p", "no:junitxml").arguments
    assert not [one for one in arguments if "junitxml=" in one or "cache_dir" in one]


def test_options_stand_before_the_end_of_options(
    pytester: pytest.Pytester, trees: Relocation
) -> None:
    arguments = given(pytester, trees, "--", "test_a.py").arguments
    assert arguments[-2:] == ("--", str(trees.worktree / "test_a.py"))


def test_a_file_of_arguments_is_opened(pytester: pytest.Pytester, trees: Relocation) -> None:
    (trees.checkout / "args.txt").write_text("-q\ntest_b.py\n@more.txt\n")
    (trees.checkout / "more.txt").write_text("--tb=short\n")
    assert kept(pytester, trees, "@args.txt") == ["-q", "--tb=short"]


def test_it_is_that_of_the_commit_where_there_is_one(
    pytester: pytest.Pytester, trees: Relocation
) -> None:
    (trees.checkout / "args.txt").write_text("-k\nwhat_has_not_fallen\n")
    (trees.worktree / "args.txt").write_text("-q\n")
    assert kept(pytester, trees, "@args.txt") == ["-q"]


def test_an_ini_file_elsewhere_is_used_there_too(
    pytester: pytest.Pytester,
    trees: Relocation,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", f"--rootdir={trees.checkout}")
    ini = tmp_path_factory.mktemp("config") / "pytest.ini"
    ini.write_text("[pytest]\n")
    arguments = given(pytester, trees, f"--config-file={ini}", "test_a.py").arguments
    assert arguments[arguments.index("-c") + 1] == str(ini)
    assert f"--rootdir={trees.worktree}" in arguments


def test_packages_are_left_to_be_found(pytester: pytest.Pytester, trees: Relocation) -> None:
    assert kept(pytester, trees, "--pyargs", "json.tool", "test_a.py") == [
        *("--pyargs", "json.tool", str(trees.worktree / "test_a.py"))
    ]
