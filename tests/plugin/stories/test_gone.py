"""Functions that the baseline has and the session does not: named, and whose doing it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugin.stories.test_selection import FLAKY, MARKED, TWO, begin, configure
from tests.project import Project, made_once

TYPED = [
    ("-k", "test_two or test_three or test_four"),
    ("--deselect=test_evals.py::test_one",),
    ("test_evals.py::test_two", "evals"),
]


def record(project: Project) -> None:
    begin(project)
    assert project.run().ret == 0
    project.git("switch", "-qc", "branch")


@pytest.fixture
def main(pytester: pytest.Pytester, originals: Path) -> Project:
    """Four functions of evals in two files, recorded, and a branch begun."""
    return made_once(originals / "gone", pytester, record)


@pytest.mark.parametrize("typed", TYPED, ids=["k", "deselect", "paths"])
def test_what_the_user_left_out_is_named_and_fails_a_strict_gate(
    main: Project, typed: tuple[str, ...]
) -> None:
    result, report = main.gate("--llm-baseline=main", *typed)

    assert (result.ret, report["verdict"]) == (0, "unchanged")
    function = {"function": "test_evals.py::test_one", "name": "test_one"}
    assert report["not_judged"] == [{**function, "cases": 4, "why": "deselected"}]
    result.stdout.fnmatch_lines(["not judged: test_one (4 cases, deselected)"])
    assert main.run("--llm-baseline=main", "--llm-strict", *typed).ret == 1


def test_the_folder_where_pytest_was_started_counts_as_typed(
    main: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(main.path / "evals")

    result = main.run("--llm-baseline=main")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["not judged: *test_one (4 cases, deselected), *test_two (2 cases, deselected)"]
    )


LEFT_OUT = {
    "addopts": {"pytest_ini": f"{MARKED}addopts = -k 'not test_one'\n"},
    "testpaths": {"pytest_ini": f"{MARKED}testpaths = evals\n"},
    "conftest": {"conftest": "collect_ignore = ['test_evals.py']\n"},
    "hook": {
        "conftest": "def pytest_collection_modifyitems(items):\n"
        "    items[:] = [item for item in items if 'test_one' not in item.nodeid]\n"
    },
    "removed": {"test_evals": TWO.replace("def test_one", "def one")},
}


@pytest.mark.parametrize("how", LEFT_OUT)
def test_what_the_branch_left_out_is_not_comparable(main: Project, how: str) -> None:
    main.write(**LEFT_OUT[how])
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    assert result.ret == 1
    verdicts = {one["function"]: one["verdict"] for one in report["functions"]}
    assert verdicts["test_evals.py::test_one"] == "not_comparable"
    assert report["not_judged"] == []
    result.stdout.fnmatch_lines(
        [
            "NOT COMPARABLE  test_one*",
            "test_one: not comparable: * llm_renamed = test_evals.py::test_one -> NEW_NODE_ID * "
            "llm_accept_gone = test_evals.py::test_one *",
        ]
    )


def test_what_the_environment_left_out_was_not_typed(
    main: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--ignore=evals")

    result, report = main.gate("--llm-baseline=main")

    assert (result.ret, report["verdict"]) == (1, "not_comparable")


@pytest.mark.parametrize("typed", [("evals",), ("-k", "test_two or test_three")])
def test_nobody_leaves_out_a_file_that_is_not_there_any_more(
    main: Project, typed: tuple[str, ...]
) -> None:
    (main.path / "test_evals.py").rename(main.path / "evals" / "check_evals.py")
    main.commit()

    result, report = main.gate("--llm-baseline=main", *typed)

    assert (result.ret, report["verdict"]) == (1, "not_comparable")
    gone = {one["function"]: one["verdict"] for one in report["functions"]}
    assert gone["test_evals.py::test_one"] == "not_comparable"
    assert "test_evals.py::test_one" not in [one["function"] for one in report["not_judged"]]


@pytest.mark.parametrize("line", ["-k\ntest_two or test_three or test_four", "evals"])
def test_what_a_file_of_arguments_left_out_was_not_typed(main: Project, line: str) -> None:
    (main.path / "ci.args").write_text(line)

    result, report = main.gate("--llm-baseline=main", "@ci.args")

    assert (result.ret, report["verdict"]) == (1, "not_comparable")


def test_an_expression_in_a_file_of_arguments_was_not_typed(main: Project) -> None:
    (main.path / "expression").write_text("not test_one")

    result, report = main.gate("--llm-baseline=main", "-k", "@expression", "test_evals.py", "evals")

    assert (result.ret, report["verdict"]) == (1, "not_comparable")


def test_a_session_that_stopped_names_what_it_never_came_to(main: Project) -> None:
    main.write(test_evals=TWO.replace("    assert", "    raise RuntimeError\n    assert", 1))

    result, _ = main.gate("--llm-baseline=main", "-x")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["not judged: *test_two (2 cases, not run)*"])


def test_a_renamed_function_is_paired_case_by_case(main: Project) -> None:
    main.write(test_evals=TWO.replace("test_one", "test_first"))
    main.commit()
    result = main.run("--llm-baseline=main")
    assert result.ret == 1
    renamed = "llm_renamed = test_evals.py::test_one -> test_evals.py::test_first"
    result.stdout.fnmatch_lines([f"test_one: not comparable: *{renamed}  if it was renamed*"])

    configure(main, renamed)
    result, report = main.gate("--llm-baseline=main")

    assert (result.ret, report["verdict"]) == (0, "unchanged")
    assert len(report["functions"]) == 4
    result.stdout.fnmatch_lines(
        [
            "unchanged (all replayed, nothing new was measured): 4 functions vs main@???????",
            "note: 4 cases are paired under new names, as llm_renamed says",
        ]
    )


def test_a_file_that_moved_is_paired_too(main: Project) -> None:
    (main.path / "evals").rename(main.path / "checks")
    configure(main, "llm_renamed = evals -> checks")

    _, report = main.gate("--llm-baseline=main")

    assert report["verdict"] == "unchanged"
    assert {one["verdict"] for one in report["functions"]} == {"unchanged"}


def test_a_function_that_was_given_up_is_gone(main: Project) -> None:
    main.write(test_evals=TWO.replace("def test_one", "def one"))
    configure(main, "llm_accept_gone =\n    test_one\n    test_other")

    result, report = main.gate("--llm-baseline=main", "--llm-strict")

    assert result.ret == 0
    assert report["functions"][-1]["verdict"] == "gone"
    result.stdout.fnmatch_lines(
        ["note: llm_accept_gone names 'test_other', and nothing of that name is gone*"]
    )


def test_a_new_name_for_nothing_is_told(main: Project) -> None:
    configure(main, "llm_renamed = test_evals.py::test_on -> test_evals.py::test_off")

    result = main.run("--llm-baseline=main")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["note: llm_renamed names 'test_evals.py::test_on', *"])


def test_a_line_that_main_had_already_gives_up_nothing_that_goes_later(main: Project) -> None:
    main.git("switch", "-q", "main")
    configure(main, "llm_accept_gone = test_one")
    assert main.run().ret == 0
    main.git("switch", "-qc", "later")
    main.write(test_evals=TWO.replace("def test_one", "def one"))
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    assert (result.ret, report["verdict"]) == (1, "not_comparable")
    result.stdout.fnmatch_lines(
        [
            "test_one: not comparable: *, or  test_evals.py::test_one  in a line of its own *",
            "note: llm_accept_gone names 'test_one', which has no effect: * had that line *",
        ]
    )
    configure(main, "llm_accept_gone = test_evals.py::test_one")
    assert main.run("--llm-baseline=main").ret == 0


def test_a_new_name_that_nothing_has_is_told(main: Project) -> None:
    main.write(test_evals=TWO.replace("def test_one", "def one"))
    configure(main, "llm_renamed = test_evals.py::test_one -> NEW_NODE_ID")

    result = main.run("--llm-baseline=main")

    assert result.ret == 1
    told = "note: llm_renamed says * -> NEW_NODE_ID, and NEW_NODE_ID is not here: correct the line"
    result.stdout.fnmatch_lines([told])


def test_a_line_whose_new_name_main_has_is_not_to_be_corrected(main: Project) -> None:
    main.write(test_evals=TWO.replace("def test_one", "def one"))
    configure(main, "llm_renamed = test_old.py::test_one -> test_evals.py::test_one")

    result = main.run("--llm-baseline=main")

    assert result.ret == 1
    result.stdout.no_fnmatch_line("note: llm_renamed*")


def test_a_line_left_behind_renames_nothing(main: Project) -> None:
    # every branch was exit 4 as soon as main had a new test with the old name
    left = "test_evals.py::test_two -> test_evals.py::test_one"
    configure(main, f"llm_renamed = {left}")

    result, report = main.gate("--llm-baseline=main")

    assert (result.ret, report["verdict"]) == (0, "unchanged")
    result.stdout.no_fnmatch_line("note: llm_renamed*")


def test_a_test_that_is_still_here_cannot_be_renamed_away(main: Project) -> None:
    """Else a copy that asks what main asked takes the baseline of a test that fell."""
    copy = TWO.replace("test_one", "test_old").replace("def test_two", "def two")
    main.write(test_evals=TWO + copy)
    configure(main, "llm_renamed = test_evals.py::test_one -> test_evals.py::test_old")

    result, report = main.gate("--llm-baseline=main")

    verdicts = {one["function"].partition("::")[2]: one["verdict"] for one in report["functions"]}
    assert (verdicts["test_one"], verdicts["test_old"]) == ("unchanged", "new")
    result.stdout.fnmatch_lines(
        ["*llm_renamed renames test_evals.py::test_one*which is still here: it keeps its name"]
    )


def test_all_cases_of_a_function_are_renamed_by_one_line(main: Project) -> None:
    renamed = TWO.replace('"a", "b", "c"', '"t-a", "t-b", "t-c"').replace('"d"', '"t-d"')
    main.write(test_evals=renamed)
    configure(main, "llm_renamed = test_evals.py::test_one[ -> test_evals.py::test_one[t-")
    _, report = main.gate("--llm-baseline=main")
    assert report["functions"][0]["cases"] == 4


def test_ids_that_hold_an_arrow_can_be_renamed(main: Project) -> None:
    main.write(test_evals=TWO.replace('"b"', '"b->b"'))
    configure(main, "llm_renamed = test_evals.py::test_one[b] -> test_evals.py::test_one[b->b]")

    _, report = main.gate("--llm-baseline=main")

    found = {one["function"]: one["cases"] for one in report["functions"]}
    assert found["test_evals.py::test_one"] == 4


def test_two_cases_of_one_name_are_a_mistake(main: Project) -> None:
    file = "test_evals.py::test_"
    lines = f"{file}one -> {file}five\n    {file}one[a] -> {file}five[b]"
    configure(main, f"llm_renamed =\n    {lines}")

    result = main.run("--llm-baseline=main")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: llm_renamed in the ini file: *would both be *"])


def test_cases_that_addopts_of_the_branch_leave_out_are_gone(main: Project) -> None:
    configure(main, "addopts = -k 'not b]'")

    result, report = main.gate("--llm-baseline=main")

    assert (result.ret, report["verdict"]) == (1, "not_comparable")
    result.stdout.fnmatch_lines(
        ["test_one: not comparable: 1 of the 4 cases scored *llm_max_gone*"]
    )
    assert main.run("--llm-baseline=main", "-k", "not b]").ret == 0


SHORTER = """
import pytest


