"""Calls on behalf of no single trial: of wider fixtures, of modules at import, and elsewhere.

A reply that a fixture got is a draw of every case that uses the fixture. If it belonged to
nobody, a new draw of it would move many cases at once and look like evidence from each.

While a module is imported to be collected it is not yet known which cases there are, so its
calls belong to none. Each draw of them is the same in every session, whatever else is collected:
else a system prompt, say, that was made of one would be another each time, and nothing that
contains it a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmeval.engine.trial.ledger import Ledger
from pytest_llmeval.engine.trial.trial import RunningTrial
from pytest_llmeval.models.attribution import CurrentTrial, charging, trial_to_charge
from pytest_llmeval.records import Call

if TYPE_CHECKING:
    from pytest_llmeval.models.model_session import ModelSession

IMPORTS = "llmeval-imports"
Charged = Callable[[], CurrentTrial | None]


class SharedCalls:
    """The calls of wider fixtures, and those that belong to no case at all."""

    def __init__(self) -> None:
        self._of_fixtures: dict[Any, Ledger] = {}
        self._handed_out: set[Ledger] = set()
        self._elsewhere = Ledger.shared_by_trials()
        self._counted = 0

    @contextmanager
    def setting_up(self, fixturedef: Any, trial: RunningTrial) -> Iterator[None]:
        """Set a wider fixture up, in a trial that is the first to ask for it."""
        if not trial.intercepts:
            yield
            return
        ledger = self._of_fixtures[fixturedef] = Ledger.shared_by_trials()
        try:
            with charging(ledger):
                yield
        finally:
            ledger.end()

    def hand_out(self, trial: RunningTrial) -> None:
        """Give a trial the draws of the wider fixtures that it used; the first one paid."""
        definitions = trial.clone._fixtureinfo.name2fixturedefs.values()
        used = (self._of_fixtures.get(one) for several in definitions for one in several)
        for ledger in used:
            if ledger is not None:
                trial.ledger.shared += self._calls_of(ledger)
                trial.ledger.refusal = trial.ledger.refusal or ledger.refusal

    def around(self, *, intercepts: bool) -> AbstractContextManager[None]:
        """Run a case: calls meanwhile that no trial is known to make belong to no case."""
        return charging(self._elsewhere if intercepts else None)

    def new_calls(self) -> int:
        """Count the calls that belong to no case, since the last time."""
        count = len(self._elsewhere.calls)
        new, self._counted = count - self._counted, count
        return new

    def _calls_of(self, ledger: Ledger) -> tuple[Call, ...]:
        if ledger not in self._handed_out:
            self._handed_out.add(ledger)
            return ledger.calls
        return tuple(replace(call, replayed=call.failure is None) for call in ledger.calls)


class ImportHooks:
    """Intercept clients while a file is collected, where the ini file wants all intercepted.

    Args:
        intercepting: stands between clients and the network, on behalf of the trial to charge.
    """

    def __init__(self, intercepting: Callable[[Charged], AbstractContextManager[None]]) -> None:
        self._intercepting = intercepting
        self._calls = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Keep what is asked; counted anew for each file, as which others there are may change."""
        ledger = Ledger.shared_by_trials()
        with self._intercepting(trial_to_charge), charging(ledger):
            try:
                return (yield)
            finally:
                self._calls += len(ledger.calls)

    def new_calls(self) -> int:
        """Count the calls since the last time."""
        calls, self._calls = self._calls, 0
        return calls


def intercept_imports(
    config: pytest.Config, models: Callable[[pytest.Config], ModelSession]
) -> None:
    """Keep what modules ask while they are imported: only the ini file can tell so early."""
    from pytest_llmeval.models.interception import check_seams

    check_seams()
    hooks = ImportHooks(lambda charged: models(config).intercepting(charged))
    config.pluginmanager.register(hooks, IMPORTS)
