"""A run file scanned: the mean scores of all cases and the trials of a few.

Making records of all trials takes most of the time of reading a large run, and is left out here.
The file is checked to the last byte all the same, and each line of a trial by its types.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path

from pytest_llmeval.records import Run, Trial
from pytest_llmeval.runs.run_file import faults_explained, read_run_header, read_run_lines
from pytest_llmeval.runs.run_lines import Beginning, RunHeader, read_line, read_trial
from pytest_llmeval.runs.store import RunStore


@dataclass(frozen=True, slots=True)
class ScannedRun:
    """A run file in memory.

    Attributes:
        path: of it.
        header: its first line.
        lines: of the trials of each case.
        means: of the scores of each case over its scored trials, by metric.
    """

    path: Path
    header: RunHeader
    lines: Mapping[str, Sequence[bytes]]
    means: Mapping[str, Mapping[str, float]]

    def trials_of(self, *cases: str, most: int | None = None) -> dict[str, tuple[Trial, ...]]:
        """Read the trials of a few cases; none of one that the run does not have.

        Args:
            cases: by their ids.
            most: how many of a case are read; None for all.

        Raises:
            BaselineUnreadable: a line is no trial.
        """
        functions = {each.id: each.function for each in self.header.run.cases}
        with faults_explained(self.path):
            return {
                case: tuple(
                    read_trial(line, functions=functions)
                    for line in self.lines.get(case, ())[:most]
                )
                for case in cases
            }


class HeaderStore(RunStore):
    """The runs of a folder, of which the headers alone are read."""

    def load(self, path: Path) -> Run:
        """Read a run without its trials.

        Raises:
            BaselineUnreadable: its header cannot be read.
        """
        return read_run_header(path).run


def scan_run(path: Path) -> ScannedRun:
    """Read a run file.

    Raises:
        BaselineUnreadable: it cannot be opened, or is damaged.
    """
    header, trials, _ = read_run_lines(path)
    lines: defaultdict[str, list[bytes]] = defaultdict(list)
    scores = defaultdict[str, defaultdict[str, list[float]]](lambda: defaultdict(list))
    with faults_explained(path):
        for line in trials:
            begin: Beginning = read_line(line, Beginning)
            lines[begin["case"]].append(line)
            told = begin.get("scores", {}) if begin["outcome"].is_scored else {}
            for metric, score in told.items():
                scores[begin["case"]][metric].append(score)
    means = {
        # The sum of as many numbers is the same in whatever order they come.
        case: {metric: fsum(values) / len(values) for metric, values in of_case.items()}
        for case, of_case in scores.items()
    }
    return ScannedRun(path, header, lines, means)
