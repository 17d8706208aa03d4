"""A line that a session prints, pasted into the ini file that it has."""

from __future__ import annotations

import re

import pytest

from tests.project import Project


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
    project.commit()
    project.run()
    project.git("switch", "-qc", "branch")
    tests = project.path / "test_evals.py"
    tests.write_text(tests.read_text().replace("test_says_yes", "test_agrees"))
    project.commit()

    result, _ = project.gate("--llm-baseline=main")
    assert result.ret == 1
    line = re.search(r"in the ini file  (llm_renamed = .*?)  if", str(result.stdout))
    assert line is not None
    (project.path / file).write_text(f"{ini}{line[1]}\n")
    project.commit()

    _, report = project.gate("--llm-baseline=main")
    assert report["verdict"] == "unchanged"
