"""The hooks of pytest that this plugin answers, in the order of time.

Every pytest session in the environment loads this module, so it imports almost nothing. A session
without evals only has its items searched for a keyword; else ``controller`` or ``eval_process`` is
loaded.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmeval import fixtures, pytest_options
from pytest_llmeval.errors import BaselineError, SettingsError
from pytest_llmeval.settings import BRIEF, MARKER, RERUNS, TYPED_KEY

if TYPE_CHECKING:
    import warnings

    from pytest_llmeval.controller import Controller
    from pytest_llmeval.engine.rerun.child import Brief
    from pytest_llmeval.engine.workers import ReportHooks
    from pytest_llmeval.eval_process import EvalProcess
    from pytest_llmeval.settings import Settings

MARKER_HELP = (
    "llm_eval(repeats=5, *, min_score=None, gate=None, better='higher', cluster=None, "
    "wording=None, concurrency=None, intercept=None): "
    "run the test repeats times as one case, and gate on its mean"
)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options and their ini twins, and make the fixtures known.

    Of two fixtures with one name pytest takes the one of the plugin registered last. This hook runs
    while our plugin is loaded, so ours come first: a user's fixture of the same name wins.
    """
    pytest_options.add_options(parser)
    pluginmanager.register(fixtures, "llmeval-fixtures")
    pluginmanager.register(fixtures.client_fixtures(), "llmeval-client-fixtures")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Keep what the session was started with, before a conftest changes any of it."""
    pytest_options.keep_start(early_config, parser)
    _watch_files(early_config)
    result = yield
    if mistyped := pytest_options.near_flag(parser, args):
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
    brief = _read_brief(config)
    if brief is not None and not brief.is_here:
        try:
            run_setup(config)
        except BaselineError as exc:
            raise pytest.UsageError(str(exc)) from None


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Check options that run no test, some of which pytest answers before it is configured."""
    try:
        pytest_options.check_questions(config)
    except SettingsError as exc:
        raise _usage_error(config, exc) from None


def pytest_configure(config: pytest.Config) -> None:
    """Check every option, and find the baseline before the first test or paid call."""
    config.addinivalue_line("markers", MARKER_HELP)
    try:
        brief = _read_brief(config)
        base_of = None if brief is None else brief.session
        settings = pytest_options.read_settings(config, baseline_of=base_of)
        if brief is not None:
            settings = replace(settings, asked=brief.asked)
        config.stash[pytest_options.SETTINGS] = settings
        hooks = SessionHooks(config, settings, brief)
        if settings.intercept:
            from pytest_llmeval.engine.trial.ledger import ImportHooks

            models = partial(fixtures.model_session, config)
            config.pluginmanager.register(ImportHooks(models), "llmeval-imports")
    except (SettingsError, BaselineError) as exc:
        raise _usage_error(config, exc) from None
    config.pluginmanager.register(hooks, "llmeval-session")
    for part in ("llmeval-session", "llmeval-engine"):
        if config.pluginmanager.is_blocked(part):
            raise pytest.UsageError(
                f"-p no:{part} takes the gate away and leaves its options: each eval would run "
                "once, as an ordinary test. Take it out of addopts, or write -p no:llmeval"
            )


