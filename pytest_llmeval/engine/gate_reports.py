"""The gate's failures as tests that failed, as terminals, reports and ``--lf`` read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from pytest_llmeval.records import GateFailure

_CHOOSE_TESTS = ("lfplugin", "stepwiseplugin")
_WORD = "llm_gate"


class _Words:
    """Count failures of the gate in pytest's last line by what they are: ``1 regressed``."""

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        word: str | None = getattr(report, _WORD, None)
        return None if word is None or report.when != "call" else (word, "", "")


def report_failures(session: pytest.Session, failures: Sequence[GateFailure]) -> None:
    """Report each failure of the gate as a test that failed; before JUnit's file is written."""
    manager = session.config.pluginmanager
    manager.register(_Words())
    terminal: pytest.TerminalReporter | None = manager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.stats.setdefault("failed", [])  # the last line is red where there is this key
    choosing = filter(None, map(manager.get_plugin, _CHOOSE_TESTS))
    tell = manager.subset_hook_caller("pytest_runtest_logreport", [session, *choosing])
    for failure in failures:
        for phase in ("setup", "call", "teardown"):  # reporters begin and end a test by them
            tell(report=_report(failure, phase))


def _report(failure: GateFailure, phase: Literal["setup", "call", "teardown"]) -> pytest.TestReport:
    _, function = failure.name.split("::", 1)
    failed = phase == "call"
    return pytest.TestReport(
        nodeid=failure.name,
        location=(function.partition("::")[0], failure.line and failure.line - 1, function),
        keywords={},
        outcome="failed" if failed else "passed",
        longrepr="\n".join(failure.lines) if failed else None,
        when=phase,
        user_properties=failure.properties,
        **{_WORD: failure.word},  # type: ignore[arg-type]
    )
