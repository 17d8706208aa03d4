"""A baseline that cannot be used stops the session before anything is run or paid for."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import run_forked
from tests.project import APP, INI, SMALL, Project, made_once

USAGE_ERROR = pytest.ExitCode.USAGE_ERROR


@pytest.fixture
def project(small_project: Project) -> Project:
    return small_project


def record_and_branch(project: Project) -> None:
    project.write(test_evals=SMALL)
    project.commit("small")
    project.run("-q", "--llm-repeats=2")
    project.git("switch", "-qc", "branch")
    project.write(app=APP.replace("Say", "Please say"))
    project.commit()
    project.calls()


@pytest.fixture
def branch(pytester: pytest.Pytester, originals: Path) -> Project:
    """A branch off a recorded main, with every request changed."""
    return made_once(originals / "branch", pytester, record_and_branch)


def refused(project: Project, *arguments: str) -> str:
    """Run, and return the ERROR line of a session that ended before it began."""
    result = project.run(*arguments)
    assert result.ret == USAGE_ERROR
    assert project.calls() == 0
    (line,) = [line for line in result.errlines if line.startswith("ERROR: ")]
    assert "Traceback" not in str(result.stderr) + str(result.stdout)
    return line


def rewrite(path: Path, old: str, new: str) -> None:
    text = gzip.decompress(path.read_bytes()).decode()
    assert old in text
    path.write_bytes(gzip.compress(text.replace(old, new).encode()))


def test_a_ref_that_does_not_exist(branch: Project) -> None:
    assert "no file, run id, commit, branch or tag has that name" in refused(
        branch, "--llm-baseline=mian"
    )


def test_a_ref_that_does_not_exist_is_no_first_run(branch: Project) -> None:
    line = refused(branch, "--llm-baseline=mian", "--llm-on-missing=warn")

    assert "no file, run id, commit, branch or tag has that name" in line


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "cut off"),
        (lambda path: path.write_bytes(b"nonsense"), "gzip"),
        (lambda path: rewrite(path, '"passed"', '"missed"'), "sha256"),
        (lambda path: rewrite(path, '"schema":1', '"schema":99'), "newer version"),
    ],
    ids=["truncated", "foreign", "tampered", "newer"],
)
def test_a_run_file_that_was_named_and_cannot_be_read(branch, damage, expected: str) -> None:
    (path,) = branch.runs()
    damage(path)

    assert expected in refused(branch, f"--llm-baseline={path}")


def test_a_damaged_run_file_is_passed_over_by_name(branch: Project) -> None:
    (path,) = branch.runs()
    path.write_bytes(b"nonsense")

    assert "no complete run recorded for main" in refused(branch, "--llm-baseline=main")


def test_outside_git(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_ordinary(): pass")

    result = pytester.runpytest("--llm-baseline=main")

    assert result.ret == USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --llm-baseline=main: *is in no git repository*"])


def test_without_git(branch: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(branch.path / "nowhere"))

    assert "git cannot be run" in refused(branch, "--llm-baseline=main")


def test_a_shallow_clone_names_fetch_depth(branch: Project) -> None:
    branch.git("clone", "-q", "--depth=1", f"file://{branch.path}", "clone")
    os.chdir(branch.path / "clone")

    result = run_forked(branch.pytester, "--llm-baseline=main")

    assert result.ret == USAGE_ERROR
    assert "fetch-depth: 0" in str(result.stderr)


def test_a_dirty_main_is_no_baseline(project: Project) -> None:
    project.write(app=APP + "# not committed\n")
    result = project.run("-q")
    why = "the run is of uncommitted changes in app.py: commit them and run again"
    result.stdout.fnmatch_lines([f"recorded *(not usable as a baseline: {why})"])
    project.calls()
    project.git("stash")
    project.git("switch", "-qc", "branch")

    assert "no complete run recorded for main" in refused(project, "--llm-baseline=main")


def test_before_the_first_commit_a_run_is_not_outside_git(project: Project) -> None:
    project.git("update-ref", "-d", "HEAD")
    result = project.run("-q")
    result.stdout.fnmatch_lines(
        ["recorded * before the first commit of main: compare with it by *"]
    )


def test_a_detached_head_finds_main(branch: Project) -> None:
    branch.git("switch", "-q", "--detach")

    _, report = branch.gate("--llm-baseline=main", "--llm-repeats=2")

    assert report["baseline"]["how"] == "merge-base"


def test_on_main_itself_a_clean_tree_is_compared_with_itself_and_says_so(project: Project) -> None:
    project.run("-q")

    result, report = project.gate("--llm-baseline=main")

    assert report["baseline"]["how"] == "this very commit"
    assert report["verdict"] == "unchanged"
    result.stdout.fnmatch_lines(["llm evals: baseline main@??????? (this very commit, *"])


def test_last_and_a_run_id_name_any_run(project: Project) -> None:
    project.run("-q", "-k", "case-1")
    (path,) = project.runs()
    run_id = path.name.removesuffix(".jsonl.gz")

    for reference in ("last", run_id):
        result, report = project.gate(f"--llm-baseline={reference}", "-k", "case-1")
        assert report["baseline"]["id"].startswith("20")
        result.stdout.fnmatch_lines(["note: of '-k case-1' alone"])


def test_a_baseline_of_another_folder_is_unlike(branch: Project) -> None:
    sub = branch.path / "sub"
    sub.mkdir()
    for name in ("model.py", "app.py", "test_evals.py", "pytest.ini"):
        (sub / name).write_text((branch.path / name).read_text())
    branch.commit()
    (path,) = branch.runs()

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--llm-baseline={path}"],
        cwd=sub,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == USAGE_ERROR
    assert "ERROR: " in done.stderr
    assert "was recorded with rootdir '.', this session has 'sub'" in done.stderr


def test_ids_in_one_run_only_are_listed(branch: Project) -> None:
    evals = (branch.path / "test_evals.py").read_text()
    branch.write(test_evals=evals.replace("range(10)", "range(1, 12)"))
    branch.commit()

    result, report = branch.gate("--llm-baseline=main", "--llm-repeats=2")

    (function,) = report["functions"]
    assert len(function["only_here"]) == 2
    assert len(function["only_in_baseline"]) == 1
    result.stdout.fnmatch_lines(
        ["*not compared: 2 cases new here (mean *), 1 case only in the baseline"]
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("llm_score(float('nan'))", "a score must be a finite number"),
        ("llm_score('good')", "a score must be a finite number"),
        ("llm_score(Decimal('sNaN'))", "a score must be a finite number"),
        ("llm_score(numpy.array([1, 2]))", "a score must be a finite number"),
        ("llm_score(10**400)", "a score must be a finite number"),
        ("llm_score(MagicMock())", "a score must be a finite number"),
        ("llm_score(1); llm_score(0)", '"score" was scored before in this trial (1)'),
        ("llm_score(1, '')", "the name of a metric must be a text"),
    ],
)
def test_a_score_that_is_none(pytester: pytest.Pytester, body: str, expected: str) -> None:
    pytester.makepyfile(
        f"from decimal import Decimal\nfrom unittest.mock import MagicMock\nimport numpy\n"
        f"from pytest_llmeval import llm_eval\n"
        f"@llm_eval(repeats=2)\ndef test_it(llm_score):\n    {body}\n"
    )

    result = pytester.runpytest()

    result.assert_outcomes(failed=1)
    assert expected in str(result.stdout)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("def answer(messages): raise OSError('no network')", "raised OSError"),
        ("def answer(messages): return None", "returned NoneType, not str"),
    ],
)
def test_a_model_that_gives_no_text_scores_nothing(
    project: Project, model: str, expected: str
) -> None:
    project.write(model=model)

    result, report = project.gate()

    assert result.ret == 1
    (function,) = report["functions"]
    assert function["mean"] is None
    assert function["trials"]["errored"] == 30
    result.stdout.fnmatch_lines([f"first of them *{expected}*"])


def test_a_missing_key_is_named_once_a_case_and_scores_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")

    result = project.run("--llm-model=openai/gpt-6-luna")

    assert result.ret == 1
    result.assert_outcomes(errors=10)
    assert len(result.outlines) < 200
    result.stdout.fnmatch_lines(["first of them *OPENAI_API_KEY is not set*"])


def test_a_damaged_cache_is_set_aside_and_the_run_goes_on(project: Project) -> None:
    project.run("-q")
    project.calls()
    database = project.path / ".llmeval" / "cache" / "cache.db"
    database.write_bytes(b"x" * 5000)

    result = project.run("-W", "error")

    assert result.ret == 0
    assert project.calls() == 30
    result.stdout.fnmatch_lines(["note: *cache.damaged-*"])
    assert list((project.path / ".llmeval").glob("cache.damaged-*/cache.db"))


def test_the_report_has_no_nan(branch: Project) -> None:
    branch.run("--llm-report=out/report.json", "--llm-baseline=main", "--llm-repeats=2")

    text = (branch.path / "out" / "report.json").read_text()
    json.loads(text, parse_constant=pytest.fail)


QUESTIONS = (
    "--collect-only",
    "--setup-only",
    "--setup-plan",
    "--fixtures",
    "--fixtures-per-test",
    "--markers",
    "--cache-show",
    "--version",
    "--help",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_file_turns_the_gate_into_a_question(
    branch: Project, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", question)
    result = branch.pytester.runpytest("--llm-baseline=main")
    assert result.ret == USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {question} was set by addopts, *"])
    assert branch.pytester.runpytest().ret == 0

    monkeypatch.delenv("PYTEST_ADDOPTS")
    assert branch.pytester.runpytest("--llm-baseline=main", question).ret == 0


def test_nor_does_an_ini_file_or_a_file_of_arguments(branch: Project) -> None:
    (branch.path / "ci.args").write_text("--setup-plan")
    for arguments in (("@ci.args",), ("-o", "addopts=--setup-plan")):
        assert "--setup-plan was set by" in refused(branch, "--llm-baseline=main", *arguments)
    assert branch.run("--llm-baseline=main", "--setup-plan").ret == 0


def test_no_file_turns_the_gate_into_a_path(branch: Project) -> None:
    typed = "--llm-baseline=main"
    (branch.path / typed).mkdir()
    why = refused(branch, typed, "-o", "addopts=. --")
    assert " was read as a path, not as an option: addopts or PYTEST_ADDOPTS end in --" in why
    assert branch.run("--", typed, ".").ret == 0  # typed itself


# --- what a pull request could bring along --------------------------------------------------


FORGED = "20991231T000000-fffaaa"


def forge(project: Project) -> Path:
    """Put a run of the same commit beside main's, in which every trial missed."""
    (honest,) = project.runs()
    text = gzip.decompress(honest.read_bytes()).decode()
    lines = text.replace(honest.name.removesuffix(".jsonl.gz"), FORGED).splitlines()[:-1]
    missed = [
        line.replace('"passed"', '"missed"').replace('"pass":1.0', '"pass":0.0') for line in lines
    ]
    data = "".join(f"{line}\n" for line in missed).encode()
    trials = [json.loads(line) for line in missed[1:]]
    counts = {
        "cases": len(json.loads(missed[0])["cases"]),
        "trials": len(trials),
        "calls": sum(len(trial.get("calls", ())) for trial in trials),
    }
    end = json.dumps({"counts": counts, "sha256": hashlib.sha256(data).hexdigest()})
    path = honest.with_name(f"{FORGED}.jsonl.gz")
    path.write_bytes(gzip.compress(data + end.encode() + b"\n"))
    return path


