"""Cures of what a session says of its files and options work where they are printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.ci.origin import run_git
from tests.cures.bench import Bench, taken

MAIN = "--llm-baseline=main"
READS = """
import pathlib
from pytest_llmeval import llm_eval
{imports}
DATA = pathlib.Path("data.txt")

@llm_eval
def test_data(llm):
    assert llm.ask("Say " + (DATA.read_text() if DATA.exists() else "it") + " rate=1").text == "yes"
"""


def test_an_anchor_without_a_baseline(bench: Bench) -> None:
    bench.session()
    printed = bench.session("--llm-anchor=main")
    assert bench.exit == 4
    for cure in (r"Type (--llm-baseline=main)", r"or add (--llm-baseline=REF)"):
        bench.session(*(["--llm-anchor=main"] if "add" in cure else []))
        bench.type(taken(printed, cure).replace("REF", "main"))
        assert bench.exit == 0


def test_the_gate_of_a_job_is_not_ended_by_addopts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.topic()
    monkeypatch.setenv("CI", "true")
    bench.ini("addopts = --llm-on-missing=warn")
    printed = bench.session(MAIN)
    assert bench.exit == 4

    bench.type(taken(printed, r"ERROR: (--llm-on-missing=warn) was set by addopts"))
    assert bench.exit == 0


@pytest.mark.parametrize("cure", ["git add", ".gitignore"])
def test_a_module_that_git_does_not_know(bench: Bench, cure: str) -> None:
    bench.commit(test_data=READS.format(imports="import helper"), helper="")
    bench.project.git("rm", "-q", "--cached", "helper.py")
    bench.project.git("commit", "-qm", "forgotten")
    printed = bench.session("test_data.py")
    assert "git add it, or name it in .gitignore" in printed, printed
    bench.project.git("switch", "-q", "-c", "topic")
    printed = bench.session("test_data.py", MAIN)
    typed = taken(printed, r"First: (git add \S+) and commit, or name it in \.gitignore")

    bench.project.git("switch", "-q", "main")
    if cure == "git add":
        bench.project.git(*typed.split()[1:])
    else:
        ignored = bench.project.path / ".gitignore"
        ignored.write_text(f"{ignored.read_text()}{typed.split()[-1]}\n")
        bench.project.git("add", ".gitignore")
    bench.project.git("commit", "-qm", "mended")
    bench.session("test_data.py")
    bench.project.git("switch", "-q", "-C", "topic")

    bench.session("test_data.py", MAIN)
    assert bench.exit == 0


@pytest.mark.parametrize("flag", ["assume-unchanged", "skip-worktree"])
def test_a_file_at_which_git_does_not_look(bench: Bench, flag: str) -> None:
    bench.project.git("update-index", f"--{flag}", "app.py")
    app = bench.project.path / "app.py"
    app.write_text(app.read_text() + "# changed\n")
    bench.session()
    bench.project.git("switch", "-q", "-c", "topic")
    printed = bench.session(MAIN)
    typed = taken(printed, r"First: (git update-index .*?) Record one")
    assert typed == "git update-index --no-assume-unchanged, or --no-skip-worktree, app.py"

    bench.project.git("update-index", f"--no-{flag}", "app.py")
    bench.project.git("commit", "-qam", "seen")
    bench.project.git("branch", "-f", "main", "topic")
    bench.session()
    bench.session(MAIN)
    assert bench.exit == 0


def test_a_store_that_git_tracks(bench: Bench) -> None:
    bench.session()
    bench.project.git("add", "-f", ".llmeval/runs")
    bench.project.git("commit", "-qm", "by mistake")
    bench.topic()
    printed = bench.session(MAIN)
    assert "git tracks" in printed

    printed = bench.type(taken(printed, r"on the disk: (git rm -r --cached \S+)"))

    assert "git tracks" not in printed


def test_a_file_that_git_tracks_has_the_name_of_no_branch(bench: Bench) -> None:
    bench.session()
    (run,) = bench.project.runs()
    named = bench.project.path / "old"
    named.write_bytes(run.read_bytes())
    bench.topic()
    printed = bench.session("--llm-baseline=old")
    assert "it is tracked by git" in printed, printed

    path = taken(printed, r"name its path: (\S+)")
    bench.session(f"--llm-baseline={path}")
    assert bench.exit == 0


@pytest.mark.parametrize("folder", [".", "svc/bot"])
def test_a_base_that_git_ignores_something_of(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    if folder != ".":
        (bench.project.path / folder).mkdir(parents=True)
        for name in ("app.py", "model.py", "pytest.ini"):
            bench.project.git("mv", name, f"{folder}/{name}")
        bench.project.git("rm", "-q", "test_evals.py")
    bench.project.path /= folder
    monkeypatch.chdir(bench.project.path)
    (bench.project.path / ".gitignore").write_text(".llmeval\n__pycache__\ncalls.log\ndata.txt\n")
    bench.commit(test_data=READS.format(imports=""))
    (bench.project.path / "data.txt").write_text("that")
    bench.topic()
    printed = bench.session(MAIN, "--llm-on-missing=rerun", "test_data.py")
    assert "which git ignores" in printed, printed
    for run in bench.project.runs():
        run.unlink()

    printed = bench.type(taken(printed, r"lacked: (llm_base_files = \S+)"))

    assert bench.exit == 0
    assert "run first, in a worktree" in printed
    assert "which git ignores" not in printed


def test_a_base_that_cannot_run_is_repaired_by_the_branch(bench: Bench) -> None:
    bench.commit(app="PROMPT = 1 / 0\n")
    bench.topic(app='PROMPT = "Say yes to {case}. rate=0.8"\n')
    printed = bench.session(MAIN, "--llm-on-missing=rerun")
    assert bench.exit == 4

    printed = bench.type(taken(printed, r"run it once with: (--llm-on-missing=warn)"))

    assert (bench.exit, "not gated" in printed) == (0, True)


def test_a_base_whose_evals_lie_elsewhere(bench: Bench) -> None:
    bench.project.git("switch", "-q", "-c", "topic")
    (bench.project.path / "bot").mkdir()
    for name in ("app.py", "model.py", "test_evals.py", "pytest.ini"):
        bench.project.git("mv", name, f"bot/{name}")
    bench.commit(notes_txt="moved")
    printed = bench.session(
        MAIN, "--llm-on-missing=rerun", "--rootdir=bot", "-c", "bot/pytest.ini", "bot"
    )
    assert "If they were moved" in printed, printed
    typed = taken(printed, r"where they were: (git switch --detach \w+ && pytest)")

    for command in typed.split(" && ")[:1]:
        bench.project.git(*shlex.split(command)[1:])
    bench.session()

    assert bench.exit == 0


def test_a_branch_at_origin_that_was_not_fetched(bench: Bench) -> None:
    here = bench.project.path
    origin = here.with_name(f"{here.name}-origin")
    run_git(here, "clone", "--quiet", "--bare", ".", str(origin))
    bench.project.git("remote", "add", "origin", str(origin))
    bench.project.git("fetch", "-q", "origin")
    Path(here / ".git" / "FETCH_HEAD").unlink(missing_ok=True)
    bench.project.git("remote", "set-head", "origin", "--auto")
    bench.session()
    bench.topic()
    printed = bench.session(MAIN)
    if "has moved on" in printed:
        printed = bench.type(taken(printed, r"has moved on: (git fetch origin)"))
        assert "has moved on" not in printed


def test_a_case_that_misses_is_shown(bench: Bench) -> None:
    printed = bench.session()
    shows, fails = (
        taken(printed, r"(-rm) shows them"),
        taken(printed, r"(--llm-fail-on-miss) fails"),
    )
    assert "assert 'no' == 'yes'" in bench.session(shows, "--tb=short").partition("llm evals =")[0]
    bench.session(fails)
    assert bench.exit == 1


def test_how_many_trials_overlap_is_typed(bench: Bench) -> None:
    evals = bench.project.path / "test_evals.py"
    source = evals.read_text()
    evals.write_text(source.replace("repeats=5", "repeats=5, concurrency=2"))
    printed = bench.session()
    assert 'concurrency must be "serial"' in printed, printed

    evals.write_text(source)
    bench.session(f"{taken(printed, r'is set by (--llm-concurrency)')}=2")
    assert bench.exit == 0


def test_a_run_file_that_is_damaged(bench: Bench) -> None:
    bench.session()
    (path,) = bench.project.runs()
    path.write_bytes(path.read_bytes()[:-60])
    bench.topic()
    named = f"--llm-baseline={path}"
    printed = bench.session(named)
    assert bench.exit == 4
    again = taken(printed, r"Record the run again \((pytest)\)")
    option = taken(printed, r"or name another one with (--llm-baseline)")

    bench.project.git("switch", "-q", "main")
    bench.type(again)
    bench.project.git("switch", "-q", "topic")
    bench.session(f"{option}=main")
    assert bench.exit == 0


def test_a_part_of_a_suite_is_refused_under_strict(bench: Bench) -> None:
    source = (bench.project.path / "test_evals.py").read_text()
    bench.commit(test_other=source.replace("test_says", "test_tells"))
    bench.session()
    bench.topic()
    printed = bench.session(MAIN, "--llm-strict", "test_other.py")
    assert bench.exit == 1
    assert taken(printed, r"not judged: [^(]*\((--llm-strict)\)")

    bench.session(MAIN, "test_other.py")  # without it
    assert bench.exit == 0
