"""The command, as a user types it: exit codes, one line for a mistake, questions."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.key import PARTS
from pytest_llmeval.cache.queries import RowChanges
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import pack_object, paid_reply
from pytest_llmeval.cache.requests import row_name
from pytest_llmeval.cli import main
from pytest_llmeval.errors import CacheUnusable
from pytest_llmeval.records import Slot
from tests.cache.calls import answered
from tests.project import Project

KEY = "ab" * 32
ROOT = Path(__file__).parents[2]


def llmeval(*arguments: object, answers: str = "") -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments], input=answers)


def pay(home: Path, *, trial: int = 0, text: bytes = b"Lima") -> None:
    replies = Replies(home, mode="auto", session="s1", warn=print)
    answered(replies, KEY, Slot(trial, 0), lambda: paid_reply(text))
    replies.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one reply, and the working directory beside it."""
    pay(tmp_path / ".llmeval")
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".llmeval"


def assert_refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 4
    [line] = result.stderr.splitlines()
    assert line.startswith("ERROR: ")
    for part in parts:
        assert part in line


def test_the_directory_is_found_from_a_folder_below(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = home.parent / "tests" / "evals"
    below.mkdir(parents=True)
    (home.parent / "pytest.ini").touch()
    monkeypatch.chdir(below)

    result = llmeval("cache", "stats")

    assert result.exit_code == 0
    assert "1 request, 1 reply, 0 older, 0 spare" in result.stdout


def test_a_folder_without_a_cache_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(llmeval("cache", "stats"), "no .llmeval", "--dir")
    (tmp_path / "other").mkdir()
    assert_refused(llmeval("cache", "stats", "--dir", "other"), "no replies are kept in other")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["stat"], "No such command 'stat'"),
        (["why"], "NODEID"),
        (["stats", "--hosts"], "--hosts"),
        (["prune"], "--older-than"),
        (["prune", "--older-than=3"], "--older-than=3: write days with a d, such as 90d"),
        (["prune", "--older-than=1d", "--keep-baseline=mian"], "'mian'"),
        (["import", "missing.jsonl"], "missing.jsonl: No such file"),
        (["why", "test_it", "--run=last"], "last: no run in "),
    ],
)
def test_a_mistake_is_one_line_and_exit_4(home: Path, arguments: list[str], part: str) -> None:
    assert_refused(llmeval("cache", *arguments), part)


def test_a_command_that_was_removed_says_what_to_type_instead() -> None:
    assert_refused(CliRunner().invoke(main, ["comment", "--artifact=x"]), "gh pr comment NUMBER")


def test_a_group_alone_shows_what_there_is(home: Path) -> None:
    assert "stats" in llmeval("cache").output
    assert llmeval("cache", "--help").exit_code == 0


