"""The run of a base reads the base's own files, or it is no baseline."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import EVALS, Project, make_project

RERUN = ("--llm-baseline=main", "--llm-on-missing=rerun")
GOOD, BAD = "Say yes to {case}. rate=0.9", "Say yes to {case}. rate=0.2"
SMALL = EVALS.replace("range(20)", "range(8)").replace("repeats=5", "repeats=3")
# A variable holds the folder, written so that nobody can tell that it is a path.
FOLDER = "import os, pathlib, subprocess\nHERE = pathlib.Path(os.environ['APP'][::-1])\n"
BY_VARIABLE = FOLDER + "PROMPT = HERE.joinpath('prompt.txt').read_text().strip()"
BESIDE_IT = "import pathlib\nPROMPT = pathlib.Path(__file__).with_name('prompt.txt').read_text()\n"


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """A project on main, with nothing recorded."""
    project = make_project(pytester)
    project.write(test_evals=SMALL)
    return project


def branch_off(project: Project) -> None:
    """Begin a branch that differs from main in nothing."""
    project.git("switch", "-qc", "feature")
    project.git("commit", "-qm", "begun", "--allow-empty")


def worse(project: Project, text: str = BAD) -> None:
    """Begin a branch with another prompt."""
    branch_off(project)
    project.write(prompt_txt=text)
    project.commit("worse")


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "workers"])
@pytest.mark.parametrize("read", ["read_text()", "open('rb').read().decode()"])
def test_a_prompt_of_this_checkout_is_no_prompt_of_the_base(
    project: Project, monkeypatch: pytest.MonkeyPatch, read: str, workers: tuple[str, ...]
) -> None:
    project.write(app=BY_VARIABLE.replace("read_text()", read), prompt_txt=GOOD)
    project.commit("by a variable")
    worse(project)
    monkeypatch.setenv("APP", str(project.path)[::-1])

    result = project.run(*RERUN, *workers)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*is no baseline: it read prompt.txt, which is of this checkout*"])


@pytest.mark.parametrize(
    "said",
    [
        "subprocess.check_output(['cat', NAME], text=True)",
        "subprocess.check_output(f'cat {NAME!r}', shell=True, text=True)",
        "subprocess.check_output(['head', '--lines=9', f'{NAME}'], cwd='/', text=True)",
        "os.popen(f'cat {NAME}').read()",
        "subprocess.check_output(['cat', 'prompt.txt'], cwd=HERE, text=True)",
    ],
)
def test_a_file_that_another_process_is_told_of_is_no_file_of_the_base(
    project: Project, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    name = "NAME = str(HERE / 'prompt.txt')\n"
    project.write(app=f"{FOLDER}{name}PROMPT = {said}.strip()\n", prompt_txt=GOOD)
    project.commit("by another process")
    worse(project)
    monkeypatch.setenv("APP", str(project.path)[::-1])

    result = project.run(*RERUN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*is no baseline: it read prompt.txt, which is of this checkout*"])


BY_LINK = """
with tempfile.TemporaryDirectory() as folder:
    os.symlink(HERE, f'{folder}/link')
    PROMPT = pathlib.Path(folder, 'link/prompt.txt').read_text().strip()