def _marked(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Pick the items under the marker, without loading what tells evals from ordinary tests."""
    return [item for item in items if MARKER in item.keywords]


def _usage_error(config: pytest.Config, error: Exception) -> pytest.UsageError:
    from pytest_llmeval.refusal import usage_error

    return usage_error(config, error)


def _read_brief(config: pytest.Config) -> Brief | None:
    """Return the order to make the run of a baseline; None for a session without this order."""
    worker: dict[str, str] = getattr(config, "workerinput", {})
    text = worker.get(BRIEF) or getattr(config.pluginmanager.get_plugin(BRIEF), "text", None)
    if text is None:
        return None
    from pytest_llmeval.engine.rerun.child import read_brief

    return read_brief(config, text)


class SessionHooks:
    """The hooks of one session, which ``Controller`` answers once there are evals."""

    def __init__(self, config: pytest.Config, settings: Settings, brief: Brief | None) -> None:
        self._config, self._settings, self._brief = config, settings, brief
        self._started = time.perf_counter()
        self._deselected: set[pytest.Item] = set()
        self._collection_failed = False
        self._reports: ReportHooks | None = None  # of the workers, if this is their controller
        self._evals: EvalProcess | None = None
        self._controller: Controller | None = None  # likewise, in a process that is no worker
        if settings.baseline is not None and not pytest_options.asks_only(config):
            self._load()  # to find it before the first test or paid call

    def _load(self) -> EvalProcess:
        """Load what runs the evals of this process; a worker needs not what judges them."""
        known = self._config, self._settings, self._brief, self._started
        if self._evals is None and hasattr(self._config, "workerinput"):
            from pytest_llmeval.eval_process import EvalProcess

            self._evals = EvalProcess(*known)
        elif self._evals is None:
            from pytest_llmeval.controller import Controller

            self._evals = self._controller = Controller(*known)
        return self._evals

    def pytest_report_header(self) -> list[str]:
        """Name the baseline, before the first test."""
        return [] if self._controller is None else self._controller.header()

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note tests that are left out openly; tests that vanish without a word count as gone."""
        self._deselected |= set(items)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> Generator[None, object, object]:
        """Turn marked items into cases after all other plugins have chosen among the items."""
        collected = _marked(items)
        result = yield
        if self._brief is not None:
            items[:] = filter(self._brief.wants, items)
        elif self._settings.missed and _marked(items):
            self._load().leave_out(items)
        if _marked(items) and not self._config.getoption("collectonly", False):
            evals, left_out = self._load(), self._deselected
            evals.choose(session, items, collected=collected, deselected=left_out)
        return result

    def pytest_report_collectionfinish(self) -> list[str]:
        """Say what the session may cost, before the first paid call."""
        return [] if self._controller is None else self._controller.forecast

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember that something could not be collected."""
        self._collection_failed |= report.failed

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str) -> None:
        """Refuse a misspelled key of the ini file before the first test, as pytest only warns."""
        mistyped = pytest_options.near_key(str(warning_message.message)) if when == "config" else ""
        if mistyped and not hasattr(self._config, "workerinput") and self._brief is None:
            raise _usage_error(self._config, SettingsError(mistyped))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in the trials of a case, which come from the workers under xdist."""
        if hasattr(report, "llm_eval"):
            self._load().take(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send a worker the facts that it cannot know; follow the reports of workers."""
        from pytest_llmeval.engine.schedule.progress import follow_workers
        from pytest_llmeval.engine.workers import report_hooks, tell_worker

        node.workerinput[pytest_options.SESSION_KEY] = self._settings.session
        node.workerinput[TYPED_KEY] = list(pytest_options.started(self._config).typed)
        if self._brief is not None:
            node.workerinput[BRIEF] = self._brief.written()
        compared = () if self._controller is None else self._controller.files_compared
        looks = self._controller is not None and self._controller.looks_early
        tell_worker(node, config=self._config, compared=compared, looks=looks)
        self._reports = report_hooks(self._config, self._settings)
        self._reports.nodes.append(node)
        follow_workers(
            self._config, wording=lambda *told, **how: self._load().progress_line(*told, **how)
        )

    @pytest.hookimpl(specname="pytest_sessionfinish", wrapper=True, tryfirst=True)
    def pytest_sessionfinish_recording(
        self, session: pytest.Session
    ) -> Generator[None, object, object]:
        """Take in the trials that ended before fixtures end, and record them also after Ctrl-C.

        A session that came to its end is judged now, as other plugins write their reports next.
        """
        self._take_unreported()
        try:
            if self._controller is not None:
                self._controller.judge_early(session)
            return (yield)
        except KeyboardInterrupt:
            if self._controller is not None:
                self._controller.record()
            raise

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Record, compare, and turn a green session red if the gate says so."""
        self._take_unreported()
        is_refused = session.exitstatus == pytest.ExitCode.USAGE_ERROR
        if self._evals is not None or (is_refused and self._settings.reports):
            self._load().end(session)

    def _take_unreported(self) -> None:
        """Take in the trials before a session was stopped; a worker sends them at its end."""
        if self._reports is not None and self._reports.tell_of_evals:
            self._load()
        if self._evals is not None:
            self._evals.take_unreported()
        if self._controller is not None:
            self._controller.session.saw_collection_error = self._collection_failed

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the section."""
        if self._controller is not None:
            self._controller.show(terminalreporter)
