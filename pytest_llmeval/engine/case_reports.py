"""Reports of cases: their letters, the failures that they show, and scores for files of others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from html import escape
from typing import Any

import pytest

from pytest_llmeval.engine.ended import Ended
from pytest_llmeval.records import CaseOutcome, CaseResult
from pytest_llmeval.stats.intervals import wilson_interval
from pytest_llmeval.stats.sample import HITS

_MISSED = ("passed", "m")  # pytest's category, and the letter
_OF_TRIAL = re.compile(r"\[trial (\d+)\]")
_DRAW = re.compile(r"(?<=no reply is stored for call )\d+/\d+")
_OF_ONE_TRIAL = re.compile(rf"{_DRAW.pattern}|(?:0x|\.\.\.)[0-9a-f]+(?=>)")  # addresses, cut or not
_common = partial(_OF_ONE_TRIAL.sub, "")
Section = tuple[str, str]
Status = tuple[str, str, str | tuple[str, dict[str, bool]]]
_CELL = "</td>"
_OF_TEST = 1  # the cell that names the test
# Options of those who read properties; to compute intervals takes libraries that load for 0.3 s.
_READERS = ("xmlpath", "json_report", "htmlpath")


def letter_and_word(report: pytest.TestReport) -> Status | None:
    """Show a case as ``4/5 passed``, a yellow ``m`` if one fell short, ``E`` if all erred."""
    result: CaseResult | None = getattr(report, "llm_eval", None)
    if result is None or hasattr(report, "wasxfail"):
        return None
    if result.outcome is CaseOutcome.ERRORED and report.when == "call":
        return "error", "E", "ERROR"
    if not report.passed:
        return None
    if result.fell_short:
        return *_MISSED, (result.score, {"yellow": True})
    return "passed", ".", result.score


def shows_each(config: pytest.Config) -> bool:
    """Whether the failure of every trial is to be rendered, and not the first of a case alone."""
    asked: str = config.getoption("reportchars", "") or ""
    return bool({"A", "P", "m"}.intersection(asked)) or config.getoption("usepdb", False)


def sections_by_trial(
    sections: Sequence[Section], ended: Sequence[Ended], *, without: object = None
) -> list[Section]:
    """Put the failure of each trial before what that trial printed; equal ones once.

    Args:
        sections: of the report.
        ended: the trials of the case.
        without: a failure that the report shows anyway.
    """
    ways = {trial.record.index: trial.record.outcome for trial in ended}
    rendered = ((one.record.index, str(one.longrepr)) for one in ended if one.longrepr is not None)
    shown = "" if without is None else _common(str(without))
    failed = [
        (which[0], (f"Trial {', '.join(map(str, which))} {ways[which[0]]}", text))
        for which, text in grouped(rendered)
        if not shown.startswith(_common(text))  # to which the report added a table of all
    ]
    found = ((_OF_TRIAL.search(title), (title, text)) for title, text in sections)
    printed = [(int(of[1]) if of else -1, section) for of, section in found]
    return [section for _, section in sorted([*failed, *printed], key=lambda one: one[0])]


def grouped(texts: Iterable[tuple[int, str]]) -> list[tuple[list[int], str]]:
    """Put trials together whose texts tell the same, but for addresses and numbers of draws.

    Args:
        texts: of trials, with their indices.

    Returns:
        The indices, and the text of the first of them; it names the draws of all.
    """
    groups: dict[str, list[tuple[int, str]]] = {}
    for index, text in texts:
        groups.setdefault(_common(text), []).append((index, text))
    found = []
    for alike in groups.values():
        draws = ", ".join(draw for _, text in alike for draw in _DRAW.findall(text)[:1])
        found.append(([index for index, _ in alike], _DRAW.sub(draws, alike[0][1], count=1)))
    return found


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


class ScoredReports:
    """Add scores to the reports of cases, in the process that writes files.

    Args:
        alpha: what may lie beyond each end of an interval, in (0, 0.5).
    """

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._known: dict[str, list[tuple[str, object]]] = {}  # by node id, till its last report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Put mean and interval of each metric among the properties."""
        result = getattr(report, "llm_eval", None)
        if result is not None:
            self._known[report.nodeid] = list(_properties(result, self._alpha))
        report.user_properties += self._known.get(report.nodeid, [])
        if report.when == "teardown":
            self._known.pop(report.nodeid, None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: pytest.TestReport, cells: list[Any]) -> None:
        """Show the score beside the name of the test."""
        result = getattr(report, "llm_eval", None)
        named = cells[_OF_TEST] if len(cells) > _OF_TEST else None
        if result is not None and isinstance(named, str) and named.endswith(_CELL):
            cells[_OF_TEST] = f"{named.removesuffix(_CELL)} · {escape(result.score)}{_CELL}"


def show_scores(config: pytest.Config, *, alpha: float) -> None:
    """Add scores to the reports of this session, if a file is made of them here."""
    is_read = any(config.getoption(option, None) for option in _READERS)
    if is_read and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ScoredReports(alpha))


def _properties(result: CaseResult, alpha: float) -> Iterator[tuple[str, object]]:
    for metric, mean in result.means.items():
        if mean is None:
            continue
        yield f"llm_{metric}", f"{round(mean, 12):.4g}"
        scores = [trial.scores.get(metric) for trial in result.trials if trial.outcome.is_scored]
        if HITS.issuperset(scores):
            low, high = wilson_interval(scores.count(1.0), len(scores), alpha=alpha)
            yield f"llm_{metric}_interval", f"[{low:.3f}, {high:.3f}]"
