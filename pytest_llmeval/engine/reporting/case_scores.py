"""The score of each case, for those who keep a list of tests: JUnit, HTML, JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import pytest

from pytest_llmeval.records import PASS_METRIC, Outcome

_CELL = "</td>"
_OF_TEST = 1  # the cell that names the test
# Options of those who read properties; to compute intervals takes libraries that load for 0.3 s.
_READERS = ("xmlpath", "json_report", "htmlpath")


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
        payload = getattr(report, "llm_eval", None)
        if payload is not None:
            self._known[report.nodeid] = list(_properties(payload, self._alpha))
        report.user_properties += self._known.get(report.nodeid, [])
        if report.when == "teardown":
            self._known.pop(report.nodeid, None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: pytest.TestReport, cells: list[Any]) -> None:
        """Show the score beside the name of the test."""
        payload = getattr(report, "llm_eval", None)
        named = cells[_OF_TEST] if len(cells) > _OF_TEST else None
        if payload is not None and isinstance(named, str) and named.endswith(_CELL):
            cells[_OF_TEST] = f"{named.removesuffix(_CELL)} · {escape(payload['score'])}{_CELL}"


def show_scores(config: pytest.Config, *, alpha: float) -> None:
    """Add scores to the reports of this session, if a file is made of them here."""
    if hasattr(config, "workerinput") or not any(config.getoption(one, None) for one in _READERS):
        return
    config.pluginmanager.register(ScoredReports(alpha))


def _properties(payload: Mapping[str, Any], alpha: float) -> Iterator[tuple[str, object]]:
    for metric, mean in payload["means"].items():
        if mean is None:
            continue
        yield f"llm_{metric}", f"{mean:.4g}"
        if metric == PASS_METRIC:
            yield f"llm_{metric}_interval", _interval(payload, alpha)


def _interval(payload: Mapping[str, Any], alpha: float) -> str:
    from pytest_llmeval.stats.intervals import wilson_interval

    scored = [trial for trial in payload["trials"] if trial.outcome.is_scored]
    hits = sum(trial.outcome is Outcome.PASSED for trial in scored)
    low, high = wilson_interval(hits, len(scored), alpha=alpha)
    return f"[{low:.3f}, {high:.3f}]"
