"""The reports of cases on the terminal: their letter, their word, and misses in the summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

_MISSED = ("passed", "m")  # pytest's category, and the letter
Status = tuple[str, str, str | tuple[str, dict[str, bool]]]


def letter_and_word(report: pytest.TestReport) -> Status | None:
    """Show a case as ``4/5 passed``, a yellow ``m`` if one fell short, ``E`` if all erred."""
    payload = getattr(report, "llm_eval", None)
    if payload is None or hasattr(report, "wasxfail"):
        return None
    if payload["outcome"] == "errored" and report.when == "call":
        return "error", "E", "ERROR"
    if not report.passed:
        return None
    score = payload["score"]
    if payload["fell_short"]:
        return *_MISSED, (score, {"yellow": True})
    return "passed", ".", score


def shown_as_m(terminalreporter: pytest.TerminalReporter) -> int:
    """Count the cases whose letter is ``m``; none where words are printed instead of letters."""
    if terminalreporter.config.get_verbosity() > 0:
        return 0
    return sum(1 for _ in _missed(terminalreporter))


def print_misses(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the failures of cases that passed, where -rm asks for them or -rA hides them.

    -rA and -rP print them below PASSES, with --show-capture=all.
    """
    config = terminalreporter.config
    asked: str = config.getoption("reportchars", "") or ""
    shown: str = config.getoption("showcapture", "all")
    is_printed = bool({"A", "P"}.intersection(asked)) and shown == "all"
    if is_printed or not {"A", "m"}.intersection(asked) or config.getoption("tbstyle", "") == "no":
        return
    reports = list(_missed(terminalreporter))
    if reports:
        terminalreporter.write_sep("=", "MISSES")
    for report in reports:
        terminalreporter.write_sep("_", report.head_line or report.nodeid, yellow=True, bold=True)
        for title, text in report.sections:
            if title.startswith("Trial ") or shown == "all" or shown in title:
                terminalreporter.write_sep("-", title)
                terminalreporter.write_line(text.rstrip("\n"))


def _missed(terminalreporter: pytest.TerminalReporter) -> Iterator[Any]:
    for report in terminalreporter.stats.get("passed", ()):
        status = letter_and_word(report)
        if status is not None and status[:2] == _MISSED:
            yield report
