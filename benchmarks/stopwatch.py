"""What the benchmarks share: measure whole processes, and print a table for docs/performance.md."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

# No other plugin than those that are named, see ``_environment``: what happens to be installed
# beside ours (hypothesis imports for a second) is not what is measured, and would flatter ratios.
BARE_PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
OUR_PYTEST = (*BARE_PYTEST, "-p", "llmeval")
ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Usage:
    """What one process took.

    Attributes:
        wall: seconds from its start to its end.
        cpu: seconds of CPU time, of its children as well.
        peak: largest resident memory in MiB, of the largest child if that is larger.
    """

    wall: float
    cpu: float
    peak: float


def python(arguments: Sequence[str], *, folder: Path) -> Usage:
    """Run python in a folder; end the benchmark if it fails."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=_environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            output.seek(0)
            command = " ".join(["python", *arguments])
            sys.exit(f"{command} ended with {child.returncode}\n{output.read()}")
    return Usage(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def interleaved(
    commands: Mapping[str, Sequence[str]],
    *,
    folder: Path,
    rounds: int,
    before_each: Callable[[], None] = lambda: None,
) -> dict[str, list[Usage]]:
    """Measure every command once a round, so that a slow minute of the machine hits all alike.

    The order turns from round to round.

    Args:
        commands: arguments of python, by the name of the command.
        rounds: how often each is measured, after one round that is not.
        before_each: makes the folder ready.

    Returns:
        One usage a round, by name.
    """
    usages: dict[str, list[Usage]] = {name: [] for name in commands}
    order = list(commands)
    for counted in range(-1, rounds):
        for name in order:
            before_each()
            usage = python(commands[name], folder=folder)
            if counted >= 0:
                usages[name].append(usage)
        order.reverse()
    return usages


def ratio(usages: Sequence[Usage], reference: Sequence[Usage], *, of: str = "wall") -> float:
    """Compare within each round, then take the median of the rounds."""
    pairs = zip(usages, reference, strict=True)
    return median(getattr(one, of) / getattr(other, of) for one, other in pairs)


def table(
    usages: Mapping[str, Sequence[Usage]], *, unit: str, targets: Mapping[str, str] | None = None
) -> str:
    """Write a Markdown table: medians, and the ``ratio`` of each command to the last.

    Args:
        usages: one a round, by name of the command.
        unit: what each of them does.
        targets: by name, of those that have one.
    """
    reference = list(usages.values())[-1]
    rows = [
        f"| {unit} | wall | ratio | CPU | ratio | peak memory | ratio | target |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name, each in usages.items():
        cells = [name]
        for of, form in (("wall", "{:.2f} s"), ("cpu", "{:.2f} s"), ("peak", "{:.0f} MiB")):
            middle = median(getattr(usage, of) for usage in each)
            cells += form.format(middle), f"{ratio(each, reference, of=of):.2f}"
        rows.append(f"| {' | '.join(cells)} | {(targets or {}).get(name, '')} |")
    rounds = f"Medians of {len(reference)} interleaved rounds; each ratio is taken within a round."
    return "\n".join([*rows, "", rounds])


def _environment() -> dict[str, str]:
    """Keep settings of the caller's pytest out of the measured one, and other plugins."""
    foreign = ("PYTEST_", "PYTHONDONTWRITEBYTECODE")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**ours, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