def test_prune_deletes_what_is_old_and_asks_first(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import timedelta

    monkeypatch.setattr("pytest_llmeval.cli.prune_command.days", lambda *_: timedelta(days=-1))
    assert_stopped = llmeval("prune", "--replies", answers="n\n")
    assert assert_stopped.exit_code == 4
    assert "nothing was changed" in assert_stopped.stderr
    assert "1 reply" in llmeval("cache", "stats").stdout

    assert llmeval("prune", "--replies", answers="y\n").exit_code == 0

    assert "0 replies" in llmeval("cache", "stats").stdout


def test_prune_asks_nothing_where_nothing_goes(home: Path) -> None:
    result = llmeval("prune", "--replies")

    assert result.exit_code == 0
    assert "0 replies" in result.stdout


def run_on_main_and_side(project: Project) -> None:
    """Record a run of main, and one of another prompt on a branch, which stays checked out."""
    project.run()
    project.git("switch", "-qc", "side")
    project.write(app='PROMPT = "Please say yes to {case}. rate=0.8"')
    project.commit()
    project.run()


def test_prune_of_the_cache_keeps_what_runs_need_unless_told_whose_are_enough(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import timedelta

    monkeypatch.setattr("pytest_llmeval.cli.cache_commands.days", lambda *_: timedelta(days=-1))
    monkeypatch.chdir(project.path)
    run_on_main_and_side(project)

    asked = llmeval("cache", "prune", "--older-than=1d", "--keep-baseline=main", answers="n\n")
    every = llmeval("cache", "prune", "--older-than=1d", "--yes")
    of_main = llmeval("cache", "prune", "--older-than=1d", "--yes", "--keep-baseline=main")

    assert (asked.exit_code, "nothing was changed" in asked.stderr) == (4, True)
    assert "200 replies stay, 200 of them as old but needed" in every.stdout
    assert "100 replies stay, 100 of them as old but needed" in of_main.stdout


def test_prune_for_a_baseline_reads_no_run_that_is_not_of_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    run_on_main_and_side(project)
    side = project.git("rev-parse", "HEAD").strip()
    (damaged,) = (project.path / ".llmeval" / "runs" / side).iterdir()
    damaged.write_bytes(b"no run")

    every = llmeval("cache", "prune", "--older-than=1d", "--yes")
    of_main = llmeval("cache", "prune", "--older-than=1d", "--yes", "--keep-baseline=main")

    assert (every.exit_code, of_main.exit_code) == (4, 0)


def test_prune_keeps_the_replies_of_runs_that_stay(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import timedelta

    monkeypatch.setattr("pytest_llmeval.cli.prune_command.days", lambda *_: timedelta(days=-1))
    monkeypatch.chdir(project.path)
    run_on_main_and_side(project)
    project.git("switch", "-q", "main")
    project.run()  # the newest run stays whatever it is

    looked = llmeval("prune", "--replies", "--dry-run")
    assert "1 run would go" in looked.stdout
    assert "100 replies stay, 100 of them as old but needed" in looked.stdout
    assert "100 replies stay" in llmeval("prune", "--replies", "--yes").stdout
    assert "100 replies" in llmeval("cache", "stats").stdout
    project.calls()
    assert project.run("--llm-cache=replay").ret == 0


def test_export_and_import_carry_replies(home: Path, tmp_path: Path) -> None:
    assert "1 reply of 0 requests" in llmeval("cache", "export", "x.jsonl.gz").stdout
    assert_refused(llmeval("cache", "export", "x.jsonl.gz"), "x.jsonl.gz: File exists")

    result = llmeval("cache", "import", "x.jsonl.gz", "--dir", tmp_path / "new")

    assert "1 new, 0 here already" in result.stdout
    assert "1 reply" in llmeval("cache", "stats", "--dir", tmp_path / "new").stdout


@pytest.mark.parametrize("moved", ["kept", "../away"])
def test_replies_that_a_commit_brings_are_not_imported(home: Path, moved: str) -> None:
    """Whoever writes a branch could answer its own questions."""
    project = Project(SimpleNamespace(path=home.parent))
    project.git("init", "--quiet", "--template=")
    project.git("add", "--force", ".llmeval")
    home.rename(moved)
    if moved == "kept":
        project.git("add", "--all", "--force")

    refused = llmeval("cache", "import", moved, "--dir", "new")

    assert_refused(refused, "git tracks", f"{'kept' if moved == 'kept' else '.llmeval'}/cache")
    project.git("rm", "-r", "--quiet", "--cached", ".")
    assert "1 new" in llmeval("cache", "import", moved, "--dir", "new").stdout


def test_what_came_with_a_file_cannot_steer_the_terminal(home: Path) -> None:
    evil = "\x1b]0;x\x07\n::error::y"
    told = {"body": {"model": evil}, "provider": "p", "method": "", "origin": evil, "path": ""}
    parts = {**dict.fromkeys(PARTS), **told}
    row = pack_object({"schema": 1, "request": parts, "session": "s"})
    assert row is not None
    with contextlib.closing(Store(home, warn=print)) as store:
        store.rewrite(lambda _rows: RowChanges(added=[(row_name(KEY), row)]))

    result = llmeval("cache", "stats")

    assert r"\x1b]0;x\x07\n::error::y" in result.stdout
    assert "\x1b" not in result.stdout
    assert "\n::error" not in result.stdout


def test_a_malformed_file_is_refused_by_its_line(home: Path) -> None:
    Path("x.jsonl").write_text("{}\n")
    assert_refused(llmeval("cache", "import", "x.jsonl"), "x.jsonl, line 1", "Nothing was imported")


def test_clear_removes_a_cache_that_cannot_be_written(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_store: Store) -> None:
        raise CacheUnusable("database or disk is full")

    monkeypatch.setattr(Store, "clear", fail)
    assert llmeval("cache", "clear", "--yes").exit_code == 0
    assert not (home / "cache").exists()


def test_clear_asks_first(home: Path) -> None:
    pay(home, trial=1, text=os.urandom(100_000))
    assert llmeval("cache", "clear", answers="").exit_code == 4
    assert (home / "cache").exists()
    before = (home / "cache" / "cache.db").stat().st_size
    assert llmeval("cache", "clear", "--yes").exit_code == 0
    assert "0 replies" in llmeval("cache", "stats").stdout
    assert (home / "cache" / "cache.db").stat().st_size < before


@pytest.mark.parametrize(
    "command",
    [
        ("cache", "clear", "--yes"),
        ("cache", "prune", "--older-than=1d", "--yes"),
        ("prune", "--replies", "--yes"),
        ("cache", "stats"),
    ],
    ids=lambda command: command[1],
)
def test_a_cache_that_is_a_link_is_left_alone(home: Path, command: tuple[str, ...]) -> None:
    (home / "cache").rename(home.parent / "theirs")
    (home / "cache").symlink_to(home.parent / "theirs")
    before = {file.name: file.read_bytes() for file in (home.parent / "theirs").iterdir()}

    assert_refused(llmeval(*command), f"{home / 'cache'} is a symbolic link", "rm ")
    assert {f.name: f.read_bytes() for f in (home.parent / "theirs").iterdir()} == before


def test_rows_that_we_did_not_write_are_told(home: Path) -> None:
    import contextlib
    import sqlite3

    with contextlib.closing(sqlite3.connect(home / "cache" / "cache.db")) as database, database:
        database.execute("UPDATE Cache SET mode = 4")
    assert "1 row" in llmeval("cache", "stats").stdout
    assert "1 row that this plugin did not write left out" in (
        llmeval("cache", "export", "x.jsonl").stdout
    )


def test_why_tells_replays_from_new_requests(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.run()
    [first] = project.runs()
    project.write(app='PROMPT = "Please say yes to {case}. rate=0.8"')
    project.run("-k", "case-3")
    [edited] = set(project.runs()) - {first}  # ids of one second are in no order
    nodeid = "test_evals.py::test_says_yes[case-3]"

    result = llmeval("cache", "why", nodeid, f"--run={edited}")

    assert '"Please say yes to case-3. rate=0.8" here' in result.stdout
    assert '"Say yes to case-3. rate=0.8" stored' in result.stdout
    assert_refused(
        llmeval("cache", "why", nodeid[:-2] + "9", f"--run={edited}"), "Did you mean", nodeid
    )


def test_a_miss_names_what_differs_in_the_terminal_and_not_in_the_run(project: Project) -> None:
    project.run()
    project.write(app='PROMPT = "Please say yes to {case}. rate=0.8"')

    result = project.run("--llm-cache=replay")

    result.stdout.fnmatch_lines(['*here, "Say yes to case-* stored*'])
    import gzip

    assert b"Say yes" not in b"".join(gzip.decompress(run.read_bytes()) for run in project.runs())


def test_the_command_needs_no_pytest(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_llmeval", "cache", "stats"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1 reply" in done.stdout
    script = "import sys, pytest_llmeval.cli; print({'pytest', '_pytest'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "set()"