"""
BY_TWIN = """
folder = tempfile.mkdtemp()
os.link(HERE / 'prompt.txt', f'{folder}/prompt.txt')
PROMPT = pathlib.Path(folder, 'prompt.txt').read_text().strip()
"""


@pytest.mark.parametrize("read", [BY_LINK, BY_TWIN], ids=["link", "hard link"])
def test_a_file_of_this_checkout_is_known_in_another_place(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, read: str
) -> None:
    """A second mount is like a hard link; the link is gone when the base ends."""
    project.write(app=f"import tempfile\n{FOLDER}{read}", prompt_txt=GOOD)
    project.commit("by another place")
    worse(project)
    monkeypatch.setenv("APP", str(project.path)[::-1])
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    result = project.run(*RERUN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*is no baseline: it read prompt.txt, which is of this checkout*"])


def test_a_file_that_is_the_same_on_both_sides_may_be_read_here(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(app=BY_VARIABLE, prompt_txt=GOOD)
    project.commit("by a variable")
    branch_off(project)
    project.write(notes_txt="harmless")
    project.commit("harmless")
    monkeypatch.setenv("APP", str(project.path)[::-1])

    result, report = project.gate(*RERUN)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.OK, "unchanged")


def test_a_prompt_of_another_worktree_is_none_of_the_base(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    project.write(app=BY_VARIABLE, prompt_txt=GOOD)
    project.commit("by a variable")
    project.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    (tmp_path / "linked" / "prompt.txt").write_text(BAD)
    branch_off(project)
    monkeypatch.setenv("APP", str(tmp_path / "linked")[::-1])

    result = project.run(*RERUN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*is no baseline: it read *linked/prompt.txt, which is of this*"])


@pytest.mark.parametrize("kept_in", [".gitattributes", ".git/info/attributes"])
def test_filters_of_the_repository_act_in_the_base(project: Project, kept_in: str) -> None:
    """As git-crypt has them: what git keeps is not what a working tree has."""
    for way in ("clean", "smudge"):
        project.git("config", f"filter.turned.{way}", "tr '0-9' '9876543210'")
    project.git("config", "filter.turned.required", "true")
    (project.path / kept_in).parent.mkdir(exist_ok=True)
    (project.path / kept_in).write_text("prompt.txt filter=turned\n")
    project.write(app=BESIDE_IT, prompt_txt=GOOD)
    project.commit("filtered")
    assert "rate=9.0" in project.git("show", "HEAD:prompt.txt")
    worse(project)

    result, report = project.gate(*RERUN)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "regressed")
    assert not report["baseline"]["dirty"]


def pointer_to(text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    size = len(text.encode())
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n"


CLEAN = """
import hashlib, sys
given = sys.stdin.buffer.read()
print("version https://git-lfs.github.com/spec/v1")
print("oid sha256:" + hashlib.sha256(given).hexdigest())
print("size", len(given))
"""


def keep_object(project: Project, text: str) -> None:
    digest = hashlib.sha256(text.encode()).hexdigest()
    folder = project.path / ".git" / "lfs" / "objects" / digest[:2] / digest[2:4]
    folder.mkdir(parents=True)
    (folder / digest).write_text(text)


def test_a_base_has_the_files_that_git_lfs_keeps(project: Project) -> None:
    """By a filter that writes pointers as git-lfs does, and fetches nothing."""
    clean = project.path / ".git" / "clean.py"
    clean.write_text(CLEAN)
    project.git("config", "filter.lfs.clean", f"{sys.executable} {clean}")
    project.git("config", "filter.lfs.smudge", "cat")
    project.write(app=BESIDE_IT, prompt_txt=GOOD)
    (project.path / ".gitattributes").write_text("prompt.txt filter=lfs\n")
    project.commit("kept by git-lfs")
    assert project.git("show", "HEAD:prompt.txt") == pointer_to(GOOD).strip()
    keep_object(project, GOOD)
    worse(project)

    result, report = project.gate(*RERUN)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "regressed")
    assert not report["baseline"]["dirty"]


def test_a_base_whose_files_git_lfs_has_not_fetched_is_refused(project: Project) -> None:
    project.write(app=BESIDE_IT, prompt_txt=pointer_to(GOOD))
    project.commit("a pointer")
    worse(project, pointer_to(BAD))

    result = project.run(*RERUN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    base = project.git("rev-parse", "--short=7", "main")
    expected = f"*git-lfs keeps prompt.txt, and what {base} has of it is not here. Fetch it:*"
    result.stderr.fnmatch_lines([expected])


def test_a_base_has_its_submodules(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "file")
    inner = Project(project.pytester)
    inner.path = tmp_path / "prompts"
    inner.path.mkdir()
    inner.git("init", "-q", "-b", "main")
    inner.write(prompt_txt=GOOD)
    inner.commit("good")
    project.git("submodule", "--quiet", "add", str(inner.path), "prompts")
    project.write(app=BESIDE_IT.replace("with_name('", "parent.joinpath('prompts', '"))
    project.commit("a submodule")
    branch_off(project)
    (project.path / "prompts" / "prompt.txt").write_text(BAD)
    subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "-qam", "bad"],
        cwd=project.path / "prompts",
        check=True,
    )
    project.commit("worse")

    result, report = project.gate(*RERUN)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "regressed")
    assert report["baseline"]["notes"] == []


IGNORED = "import pathlib\nFILE = pathlib.Path(__file__).with_name('local.txt')\n"


def ignore(project: Project, name: str) -> None:
    with (project.path / ".gitignore").open("a") as file:
        file.write(f"{name}\n")


def test_ignored_files_are_copied_where_the_ini_file_names_them(project: Project) -> None:
    ignore(project, "local.txt")
    project.write(app=IGNORED + "PROMPT = FILE.read_text()\n", local_txt=GOOD)
    project.commit("reads what git ignores")
    branch_off(project)
    ini = (project.path / "pytest.ini").read_text()
    project.write(pytest_ini=f"{ini}llm_base_files = local.txt\n")
    project.commit("copies it")

    result, report = project.gate(*RERUN)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.OK, "unchanged")


def test_an_ignored_file_that_the_base_did_without_is_named(project: Project) -> None:
    ignore(project, "local.txt\n.own")
    project.write(app=IGNORED + f"PROMPT = FILE.read_text() if FILE.exists() else {GOOD!r}\n")
    project.write(local_txt=GOOD)
    project.commit("reads what git ignores")
    branch_off(project)

    _, report = project.gate(*RERUN, "--llm-dir=.own")  # which has what no base needs

    assert (
        "this run read local.txt, which git ignores and the baseline lacked: "
        "llm_base_files = local.txt  in the ini file copies it"
    ) in report["notes"]


def test_an_ignored_file_that_the_base_made_by_itself_is_not_named(project: Project) -> None:
    ignore(project, "local.txt")
    project.write(
        conftest=IGNORED + f"FILE.write_text({GOOD!r})\n",
        app=IGNORED + "PROMPT = FILE.read_text()\n",
    )
    project.commit("makes what git ignores")
    branch_off(project)

    _, report = project.gate(*RERUN)

    assert (report["verdict"], report["notes"]) == ("unchanged", [])


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("app.py", "*llm_base_files names app.py, which git keeps, here or in the base's commit*"),
        ("conftest.py", "*llm_base_files names conftest.py, which git keeps*"),
        ("own", "*llm_base_files names own, which git keeps*"),
        ("none.txt", "*llm_base_files names none.txt, which is not in this checkout: make it*"),
        ("../x", "*llm_base_files in the ini file: '../x' is not below rootdir*"),
    ],
)
def test_files_that_cannot_be_copied_are_an_error(
    project: Project, named: str, message: str
) -> None:
    project.commit("small")
    branch_off(project)
    ini = (project.path / "pytest.ini").read_text()
    project.write(pytest_ini=f"{ini}llm_base_files = {named}\n", conftest="")
    (project.path / "own").mkdir()
    (project.path / "own" / "conftest.py").touch()
    project.commit("copies")

    result = project.run(*RERUN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_the_base_is_made_ready_by_its_own_command(project: Project) -> None:
    ignore(project, "made.py")
    ini = (project.path / "pytest.ini").read_text()
    project.write(app="from made import PROMPT\n", prompt_txt=f"PROMPT = {GOOD!r}\n")
    project.write(pytest_ini=f"{ini}llm_base_setup = cp prompt.txt made.py\n")
    project.commit("generated")
    worse(project, f"PROMPT = {BAD!r}\n")
    project.write(made=f"PROMPT = {BAD!r}\n")

    result, report = project.gate(*RERUN)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "regressed")


def test_a_command_of_the_branch_prepares_no_base(project: Project) -> None:
    project.write(prompt_txt=GOOD, app=BESIDE_IT)
    project.commit("a prompt")
    ini = (project.path / "pytest.ini").read_text()
    branch_off(project)
    project.write(pytest_ini=f"{ini}llm_base_setup = echo {BAD!r} > prompt.txt\n", prompt_txt=BAD)
    project.commit("worse")

    result, report = project.gate(*RERUN)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "regressed")


def test_a_command_that_fails_is_told(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    ini = (project.path / "pytest.ini").read_text()
    project.write(pytest_ini=f"{ini}llm_base_setup = exit 3\n")
    project.commit("generated")
    branch_off(project)

    result = project.run(*RERUN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "llm_base_setup = exit 3  ended with 3" in capfd.readouterr().err
