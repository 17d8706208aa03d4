"""What a commit does not say makes a run dirty: it is no baseline for it."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.project import APP, EVALS, INI, Project

LATE = EVALS.replace("    assert", "    import wording\n    assert")


def header(project: Project) -> dict[str, Any]:
    with gzip.open(project.runs()[-1], "rt") as lines:
        found: dict[str, Any] = json.loads(next(lines))
    return found


def run(project: Project, *arguments: str) -> pytest.RunResult:
    return project.run("-q", "--llm-repeats=1", *arguments)


def test_a_module_that_is_imported_late_and_unknown_to_git(project: Project) -> None:
    project.write(test_evals=LATE)
    project.commit()
    project.write(wording="TONE = 'rude'")

    result = run(project)

    assert header(project)["dirty"] is True
    assert header(project)["unseen"] == ["wording.py"]
    result.stdout.fnmatch_lines(
        ["recorded * (not usable as a baseline: * wording.py, which git does not know: *"]
    )


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("conftest.py", ""),
        ("evals/conftest.py", ""),
        ("evals/test_more.py", "def test_more(): pass"),
        ("pytest.toml", ""),
    ],
)
def test_what_pytest_itself_reads_and_git_does_not_know(
    project: Project, file: str, text: str
) -> None:
    (project.path / "evals").mkdir()
    (project.path / "evals" / "test_plain.py").write_text("def test_plain(): pass")
    if file == "pytest.toml":
        project.git("rm", "-q", "pytest.ini")
        (project.path / "pytest.toml").write_text(
            '[pytest]\nllm_model = "function/model:answer"\npythonpath = ["."]\n'
        )
    project.commit()
    if file == "pytest.toml":
        project.git("rm", "-q", "--cached", file)
        project.git("commit", "-qm", "lose it")
    else:
        (project.path / file).write_text(text)

    run(project)

    assert header(project)["unseen"] == [file]


def test_a_run_that_used_such_a_module_is_no_baseline_and_says_why(project: Project) -> None:
    project.write(conftest="")
    run(project)
    project.git("switch", "-qc", "branch")

    result = run(project, "--llm-baseline=main")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "*dirty: git did not look at conftest.py",
            "       First:  git add conftest.py and commit, or name it in .gitignore",
            "       Record one:  pytest *",
        ]
    )


def test_what_is_ignored_installed_or_not_imported_does_not_matter(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = project.path / "lib" / "site-packages"
    environment = project.path / "env"
    for folder in (installed, environment):
        folder.mkdir(parents=True)
        monkeypatch.syspath_prepend(folder)
    (installed / "wording.py").touch()
    (environment / "tones.py").touch()
    monkeypatch.setattr(sys, "prefix", str(environment))
    (project.path / ".gitignore").write_text("ignored.py\n__pycache__/\ncalls.log\n")
    project.write(
        test_evals=LATE.replace("wording", "wording, tones, ignored, tracked"), tracked=""
    )
    project.commit()
    project.write(ignored="", unused="")

    run(project)

    assert header(project)["dirty"] is False
    assert "unseen" not in header(project)


@pytest.mark.parametrize("flag", ["assume-unchanged", "skip-worktree"])
def test_a_file_that_git_was_told_not_to_look_at(project: Project, flag: str) -> None:
    project.git("update-index", f"--{flag}", "app.py")
    project.write(app=APP.replace("0.8", "0"))

    result = run(project)

    assert header(project)["dirty"] is True
    assert header(project)["unseen"] == ["app.py"]
    result.stdout.fnmatch_lines(["*git update-index --no-assume-unchanged, or --no-skip-worktree)"])


def test_a_sparse_checkout_is_clean(project: Project) -> None:
    (project.path / "docs").mkdir()
    (project.path / "docs" / "page.md").touch()
    project.commit()
    project.git("sparse-checkout", "set", "evals")
    assert not (project.path / "docs").exists()

    run(project)

    assert header(project)["dirty"] is False


def test_another_ini_file_than_the_committed_one(project: Project) -> None:
    (project.path / "other.ini").write_text(INI)

    run(project, "-c", "other.ini")

    assert header(project)["unseen"] == ["other.ini"]


def test_outside_git_nothing_is_unknown(project: Project) -> None:
    Path.rename(project.path / ".git", project.path / "kept")
    run(project)
    assert header(project)["dirty"] is False
