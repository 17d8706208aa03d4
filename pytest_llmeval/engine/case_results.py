"""Results of cases on their way to the process that judges: on a report each, or at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from pytest_llmeval.engine.case import CaseRunner
from pytest_llmeval.engine.safe_report import safe_failure, safe_output
from pytest_llmeval.engine.trial.ledger import SharedCalls
from pytest_llmeval.models.model_session import ModelSession
from pytest_llmeval.records import CaseResult, News, Run


class CaseResults:
    """What a process tells of its cases, each result once.

    Args:
        opening: the run that begins; it rides on the first report.
        runners: of every case.
        models: all that the session holds of models.
        shared: the calls of no single trial.
    """

    def __init__(
        self, opening: Run, runners: Sequence[CaseRunner], models: ModelSession, shared: SharedCalls
    ) -> None:
        self._opening, self._runners = opening, runners
        self._models, self._shared = models, shared
        self._reported: set[pytest.Item] = set()  # cases that the session knows of
        self._in_report: tuple[pytest.Item, CaseResult] | None = None
        process = uuid4().hex  # workers may run on several machines
        self._ids = (f"{process}-{number}" for number in count(1))  # none is taken in twice
        self._noted: set[str] = set()  # of what a note is not told again

    def put_on(self, report: Any, runner: CaseRunner) -> None:
        """Have the report of a case carry its result, and show what its trials left."""
        result = self._result(runner)
        self._in_report = runner.item, result
        report.longrepr = safe_failure(report.longrepr)
        report.sections = safe_output(runner.trials.sections(report))
        report.duration = sum(trial.record.seconds for trial in runner.trials.ended)
        report.llm_eval = result  # rides along

    def note_arrival(self) -> None:
        """Note that the last report is known to the session, or on its way to the controller."""
        if self._in_report is not None:
            self._reported.add(self._in_report[0])
            self._in_report = None

    def unreported(self) -> list[CaseResult]:
        """Return results that no report carried: cases with trials that had ended, and the news.

        Ctrl-C may come while a report is on its way: its result is told again, with the same id.
        """
        results = [] if self._in_report is None else [self._in_report[1]]
        self.note_arrival()
        for runner in self._runners:
            if runner.item not in self._reported and runner.trials.ended:
                results.append(self._result(runner))
                self._reported.add(runner.item)
        if self._reported:  # without a trial that ended there is no run
            news = self._news()
            results += [CaseResult(id=next(self._ids), news=news)] if news != News() else []
        return results

    def _result(self, runner: CaseRunner) -> CaseResult:
        for about, note in runner.notes():
            if about not in self._noted:
                self._noted.add(about)
                self._models.notes.append(note)
        news = self._news() + News(outside_calls=runner.trials.take_unrecorded())
        result = replace(runner.result(next(self._ids)), news=news)
        if self._reported:
            return result
        # Not at the end, in workeroutput: a worker that is killed never sends that.
        total = sum(runner.trials.repeats for runner in self._runners)
        return replace(result, opening=self._opening, total=total)

    def _news(self) -> News:
        """Return notes and counts that belong to no case and that no report carried before.

        Whoever runs a case again may keep its report back: what that was to tell is among them.
        """
        notes, self._models.notes[:] = list(self._models.notes), []
        imported, self._models.outside_calls = self._models.outside_calls, 0
        news = News(
            notes=tuple(notes),
            outside_calls=self._shared.take_new_calls() + imported,
            attempts=self._models.services.budget.take_sent(),
            slowdowns=tuple(self._models.services.throttle.take_slowdowns()),
            connections=tuple(self._models.unseen.take()),
        )
        return news if self._in_report is None else self._in_report[1].news + news
