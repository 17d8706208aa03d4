"""Do a trial's time and memory stay the same, however many trials there are?

100, 1000, 2500 and 5000 trials that ask a function model which waits 5 ms, 64 in flight,
as whole processes with an empty cache. From the step from the smallest to the largest: memory
a trial (target: below 10 KiB). From the steps above 1000: time a trial, which must stay
within 15 %.

Then 5000 trials of a function that returns at once, beside bare scripts that call it and write
as many rows by diskcache, each as durably, or read them; with ``--large`` 100,000 instead, which
takes half an hour. Run: ``python benchmarks/scale.py``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

from stopwatch import OUR_PYTEST, ROUNDS, Usage, interleaved, python, table

SIZES = (100, 1000, 2500, 5000)  # trials
REPEATS = 5
ROUNDS_OF_GROWTH = ROUNDS_OF_LARGE = 3
MEMORY_TARGET = 10.0  # KiB a trial
TIME_TARGET = 1.15
LARGE = 100_000
EMPTY, WARM = "pytest, empty cache", "pytest, replayed"
BARE_WRITE, BARE_READ = "bare script, writes the rows", "bare script, reads the rows"
TARGETS_OF_LARGE = {EMPTY: "wall 130 s, memory 450 MiB", WARM: "wall 70 s"}

MODEL = """
import time

def answer(messages):
    time.sleep(0.005)
    return "yes"

def at_once(messages):
    return "yes"
"""
TEST = """
import pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats={repeats})
@pytest.mark.parametrize("number", range({cases}))
def test_question(llm, number):
    assert llm.ask(f"Question {{number}}?").text == "yes"
"""


BARE = """
import json
import sys
import zlib

import diskcache

from model import at_once

with diskcache.Cache(f"{{sys.argv[2]}}/bare", sqlite_synchronous=2) as cache:
    for number in range({cases}):
        for trial in range({repeats}):
            if sys.argv[1] == "write":
                reply = at_once([{{"role": "user", "content": f"Question {{number}}?"}}])
                body = zlib.compress(json.dumps({{"text": reply}}).encode(), 1)
                cache[f"{{number}}/{{trial}}"] = body
            else:
                reply = json.loads(zlib.decompress(cache[f"{{number}}/{{trial}}"]))["text"]
            assert reply == "yes"
"""


def main() -> int:
    """Print the tables; 1 if a target of the first was missed."""
    parser = argparse.ArgumentParser(description="Measure many trials.")
    parser.add_argument("--large", action="store_true", help="measure 100,000 trials, nothing else")
    if parser.parse_args().large:
        measure_at_once(LARGE, rounds=ROUNDS_OF_LARGE, targets=TARGETS_OF_LARGE)
        return 0
    status = measure_growth()
    measure_at_once(SIZES[-1], rounds=ROUNDS, targets={})
    return status


def measure_growth() -> int:
    """Print the table of sizes; 1 if a target was missed."""
    with tempfile.TemporaryDirectory(prefix="llmeval-scale-") as name:
        folder = Path(name)
        for size in SIZES:
            write_project(folder, size)
        ours = [*OUR_PYTEST, "--llm-model=function/model:answer", "--llm-concurrency=64"]
        usages = interleaved(
            {str(size): [*ours, f"test_{size}.py"] for size in SIZES},
            folder=folder,
            rounds=ROUNDS_OF_GROWTH,
            before_each=lambda: shutil.rmtree(folder / ".llmeval", ignore_errors=True),
        )
    return _report({size: usages[str(size)] for size in SIZES})


def measure_at_once(size: int, *, rounds: int, targets: dict[str, str]) -> None:
    """Print a table of paid and one of replayed trials of a function that takes no time."""
    with tempfile.TemporaryDirectory(prefix="llmeval-scale-") as name:
        folder = Path(name)
        write_project(folder, size)
        (folder / "bare.py").write_text(
            BARE.format(repeats=REPEATS, cases=size // REPEATS), encoding="utf-8"
        )
        ours = [*OUR_PYTEST, "--llm-model=function/model:at_once", "--llm-concurrency=64"]
        commands = {
            EMPTY: [*ours, "--llm-dir=empty", f"test_{size}.py"],
            BARE_WRITE: ["bare.py", "write", "empty"],
            WARM: [*ours, "--llm-dir=warm", f"test_{size}.py"],
            BARE_READ: ["bare.py", "read", "warm"],
        }
        python(commands[WARM], folder=folder)
        python(["bare.py", "write", "warm"], folder=folder)
        usages = interleaved(
            commands,
            folder=folder,
            rounds=rounds,
            before_each=lambda: shutil.rmtree(folder / "empty", ignore_errors=True),
        )
    for unit, names in (("trials", (EMPTY, BARE_WRITE)), ("trials replayed", (WARM, BARE_READ))):
        print()
        print(table({name: usages[name] for name in names}, unit=f"{size} {unit}", targets=targets))


def write_project(folder: Path, size: int) -> None:
    """Write a test of so many trials, beside the functions that it may ask."""
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    text = TEST.format(repeats=REPEATS, cases=size // REPEATS)
    (folder / f"test_{size}.py").write_text(text, encoding="utf-8")


def _report(usages: dict[int, list[Usage]]) -> int:
    wall = {size: median(usage.wall for usage in each) for size, each in usages.items()}
    peak = {size: median(usage.peak for usage in each) for size, each in usages.items()}
    print("| trials | wall | peak memory |\n|---:|---:|---:|")
    for size in SIZES:
        print(f"| {size} | {wall[size]:.2f} s | {peak[size]:.0f} MiB |")
    memory = (peak[SIZES[-1]] - peak[SIZES[0]]) * 1024 / (SIZES[-1] - SIZES[0])
    early = (wall[2500] - wall[1000]) / 1500
    late = (wall[5000] - wall[2500]) / 2500
    print(f"\n{memory:.1f} KiB a trial (target: below {MEMORY_TARGET:g}).")
    print(f"{early * 1000:.2f} ms a trial from 1000 to 2500, {late * 1000:.2f} from 2500 to 5000:")
    print(f"{late / early:.2f} times (target: at most {TIME_TARGET:g}).")
    return 0 if memory < MEMORY_TARGET and late / early <= TIME_TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
