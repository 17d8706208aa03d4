"""The data that ride on the report of a case, and all that xdist's processes tell one another."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import pytest

from pytest_llmeval.engine import case_reports
from pytest_llmeval.engine.earlier_runs import COMPARED_KEY, LOOKS_KEY
from pytest_llmeval.engine.run_header import files_used
from pytest_llmeval.engine.schedule.lookahead import SPLITTING, STEALING
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.limits.journal import Journal, note_end, process_name
from pytest_llmeval.records import CaseResult, News
from pytest_llmeval.safe_text import printable_message
from pytest_llmeval.settings import Settings

# msgspec learns a class when it first reads one; two threads that do so at once crash it.
_READING = Lock()

REPORTS = "llmeval-reports"
_USAGE_ERROR = "llmeval_usage_error"
_FILES = "llmeval_files"
_FOREIGN = "llmeval_foreign"
_UNREPORTED = "llmeval_unreported"


class ReportHooks:
    """Show the reports of cases, and write and read them for another process.

    Registered where evals are run, and in the controller of xdist's workers.

    Attributes:
        nodes: the workers.
        arrived: what workers sent and is not taken in yet, by id. A controller that was
            interrupted hands no more reports on.
        shown_as_m: how many cases have the letter m in the line of letters.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.nodes: list[Any] = []
        self.arrived: dict[str, CaseResult] = {}
        self.shown_as_m = 0

    def unreported(self) -> Iterator[CaseResult]:
        """Give results that workers sent that no report carried here, also at their ends."""
        yield from list(self.arrived.values())
        for node in self.nodes:
            yield from map(read_result, output_of(node).get(_UNREPORTED, ()))

    @property
    def usage_error(self) -> str:
        """The mistake of the user that ended a worker; "" if none did."""
        errors = (output_of(node).get(_USAGE_ERROR, "") for node in self.nodes)
        return next(filter(None, errors), "")

    @property
    def tell_of_evals(self) -> bool:
        """Whether a worker had an eval, or a mistake in one."""
        return bool(self.usage_error) or any(True for _ in self.unreported())

    @property
    def have_ended(self) -> bool:
        """Whether every worker has sent all that it will send."""
        return all(map(output_of, self.nodes))

    def files(self) -> set[Path]:
        """Name the files of the working tree that workers used."""
        return {Path(file) for node in self.nodes for file in output_of(node).get(_FILES, ())}

    def foreign(self) -> set[str]:
        """Name the files of another working tree that workers loaded."""
        return {file for node in self.nodes for file in output_of(node).get(_FOREIGN, ())}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Tell the other workers, which may wait for what this one had reserved of a cap."""
        journal = self._journal()
        if journal is not None:
            note_end(journal, process_name(node.gateway.id, self._settings))

    def pytest_unconfigure(self) -> None:
        """Remove the file by which workers share the caps."""
        journal = self._journal()
        if journal is not None and self.nodes and not self._settings.makes_baseline:
            journal.remove()

    def _journal(self) -> Journal | None:
        settings = self._settings
        is_capped = settings.max_calls is not None or settings.max_cost is not None
        return Journal(settings.directory, settings.session) if is_capped else None

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self, report: Any) -> Generator[None, Any, Any]:
        """Write a report as what a worker, or a plugin that keeps a log, can send."""
        data = yield
        if hasattr(report, "llm_eval"):
            data["llm_eval"] = written_result(report.llm_eval)
        return data

    @pytest.hookimpl(wrapper=True)
    def pytest_report_from_serializable(self) -> Generator[None, Any, Any]:
        """Read what a worker sent."""
        report = yield
        if hasattr(report, "llm_eval"):
            result = read_result(report.llm_eval)
            report.llm_eval = self.arrived[result.id] = result
        return report

    # Shows the score of a case.
    pytest_report_teststatus = staticmethod(case_reports.letter_and_word)

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print misses that were asked for; count the letters that the section explains."""
        case_reports.print_misses(terminalreporter)
        self.shown_as_m = case_reports.shown_as_m(terminalreporter)


def tell_worker(node: Any, *, config: pytest.Config, compared: Sequence[str], looks: bool) -> None:
    """Tell a worker what it cannot know: how work is dealt, and who looks at it."""
    dist = config.getoption("dist", "no")
    node.workerinput[STEALING] = dist == "worksteal"
    node.workerinput[SPLITTING] = dist not in ("loadscope", "loadfile")
    node.workerinput[COMPARED_KEY] = list(compared)
    node.workerinput[LOOKS_KEY] = looks


def send_usage_error(config: pytest.Config, error: SettingsError) -> None:
    """Send a mistake of the user: a raise in a worker would end as an INTERNALERROR."""
    output_of(config)[_USAGE_ERROR] = printable_message(str(error))


def send_unreported(config: pytest.Config, results: Iterable[CaseResult]) -> None:
    """Send at the end of a worker what no report carried."""
    output_of(config).setdefault(_UNREPORTED, []).extend(map(written_result, results))


def send_files(config: pytest.Config, *, foreign: Iterable[str]) -> None:
    """Let the controller know what was imported here.

    Args:
        config: of the worker.
        foreign: files of another working tree than the one that is tested.
    """
    output_of(config)[_FILES] = [str(path) for path in files_used(config)]
    output_of(config)[_FOREIGN] = list(foreign)


def send_note(config: pytest.Config, note: str) -> None:
    """Send at the end of a worker a sentence for the section."""
    result = CaseResult(id=f"{os.getpid()}: {note}", news=News(notes=(note,)))
    send_unreported(config, [result])


def output_of(process: Any) -> dict[str, Any]:
    """Return what a worker sends at its end; nothing if it was killed.

    Args:
        process: the worker's own config, or the controller's node for it.
    """
    found: dict[str, Any] | None = getattr(process, "workeroutput", None)
    return {} if found is None else found


def report_hooks(config: pytest.Config, settings: Settings) -> ReportHooks:
    """Return the hooks of this session, registered once."""
    manager = config.pluginmanager
    hooks: ReportHooks = manager.get_plugin(REPORTS) or ReportHooks(settings)
    if not manager.has_plugin(REPORTS):
        manager.register(hooks, REPORTS)
        case_reports.show_scores(config, alpha=settings.gate.alpha)
    return hooks


def written_result(result: CaseResult) -> str:
    """Write a result as ASCII: execnet sends no record, and no name that is no UTF-8."""
    return json.dumps(msgspec.to_builtins(result))


def read_result(text: str) -> CaseResult:
    """Read what ``written_result`` wrote, from the thread of any worker."""
    with _READING:
        return msgspec.convert(json.loads(text), CaseResult)
