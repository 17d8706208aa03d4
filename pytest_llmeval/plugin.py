"""The hooks: what pytest asks, and who answers.

Every pytest session in the environment loads this module, so it imports next to
nothing; a session without evals never gets further than a test of a keyword.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_llmeval import fixtures
from pytest_llmeval.errors import BaselineError, BaselineNotFound, SettingsError
from pytest_llmeval.fixtures import client_fixtures, model_session
from pytest_llmeval.options import (
    PARSER,
    SESSION_KEY,
    SETTINGS,
    add_options,
    asks_only,
    check_questions,
    read_settings,
)

if TYPE_CHECKING:
    from pytest_llmeval.judgement import Judgement
    from pytest_llmeval.models.limits.spending import Journal
    from pytest_llmeval.records import Run
    from pytest_llmeval.runs.lookup.baseline import Baseline
    from pytest_llmeval.runs.retry import Retry
    from pytest_llmeval.session import EvalSession
    from pytest_llmeval.settings import Settings

MARKER_HELP = (
    "llm_eval(repeats=5, *, min_score=None, gate=None, better='higher', cluster=None, "
    "wording=None, concurrency=None, intercept=None): "
    "run the test repeats times as one case, and gate on its mean"
)
_USAGE_KEY = "llmeval_usage_error"
_FILES_KEY = "llmeval_files"
_UNREPORTED_KEY = "llmeval_unreported"
_TYPED_KEY = "llmeval_typed"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options and their ini twins."""
    add_options(parser)


