"""The hooks of pytest that this plugin answers.

Every pytest session in the environment loads this module, so it imports almost nothing. A session
without evals only has its items searched for a keyword.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmeval import fixtures
from pytest_llmeval.errors import BaselineError, SettingsError
from pytest_llmeval.pytest_options import (
    ENVIRON,
    PARSER,
    SESSION_KEY,
    SETTINGS,
    add_options,
    asks_only,
    check_questions,
    ci_of,
    environ_of,
    is_toml,
    near_flag,
    near_key,
    read_settings,
    readable_settings,
)
from pytest_llmeval.safe_text import printable, printable_message
from pytest_llmeval.settings import BRIEF, MARKER, RERUNS, STEP_SUMMARY

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_llmeval.engine.rerun.base_run import BaseRun
    from pytest_llmeval.engine.rerun.child import Brief
    from pytest_llmeval.engine.workers import ReportHooks
    from pytest_llmeval.judgement import Judgement
    from pytest_llmeval.records import CaseResult, Progress, Run
    from pytest_llmeval.reports.report import Report
    from pytest_llmeval.runs.store import FoundRun
    from pytest_llmeval.session import EvalSession
    from pytest_llmeval.settings import Settings

MARKER_HELP = (
    "llm_eval(repeats=5, *, min_score=None, gate=None, better='higher', cluster=None, "
    "wording=None, concurrency=None, intercept=None): "
    "run the test repeats times as one case, and gate on its mean"
)

# Else workers may have more to send, and reports of other plugins say that the session was stopped.
_CAME_TO_AN_END = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)
ENDED_BY_PYTEST = "pytest ended with a usage error before any eval ran"


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options and their ini twins, and make the fixtures known.

    Of two fixtures with one name pytest takes the one of the plugin registered last. This hook runs
    while our plugin is loaded, so ours come first: a user's fixture of the same name wins.
    """
    add_options(parser)
    pluginmanager.register(fixtures, "llmeval-fixtures")
    pluginmanager.register(fixtures.client_fixtures(), "llmeval-client-fixtures")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Keep the parser, which can tell typed options from those of addopts.

    Keep the variables, too, before a conftest changes any.
    """
    early_config.stash[PARSER] = parser
    early_config.stash[ENVIRON] = dict(os.environ)
    _watch_files(early_config)
    result = yield
    if mistyped := near_flag(parser, args):
        raise pytest.UsageError(mistyped)
    return result


def _watch_files(config: pytest.Config) -> None:
    """Note files that are opened from here on, if a base may run in a worktree, and in its run."""
    is_base = config.pluginmanager.has_plugin(BRIEF)
    if not is_base and config.known_args_namespace.llm_on_missing not in RERUNS:
        return
    from pytest_llmeval.engine.rerun.opened import opened_files
    from pytest_llmeval.engine.rerun.preparation import run_setup

    opened_files(config)
    if is_base:
        try:
            run_setup(config)
        except BaselineError as exc:
            raise pytest.UsageError(str(exc)) from None


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Check options that run no test, some of which pytest answers before it is configured."""
    try:
        check_questions(config)
    except SettingsError as exc:
        raise _usage_error(config, exc) from None


def pytest_configure(config: pytest.Config) -> None:
    """Check every option, and find the baseline before the first test or paid call."""
    config.addinivalue_line("markers", MARKER_HELP)
    try:
        brief = _read_brief(config)
        settings = read_settings(config, baseline_of=None if brief is None else brief.session)
        config.stash[SETTINGS] = settings
        hooks = SessionHooks(config, settings, brief)
        if settings.intercept:
            from pytest_llmeval.engine.trial.ledger import intercept_imports

            intercept_imports(config, fixtures.model_session)
    except (SettingsError, BaselineError) as exc:
        raise _usage_error(config, exc) from None
    if config.pluginmanager.register(hooks, "llmeval-session") is None:
        raise pytest.UsageError(
            "-p no:llmeval-session takes the gate away and leaves its options: each eval would run "
            "once, as an ordinary test. Take it out of addopts, or write -p no:llmeval"
        )


