"""Cures of the messages about baselines work where they are printed."""

from __future__ import annotations

import pytest

from tests.ci.origin import git_environ, run_git
from tests.cures.bench import WORSE, Bench, taken

MAIN = "--llm-baseline=main"
NO_RUN = "no complete run recorded for"
RERUN = r"in a worktree: add (--llm-on-missing=rerun)"
RECORD = r"Record one: (git .*? && pytest)\b"
UNGATED = r"run without a comparison: add (--llm-on-missing=warn)"


@pytest.fixture(autouse=True)
def _plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in git_environ().items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("cure", [RERUN, RECORD, UNGATED])
@pytest.mark.parametrize("is_moved", [False, True], ids=["main's tip", "main moved on"])
def test_a_branch_whose_main_has_no_run(bench: Bench, cure: str, *, is_moved: bool) -> None:
    bench.topic()
    if is_moved:
        bench.project.git("switch", "-q", "main")
        bench.commit(news_txt="of main")
        bench.project.git("switch", "-q", "topic")
    said = bench.session(MAIN)
    assert NO_RUN in said
    assert bench.exit == 4

    said = bench.type(taken(said, cure))

    assert bench.exit == 0
    assert ("not gated" in said) is (cure == UNGATED)


def test_a_branch_with_changes_that_are_not_committed(bench: Bench) -> None:
    bench.topic()
    bench.project.write(app=(bench.project.path / "app.py").read_text() + "# changed\n")
    said = bench.session(MAIN)
    typed = taken(said, RECORD)
    assert typed.startswith("git stash && git switch main")

    bench.type(typed)

    assert bench.exit == 0
    bench.project.git("stash", "pop")
    bench.last()
    assert bench.exit == 0


def test_a_substitute_is_refused(bench: Bench) -> None:
    bench.session()
    (first,) = bench.project.runs()
    bench.commit(app='PROMPT = "Say yes again to {case}. rate=0.8"\n')
    bench.topic()
    for cure in (RERUN, RECORD):
        said = bench.session(MAIN, "--llm-strict")
        assert "which --llm-strict refuses" in said
        bench.type(taken(said, cure))
        assert bench.exit == 0, cure
        for run in bench.project.runs():
            if run != first:
                run.unlink()


@pytest.mark.parametrize(
    ("named", "cure", "ends"),
    [
        ("mian", r"Did you mean main\? (pytest --llm-baseline=main)", 0),
        ("nothing-like-it", r"take the default branch, main: (pytest --llm-baseline=auto)", 0),
    ],
)
def test_a_name_that_is_unknown(bench: Bench, named: str, cure: str, ends: int) -> None:
    bench.session()
    origin = bench.project.path.with_name(f"{bench.project.path.name}-origin")
    run_git(bench.project.path, "clone", "--quiet", "--bare", ".", str(origin))
    bench.project.git("remote", "add", "origin", str(origin))
    bench.project.git("fetch", "-q", "origin")
    bench.project.git("remote", "set-head", "origin", "--auto")
    bench.topic()
    said = bench.session(f"--llm-baseline={named}")
    assert bench.exit == 4
    if "List them" in said:
        listed = taken(said, r"List them: (git branch --all && git tag)")
        assert all(bench.project.git(*one.split()[1:]) is not None for one in listed.split(" && "))

    bench.type(taken(said, cure))

    assert bench.exit == ends


@pytest.mark.parametrize(
    "cure", [r"history: (git fetch .*?) \(in GitHub", r"fetched: add (--llm-fetch)"]
)
@pytest.mark.parametrize("alone", ["--single-branch", "--no-single-branch"])
@pytest.mark.parametrize("named", ["main", "auto", "first"])
def test_a_clone_that_is_shallow(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, cure: str, alone: str, named: str
) -> None:
    bench.session()
    here = bench.project.path
    bench.project.git("tag", "first")
    bench.topic()
    origin, clone = (here.with_name(f"{here.name}-{what}") for what in ("origin", "clone"))
    run_git(here, "clone", "--quiet", "--bare", ".", str(origin))
    how = ("--quiet", "--depth=1", alone, "--branch=topic")
    run_git(here, "clone", *how, origin.as_uri(), str(clone))
    (here / ".llmeval").rename(clone / ".llmeval")
    bench.project.path = clone
    monkeypatch.chdir(clone)
    said = bench.session(f"--llm-baseline={named}")
    if bench.exit == 0:  # nothing is missing
        return

    bench.type(taken(said, cure))

    assert bench.exit == 0


def test_a_default_branch_that_nothing_names(bench: Bench) -> None:
    """``main`` was told, which is found if it is there: so that cure could never work."""
    bench.session()
    bench.project.git("branch", "-m", "main", "trunk")
    bench.topic()
    printed = bench.session("--llm-baseline=auto")
    typed = taken(printed, r"not known here\. Name it: (pytest --llm-baseline=\w+)")

    bench.type(typed.replace("BRANCH", "trunk"))
    assert bench.exit == 0


@pytest.mark.parametrize(
    ("asked", "environ", "cure"),
    [
        (
            "auto",
            {"CIRCLECI": "true", "CIRCLE_PULL_REQUEST": "https://github.com/o/b/pull/7"},
            r"if not into main, name it: (pytest --llm-baseline=BRANCH)",
        ),
        (
            "main",
            {"JENKINS_URL": "https://j", "CHANGE_ID": "7", "CHANGE_TARGET": "below"},
            r"merged into below: (--llm-baseline=auto) compares with it",
        ),
    ],
    ids=["CircleCI", "Jenkins"],
)
def test_a_request_into_another_branch(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, asked: str, environ: dict[str, str], cure: str
) -> None:
    bench.session()
    here = bench.project.path
    origin = here.with_name(f"{here.name}-origin")
    run_git(here, "clone", "--quiet", "--bare", ".", str(origin))
    bench.project.git("remote", "add", "origin", origin.as_uri())
    bench.project.git("switch", "-q", "-c", "below")
    bench.commit(app=WORSE)
    bench.session()
    bench.project.git("push", "-q", "origin", "below")
    bench.project.git("fetch", "-q", "origin")
    bench.project.git("remote", "set-head", "origin", "--auto")
    bench.topic()
    for variable, value in {"CI": "true", **environ}.items():
        monkeypatch.setenv(variable, value)
    printed = bench.session(f"--llm-baseline={asked}")
    assert bench.exit == 1, printed

    bench.type(taken(printed, cure).replace("BRANCH", "below"))
    assert bench.exit == 0
