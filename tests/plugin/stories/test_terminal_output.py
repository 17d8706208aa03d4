"""The section of a session has the width, the characters and the colours of its terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forked import run_forked
from tests.project import APP, EVALS, Project, made_once

WORSE = APP.replace("rate=0.8", "rate=0.2")
RED = "\x1b[31m\x1b[1m"


def record_both(project: Project) -> None:
    """Main, and a branch whose prompt is worse: what follows is replayed."""
    project.write(test_evals=EVALS.replace("range(20)", "range(8)"))
    project.commit()
    assert project.run().ret == 0
    project.git("switch", "-qc", "branch")
    project.write(app=WORSE)
    project.commit()
    assert project.run("--llm-baseline=main").ret == 1


@pytest.fixture
def branch(pytester: pytest.Pytester, originals: Path) -> Project:
    return made_once(originals / "both", pytester, record_both)


def section_of(result: pytest.RunResult) -> list[str]:
    start = next(at for at, line in enumerate(result.outlines) if " llm evals =" in line)
    end = next(at for at, line in enumerate(result.outlines) if line.startswith("! llm evals"))
    return result.outlines[start + 1 : end]


@pytest.mark.parametrize("verbosity", ["-q", "-v"])
def test_the_section_fits_a_narrow_terminal(
    branch: Project, monkeypatch: pytest.MonkeyPatch, verbosity: str
) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    lines = section_of(branch.run("--llm-baseline=main", verbosity))

    assert lines[0].startswith("REGRESSED: 1 function vs main@")
    assert max(map(len, lines)) <= 60
    assert ("beside a mean:" in "\n".join(lines)) == (verbosity == "-v")


def test_an_output_without_such_letters_has_plain_ones(
    branch: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setenv("COLUMNS", "100")

    lines = section_of(run_forked(branch.pytester, "--llm-baseline=main"))

    (row,) = [line for line in lines if line.startswith("REGRESSED  test_says_yes")]
    assert "--*--" in row
    assert "8 cases x 5 repeats | function/model:answer | 0 calls made" in "\n".join(lines)


@pytest.mark.parametrize(
    ("arguments", "variables", "coloured"),
    [
        (["--color=yes"], {}, True),
        (["--color=no"], {"FORCE_COLOR": "1"}, False),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ([], {}, False),  # no terminal
    ],
)
def test_the_colours_are_those_that_pytest_has(
    branch: Project,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    variables: dict[str, str],
    coloured: bool,
) -> None:
    for name in ("PY_COLORS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    output = str(branch.run("--llm-baseline=main", *arguments).stdout)

    assert f"{RED if coloured else ''}REGRESSED: 1 function vs main@" in output
    assert ("\x1b[" in output) == coloured
