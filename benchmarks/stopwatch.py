"""What the benchmarks share: time whole processes, and print a table for docs/performance.md."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

# Importing hypothesis takes its plugin about a second: added to both sides, that would
# flatter every ratio.
QUIET_PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")


def python(arguments: Sequence[str], *, folder: Path) -> str:
    """Run python in a folder, return what it printed; end the benchmark if it fails."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        command = " ".join(["python", *arguments])
        sys.exit(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def interleaved(
    commands: Mapping[str, Sequence[str]], *, folder: Path, rounds: int
) -> dict[str, list[float]]:
    """Time every command once a round, so that a slow minute of the machine hits all alike.

    The order turns from round to round.

    Args:
        commands: arguments of python, by the name of the command.
        rounds: how often each is timed, after one round that is not.

    Returns:
        Seconds of wall time of the whole process, one a round, by name.
    """
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    order = list(commands)
    for timed in range(-1, rounds):
        for name in order:
            start = time.perf_counter()
            python(commands[name], folder=folder)
            if timed >= 0:
                seconds[name].append(time.perf_counter() - start)
        order.reverse()
    return seconds


def ratio(values: Sequence[float], reference: Sequence[float]) -> float:
    """Compare within each round, then take the median of the rounds."""
    return median(value / other for value, other in zip(values, reference, strict=True))


def table(seconds: Mapping[str, Sequence[float]], *, unit: str) -> str:
    """Write a Markdown table: medians, and the ``ratio`` of each command to the last."""
    reference = list(seconds.values())[-1]
    rows = [f"| {unit} | median | ratio |", "|---|---:|---:|"]
    rows += [
        f"| {name} | {median(values):.2f} s | {ratio(values, reference):.2f} |"
        for name, values in seconds.items()
    ]
    return "\n".join(rows)


def _environment() -> dict[str, str]:
    """Keep settings of the caller's pytest out of the measured one."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
