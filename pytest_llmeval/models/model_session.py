"""All that one session holds of models, in one object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.models.base import CurrentTrial
from pytest_llmeval.models.calls import CachedCalls
from pytest_llmeval.models.limits.budget import Budget
from pytest_llmeval.models.limits.deadline import TimeLimit
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.models.limits.retries import RetryPolicy
from pytest_llmeval.models.limits.shared_pace import Bulletin
from pytest_llmeval.models.limits.spending import Journal
from pytest_llmeval.models.limits.throttle import Gates
from pytest_llmeval.models.providers.registry import Providers
from pytest_llmeval.records import Slowdown
from pytest_llmeval.settings import Settings


class ModelSession:
    """Stored replies, connections, throttle and caps of one process of a session.

    Nothing is opened before a model is asked.

    Args:
        settings: of the session.
        processes: how many worker processes share its limits.
        worker: name of this process among them; "" where there are no workers.

    Attributes:
        notes: sentences for the section; whoever tells them takes them away.
        replies: that were paid for.
        providers: build models and clients.
    """

    def __init__(self, settings: Settings, *, processes: int = 1, worker: str = "") -> None:
        self.notes: list[str] = []
        self._settings = settings
        directory, session = settings.directory, settings.session
        self.replies = Replies(
            directory,
            mode=settings.cache,
            session=session,
            warn=self.notes.append,
            patience=settings.timeout,
        )
        self._throttle = Gates(
            ceiling=settings.concurrency,
            processes=processes,
            bulletin=Bulletin(directory, session) if processes > 1 else None,
        )
        # A worker goes by its name, not by its number: the only one may be killed, and another
        # take its place.
        self._budget = Budget(
            max_calls=settings.max_calls,
            max_cost=settings.max_cost,
            prices=Prices(settings.prices),
            journal=Journal.of_session(directory, session) if worker else None,
            process=worker or "here",
        )
        self.providers = Providers(
            retries=RetryPolicy(
                gates=self._throttle,
                budget=self._budget,
                limit=TimeLimit(settings.timeout),
                max_reply_bytes=settings.max_reply_mb * 2**20,
            )
        )

    def calls_of(self, trial: CurrentTrial) -> CachedCalls:
        """Return the calls of one trial: keyed, replayed or made, recorded."""
        return CachedCalls(trial, self.replies, aliases=self._settings.origin_aliases)

    @contextmanager
    def intercepting(self, asker: Callable[[], CurrentTrial | None]) -> Iterator[None]:
        """Keep what clients of the application ask on behalf of whom ``asker`` returns."""
        from pytest_llmeval.models.intercept import patch
        from pytest_llmeval.models.intercept.questions import Interception
        from pytest_llmeval.models.intercept.recognition import Recognition

        interception = Interception(
            asker,
            calls_of=self.calls_of,
            retries=self.providers.retries,
            recognition=Recognition(self._settings.intercept_hosts),
            note=self.notes.append,
        )
        with patch.intercepting(interception):
            yield

    def take_slowdowns(self) -> Sequence[Slowdown]:
        """Sum up how providers slowed us down since the last time."""
        return self._throttle.take_slowdowns()

    def take_sent(self) -> int:
        """Count the attempts that were sent to models since the last time."""
        return self._budget.take_sent()

    def close(self) -> None:
        """Close every connection and the cache; calls that wait for their turn are sent away."""
        self.providers.close()
        self.replies.close()