def test_a_committed_run_is_no_baseline(branch: Project) -> None:
    branch.git("add", "-f", str(forge(branch)))
    branch.git("commit", "-qm", "innocent")

    result = branch.run("--llm-baseline=main")

    assert result.ret == USAGE_ERROR
    assert branch.calls() == 0
    told = str(result.stderr) + str(result.stdout)
    assert f"{FORGED}.jsonl.gz" in told
    assert "git rm -r --cached .llmeval/runs" in told
    assert "INTERNALERROR" not in told


@pytest.mark.parametrize("name", ["main", "v1"])
def test_a_committed_file_of_a_refs_name_is_no_baseline(branch: Project, name: str) -> None:
    branch.git("tag", "v1", "main")
    forge(branch).rename(branch.path / name)
    branch.git("add", name)
    branch.git("commit", "-qm", "innocent")

    result = branch.run("--llm-baseline=main", f"--llm-anchor={name}", "--llm-repeats=2")

    told = [
        f"llm evals: {side}@??????? (merge-base, *" for side in ("baseline main", f"anchor {name}")
    ]
    result.stdout.fnmatch_lines(told)


def test_a_committed_file_is_no_baseline_where_no_ref_has_its_name(branch: Project) -> None:
    (branch.path / "origin").mkdir()
    forge(branch).rename(branch.path / "origin" / "main")
    branch.git("add", "origin/main")
    branch.git("commit", "-qm", "innocent")

    assert "it is tracked by git" in refused(branch, "--llm-baseline=origin/main")


