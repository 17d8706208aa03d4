"""A line that a session prints, pasted into the ini file that it has."""

from __future__ import annotations

import re

import pytest

from tests.project import EVALS, Project, make_project


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    project = make_project(pytester)
    project.write(test_evals=EVALS.replace("repeats=5", "repeats=1"))
    return project


def rename_on_a_branch(project: Project) -> None:
    """Record main, and rename its test on a branch."""
    project.commit()
    project.run()
    project.git("switch", "-qc", "branch")
    tests = project.path / "test_evals.py"
    tests.write_text(tests.read_text().replace("test_says_yes", "test_agrees"))
    project.commit()


@pytest.mark.parametrize(
    ("file", "head"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]"),
        ("pytest.toml", "[pytest]"),
        ("pytest.ini", "[pytest]"),
    ],
)
def test_a_new_name_is_told_in_the_form_of_the_file(project: Project, file: str, head: str) -> None:
    ini = f'{head}\nllm_model = "function/model:answer"\npythonpath = ["."]\n'
    if file == "pytest.ini":
        ini = f"{head}\nllm_model = function/model:answer\npythonpath = .\n"
    (project.path / "pytest.ini").unlink()
    (project.path / file).write_text(ini)
    rename_on_a_branch(project)

    result, _ = project.gate("--llm-baseline=main")
    assert result.ret == 1
    line = re.search(r"in the ini file  (llm_renamed = .*?)  if", str(result.stdout))
    assert line is not None
    (project.path / file).write_text(f"{ini}{line[1]}\n")
    project.commit()

    _, report = project.gate("--llm-baseline=main")
    assert report["verdict"] == "unchanged"


def test_a_second_entry_is_not_told_as_a_second_key(project: Project) -> None:
    ini = project.path / "pytest.ini"
    ini.write_text(f"{ini.read_text()}llm_renamed = a.py -> b.py\n")
    rename_on_a_branch(project)

    result, _ = project.gate("--llm-baseline=main")
    line = r"in the ini file  (\S.*?)  in a line of its own below llm_renamed"
    told = re.search(line, result.stdout.str())
    assert told is not None
    ini.write_text(ini.read_text().replace("a.py -> b.py", f"a.py -> b.py\n    {told[1]}"))
    project.commit()

    _, report = project.gate("--llm-baseline=main")
    assert report["verdict"] == "unchanged"