def pytest_runtest_protocol(item):
    return True if item.nodeid.endswith({cases}) else None
"""
EXIT = """
import pytest


def pytest_runtest_setup(item):
    if item.name == "test_two[f]":
        pytest.exit("", returncode=0)
"""
UNRUN = {
    "some": (SHORTER.format(cases='("one[a]", "one[b]")'), "2 cases of test_one"),
    "a function": (SHORTER.format(cases='("four[e]", "four[f]")'), "2 cases of test_four"),
    "exit": (EXIT, "1 case of test_two, 4 cases of test_three, 2 cases of test_four"),
}


@pytest.mark.parametrize("how", UNRUN)
def test_cases_that_never_ran_fail_a_session_that_came_to_its_end(main: Project, how: str) -> None:
    conftest, told = UNRUN[how]
    main.write(conftest=conftest)
    main.commit()

    result, report = main.gate("--llm-baseline=main", "test_evals.py", "evals")

    assert (result.ret, report["fails"]) == (1, True)
    assert report["why"].startswith(f"not run: {told}: a conftest or a plugin ")
    assert main.run("test_evals.py", "evals").ret == 0  # nothing is judged there


def test_skipped_cases_and_xfailed_ones_have_run(main: Project) -> None:
    marked = TWO.replace('"a",', 'pytest.param("a", marks=pytest.mark.xfail(run=False)),')
    main.write(test_evals=marked.replace('"b",', 'pytest.param("b", marks=pytest.mark.skip),'))
    main.commit("marked")
    result, report = main.gate("--llm-baseline=main", "--llm-max-gone=0.5")
    assert (result.ret, report["why"]) == (0, "")


LEFT_TO_ADDOPTS = {
    "--lf": "--lf",
    "--sw": "--sw",
    "id": "test_evals.py::test_one[a] test_evals.py::test_two evals",
}


@pytest.mark.parametrize("how", LEFT_TO_ADDOPTS)
def test_what_addopts_choose_by_the_last_session_or_by_id_is_gone(main: Project, how: str) -> None:
    if how == "--lf":
        main.write(test_evals=FLAKY.replace("repeats=2", "repeats=2, min_score=0.5"))
        main.pytester.runpytest()  # leaves what a branch could commit
        main.write(test_evals=TWO)
    elif how == "--sw":
        path = main.path / ".pytest_cache" / "v" / "cache"
        path.mkdir(parents=True)
        stepwise = {"last_failed": "test_evals.py::test_one[d]", "last_test_count": 12}
        stepwise["last_cache_date_str"] = "2030-01-01T00:00:00"
        (path / "stepwise").write_text(json.dumps(stepwise))
    configure(main, f"addopts = {LEFT_TO_ADDOPTS[how]}")
    arguments = ("--llm-baseline=main", "--llm-report=out/report.json")

    result = main.pytester.runpytest(*arguments)

    report = json.loads((main.path / "out" / "report.json").read_text())
    found = {one["function"]: one["verdict"] for one in report["functions"]}
    assert result.ret == 1
    assert found["test_evals.py::test_one"] == "not_comparable"
    assert report["not_judged"] == []


def test_a_part_that_was_typed_is_judged_and_fails_a_strict_gate(main: Project) -> None:
    typed = ("--llm-baseline=main", "test_evals.py::test_one[a]", "evals")
    result, report = main.gate(*typed)
    one = next(one for one in report["functions"] if one["function"] == "test_evals.py::test_one")
    assert (result.ret, one["verdict"], one["partial"]) == (0, "unchanged", True)

    result, report = main.gate(*typed, "--llm-strict")

    assert result.ret == 1
    assert report["why"] == (
        "test functions of the baseline not judged: 1; partial: 1 of 4 cases of test_one "
        "(--llm-strict)"
    )
