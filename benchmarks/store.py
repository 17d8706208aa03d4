"""How long does a lookup take among 10,000 runs of a team?

They lie in the refs of a bare repository on the same disk, packed as hosts keep them. The target
is a lookup of main in 0.2 s. Run: ``python benchmarks/store.py``.
"""

from __future__ import annotations

import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pytest_llmeval.records import bare_run
from pytest_llmeval.runs.git import read_state
from pytest_llmeval.runs.lookup.refs import Refs
from pytest_llmeval.runs.lookup.session_baseline import find_baseline
from pytest_llmeval.runs.run_file import write_run
from pytest_llmeval.runs.sharing.shared_store import PREFIX, open_store, refs_at
from pytest_llmeval.runs.store import RunName
from pytest_llmeval.settings import Settings

RUNS, ROUNDS, TARGET = 10_000, 5, 0.2
RUN_ID = "20261121T084100-1a2b3c"


def git(folder: Path, *arguments: str, given: str = "") -> str:
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    command = ["git", "-C", str(folder), *author, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, check=True, text=True)
    return done.stdout.strip()


def make_repository(folder: Path) -> Path:
    """Make a branch one commit ahead of main, whose run is in the store among all others."""
    work, origin = folder / "work", folder / "origin.git"
    work.mkdir()
    git(work, "init", "--quiet", "--initial-branch=main")
    git(work, "commit", "--quiet", "--allow-empty", "--message=main")
    git(work, "clone", "--quiet", "--bare", str(work), str(origin))
    git(work, "remote", "add", "origin", str(origin))
    state, file = read_state(work), folder / "run.jsonl.gz"
    run = bare_run(RUN_ID, created="2026-11-21T08:41:00+00:00", commit=state.commit)
    write_run(replace(run, tree=state.tree), file)
    store = refs_at("git+refs://origin", directory=work / ".llmeval", git=state)
    store.put(RunName(state.commit or "", state.tree, RUN_ID), file.read_bytes())
    held = git(origin, "for-each-ref", "--format=%(objectname)", PREFIX)
    names = (
        f"{secrets.token_hex(20)}/{secrets.token_hex(20)}/20261120T000000-{number:06x}"
        for number in range(RUNS - 1)
    )
    refs = "".join(f"create {PREFIX}{name} {held}\n" for name in names)
    git(origin, "update-ref", "--stdin", given=refs)
    git(origin, "pack-refs", "--all")
    git(work, "switch", "--quiet", "--create", "branch")
    git(work, "commit", "--quiet", "--allow-empty", "--message=branch")
    return work


def median(act: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        act()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main() -> int:
    """Print both times; 1 if the target was missed."""
    with tempfile.TemporaryDirectory(prefix="llmeval-store-") as name:
        work = make_repository(Path(name))
        directory, state = work / ".llmeval", read_state(work)

        def look_up() -> None:
            store = open_store(directory, named="git+refs://origin", git=state)
            found = find_baseline(
                "main", Refs(store, state), Settings(session=""), root=".", selection=()
            )
            assert found.run.id == RUN_ID

        def list_all() -> None:
            store = refs_at("git+refs://origin", directory=directory, git=state)
            assert len(store.names()) == RUNS

        listing = median(list_all)
        lookup = median(look_up)
    print(f"{RUNS} runs: the index {listing:.3f} s, a lookup of main {lookup:.3f} s")
    return int(lookup > TARGET)


if __name__ == "__main__":
    sys.exit(main())