def test_committed_replies_are_not_replayed(branch: Project) -> None:
    branch.git("add", "-f", ".llmeval/cache")
    branch.git("commit", "-qm", "innocent")

    assert "git rm -r --cached .llmeval/cache" in refused(branch)


def test_a_committed_link_in_place_of_the_store_is_refused(
    branch: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "store"
    (branch.path / ".llmeval").rename(elsewhere)
    (branch.path / ".llmeval").symlink_to(elsewhere)
    assert branch.run("--llm-baseline=main").ret != USAGE_ERROR  # a link of the user's own
    branch.git("add", "-f", ".llmeval")
    branch.git("commit", "-qm", "innocent")
    branch.calls()

    assert "git rm -r --cached .llmeval" in refused(branch, "--llm-baseline=main")


def test_a_session_without_evals_does_not_care_what_git_tracks(branch: Project) -> None:
    branch.git("add", "-f", str(forge(branch)))
    branch.write(test_plain="def test_ordinary(): pass\n")

    assert branch.run("test_plain.py").ret == 0


def test_a_run_from_the_future_is_passed_over(branch: Project) -> None:
    forge(branch)

    result, report = branch.gate("--llm-baseline=main")

    assert report["baseline"]["id"] != FORGED
    result.stdout.fnmatch_lines(
        ["llm evals: note: passed over: run 2099*, dated 2099-12-31, ahead of this machine's clock"]
    )


@pytest.mark.parametrize("by_path", [True, False])
def test_a_run_from_the_future_can_be_named_by_path_but_not_as_the_last(
    branch: Project, by_path: bool
) -> None:
    path = forge(branch)

    result, report = branch.gate(f"--llm-baseline={path if by_path else 'last'}")

    assert (report["baseline"]["id"] == FORGED) is by_path
    assert report["baseline"]["how"] == ("file" if by_path else "last")
    assert "ahead of this machine's clock" in str(result.stdout)


# --- the report of a session that ends with 4 -------------------------------------------------

MISTAKES = {
    "ref": (["--llm-baseline=mian"], "--llm-baseline=mian: no file, run id, commit, branch or"),
    "value": (["--llm-alpha=2"], "--llm-alpha=2: must lie"),
    "removed": (["--llm-retry-errors"], "--llm-retry-errors was removed: run the same again"),
    "question": (["--llm-baseline=main"], "--collect-only was set by addopts"),
    "marker": ([], "test_evals.py::test_says_yes[case-0]: @llm_eval: repeats"),
    "marker in workers": (["-n2"], "test_evals.py::test_says_yes[case-0]: @llm_eval: repeats"),
    "path": (["nosuch.py"], "pytest ended with a usage error before any eval ran"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_exit_4_is_reported_too(mistake: str, branch: Project) -> None:
    arguments, why = MISTAKES[mistake]
    report = branch.path / "out" / "report.json"
    if mistake.startswith("marker"):
        branch.write(test_evals=SMALL.replace("repeats=3", "repeats=0"))
    if mistake == "question":
        branch.write(pytest_ini=INI + "addopts = --collect-only\n")

    result = branch.run(*arguments, "--llm-report=out/report.json")

    assert result.ret == USAGE_ERROR
    found = json.loads(report.read_text())
    assert (found["verdict"], found["fails"], found["run"]) == ("could_not_judge", True, None)
    assert found["why"].startswith(why)


def test_exit_4_goes_into_the_files_of_the_ini_file(branch: Project) -> None:
    branch.write(pytest_ini=INI + "llm_alpha = 2\nllm_report = out/ini.json\n")
    refused(branch)
    report = json.loads((branch.path / "out" / "ini.json").read_text())
    assert report["why"].startswith("llm_alpha=2.0 in the ini file")


@pytest.mark.parametrize("arguments", [["--llm-alpha=2"], ["-n2"]], ids=["settings", "workers"])
def test_a_report_that_cannot_be_written_is_said_at_exit_4(
    arguments: list[str], branch: Project
) -> None:
    (branch.path / "out").touch()
    branch.write(test_evals=SMALL.replace("repeats=3", "repeats=0"))
    result = branch.run(*arguments, "--llm-report=out/report.json")
    assert result.ret == USAGE_ERROR
    assert "report.json: not written: " in "\n".join([*result.errlines, *result.outlines])
