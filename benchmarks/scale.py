"""Do a trial's time and memory stay the same, however many trials there are?

100, 1000, 2500 and 5000 trials that ask a function model which waits 5 ms, 64 in flight,
as whole processes with an empty cache. From the step from the smallest to the largest: memory
a trial (target: below 10 KiB). From the steps above 1000: time a trial, which must stay
within 15 %. Run: ``python benchmarks/scale.py``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

from stopwatch import OUR_PYTEST, Usage, interleaved

SIZES = (100, 1000, 2500, 5000)  # trials
REPEATS = 5
ROUNDS = 3
MEMORY_TARGET = 10.0  # KiB a trial
TIME_TARGET = 1.15

MODEL = """
import time

def answer(messages):
    time.sleep(0.005)
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


def main() -> int:
    """Print the table; 1 if a target was missed."""
    with tempfile.TemporaryDirectory(prefix="llmeval-scale-") as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        for size in SIZES:
            text = TEST.format(repeats=REPEATS, cases=size // REPEATS)
            (folder / f"test_{size}.py").write_text(text, encoding="utf-8")
        ours = [*OUR_PYTEST, "--llm-model=function/model:answer", "--llm-concurrency=64"]
        usages = interleaved(
            {str(size): [*ours, f"test_{size}.py"] for size in SIZES},
            folder=folder,
            rounds=ROUNDS,
            before_each=lambda: shutil.rmtree(folder / ".llmeval", ignore_errors=True),
        )
    return _report({size: usages[str(size)] for size in SIZES})


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
