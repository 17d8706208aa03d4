"""What modules ask a model while they are imported to be collected.

That is done before it is known which cases there are, so it belongs to none. Each draw of it
is the same in every session, whatever else is collected: else what it is used for, a system
prompt say, would be another one each time, and nothing that contains it a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager

import pytest

from pytest_llmeval.engine.trial.ledger import Ledger
from pytest_llmeval.models.attribution import asking, current_asker
from pytest_llmeval.models.base import CurrentTrial

IMPORTS = "llmeval-imports"
Asker = Callable[[], CurrentTrial | None]


class ImportHooks:
    """Intercepts clients while a file is collected, where the ini file wants all intercepted.

    Args:
        intercepting: stands between clients and the network, for those whom an asker names.
    """

    def __init__(self, intercepting: Callable[[Asker], AbstractContextManager[None]]) -> None:
        self._intercepting = intercepting
        self._calls = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Keep what is asked; counted anew for each file, as which others there are may change."""
        ledger = Ledger.shared_by_trials()
        with self._intercepting(current_asker), asking(ledger):
            try:
                return (yield)
            finally:
                self._calls += len(ledger.calls)

    def untold(self) -> int:
        """Count the calls since the last time."""
        calls, self._calls = self._calls, 0
        return calls
