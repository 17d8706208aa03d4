"""A run file scanned: the mean scores of all cases and the trials of a few.

To make records of all trials of a large run takes seconds; most of that is saved here. The file
is checked to the last byte all the same, and so is each line of which a record is made.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from pytest_llmeval.records import Outcome, Run, Trial
from pytest_llmeval.runs.json_lines import Malformed, as_text, need, parse_line
from pytest_llmeval.runs.run_file import (
    CHANGED,
    faults_explained,
    opened_run,
    read_run_header,
    read_whole,
)
from pytest_llmeval.runs.run_lines import RunHeader, read_header, read_trial
from pytest_llmeval.runs.store import RunStore

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_BEGINNING = re.compile(
    rb'\{"case":(' + _STRING + rb'),"function":' + _STRING + rb',"trial":\d+,'
    rb'"outcome":"(\w+)"(?:,"scores":(\{(?:' + _STRING + rb":[^,}]*,?)*\}))?"
)
_SCORED = {outcome.value.encode() for outcome in Outcome if outcome.is_scored}

Tally = Counter[tuple[bytes, bytes, bytes]]  # case, outcome and scores of trials, as in the file


@dataclass(frozen=True, slots=True)
class ScannedRun:
    """A run file in memory.

    Attributes:
        path: of it.
        header: its first line.
        lines: all of them.
    """

    path: Path
    header: RunHeader
    lines: bytes

    def tally(self) -> Tally:
        """Count the trials that are alike.

        Raises:
            BaselineUnreadable: a line is no trial.
        """
        counts = Counter(_BEGINNING.findall(self.lines))
        with faults_explained(self.path):
            if counts.total() != self.header.trials:
                raise Malformed(f"{counts.total()} trials, not {self.header.trials}")
        return counts

    def means(self) -> Mapping[str, Mapping[str, float]]:
        """Average the scores of each case over its scored trials, by metric.

        Raises:
            BaselineUnreadable: a line is no trial.
        """
        tally = self.tally()
        return _means(tally, {case for case, _, _ in tally})

    def trials_of(self, *cases: str, most: int | None = None) -> dict[str, tuple[Trial, ...]]:
        """Read the trials of a few cases; none of one that the run does not have.

        Args:
            cases: that follow one another in the file are found at once.
            most: how many of a case are read; None for all.

        Raises:
            BaselineUnreadable: a line is no trial.
        """
        functions = {each.id: each.function for each in self.header.run.cases}
        found, place = {}, 0
        for case in cases:
            found[case], place = self._read(case, functions, begin=place, most=most)
        return found

    def _read(
        self, case: str, functions: Mapping[str, str], *, begin: int, most: int | None
    ) -> tuple[tuple[Trial, ...], int]:
        """Read the trials of one case, and tell where they end."""
        beginning = b"\n" + json.dumps({"case": case}, separators=(",", ":")).encode()[:-1] + b","
        trials: list[Trial] = []
        place, end = self.lines.find(beginning, begin), begin
        if place < 0:
            place = self.lines.find(beginning)
        while place >= 0 and len(trials) != most:
            end = self.lines.find(b"\n", place + 1)
            with faults_explained(self.path):
                line = parse_line(self.lines[place + 1 : end + 1])
                trials.append(read_trial(line, functions=functions))
            place = end if self.lines.startswith(beginning, end) else -1
        return tuple(trials), end


def means_that_moved(
    before: Tally, after: Tally
) -> tuple[Mapping[str, Mapping[str, float]], Mapping[str, Mapping[str, float]]]:
    """Average the scores of each case over its scored trials, by metric and on both sides.

    Cases whose trials are the same on both sides are left out.
    """
    moved = {case for (case, _, _), _ in before.items() ^ after.items()}
    return _means(before, moved), _means(after, moved)


def _means(tally: Tally, cases: Set[bytes]) -> dict[str, dict[str, float]]:
    known: dict[bytes, dict[str, float]] = {b"": {}}  # few trials have scores of their own
    totals: defaultdict[bytes, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    numbers: Counter[tuple[bytes, str]] = Counter()
    for (case, outcome, scores), count in tally.items():
        if case in cases and outcome in _SCORED:
            if scores not in known:
                known[scores] = json.loads(scores)
            for metric, value in known[scores].items():
                totals[case][metric] += value * count
                numbers[case, metric] += count
    ids = json.loads(b"[" + b",".join(totals) + b"]")
    return {
        name: {metric: total / numbers[case, metric] for metric, total in of_case.items()}
        for name, (case, of_case) in zip(ids, totals.items(), strict=True)
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
    with opened_run(path) as file:
        content = read_whole(file)
        end = content.rfind(b"\n", 0, -1) + 1
        digest = hashlib.sha256(memoryview(content)[:end]).hexdigest()
        if need(parse_line(content[end:]), "sha256", as_text) != digest:
            raise Malformed(CHANGED)
        header = read_header(parse_line(content[: content.find(b"\n") + 1]))
        return ScannedRun(path, header, content)
