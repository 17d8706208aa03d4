"""The evals of one process: chosen, begun, and told to the controller by a worker of xdist.

This is loaded once a session has evals. ``controller`` has the process that judges them.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmeval.engine import earlier_runs, workers
from pytest_llmeval.engine.install import install
from pytest_llmeval.engine.marker import case_id, empty_note, is_eval, ordinary_note
from pytest_llmeval.engine.run_header import Choice, typed_selection
from pytest_llmeval.engine.schedule.lookahead import SPLITTING
from pytest_llmeval.errors import SettingsError, files_unknown
from pytest_llmeval.fixtures import model_session
from pytest_llmeval.pytest_options import asks_only, ci_of, started
from pytest_llmeval.records import CaseResult, Progress, Run
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import MARKER, Settings

if TYPE_CHECKING:
    from pytest_llmeval.engine.rerun.child import Brief
    from pytest_llmeval.judging import EarlyJudge

_MISSED = "the cases that missed a trial or moved when they last ran (--llm-missed)"
_NONE_KNOWN = "no run of this branch is stored (--llm-missed)"
_SPLIT = (
    "no early looks, as xdist deals the cases of a function to several workers: type "
    "--dist=loadscope"
)
_NONE_MISSED = "no case missed a trial or moved when it last ran (--llm-missed)"


class EvalProcess:
    """The evals of a process.

    Attributes:
        forecast: what the session will run and may cost, for the terminal; a worker has none.

    Args:
        config: of the session.
        settings: of the session.
        brief: the order to make the run of a baseline; None for a session without this order.
        started: when the session began, by ``time.perf_counter``.
    """

    def __init__(
        self, config: pytest.Config, settings: Settings, brief: Brief | None, started: float
    ) -> None:
        self._config, self._settings, self._brief = config, settings, brief
        self._started = started
        self.forecast: list[str] = []
        self._reports = workers.report_hooks(config, settings)
        self._asks_only = asks_only(config)
        if settings.baseline is not None and not self._asks_only:
            earlier_runs.refuse_untrusted_runs(config, settings)

    def choose(
        self,
        session: pytest.Session,
        items: list[pytest.Item],
        *,
        collected: Iterable[pytest.Item],
        deselected: Collection[pytest.Item],
    ) -> None:
        """Turn marked items into cases after all other plugins have chosen among the items.

        Args:
            session: of pytest.
            items: what was chosen, which is changed in place.
            collected: what there was before others chose.
            deselected: what they left out openly.

        Raises:
            pytest.UsageError: an item or a setting is impossible; a worker tells its controller.
        """
        evals, chosen = list(filter(is_eval, items)), set(items)
        known = list(filter(is_eval, collected))
        ordinary = [one for one in items if MARKER in one.keywords and not is_eval(one)]
        try:
            self._warn(ordinary, ordinary_note(ordinary) if ordinary else "")
            self._warn(evals, empty_note(evals))
            if evals:
                choice = Choice(
                    collected=list(map(case_id, known)),
                    left_out=[item for item in known if item not in chosen],
                    deselected=deselected,
                    typed=self._typed(),
                    job=ci_of(self._config).job,
                    made=None if self._brief is None else self._brief.made,
                )
                self._begin(session, items, choice)
        except SettingsError as exc:
            self._refuse(exc, items)

    def leave_out(self, items: list[pytest.Item]) -> None:
        """Leave out what neither missed nor moved when it last ran, as pytest does with ``--lf``.

        Args:
            items: what other plugins chose, which is changed in place.
        """
        last = earlier_runs.missed_before(self._config, self._settings)
        kept = [item for item in items if is_eval(item) and case_id(item) in (last or ())]
        runs_all = not kept and self._config.getoption("last_failed_no_failures", "all") != "none"
        none = _NONE_KNOWN if last is None else _NONE_MISSED
        which = "all tests" if runs_all else f"{len(kept)} of {len(items)} tests"
        told = f"{which}: {_MISSED if kept else none}"
        self.forecast.append(f"llm evals: {told}")
        if getattr(self._config, "workerinput", {}).get("workerid") == "gw0":  # the others agree
            workers.send_note(self._config, told)
        if not runs_all:
            left_out = [*set(items).difference(kept)]
            self._config.hook.pytest_deselected(items=left_out)
            items[:] = kept

    def _warn(self, items: Sequence[pytest.Item], note: str) -> None:
        """Warn once a session of marked tests that run as no eval; one worker warns."""
        worker: dict[str, str] = getattr(self._config, "workerinput", {})
        if not note or worker.get("workerid", "gw0") != "gw0":
            return
        (path, line, _), kind = items[0].location, pytest.PytestWarning
        try:
            warnings.warn_explicit(note, kind, filename=path, lineno=(line or 0) + 1)
        except pytest.PytestWarning as exc:  # the user turned warnings into errors
            raise SettingsError(str(exc)) from None

    def _begin(self, session: pytest.Session, items: list[pytest.Item], choice: Choice) -> Run:
        """Put the engine in place; return the run that begins."""
        config, settings = self._config, self._settings
        if settings.baseline is None and not self._asks_only:
            earlier_runs.refuse_untrusted_runs(config, settings)
        models = model_session(config)
        draws = earlier_runs.draws_to_replay(config, settings, earlier=self._compared_with())
        models.replies.prefer(*draws)
        return install(
            session,
            items,
            settings=settings,
            models=models,
            choice=choice,
            wording=self.progress_line,
            early_judge=self.early_judge,
        )

    @staticmethod
    def progress_line(progress: Progress, *, width: int) -> str:
        """Word the live line, which no worker shows."""
        return ""

    def early_judge(self, opening: Run) -> EarlyJudge | None:
        """Return the judge of functions whose trials are made, for a run that begins.

        A worker has one where it is dealt all cases of a function.
        """
        worker: dict[str, Any] = getattr(self._config, "workerinput", {})
        if not worker.get(earlier_runs.LOOKS_KEY):
            return None
        if worker.get(SPLITTING, True):
            model_session(self._config).notes.append(_SPLIT)
            return None
        from pytest_llmeval.judging import early_judge  # few workers judge

        return early_judge(self._settings, opening, map(Path, worker[earlier_runs.COMPARED_KEY]))

    def _compared_with(self) -> list[Baseline]:
        """List the baseline and the anchor; a worker is told their files."""
        return []

    def _refuse(self, error: SettingsError, items: list[pytest.Item]) -> None:
        """End a worker that the user made a mistake for."""
        workers.send_usage_error(self._config, error)
        items.clear()

    def end(self, session: pytest.Session) -> None:
        """Tell at the end, as modules may be imported until then, which files were loaded.

        A failure costs a note in the controller, too.
        """
        if not self._config.pluginmanager.has_plugin("llmeval-engine"):
            return
        try:
            workers.send_files(self._config, foreign=self._foreign())
        except Exception as exc:
            workers.send_note(self._config, files_unknown(exc))

    def take(self, report: pytest.TestReport) -> None:
        """Leave the trials of a case to the controller, which gets this report, too."""

    def take_unreported(self) -> None:
        """Tell of the trials before a session was stopped."""
        if results := self._unreported():
            workers.send_unreported(self._config, results)

    def _unreported(self) -> list[CaseResult]:
        engine: Any = self._config.pluginmanager.get_plugin("llmeval-engine")
        return [] if engine is None else engine.unreported()

    def _typed(self) -> tuple[str, ...]:
        begun = started(self._config)
        return typed_selection(self._config, begun.parser, begun.typed)

    def _foreign(self) -> tuple[str, ...]:
        """Name files of another working tree, by which a run is not of its commit."""
        if self._brief is None or self._brief.is_here:
            return ()
        from pytest_llmeval.engine.rerun.child import foreign_files  # it imports ssl

        loaded = foreign_files(self._config, self._brief)
        return tuple(sorted({*loaded, *self._reports.foreign()}))