def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> None:
    """Keep the parser, which can tell what was typed from what stands in addopts."""
    early_config.stash[PARSER] = parser


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Look before pytest answers a question, some of which it does before it is configured."""
    try:
        check_questions(config)
    except SettingsError as exc:
        raise pytest.UsageError(str(exc)) from None


def pytest_configure(config: pytest.Config) -> None:
    """Check every option, and find the baseline before anything is run or paid for."""
    config.addinivalue_line("markers", MARKER_HELP)
    try:
        settings = read_settings(config)
        config.stash[SETTINGS] = settings
        hooks = SessionHooks(config, settings)
        if settings.intercept:
            _intercept_imports(config)
    except (SettingsError, BaselineError) as exc:
        raise pytest.UsageError(str(exc)) from None
    config.pluginmanager.register(hooks, "llmeval-session")
    config.pluginmanager.register(fixtures, "llmeval-fixtures")
    config.pluginmanager.register(client_fixtures(), "llmeval-client-fixtures")


def _intercept_imports(config: pytest.Config) -> None:
    """Keep what modules ask while they are imported: only the ini file can tell so early."""
    from pytest_llmeval.engine.trial.shared_calls import IMPORTS, ImportHooks
    from pytest_llmeval.models.intercept.patch import check_seams

    check_seams()
    config.pluginmanager.register(
        ImportHooks(lambda asker: model_session(config).intercepting(asker)), IMPORTS
    )


class SessionHooks:
    """The session's side: gathers what cases report and ends with a judgement."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._is_worker = hasattr(config, "workerinput")
        self._deselected: set[pytest.Item] = set()
        self._usage_error = ""
        self._judgement: Judgement | None = None
        self._collection_failed = False
        self._session: EvalSession | None = None
        self._report_problems: list[str] = []
        self._forecast: list[str] = []
        self._started = time.perf_counter()
        self._retry: Retry | None = None
        self._nodes: list[Any] = []  # xdist's workers
        self._arrived: dict[str, dict[str, Any]] = {}  # what they sent and is not taken in, by id
        self._asks_only = asks_only(config)
        if self._asks_only:
            return
        if settings.baseline is not None or settings.retry_errors:
            self._refuse_foreign()
        if settings.retry_errors:
            from pytest_llmeval.engine.earlier_runs import retry_of

            self._retry = retry_of(config, settings)
        if not self._is_worker and (settings.baseline is not None or self._retry is not None):
            self._session = _planned_session(config, settings, self._retry, typed=self._typed())

    def pytest_report_header(self) -> list[str]:
        """Say what will be compared with, before the first test."""
        if self._session is None:
            return []
        from pytest_llmeval.printable import printable
        from pytest_llmeval.reports.terminal import baseline_lines, retry_lines

        lines = [
            *baseline_lines(self._session.baseline),
            *baseline_lines(self._session.anchor, side="anchor"),
            *retry_lines(self._session.retry),
        ]
        return [printable(f"llm evals: {line}") for line in lines]

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note what is left out openly; what vanishes without a word counts as gone."""
        self._deselected.update(items)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> Generator[None, object, object]:
        """Turn marked items into cases once all others have chosen among the items."""
        collected = [item for item in items if _bears_the_marker(item)]
        result = yield
        marked = [item for item in items if _bears_the_marker(item)]
        if (marked or self._retry) and not self._config.getoption("collectonly", False):
            kept = set(marked)
            left_out = [item for item in collected if item not in kept]
            try:
                self._install(session, marked, items, left_out=left_out)
            except SettingsError as exc:
                if not self._is_worker:
                    raise pytest.UsageError(str(exc)) from None
                # A raise in a worker would end as an INTERNALERROR.
                _worker_output(self._config)[_USAGE_KEY] = str(exc)
                items.clear()
        return result

    def pytest_report_collectionfinish(self) -> list[str]:
        """Say what the session may cost, before the first paid call."""
        return self._forecast

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember that something could not be collected."""
        self._collection_failed |= report.failed

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in the trials of a case; under xdist they come from the workers."""
        payload = getattr(report, "llm_eval", None)
        if payload is not None and not self._is_worker:
            self._take(payload)
            # pytest keeps every report to the end
            report.llm_eval = payload | {"trials": []}  # type: ignore[attr-defined]
            self._arrived.pop(payload["id"], None)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self, report: Any) -> Generator[None, Any, Any]:
        """Write the trials of a case as what a worker, or a plugin that keeps a log, can send."""
        data = yield
        payload = getattr(report, "llm_eval", None)
        if payload is not None:
            from pytest_llmeval.engine.case.case_report import sendable

            data["llm_eval"] = sendable(payload)
        return data

    @pytest.hookimpl(wrapper=True)
    def pytest_report_from_serializable(self) -> Generator[None, Any, Any]:
        """Keep what a worker sent: a controller that was interrupted hands no more reports on."""
        report = yield
        lines = getattr(report, "llm_eval", None)
        if lines is not None:
            from pytest_llmeval.engine.case.case_report import received

            report.llm_eval = self._arrived[lines["id"]] = received(lines)
        return report

    def pytest_report_teststatus(self, report: pytest.TestReport) -> Any:
        """Show a case as ``4/5 passed``, a yellow ``m`` if one fell short, ``E`` if all erred."""
        payload = getattr(report, "llm_eval", None)
        if payload is None or hasattr(report, "wasxfail"):
            return None
        if payload["outcome"] == "errored" and report.when == "call":
            return "error", "E", "ERROR"
        if not report.passed:
            return None
        word = payload["score"]
        if payload["fell_short"]:
            return "passed", "m", (word, {"yellow": True})
        return "passed", ".", word

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker whether its queue may be taken from it; follow what workers report."""
        stealing = self._config.getoption("dist", "no") == "worksteal"
        self._nodes.append(node)
        node.workerinput["llmeval_stealing"] = stealing
        node.workerinput[SESSION_KEY] = self._settings.session
        node.workerinput[_TYPED_KEY] = [str(one) for one in self._config.invocation_params.args]
        if self._retry is not None:
            from pytest_llmeval.engine.earlier_runs import RETRY_KEY

            node.workerinput[RETRY_KEY] = str(self._retry.path)
        from pytest_llmeval.engine.schedule.progress import follow_workers
        from pytest_llmeval.reports.progress import progress_line

        follow_workers(self._config, word=progress_line)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear from a worker that ended."""
        output = getattr(node, "workeroutput", None) or {}
        self._take_sent(output)
        self._usage_error = self._usage_error or output.get(_USAGE_KEY, "")
        self._note_end(node)

    def pytest_unconfigure(self) -> None:
        """Leave nothing behind that only this session needs."""
        if self._is_capped and not self._is_worker:
            self._journal().remove()

    @pytest.hookimpl(specname="pytest_sessionfinish", wrapper=True, tryfirst=True)
    def pytest_sessionfinish_recording(self) -> Generator[None, object, object]:
        """Take in what ended before fixtures end; record it also if Ctrl-C comes meanwhile."""
        self._take_unreported()
        try:
            return (yield)
        except KeyboardInterrupt:
            if self._session is not None and not self._is_worker:
                self._take_unreported()
                self._session.untracked = self._untracked()
                self._session.record()
            raise

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Record, compare, and turn a green session red if the gate says so."""
        self._take_unreported()
        if self._usage_error:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        elif self._is_worker:
            self._tell_files()
        elif self._session is not None:
            seconds = time.perf_counter() - self._started
            self._session.untracked = self._untracked()
            self._session.saw_collection_error = self._collection_failed
            ended = session.exitstatus == pytest.ExitCode.OK
            self._judgement = self._session.judge(seconds=seconds, ended=ended)
            self._write_reports(self._judgement)
            self._set_status(session, self._judgement)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the section."""
        if self._usage_error:
            terminalreporter.write_line(f"ERROR: {self._usage_error}", red=True)
        if self._judgement is None:
            return
        from pytest_llmeval.printable import printable
        from pytest_llmeval.reports.terminal import section

        terminalreporter.write_sep("=", "llm evals")
        for line in section(self._judgement):
            terminalreporter.write_line(printable(line.text), **line.markup)
        for problem in self._report_problems:
            terminalreporter.write_line(problem, red=True)

    def _take(self, payload: dict[str, Any]) -> None:
        if self._asks_only:
            return  # what was only set up has no outcome
        if self._session is None:
            from pytest_llmeval.session import EvalSession

            self._session = EvalSession(self._settings)
        self._session.add(payload)

    def _take_all(self, payloads: Iterable[dict[str, Any]]) -> None:
        for payload in payloads:
            self._take(payload)

    def _take_unreported(self) -> None:
        """Take in what had ended when the session was stopped; a worker sends it at its end."""
        engine = self._config.pluginmanager.get_plugin("llmeval-engine")
        payloads: list[dict[str, Any]] = [] if engine is None else engine.unreported()
        if self._is_worker and payloads:
            from pytest_llmeval.engine.case.case_report import sendable

            sent = _worker_output(self._config).setdefault(_UNREPORTED_KEY, [])
            sent.extend(map(sendable, payloads))
        elif not self._is_worker:
            self._take_all((*payloads, *self._arrived.values()))
            for node in self._nodes:
                self._take_sent(getattr(node, "workeroutput", None) or {})

    def _take_sent(self, output: dict[str, Any]) -> None:
        """Take in what a worker sent at its end, of cases that no report had told."""
        from pytest_llmeval.engine.case.case_report import received

        self._take_all(map(received, output.get(_UNREPORTED_KEY, ())))

    def _typed(self) -> tuple[str, ...]:
        """Tell what the user typed of the selection; a worker knows it from its controller."""
        from pytest_llmeval.engine.run_header import typed_selection

        worker: dict[str, list[str]] = getattr(self._config, "workerinput", {})
        arguments = worker.get(_TYPED_KEY, self._config.invocation_params.args)
        return typed_selection(self._config, self._config.stash.get(PARSER, None), arguments)

    def _refuse_foreign(self) -> None:
        from pytest_llmeval.cache.storage.directory import refuse_foreign

        if not self._settings.directory_is_named:
            refuse_foreign(self._settings.directory, rootpath=self._config.rootpath)

    def _tell_files(self) -> None:
        """Let the controller know what was imported here; modules may be imported to the last."""
        if self._config.pluginmanager.has_plugin("llmeval-engine"):
            from pytest_llmeval.engine.run_header import files_used

            files = [str(path) for path in files_used(self._config)]
            _worker_output(self._config)[_FILES_KEY] = files

    def _untracked(self) -> tuple[str, ...]:
        from pytest_llmeval.engine.run_header import files_used, git_state
        from pytest_llmeval.runs.git import unknown_files

        outputs = (getattr(node, "workeroutput", None) or {} for node in self._nodes)
        theirs = (Path(file) for output in outputs for file in output.get(_FILES_KEY, ()))
        files = {*files_used(self._config), *theirs}
        return unknown_files(files, top=git_state(self._config).top)

    def _install(
        self,
        session: pytest.Session,
        marked: Sequence[pytest.Item],
        items: list[pytest.Item],
        *,
        left_out: Sequence[pytest.Item],
    ) -> None:
        from pytest_llmeval.engine.earlier_runs import unfinished
        from pytest_llmeval.engine.install import install
        from pytest_llmeval.engine.marker import read_marker
        from pytest_llmeval.engine.run_header import git_state, open_run
        from pytest_llmeval.models.http.masking import masked_logs
        from pytest_llmeval.reports.progress import progress_line
        from pytest_llmeval.runs.store import refuse_tracked

        if not self._asks_only:
            self._refuse_foreign()
            refuse_tracked(self._settings.directory, git=git_state(self._config))
        models = model_session(self._config)
        if self._settings.model is not None:
            models.check(self._settings.model)
            self._check_price(self._settings.model)
        self._config.add_cleanup(_entered(masked_logs()))
        evals = [read_marker(item, self._settings) for item in marked]
        if any(spec.intercept for spec in evals):
            from pytest_llmeval.models.intercept.patch import check_seams
            from pytest_llmeval.models.intercept.recognition import check_keys

            check_seams()
            check_keys()
        opening = open_run(
            self._config,
            [spec.case for spec in evals],
            rules=self._settings.gate,
            left_out=left_out,
            deselected=self._deselected,
            typed=self._typed(),
            completes=self._retry.run.id if self._retry else None,
        )
        if self._retry is None and not self._is_worker and not self._asks_only:
            self._forecast = self._foretell(opening)
        if self._retry is not None:
            evals = unfinished(self._config, items, evals, retry=self._retry)
            if not evals:
                return
        # The gate's libraries: 0.3 s that a session which waits for a model need not add.
        ahead = () if self._is_worker else ("pytest_llmeval.stats", "pytest_llmeval.gate")
        install(
            session,
            evals,
            settings=self._settings,
            opening=opening,
            models=models,
            word=progress_line,
            ahead=ahead,
            standing=self._retry.standing if self._retry else None,
        )

    def _foretell(self, opening: Run) -> list[str]:
        """Go by the baseline, without one by the newest run."""
        from pytest_llmeval.reports.forecast import forecast
        from pytest_llmeval.runs.store import RunStore

        baseline = None if self._session is None else self._session.baseline
        if baseline is not None and not baseline.run.cases:
            baseline = None
        source = None if baseline is None else baseline.run
        if baseline is None:
            with contextlib.suppress(BaselineError):
                newest = RunStore(self._settings.directory).newest()
                source = None if newest is None else newest.run
        return forecast(opening, source, settings=self._settings, is_baseline=baseline is not None)

    def _check_price(self, model: str) -> None:
        if self._settings.max_cost is not None:
            from pytest_llmeval.models.limits.prices import Prices

            Prices(self._settings.prices).check(model, cap=self._settings.max_cost)

    def _note_end(self, node: Any) -> None:
        """Tell the other workers, which may wait for what this one had reserved."""
        if self._is_capped:
            self._journal().note_end(node.gateway.id)

    @property
    def _is_capped(self) -> bool:
        return self._settings.max_calls is not None or self._settings.max_cost is not None

    def _journal(self) -> Journal:
        from pytest_llmeval.models.limits.spending import Journal

        return Journal.of_session(self._settings.directory, self._settings.session)

    def _write_reports(self, judgement: Judgement) -> None:
        if not self._settings.reports:
            return
        from pytest_llmeval.reports.json import render

        for path in self._settings.reports:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(render(judgement), encoding="utf-8")
            except OSError as exc:
                self._report_problems.append(f"--llm-report={path}: not written: {exc}")

    def _set_status(self, session: pytest.Session, judgement: Judgement) -> None:
        """Turn a green session red; pytest's own verdicts 1 to 5 stand.

        Only "no tests collected" does not, where no trial had to be run again.
        """
        is_done = self._retry is not None and self._retry.is_done
        if is_done and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK
        if session.exitstatus != pytest.ExitCode.OK:
            return
        if judgement.fails:
            from pytest_llmeval.printable import printable
            from pytest_llmeval.reports.terminal import failure_line

            # pytest prints this as the red line at the very end, also under -q and xdist.
            session.shouldfail = printable(failure_line(judgement))
        elif self._report_problems:
            session.shouldfail = f"llm evals: {self._report_problems[0]}"
        if session.shouldfail:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _planned_session(
    config: pytest.Config, settings: Settings, retry: Retry | None, *, typed: Sequence[str]
) -> EvalSession:
    """Find the baseline now, before anything is run or paid for."""
    from pytest_llmeval.engine.earlier_runs import anchor_of, baseline_of
    from pytest_llmeval.runs.renaming import idle_renames, under_new_names
    from pytest_llmeval.session import EvalSession

    found: dict[str, Baseline | None] = {"baseline": None, "anchor": None}
    missing: dict[str, str] = {}
    sought = (("baseline", settings.baseline, baseline_of), ("anchor", settings.anchor, anchor_of))
    for name, reference, find in sought:
        try:
            if reference is not None:
                found[name] = find(config, settings, reference, retry=retry)
        except BaselineNotFound as exc:
            if settings.on_missing == "error":
                raise
            missing[name] = exc.line
    runs = [one.run for one in found.values() if one is not None]
    notes = idle_renames(runs, settings.renamed)
    named = {
        name: None if one is None else under_new_names(one, settings.renamed)
        for name, one in found.items()
    }
    return EvalSession(
        settings,
        baseline=named["baseline"],
        anchor=named["anchor"],
        not_gated=missing.get("baseline", ""),
        not_anchored=missing.get("anchor", ""),
        retry=retry,
        typed=typed,
        lost=_lost(filter(None, named.values()), config.rootpath),
        notes=notes,
    )


def _lost(baselines: Iterable[Baseline], rootpath: Path) -> frozenset[str]:
    """Name the files of baselines that are not there any more."""
    functions = {case.function for baseline in baselines for case in baseline.run.cases}
    files = {function.partition("::")[0] for function in functions}
    return frozenset(file for file in files if not (rootpath / file).exists())


def _bears_the_marker(item: pytest.Item) -> bool:
    return "llm_eval" in item.keywords


def _entered(context: AbstractContextManager[None]) -> Callable[[], None]:
    """Enter a context; return what leaves it."""
    stack = contextlib.ExitStack()
    stack.enter_context(context)
    return stack.close


def _worker_output(config: pytest.Config) -> dict[str, Any]:
    return cast("dict[str, Any]", config.workeroutput)  # type: ignore[attr-defined]