def _marked(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Pick the evals, and the ordinary tests of a marked module or class.

    Nothing of the engine is loaded where no item is marked.
    """
    marked = [item for item in items if MARKER in item.keywords]
    if not marked:
        return [], []
    from pytest_llmeval.engine.marker import is_eval

    evals = [item for item in marked if is_eval(item)]
    known = set(evals)
    return evals, [item for item in marked if item not in known]


def _usage_error(
    config: pytest.Config, error: Exception, *, has_begun: bool = False
) -> pytest.UsageError:
    """Turn our error into pytest's; the report files are written all the same.

    CI gets the error here, unless the session has begun, when other plugins write their reports.
    """
    from pytest_llmeval.models.http.masking import masked_keys  # a model that cannot be imported
    from pytest_llmeval.reports.formats import in_form

    message = printable_message(in_form(masked_keys(str(error)), toml=is_toml(config)))
    problems = _report_refusal(config, message)
    problems += [] if has_begun else _tell_ci(config, message)
    return pytest.UsageError("\n".join([message, *problems]))


def _tell_ci(config: pytest.Config, message: str) -> list[str]:
    """Tell GitHub and readers of JUnit's file why a session ends before pytest writes that file."""
    is_github = environ_of(config).get("GITHUB_ACTIONS") == "true"
    junit = getattr(config.option, "xmlpath", None)
    is_part = hasattr(config, "workerinput") or config.pluginmanager.has_plugin(BRIEF)
    if is_part or not (is_github or junit):
        return []
    from pytest_llmeval.reports.for_others import failures, github_annotations, refused, write_junit
    from pytest_llmeval.reports.make_report import make_report

    judgement = refused(readable_settings(config), message)
    found = failures(make_report(judgement), judgement)
    if is_github:
        print(*github_annotations(found), sep="\n", flush=True)
    path = os.path.expandvars(os.path.expanduser(junit or ""))  # noqa: PTH111 - as pytest does it
    return write_junit(config.invocation_params.dir / path, found) if junit else []


def _report_refusal(config: pytest.Config, message: str) -> list[str]:
    """Write the report files of a session that ends with 4; return sentences on failures."""
    is_part = hasattr(config, "workerinput") or config.pluginmanager.has_plugin(BRIEF)
    settings = readable_settings(config)
    environ = environ_of(config)
    # a mistake in words for pytest alone need not be one in words for us
    has_summary = STEP_SUMMARY in environ and message != ENDED_BY_PYTEST
    if is_part or not (settings.reports or has_summary):
        return []
    from pytest_llmeval.reports.for_others import append_summary, refused, write_reports
    from pytest_llmeval.reports.make_report import make_report

    judgement = refused(settings, message)
    report = make_report(judgement)
    return write_reports(report, settings.reports, judgement) + (
        append_summary(report, environ) if has_summary else []
    )


def _progress_line(progress: Progress, *, width: int) -> str:
    from pytest_llmeval.reports.terminal.section import progress_line  # no worker shows one

    return progress_line(progress, width=width)


def _read_brief(config: pytest.Config) -> Brief | None:
    """Return the order to make the run of a baseline; None for a session without this order."""
    is_told = config.pluginmanager.has_plugin(BRIEF)
    if not is_told and BRIEF not in getattr(config, "workerinput", ()):
        return None
    from pytest_llmeval.engine.rerun.child import read_brief

    return read_brief(config)


class SessionHooks:
    """The hooks of one session: gather what cases report, end with a judgement."""

    def __init__(self, config: pytest.Config, settings: Settings, brief: Brief | None) -> None:
        self._config = config
        self._brief = brief
        self._made: BaseRun | None = None
        self._settings = settings
        self._is_worker = hasattr(config, "workerinput")
        self._deselected: set[pytest.Item] = set()
        self._judgement: Judgement | None = None
        self._report: Report | None = None  # on the judgement
        self._collection_failed = False
        self._refusal = ""  # why a session that was begun ends with 4
        self._session: EvalSession | None = None
        self._report_problems: list[str] = []
        self._summary_problems: list[str] = []  # nobody asked for it, so they fail nothing
        self._forecast: list[str] = []
        self._annotations: list[str] = []
        self._started = time.perf_counter()
        self._reports: ReportHooks | None = None  # none before there is an eval or a worker
        self._asks_only = asks_only(config)
        if not self._asks_only and settings.baseline is not None:
            self._find_earlier_runs()
            self._started = time.perf_counter()  # a run that was made now took time of its own

    def _find_earlier_runs(self) -> None:
        from pytest_llmeval.engine import earlier_runs
        from pytest_llmeval.session import EvalSession, planned_judgement

        config, settings = self._config, self._settings
        earlier_runs.refuse_foreign_runs(config, settings)
        if not self._is_worker:
            make = self._make_run if settings.on_missing in RERUNS else None
            ci = ci_of(config)
            find = partial(earlier_runs.baseline_of, config, settings, ci=ci, make=make)
            planned = planned_judgement(
                settings,
                find=find,
                rootpath=config.rootpath,
                typed=self._typed(),
                may_defer=earlier_runs.may_defer(settings, ci, environ_of(config)),
            )
            self._session = EvalSession(planned)

    def _earlier_runs(self) -> list[tuple[Run, Path]]:
        """List the baseline and the anchor, and their files."""
        planned = None if self._session is None else self._session.planned
        found = [] if planned is None else [planned.baseline, planned.anchor]
        return [(one.run, one.path) for one in found if one is not None and one.run.cases]

    def _make_run(self, commit: str) -> FoundRun | None:
        """Run the evals of a commit now; None if the commit has none of the chosen evals."""
        from pytest_llmeval.engine.rerun.base_run import Rerun
        from pytest_llmeval.reports.terminal.section import begins, ended, rerun_notes

        config, stash = self._config, self._config.stash
        rerun = Rerun(config, self._settings, stash.get(PARSER, None), environ_of(config))
        print(begins(commit), flush=True)
        made = rerun.run(commit)
        print(ended(commit, made.found), flush=True)
        self._made = made
        if made.found is None:
            return None
        notes = rerun_notes(
            dropped=made.dropped, dependencies=made.dependencies, submodules=made.submodules
        )
        return replace(made.found, notes=tuple(notes))

    def pytest_report_header(self) -> list[str]:
        """Name the baseline, before the first test."""
        if self._session is None:
            return []
        from pytest_llmeval.reports.terminal.section import header

        return header(self._session.planned)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note tests that are left out openly; tests that vanish without a word count as gone."""
        self._deselected.update(items)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> Generator[None, object, object]:
        """Turn marked items into cases after all other plugins have chosen among the items."""
        collected, _ = _marked(items)
        result = yield
        if self._brief is not None:
            items[:] = filter(self._brief.wants, items)
        if not self._config.getoption("collectonly", False):
            try:
                evals, ordinary = _marked(items)
                self._warn_of_ordinary(ordinary)
                if evals:
                    self._begin(session, items, collected)
            except SettingsError as exc:
                if not self._is_worker:
                    error = _usage_error(self._config, exc, has_begun=True)
                    self._refusal = str(error)
                    raise error from None
                from pytest_llmeval.engine.workers import send_usage_error

                send_usage_error(self._config, exc)
                items.clear()
        return result

    def _warn_of_ordinary(self, ordinary: Sequence[pytest.Item]) -> None:
        """Warn once a session of marked tests that are no evals; one worker warns."""
        worker: dict[str, str] = getattr(self._config, "workerinput", {})
        if not ordinary or worker.get("workerid", "gw0") != "gw0":
            return
        from pytest_llmeval.engine.marker import ordinary_note

        path, line, _ = ordinary[0].location
        note, kind = ordinary_note(ordinary), pytest.PytestWarning
        try:
            warnings.warn_explicit(note, kind, filename=path, lineno=(line or 0) + 1)
        except pytest.PytestWarning as exc:  # the user turned warnings into errors
            raise SettingsError(str(exc)) from None

    def pytest_report_collectionfinish(self) -> list[str]:
        """Say what the session may cost, before the first paid call."""
        return self._forecast

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember that something could not be collected."""
        self._collection_failed |= report.failed

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str) -> None:
        """Refuse a misspelled key of the ini file before the first test, as pytest only warns."""
        mistyped = near_key(str(warning_message.message)) if when == "config" else ""
        if mistyped and not self._is_worker and self._brief is None:
            raise _usage_error(self._config, SettingsError(mistyped))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in the trials of a case, which come from the workers under xdist."""
        result: CaseResult | None = getattr(report, "llm_eval", None)
        if result is not None and not self._is_worker:
            self._take(result)
            # pytest keeps every report to the end
            report.llm_eval = replace(result, trials=(), opening=None)  # type: ignore[attr-defined]
            if self._reports is not None:
                self._reports.arrived.pop(result.id, None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send a worker the facts that it cannot know; follow the reports of workers."""
        from pytest_llmeval.engine.schedule.progress import follow_workers
        from pytest_llmeval.engine.workers import report_hooks, tell_worker

        node.workerinput[SESSION_KEY] = self._settings.session
        if self._brief is not None:
            node.workerinput[BRIEF] = self._brief.written()
        compared = [str(path) for _, path in self._earlier_runs()]
        tell_worker(node, config=self._config, compared=compared)
        self._reports = report_hooks(self._config, self._settings)
        self._reports.nodes.append(node)
        follow_workers(self._config, wording=_progress_line)

    @pytest.hookimpl(specname="pytest_sessionfinish", wrapper=True, tryfirst=True)
    def pytest_sessionfinish_recording(
        self, session: pytest.Session
    ) -> Generator[None, object, object]:
        """Take in the trials that ended before fixtures end, and record them also after Ctrl-C.

        A session that came to its end is judged now, as other plugins write their reports next.
        """
        self._take_unreported()
        try:
            if session.exitstatus in _CAME_TO_AN_END and self._has_all:
                judgement = self._judge(session)
                self._set_status(session, judgement)  # reports of other plugins have this line, too
                self._report_failures(session, judgement)
            elif why := self._refusal or (self._reports and self._reports.usage_error):
                from pytest_llmeval.reports.for_others import refused

                self._report_failures(session, refused(self._settings, why))
            return (yield)
        except KeyboardInterrupt:
            if self._session is not None and self._judgement is None and not self._is_worker:
                self._take_unreported()
                self._session.look_for_untracked(self._untracked)
                self._session.record()
            raise

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Record, compare, and turn a green session red if the gate says so."""
        self._take_unreported()
        if self._reports is not None and self._reports.usage_error:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            self._report_problems = _report_refusal(self._config, self._reports.usage_error)
        elif self._refusal:
            return
        elif session.exitstatus == pytest.ExitCode.USAGE_ERROR and self._session is None:
            self._report_problems = _report_refusal(self._config, ENDED_BY_PYTEST)
        elif self._is_worker and self._reports is not None:
            self._send_files()  # at the end: modules may be imported until then
        elif self._session is not None:
            judgement = self._judgement or self._judge(session)
            self._set_status(session, judgement)
            if self._brief is not None:
                self._brief.tell(run=judgement.path, foreign=self._foreign())

    @property
    def _has_all(self) -> bool:
        """Whether there is something to judge here, and the session is over."""
        if self._session is None or self._is_worker or self._refusal:
            return False
        reports = self._reports
        return reports is None or (reports.have_ended and not reports.usage_error)

    def _judge(self, session: pytest.Session) -> Judgement:
        """Record what ran, judge it, and write our own reports."""
        from pytest_llmeval.engine.earlier_runs import notes_on_store
        from pytest_llmeval.reports.make_report import make_report

        assert self._session is not None  # noqa: S101 - something is to be judged
        for note in notes_on_store(
            self._config, self._session.planned.settings, ci_of(self._config)
        ):
            self._session.note(note)
        seconds = time.perf_counter() - self._started
        self._session.look_for_untracked(self._untracked)
        self._session.saw_collection_error = self._collection_failed
        if self._made is not None:
            from pytest_llmeval.reports.terminal.section import ignored_note

            for note in ignored_note(self._made.ignored()):
                self._session.note(note)
        ended = session.exitstatus == pytest.ExitCode.OK
        self._judgement = self._session.judge(seconds=seconds, ended=ended)
        self._report = make_report(self._judgement)
        self._write_reports(self._report, self._judgement)
        return self._judgement

    def _report_failures(self, session: pytest.Session, judgement: Judgement) -> None:
        """Tell other reports, and CI, that the gate fails, except in the run of a base."""
        if not judgement.fails or self._brief is not None:
            return
        from pytest_llmeval.engine.reporting import report_failures
        from pytest_llmeval.reports.for_others import failures, github_annotations
        from pytest_llmeval.reports.make_report import make_report

        report = self._report if judgement is self._judgement else None
        found = failures(report or make_report(judgement), judgement)
        report_failures(session, found)
        if environ_of(self._config).get("GITHUB_ACTIONS") == "true":
            self._annotations = github_annotations(found)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the section."""
        if self._reports is not None and self._reports.usage_error:
            terminalreporter.write_line(f"ERROR: {self._reports.usage_error}", red=True)
        if self._judgement is not None and self._report is not None:
            from pytest_llmeval.reports.terminal.fitting import Page
            from pytest_llmeval.reports.terminal.section import section

            page = Page(
                width=self._config.get_terminal_writer().fullwidth,
                encoding=getattr(sys.stdout, "encoding", None) or "utf-8",
                verbose=self._config.getoption("verbose") > 0,
            )
            terminalreporter.write_sep("=", "llm evals")
            shown_as_m = 0 if self._reports is None else self._reports.shown_as_m
            lines = section(self._report, self._judgement, page, shown_as_m=shown_as_m)
            for line in lines:
                terminalreporter.write_line(line.text, **line.markup)
        for annotation in self._annotations:
            terminalreporter.write_line(annotation)
        for problem in (*self._report_problems, *self._summary_problems):
            terminalreporter.write_line(problem, red=True)

    def _write_reports(self, report: Report, judgement: Judgement) -> None:
        environ = environ_of(self._config)
        if not self._settings.reports and STEP_SUMMARY not in environ:
            return
        from pytest_llmeval.reports.for_others import append_summary, write_reports

        self._report_problems = write_reports(report, self._settings.reports, judgement)
        if self._brief is None:
            self._summary_problems = append_summary(report, environ)

    def _take(self, result: CaseResult) -> None:
        if self._asks_only:
            return  # an item that was only set up has no outcome
        if self._session is None:
            from pytest_llmeval.judgement import Judgement
            from pytest_llmeval.session import EvalSession

            self._session = EvalSession(Judgement(settings=self._settings))
        self._session.add(result)

    def _take_unreported(self) -> None:
        """Take in the trials before a session was stopped; a worker sends them at its end."""
        engine = self._config.pluginmanager.get_plugin("llmeval-engine")
        results: Iterable[CaseResult] = () if engine is None else engine.unreported()
        if self._is_worker and results:
            from pytest_llmeval.engine.workers import send_unreported

            send_unreported(self._config, results)
        elif not self._is_worker:
            arrived = () if self._reports is None else self._reports.unreported()
            for result in (*results, *arrived):
                self._take(result)

    def _typed(self) -> tuple[str, ...]:
        from pytest_llmeval.engine.run_header import typed_selection

        return typed_selection(self._config, self._config.stash.get(PARSER, None))

    def _untracked(self) -> tuple[str, ...]:
        from pytest_llmeval.engine.run_header import untracked

        others = set() if self._reports is None else self._reports.files()
        return (*untracked(self._config, others), *self._foreign())

    def _send_files(self) -> None:
        """Tell the controller which files this worker loaded; a failure costs a note there, too."""
        from pytest_llmeval.engine.workers import send_files, send_note
        from pytest_llmeval.session import files_unknown

        try:
            send_files(self._config, foreign=self._foreign())
        except Exception as exc:
            send_note(self._config, files_unknown(exc))

    def _foreign(self) -> tuple[str, ...]:
        """Name files of another working tree, by which a run is not of its commit."""
        if self._brief is None:
            return ()
        from pytest_llmeval.engine.rerun.child import foreign_files

        others = set() if self._reports is None else self._reports.foreign()
        return tuple(sorted({*foreign_files(self._config, self._brief), *others}))

    def _begin(
        self, session: pytest.Session, items: list[pytest.Item], collected: Sequence[pytest.Item]
    ) -> None:
        from pytest_llmeval.engine.earlier_runs import draws_to_replay, refuse_untrusted_runs
        from pytest_llmeval.engine.install import install
        from pytest_llmeval.engine.marker import case_id
        from pytest_llmeval.engine.run_header import Choice
        from pytest_llmeval.engine.workers import report_hooks

        config, settings, chosen = self._config, self._settings, set(items)
        if not self._asks_only:
            refuse_untrusted_runs(config, settings)
        models = fixtures.model_session(config)
        earlier = [run for run, _ in self._earlier_runs()]
        models.replies.prefer(*draws_to_replay(config, settings, earlier=earlier))
        opening = install(
            session,
            items,
            settings=settings,
            models=models,
            choice=Choice(
                collected=[case_id(item) for item in collected],
                left_out=[item for item in collected if item not in chosen],
                deselected=self._deselected,
                typed=self._typed(),
                job=ci_of(config).job,
                made=None if self._brief is None else "rerun",
            ),
            wording=_progress_line,
        )
        self._reports = report_hooks(config, settings)
        if not self._is_worker and not self._asks_only:
            self._foretell(opening)

    def _foretell(self, opening: Run) -> None:
        from pytest_llmeval.cache.process_locks import lack_of_locks
        from pytest_llmeval.engine.earlier_runs import source_of_forecast
        from pytest_llmeval.reports.cost import forecast

        baseline = None if self._session is None else self._session.planned.baseline
        run, is_known = source_of_forecast(self._settings, baseline)
        self._forecast = forecast(opening, run, settings=self._settings, is_baseline=is_known)
        lack = "" if self._settings.cache == "off" else lack_of_locks(self._settings.directory)
        if lack:
            self._forecast.append(printable(f"llm evals: {lack}"))

    def _set_status(self, session: pytest.Session, judgement: Judgement) -> None:
        """Turn a green session red; pytest's own verdicts 1 to 5 stand."""
        if session.exitstatus != pytest.ExitCode.OK:
            return
        if judgement.fails:
            from pytest_llmeval.reports.terminal.headline import failure_line

            # pytest prints this as the red line at the very end, also under -q and xdist.
            session.shouldfail = printable(failure_line(judgement))
        elif self._report_problems:
            session.shouldfail = f"llm evals: {self._report_problems[0]}"
        if session.shouldfail:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
