"""All that one session holds of models, in one object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.models import llm
from pytest_llmeval.models.attribution import CurrentTrial, trial_to_charge
from pytest_llmeval.models.calls import CachedCalls, Services
from pytest_llmeval.models.function import FunctionProvider, LoadedFunction, load_function
from pytest_llmeval.models.limits.budget import Budget
from pytest_llmeval.models.limits.deadline import TimeLimit
from pytest_llmeval.models.limits.journal import Journal, process_name
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.models.limits.throttle import PaceClock, Throttle
from pytest_llmeval.models.seams.imported import SEEN, once_imported
from pytest_llmeval.models.unseen import UnseenConnections
from pytest_llmeval.settings import Settings

if TYPE_CHECKING:
    from pytest_llmeval.models.http.sender import Sender
    from pytest_llmeval.models.interception import Interception
    from pytest_llmeval.models.vendors.recognition import Recognition


class ModelSession:
    """Stored replies, connections, throttle and caps of one process of a session.

    Connections and imported functions are kept from trial to trial: both cost far more
    than a replay. Nothing is opened, and no vendor's module is imported, before a model is asked.

    Args:
        settings: of the session.
        processes: how many worker processes share its limits.
        worker: name of this process among them; "" where there are no workers.
        clock: how to pass the time.

    Attributes:
        settings: of the session.
        current_trial: returns the trial that this thread or task belongs to, if any.
        notes: sentences for the section; whoever tells them takes them away.
        outside_calls: how many calls of imports nobody was told of yet.
        replies: that were paid for.
        services: throttle, budget and limits of every call.
        unseen: the connections that trials open past the cache.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        processes: int = 1,
        worker: str = "",
        clock: PaceClock | None = None,
    ) -> None:
        self.notes: list[str] = []
        self.outside_calls = 0
        self.settings = settings
        self.current_trial: Callable[[], CurrentTrial | None] = trial_to_charge
        self.replies = Replies(
            settings.directory,
            mode=settings.cache,
            session=settings.asked.confirmation or settings.session,
            warn=self.notes.append,
            patience=settings.timeout,
        )
        self.services = _services(settings, processes, worker, clock or PaceClock())
        self.unseen = UnseenConnections(
            is_refused=self._is_refused,
            only_replays=self.replies.only_replays,
            allowed=settings.replay_allow,
            seen=frozenset(name.partition(".")[0] for name in SEEN),
        )
        self._functions: dict[str, LoadedFunction] = {}
        self._sender: Sender | None = None
        self._opening = fork_safe_lock()

    def model(
        self, name: str | None, trial: CurrentTrial, *, awaits: bool = False
    ) -> llm.TrialModel:
        """Build what the fixture ``llm``, or ``async_llm``, hands to one trial.

        Args:
            name: ``provider/model``; None if every request is to name its own.
            trial: whose calls are recorded.
            awaits: it is an ``AsyncModel``; else a ``Model``.

        Raises:
            SettingsError: the name, or the function it names, cannot be used.
        """
        build = partial(self._provider, calls=self.calls_of(trial))
        return llm.TrialModel(build, default=name, trial=trial, awaits=awaits)

    def client(self, vendor_name: str, trial: CurrentTrial, *, awaits: bool = False) -> Any:
        """Build a vendor's own client for one trial, with replies kept.

        It reads its base URL and the like from the environment as always. Without a key it
        works as long as every reply is stored.

        Args:
            vendor_name: as in a model's name.
            trial: whose calls are recorded.
            awaits: the client is to be awaited.

        Raises:
            ProviderNotInstalled: the SDK cannot be imported.
            SettingsError: the key cannot be sent.
        """
        from pytest_llmeval.models.http.exchange import Exchange
        from pytest_llmeval.models.http.trial_transport import TrialTransport
        from pytest_llmeval.models.vendors.vendor import vendor_named

        vendor = vendor_named(vendor_name)
        exchange = Exchange(dialect=vendor, calls=self.calls_of(trial))
        return vendor.client(TrialTransport(self.sender(), exchange, awaits=awaits))

    def check_settings(self) -> None:
        """Find out, before anything is spent, whether the model of the session can be asked.

        Raises:
            SettingsError: it, or the function it names, cannot be used; or it has no price though
                there is a cap on dollars.
        """
        model, cap = self.settings.model, self.settings.max_cost
        if model is None:
            return
        parsed = llm.parse_model_name(model)
        if parsed.provider == "function":
            load_function(parsed.model)  # not kept: a fixture may yet put another in its place
        if cap is not None:
            Prices(self.settings.prices).check(model, cap=cap)

    def calls_of(self, trial: CurrentTrial) -> CachedCalls:
        """Return the calls of one trial: keyed, replayed or made, recorded."""
        return CachedCalls(trial, self.replies, self.services, self.settings.origin_aliases)

    @contextmanager
    def intercepting(self, trial_to_charge: Callable[[], CurrentTrial | None]) -> Iterator[None]:
        """Keep what clients of the application ask.

        Args:
            trial_to_charge: returns the trial that asks; None where it is to be left alone.
        """
        undoing = ExitStack()

        @cache
        def interception() -> Interception:
            from pytest_llmeval.models.interception import Interception

            return Interception(
                trial_to_charge=trial_to_charge,
                calls_of=self.calls_of,
                sender=self.sender(),
                recognition=self._recognition,
                note=self.notes.append,
                undoing=undoing,
            )

        def take(library: ModuleType) -> None:
            from pytest_llmeval.models.seams.taking_over import take_over

            take_over(library, interception())

        with undoing, once_imported(SEEN, take):
            yield

    @cached_property
    def _recognition(self) -> Recognition:
        from pytest_llmeval.models.vendors.recognition import Recognition

        return Recognition(self.settings.intercept_hosts)

    def _is_refused(self, host: str, port: int) -> bool:
        return self.replies.only_replays and self._recognition.is_model_host(host, port)

    def sender(self) -> Sender:
        """Make, at the first call, what sends for the clients of all trials; from any thread."""
        with self._opening:
            if self._sender is None:
                from pytest_llmeval.models.http.sender import Sender

                self._sender = Sender(most=self.services.max_reply_bytes)
            return self._sender

    def close(self) -> None:
        """Close every connection and the cache; calls that wait for their turn are sent away."""
        self.services.throttle.close()
        self.services.budget.closed.set()
        with self._opening:
            if self._sender is not None:
                self._sender.close()
            self._sender = None
        self.replies.close()

    def _provider(self, name: llm.ModelName, calls: CachedCalls) -> llm.Provider:
        """Build what speaks to the provider of a model, for one trial."""
        if name.provider == "function":
            if name.model not in self._functions:
                self._functions[name.model] = load_function(name.model)
            return FunctionProvider(calls, self._functions[name.model])
        from pytest_llmeval.models.chat import ChatProvider
        from pytest_llmeval.models.vendors.vendor import vendor_named

        return ChatProvider(vendor_named(name.provider), calls, self.sender())


def _services(settings: Settings, processes: int, worker: str, clock: PaceClock) -> Services:
    directory, session = settings.directory, settings.session
    throttle = Throttle(
        ceiling=settings.concurrency,
        processes=processes,
        shared=Journal(directory, session, folder="pace") if processes > 1 else None,
        clock=clock,
    )
    # A worker goes by its name, not by its number: the only one may be killed, and another
    # take its place.
    journal = Journal(directory, session)
    # The caps hold for this run and those that are made for its comparison.
    is_shared = bool(worker) or settings.makes_baseline or settings.confirm or journal.exists
    budget = Budget(
        max_calls=settings.max_calls,
        max_cost=settings.max_cost,
        prices=Prices(settings.prices, at_least_listed="max_cost" in settings.typed),
        journal=journal if is_shared else None,
        process=process_name(worker, settings),
    )
    limit, most = TimeLimit(settings.timeout), settings.max_reply_mb * 2**20
    return Services(throttle=throttle, budget=budget, limit=limit, max_reply_bytes=most)
