"""Sessions of a kind, each in a process of its own, and what they counted."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pytest_llmeval.records import Outcome, Run
from pytest_llmeval.runs.run_file import read_run
from tests.forked import run_forked
from tests.project import Project
from tests.servers.openai_server import OpenAIServer
from tests.truth.kinds import APP, PRELUDE, Kind

SCORED = (Outcome.PASSED, Outcome.MISSED, Outcome.CRASHED)
IGNORED = "__pycache__/\n.llmeval/\nout/\n.pytest_cache/\n*.log\nstdout\nstderr\n"
_HEADING = re.compile(r"^test function  .*$", re.MULTILINE)
_GAP = re.compile(r" {2,}")
_NAME = re.compile(r"test_a(?: \((\w+)\))?")
_CALLS = re.compile(r"(\d+) calls? made, \d+ replayed(?:.* (\d+) attempts? sent)?")


@dataclass(frozen=True)
class Session:
    """One session, and what it left.

    Attributes:
        output: what it printed.
        bodies: how many test bodies were begun.
        asked: how many calls reached the model.
        run: as recorded.
        report: the JSON report.
    """

    status: int
    output: str = field(repr=False)
    bodies: int
    asked: int
    run: Run = field(repr=False)
    report: dict[str, Any] = field(repr=False)

    @cached_property
    def means(self) -> Mapping[str, float]:
        """The means that are printed, by metric."""
        return self.printed_in(self.output)

    @staticmethod
    def printed_in(output: str) -> dict[str, float]:
        """Return the means that a session has printed, by metric: in the column of that name."""
        heading = _HEADING.search(output)
        assert heading, f"no table of functions in: {output}"
        at = _GAP.split(heading[0]).index("mean")
        rows = [_GAP.split(line) for line in output[heading.end() :].splitlines()]
        named = [(_NAME.fullmatch(row[0]), row) for row in rows]
        return {name[1] or "pass": float(row[at]) for name, row in named if name}

    @cached_property
    def reported_means(self) -> Mapping[str, float]:
        """The means of the JSON report, by metric."""
        return {
            one["metric"]: one["mean"]
            for one in self.report["functions"]
            if one["function"].endswith("::test_a")
        }

    @cached_property
    def outcomes(self) -> Mapping[tuple[str, int], tuple[Outcome, Mapping[str, float]]]:
        """How each trial ended, by case and index."""
        return {(one.case, one.index): (one.outcome, one.scores) for one in self.run.trials}

    @property
    def printed_calls(self) -> int:
        """How many calls were sent, as printed: those that were given up are sent, not made."""
        section = self.output[self.output.rindex("= llm evals =") :]
        (counts,) = _CALLS.findall(section)
        made, attempts = counts
        return int(attempts or made)

    @property
    def recorded_calls(self) -> int:
        """How many calls the run file has that were paid for or begun."""
        draws = [call for one in self.run.trials for call in one.calls if not call.replayed]
        shared = {call.draw for call in draws if call.slot.trial is None}
        return len(shared) + sum(call.slot.trial is not None for call in draws)

    def values(self, metric: str) -> Mapping[str, list[float]]:
        """The scores on a metric, of each case that has any."""
        values: dict[str, list[float]] = {}
        for one in self.run.trials:
            if one.outcome in SCORED:
                values.setdefault(one.case, []).append(one.scores.get(metric, 0.0))
        return values


class RatedServer(OpenAIServer):
    """Says yes at the rate that a prompt ends with: as often in every session."""

    def __init__(self) -> None:
        super().__init__(self._said)
        self._counts: Counter[str] = Counter()

    def begin(self) -> None:
        """Forget what was asked."""
        self.requests.clear()
        self._counts.clear()

    def _said(self, body: Mapping[str, Any], _number: int) -> str:
        prompt = body["messages"][-1]["content"]
        self._counts[prompt] += 1
        chance = Random(f"{prompt} {self._counts[prompt]}").random()  # noqa: S311 - no secret
        return "yes" if chance < float(prompt.rpartition("rate=")[2]) else "no"


class Sessions:
    """A project with one kind of eval, in a repository."""

    def __init__(self, kind: Kind, pytester: pytest.Pytester, server: RatedServer) -> None:
        self._kind = kind
        self._server = server
        self.project = Project(pytester)
        ini = f"[pytest]\nllm_model = function/app:{kind.model}\npythonpath = .\n{kind.ini}"
        self.project.write(app=APP, test_a=PRELUDE + kind.source, pytest_ini=ini)
        (self.project.path / ".gitignore").write_text(IGNORED)
        self.project.git("init", "-q", "-b", "main", "--template=")
        self.project.commit("main")

    def run(self, *options: str) -> Session:
        """Run the evals, to the end."""
        done = self.start(*options)
        assert done.ret in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), str(done.stdout)
        return self.ended(done)

    def start(self, *options: str) -> pytest.RunResult:
        """Run the evals, however the session ends."""
        for log in ("bodies", "calls"):
            (self.project.path / f"{log}.log").unlink(missing_ok=True)
        self._server.begin()
        for log in ("stdout", "stderr"):
            (self.project.path / log).unlink(missing_ok=True)
        return run_forked(
            self.project.pytester,
            "--llm-report=out/report.json",
            *(*self._kind.options, *options),
            timeout=900,  # a kind of which 60 trials wait for 4 s, one by one, takes 250
        )

    def ended(self, done: pytest.RunResult) -> Session:
        """Read what a session left."""
        report = json.loads((self.project.path / "out" / "report.json").read_text())
        return Session(
            status=int(done.ret),
            output=str(done.stdout),
            bodies=self._counted("bodies.log"),
            asked=self._counted("calls.log") + len(self._server.requests),
            run=read_run(self.project.path / report["run"]["file"]),
            report=report,
        )

    def forget_replies(self) -> None:
        """Let the next session find neither replies nor runs."""
        shutil.rmtree(self.project.path / ".llmeval")

    def _counted(self, name: str) -> int:
        path: Path = self.project.path / name
        return path.read_bytes().count(b"\n") if path.exists() else 0
