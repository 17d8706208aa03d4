"""The branch changes a test or its inputs: that is named beside the verdict, which stands."""

from __future__ import annotations

import json
import re
from gzip import decompress
from pathlib import Path

import pytest

from tests.project import INI, Project, made_once

EVALS = """
import pytest
from pytest_llmeval import llm_eval

SECRET = "the input of Peru"


def is_good(text):
    return "yes" in text


@pytest.mark.parametrize("case", [
    pytest.param({"of": SECRET}, id="Peru"),
    *(pytest.param({"of": name}, id=name) for name in ("Chad", "Iran", "Cuba", "Mali", "Oman")),
])
@llm_eval(repeats=5)
def test_a(llm, case):
    assert is_good(llm.ask("Say yes. rate=1").text)


@llm_eval(repeats=5)
def test_b(llm):
    assert "yes" in llm.ask("Say yes. rate=1").text
"""
A = "test_evals.py::test_a"


def record(project: Project) -> None:
    project.write(test_evals=EVALS)
    project.commit()
    assert project.run().ret == 0
    project.git("switch", "-qc", "branch")


@pytest.fixture
def main(pytester: pytest.Pytester, originals: Path) -> Project:
    return made_once(originals / "changed-tests", pytester, record)


def header(path: Path) -> dict[str, object]:
    return json.loads(decompress(path.read_bytes()).splitlines()[0])


def changes(report: dict[str, list[dict[str, object]]]) -> dict[object, tuple[object, object]]:
    return {
        one["function"]: (one["test_changed"], one["inputs_changed"]) for one in report["functions"]
    }


def test_a_changed_scorer_is_named_and_gated(main: Project) -> None:
    main.write(test_evals=EVALS.replace('"yes" in text', '"YES" in text'))

    result, report = main.gate("--llm-baseline=main")

    assert (result.ret, report["verdict"]) == (1, "regressed")
    result.stdout.fnmatch_lines(["*test_a: its test changed"])
    result.stdout.no_fnmatch_line("*test_b: its test changed")
    assert changes(report) == {A: (True, []), "test_evals.py::test_b": (False, [])}


def test_a_changed_input_is_named_and_its_case_is_not_compared(main: Project) -> None:
    main.write(test_evals=EVALS.replace("the input of Peru", "another"))

    result, report = main.gate("--llm-baseline=main")

    assert (result.ret, report["verdict"]) == (0, "unchanged")
    result.stdout.fnmatch_lines(["*1 case was edited: test_a[[]Peru[]] of 'another', was 'the *"])
    assert changes(report)[A] == (False, [])
    assert report["functions"][0]["cases"] == 5


def test_a_test_that_was_renamed_or_described_has_not_changed(main: Project) -> None:
    renamed = EVALS.replace("test_a(llm, case):\n", 'test_c(llm, case):\n    """Yes."""\n')
    main.write(test_evals=renamed, pytest_ini=f"{INI}llm_renamed = {A} -> test_evals.py::test_c\n")

    result, report = main.gate("--llm-baseline=main")

    assert result.ret == 0
    assert list(changes(report).values()) == [(False, []), (False, [])]
    assert [one["line"] for one in report["functions"]] == [12, 22]


def test_digests_and_places_stand_in_the_run_file_and_no_text_of_a_test_does(main: Project) -> None:
    first = header(main.runs()[0])

    assert main.run("-n2", "-p", "xdist").ret == 0

    again = header(main.runs()[-1])
    assert first["tests"] == again["tests"]
    assert set(first["tests"]) == {A, "test_evals.py::test_b"}  # type: ignore[call-overload]
    assert first["places"] == again["places"]
    assert first["places"] == {A: "test_evals.py:12", "test_evals.py::test_b": "test_evals.py:21"}
    whole = decompress(main.runs()[0].read_bytes()).decode()
    for text in ("the input of Peru", "is_good", "Say yes"):
        assert text not in whole


def test_a_drop_that_is_meant_passes_until_main_has_the_line(main: Project) -> None:
    """The section prints the line that lets it pass."""
    worse = EVALS.replace('"yes" in text', '"YES" in text')
    main.write(test_evals=worse)
    printed = main.run("--llm-baseline=main").stdout.str()
    (line,) = re.findall(
        r"to accept it, add to the ini file(?: \(.*\))?  (llm_accept = test_a:pass >= \S+)\n",
        printed,
    )
    main.write(pytest_ini=f"{INI}{line}\n")
    accepted = main.commit()

    result, report = main.gate("--llm-baseline=main")

    assert (result.ret, report["verdict"], report["fails"]) == (0, "regressed", False)
    assert [one["accepted"] for one in report["functions"]] == [True, False]
    result.stdout.fnmatch_lines(["regressed, accepted  test_a *", "*(accepted by llm_accept)"])

    main.git("switch", "-q", "main")
    main.write(test_evals=EVALS + "\n", readme_txt="Read me.\n")
    main.commit()
    assert main.run().ret == 0
    main.git("switch", "-qc", "later")
    main.git("cherry-pick", "-n", "-X", "theirs", accepted)
    main.commit()
    assert main.run("--llm-baseline=main").ret == 0, "main has moved on"
    main.git("branch", "-f", "main")

    main.write(test_evals=worse.replace('"YES" in text', '"yes" in text'))
    main.commit()
    main.run()  # the next main is as good as the first, and has the line
    main.git("branch", "-f", "main")
    main.write(test_evals=worse)
    main.commit()
    later = main.run("--llm-baseline=main")
    assert later.ret == 1, "the line was merged, so it lets nothing pass any more"
    later.stdout.no_fnmatch_line("note: llm_accept*")
    assert f"{line}\n" not in later.stdout.str()
