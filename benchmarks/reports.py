"""Are the reports there at once, also where a suite is large?

In one process, after the imports: a comparison of nine functions with 556 cases x 10 repeats each,
of which five asked another prompt: the section on a terminal of 80 columns (target: below 1 s), the
JSON report (below 5 MB), and the Markdown made of it (below 2 s). Medians of 5 rounds.
Run: ``python benchmarks/reports.py``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Run
from pytest_llmeval.reports.json_report import json_text
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.markdown import render
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.terminal.section import section

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.reports.judgements import BRANCH, MAIN, Commit, function_of, judgement_of, suite

ROUNDS = 5
FUNCTIONS, CASES, REPEATS = 9, 556, 10
CHANGED = 5  # functions
LARGEST = 5e6  # bytes of a JSON report


def main() -> int:
    """Print the table; 1 if a target was missed."""
    judgement = large()
    report = make_report(judgement)
    size = len(json_text(report))
    rows: list[tuple[str, Callable[[], object], float | None]] = [
        (
            "section, 80 columns",
            lambda: list(section(make_report(judgement), judgement, Page())),
            1.0,
        ),
        ("report", lambda: make_report(judgement), None),
        ("JSON of it", lambda: json_text(report), None),
        ("Markdown of it", lambda: render(report), 2.0),
    ]
    print("| 5,004 cases x 10 | CPU | target |\n|---|---:|---:|")
    missed = False
    for name, action, target in rows:
        seconds = timed(action)
        missed |= target is not None and seconds >= target
        print(f"| {name} | {seconds:.2f} s | {f'below {target:g} s' if target else ''} |")
    print(f"\nThe JSON report has {size / 1e6:.1f} MB (target: below {LARGEST / 1e6:g}).")
    return int(missed or size >= LARGEST)


def large() -> Judgement:
    """The judgement on a run of the whole suite, which fell everywhere."""
    random = Random(1)  # noqa: S311 - no secret

    def recorded(commit: Commit, rate: float, prompt: str) -> Run:
        names = [f"case-{number}" for number in range(CASES)]
        functions = [
            function_of(
                f"evals/test_{number}.py::test_question_{number}",
                names,
                ["".join(random.choices("pm", (rate, 1 - rate), k=REPEATS)) for _ in names],
                prompt=prompt if number < CHANGED else "v1",
                replayed=commit == BRANCH and number >= CHANGED,
            )
            for number in range(FUNCTIONS)
        ]
        return suite(commit, *functions[1:], label=functions[0])

    baseline, run = recorded(MAIN, 0.9, "v1"), recorded(BRANCH, 0.8, "v2")
    return judgement_of(run, baseline=baseline)


def timed(action: Callable[[], object]) -> float:
    """CPU seconds that an action takes, the median of some rounds."""
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        action()
        taken.append(time.process_time() - start)
    return median(taken)


if __name__ == "__main__":
    sys.exit(main())
