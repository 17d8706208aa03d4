"""The process that judges: it takes in what cases report, from itself or from workers."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_llmeval.cache.process_locks import lack_of_locks
from pytest_llmeval.engine import earlier_runs
from pytest_llmeval.engine.gate_reports import report_failures
from pytest_llmeval.engine.run_header import ENDED, Choice, untracked
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.eval_process import EvalProcess
from pytest_llmeval.gate.confirmation import confirm
from pytest_llmeval.gate.results import Comparison
from pytest_llmeval.judgement import Judgement, pricing
from pytest_llmeval.judging import EarlyJudge
from pytest_llmeval.models.limits.journal import Journal
from pytest_llmeval.pytest_options import ci_of, started
from pytest_llmeval.records import CaseResult, Run
from pytest_llmeval.refusal import ENDED_BY_PYTEST, report_refusal, usage_error
from pytest_llmeval.reports import report_files
from pytest_llmeval.reports.cost import forecast
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.report import Report
from pytest_llmeval.reports.terminal import section
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.terminal.headline import failure_line
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.pooled import own_trials
from pytest_llmeval.runs.run_file import write_run
from pytest_llmeval.runs.store import FoundRun
from pytest_llmeval.safe_text import printable
from pytest_llmeval.session import EvalSession, planned_judgement
from pytest_llmeval.settings import RERUNS, Settings

if TYPE_CHECKING:
    from pytest_llmeval.engine.rerun.asking_again import AskingAgain
    from pytest_llmeval.engine.rerun.base_run import BaseRun, Rerun
    from pytest_llmeval.engine.rerun.child import Brief


class Controller(EvalProcess):
    """The evals of a session: gathered, recorded and judged.

    Attributes:
        session: gathers the trials.
    """

    progress_line = staticmethod(section.progress_line)

    def __init__(
        self, config: pytest.Config, settings: Settings, brief: Brief | None, started: float
    ) -> None:
        super().__init__(config, settings, brief, started)
        self._made: BaseRun | None = None
        self._judgement: Judgement | None = None
        self._report: Report | None = None  # on the judgement
        self._refusal = ""  # why a session that was begun ends with 4
        if settings.confirm:  # whose calls count under the caps of this session
            config.add_cleanup(Journal(settings.directory, settings.session).remove)
        self._asking_again: AskingAgain | None = None  # where something seems to have fallen
        self._problems: list[str] = []
        self._summary_problems: list[str] = []  # nobody asked for it, so they fail nothing
        self._annotations: list[str] = []
        self.session = EvalSession(self._planned())
        if settings.baseline is not None:
            self._started = time.perf_counter()  # a run that was made now took time of its own

    def _planned(self) -> Judgement:
        """Find the baseline and the anchor, before the first test or paid call."""
        config, settings, ci = self._config, self._settings, ci_of(self._config)
        if settings.baseline is None or self._asks_only:
            return Judgement(settings=settings)
        make = self._make_run if settings.on_missing in RERUNS else None
        return planned_judgement(
            settings,
            find=partial(earlier_runs.baseline_of, config, settings, ci=ci, make=make),
            rootpath=config.rootpath,
            typed=self._typed(),
            may_defer=earlier_runs.may_defer(settings, ci, started(config).environ),
        )

    def _make_run(self, commit: str) -> FoundRun | None:
        """Run the evals of a commit now; None if the commit has none of the chosen evals."""
        rerun = self._rerun()
        print(section.begins(commit), flush=True)
        self._made = made = rerun.run(commit)
        print(section.ended(commit, made.found), flush=True)
        if made.found is None:
            return None
        notes = section.rerun_notes(
            dropped=made.dropped, dependencies=made.dependencies, submodules=made.submodules
        )
        return replace(made.found, notes=tuple(notes))

    def _rerun(self) -> Rerun:
        from pytest_llmeval.engine.rerun.base_run import Rerun  # few sessions come here

        begun = started(self._config)
        return Rerun(self._config, self._settings, begun.parser, begun.environ, typed=begun.typed)

    def _compared_with(self) -> list[Baseline]:
        """List the baseline and the anchor, under the names that they were recorded with."""
        return [one for one in self.session.planned.recorded if one and one.run.cases]

    @cached_property
    def files_compared(self) -> list[str]:
        """The files of the baseline and the anchor for workers, with the draws of older runs."""
        return [str(self._file_of(one)) for one in self._compared_with()]

    def _file_of(self, found: Baseline) -> Path:
        if own_trials(found.run) == found.run:
            return found.path
        folder = tempfile.TemporaryDirectory(prefix="llmeval-")
        self._config.add_cleanup(folder.cleanup)
        write_run(found.run, path := Path(folder.name) / found.path.name)
        return path

    def early_judge(self, opening: Run) -> EarlyJudge | None:
        """Return the judge of functions whose trials are made; None where none is wanted."""
        return EarlyJudge(self.session.planned, opening) if self.looks_early else None

    @property
    def looks_early(self) -> bool:
        """Whether functions may stop early; not on main, whose whole run the next branches need."""
        hows = {one.how for one in self._compared_with()}
        return self._settings.gate.sequential and bool(hows) and "earlier commit" not in hows

    def header(self) -> list[str]:
        """Name the baseline."""
        return section.header(self.session.planned)

    def _begin(self, session: pytest.Session, items: list[pytest.Item], choice: Choice) -> Run:
        """Put the engine in place, and foretell what the session may cost."""
        if not self._asks_only:
            earlier_runs.refuse_unwritable_places(self._settings)
        opening = super()._begin(session, items, choice)
        if not self._asks_only:
            settings, baseline = self._settings, self.session.planned.baseline
            run, is_known = earlier_runs.source_of_forecast(settings, baseline)
            self.forecast += forecast(opening, run, settings=settings, is_baseline=is_known)
            if settings.cache != "off" and (lack := lack_of_locks(settings.directory)):
                self.forecast.append(printable(f"llm evals: {lack}"))
        return opening

    def _refuse(self, error: SettingsError, items: Sequence[pytest.Item]) -> None:
        """End the session.

        Raises:
            pytest.UsageError: always.
        """
        refused_by_us = usage_error(self._config, error, has_begun=True)
        self._refusal = str(refused_by_us)
        raise refused_by_us from None

    def take(self, report: pytest.TestReport) -> None:
        """Take in the trials of a case; pytest keeps its report to the end, without them."""
        result: CaseResult = report.llm_eval
        self._take(result)
        report.llm_eval = replace(result, trials=(), opening=None)  # type: ignore[attr-defined]
        self._reports.arrived.pop(result.id, None)

    def _take(self, result: CaseResult) -> None:
        if not self._asks_only:  # an item that was only set up has no outcome
            self.session.add(result)

    @property
    def _has_begun(self) -> bool:
        """Whether there is something to judge: a gate that was asked for, or results."""
        is_asked = self._settings.baseline is not None and not self._asks_only
        return is_asked or self.session.has_results

    def take_unreported(self) -> None:
        """Take in the trials before a session was stopped."""
        for result in (*self._unreported(), *self._reports.unreported()):
            self._take(result)

    def judge_early(self, session: pytest.Session) -> None:
        """Judge a session that came to its end, as other plugins write their reports next."""
        has_all = self._has_begun and self._reports.have_ended
        why = self._refusal or self._reports.usage_error
        # Else workers may have more to send, and reports of other plugins say what stopped it.
        if has_all and not why and session.exitstatus in ENDED:
            judgement = self._judge(session)
            self._set_status(session, judgement)  # reports of other plugins have this line, too
            self._report_failures(session, judgement)
        elif why:
            self._report_failures(session, report_files.refused(self._settings, why))

    def record(self) -> None:
        """Record the trials of a session that was stopped, without a judgement."""
        if self._judgement is None:
            self.take_unreported()
            self.session.look_for_untracked(self._untracked)
            self.session.record()

    def end(self, session: pytest.Session) -> None:
        """Record, compare, and turn a green session red if the gate says so."""
        if self._reports.usage_error:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            self._problems = report_refusal(self._config, self._reports.usage_error)
        elif self._refusal:
            return
        elif self._has_begun:
            judgement = self._judgement or self._judge(session)
            self._set_status(session, judgement)
            if self._brief is not None:
                self._brief.tell(run=judgement.path, foreign=self._foreign())
        elif session.exitstatus == pytest.ExitCode.USAGE_ERROR:
            self._problems = report_refusal(self._config, ENDED_BY_PYTEST)

    def _judge(self, session: pytest.Session) -> Judgement:
        """Record what ran, judge it, and write our own reports."""
        settings, ci = self.session.planned.settings, ci_of(self._config)
        notes = [*earlier_runs.notes_on_store(self._config, settings, ci)]
        seconds = time.perf_counter() - self._started
        self.session.look_for_untracked(self._untracked)
        notes += section.ignored_note(self._made.ignored()) if self._made is not None else ()
        is_green = session.exitstatus == pytest.ExitCode.OK
        has_ended = session.exitstatus in ENDED  # else nobody wants to pay for more
        look_again = partial(self._confirmed, has_ended=has_ended)
        confirm = look_again if settings.confirm and self._brief is None else None
        self._judgement = self.session.judge(
            seconds=seconds, is_green=is_green, notes=notes, confirm=confirm
        )
        if (again := self._asking_again) is not None:
            told = (*self._judgement.notes, *section.confirmed_by(again.asked, settings))
            self._judgement = replace(self._judgement, notes=told)
            if again.was_interrupted:
                session.exitstatus = pytest.ExitCode.INTERRUPTED
        self._report = report = make_report(self._judgement)
        self._problems = report_files.write_reports(report, self._settings.reports, self._judgement)
        if self._brief is None:
            environ = started(self._config).environ
            self._summary_problems = report_files.append_summary(report, environ)
        return self._judgement

    def _confirmed(
        self, planned: Judgement, baseline: Run, run: Run, found: Comparison, *, has_ended: bool
    ) -> Comparison:
        """Ask both sides again where something seems to have fallen."""
        # few sessions come here
        from pytest_llmeval.engine.rerun.asking_again import AskingAgain
        from pytest_llmeval.engine.rerun.child import ended_in_order

        assert planned.baseline is not None  # noqa: S101 - the run was compared with it
        reference = planned.baseline.reference
        old = planned.recorded[0]
        pairs = zip(planned.baseline.run.cases, old.run.cases if old else (), strict=False)

        def tell(cases: int, repeats: int) -> None:
            print(f"\n{section.asks_again(reference, cases, repeats)}", flush=True)

        with ended_in_order(), ExitStack() as undoing:
            again = self._asking_again = AskingAgain(
                self._settings,
                baseline=baseline,
                run=run,
                names={new.id: recorded.id for new, recorded in pairs},
                rerun=self._rerun,
                tell=tell,
                has_ended=has_ended,
                undoing=undoing,
            )
            rules, cost_of = planned.settings.gate, pricing(self._settings.prices)
            return confirm(baseline, run, found, rules, again, reference=reference, cost_of=cost_of)

    def _untracked(self) -> tuple[str, ...]:
        return (*untracked(self._config, self._reports.files()), *self._foreign())

    def _report_failures(self, session: pytest.Session, judgement: Judgement) -> None:
        """Tell other reports, and CI, that the gate fails, except in the run of a base."""
        if not judgement.fails or self._brief is not None:
            return
        report = self._report if judgement is self._judgement else None
        found = report_files.failures(report or make_report(judgement), judgement)
        report_failures(session, found)
        if started(self._config).environ.get("GITHUB_ACTIONS") == "true":
            self._annotations = report_files.github_annotations(found)

    def _set_status(self, session: pytest.Session, judgement: Judgement) -> None:
        """Turn a green session red; pytest's own verdicts 1 to 5 stand."""
        if session.exitstatus != pytest.ExitCode.OK:
            return
        if judgement.fails:
            # pytest prints this as the red line at the very end, also under -q and xdist.
            session.shouldfail = printable(failure_line(judgement))
        elif self._problems:
            session.shouldfail = f"llm evals: {self._problems[0]}"
        if session.shouldfail:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def show(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the section."""
        if self._reports.usage_error:
            terminalreporter.write_line(f"ERROR: {self._reports.usage_error}", red=True)
        if self._judgement is not None and self._report is not None:
            page = Page(
                width=self._config.get_terminal_writer().fullwidth,
                encoding=getattr(sys.stdout, "encoding", None) or "utf-8",
                verbose=self._config.getoption("verbose") > 0,
            )
            shown_as_m = self._reports.shown_as_m
            lines = list(
                section.section(self._report, self._judgement, page, shown_as_m=shown_as_m)
            )
            if lines:
                terminalreporter.write_sep("=", "llm evals")
            for line in lines:
                terminalreporter.write_line(line.text, **line.markup)
        for annotation in self._annotations:
            terminalreporter.write_line(annotation)
        for problem in (*self._problems, *self._summary_problems):
            terminalreporter.write_line(problem, red=True)
