"""From a model's name to a model, and what the trials of a session share for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.async_base import AsyncModel, AsyncProvider, PendingReply
from pytest_llmeval.models.base import (
    CurrentTrial,
    Messages,
    Model,
    ModelName,
    Provider,
    Reply,
    parse_model_name,
)
from pytest_llmeval.models.calls import CachedCalls
from pytest_llmeval.models.http_reply import HttpReply
from pytest_llmeval.models.limits.deadline import Deadline
from pytest_llmeval.models.limits.retries import RetryPolicy

if TYPE_CHECKING:
    import anthropic
    import ollama
    import openai

    from pytest_llmeval.models.http.plain_http import Wire
    from pytest_llmeval.models.http.transports import Connections
    from pytest_llmeval.models.providers.chat import ChatForm
    from pytest_llmeval.models.providers.function import LoadedFunction

P = TypeVar("P")


class Providers:
    """Builds models and clients for the trials of one session.

    Connections and imported functions are kept from trial to trial: both cost far more
    than a replay. SDKs are imported when they are first asked for.

    Args:
        retries: how failed calls are tried again.
    """

    def __init__(self, *, retries: RetryPolicy | None = None) -> None:
        self._retries = retries or RetryPolicy()
        self._functions: dict[str, LoadedFunction] = {}
        self._connections: Connections | None = None
        self._wire: Wire | None = None
        self._opening = fork_safe_lock()

    @property
    def retries(self) -> RetryPolicy:
        """How failed calls are tried again."""
        return self._retries

    def check(self, name: str) -> None:
        """Find out, before anything is spent, whether a model can be asked.

        Raises:
            SettingsError: the name, or the function it names, cannot be used.
        """
        parsed = parse_model_name(name)
        if parsed.provider == "function":
            self._load_function(parsed.model)

    def build_model(self, name: str | None, calls: CachedCalls) -> Model:
        """Build what the fixture ``llm`` hands to one trial.

        Args:
            name: ``provider/model``; None if every request is to name its own.
            calls: the calls of the trial.

        Raises:
            SettingsError: the name, or the function it names, cannot be used.
        """
        return TrialModel(
            partial(self.build_provider, calls=calls), default=name, trial=calls.trial
        )

    def build_async_model(self, name: str | None, calls: CachedCalls) -> AsyncModel:
        """Build what the fixture ``async_llm`` hands to one trial; see ``build_model``."""
        return AsyncTrialModel(
            partial(self.build_async_provider, calls=calls), default=name, trial=calls.trial
        )

    def build_provider(self, name: ModelName, calls: CachedCalls) -> Provider:
        """Build what speaks to the provider of this model, for one trial.

        Raises:
            SettingsError: the function named cannot be used.
        """
        if name.provider == "function":
            from pytest_llmeval.models.providers.function import FunctionProvider

            loaded = self._load_function(name.model)
            return FunctionProvider(
                calls, loaded, limit=self._retries.limit, budget=self._retries.budget
            )
        from pytest_llmeval.models.providers.chat import ChatProvider

        return ChatProvider(_form(name.provider), calls, post=self.post, retries=self._retries)

    def openai_client(self, calls: CachedCalls) -> openai.OpenAI:
        """Build the vendor's own client for one trial.

        Raises:
            ProviderNotInstalled: the SDK cannot be imported.
        """
        from pytest_llmeval.models.providers.openai import client

        return client(calls, connect=self.connections, retries=self._retries)

    def build_async_provider(self, name: ModelName, calls: CachedCalls) -> AsyncProvider:
        """Build the awaitable twin of what ``build_provider`` builds.

        Raises:
            SettingsError: the function named cannot be used.
        """
        if name.provider == "function":
            from pytest_llmeval.models.providers.function import AsyncFunctionProvider

            loaded = self._load_function(name.model)
            return AsyncFunctionProvider(
                calls, loaded, limit=self._retries.limit, budget=self._retries.budget
            )
        from pytest_llmeval.models.providers.chat import AsyncChatProvider

        return AsyncChatProvider(_form(name.provider), calls, post=self.post, retries=self._retries)

    def async_openai_client(self, calls: CachedCalls) -> openai.AsyncOpenAI:
        """Build the vendor's own awaitable client for one trial.

        Raises:
            ProviderNotInstalled: the SDK cannot be imported.
        """
        from pytest_llmeval.models.providers.openai import async_client

        return async_client(calls, connect=self.connections, retries=self._retries)

    def anthropic_client(self, calls: CachedCalls) -> anthropic.Anthropic:
        """Build this vendor's own client for one trial; see ``openai_client``."""
        from pytest_llmeval.models.providers.anthropic import client

        return client(calls, connect=self.connections, retries=self._retries)

    def async_anthropic_client(self, calls: CachedCalls) -> anthropic.AsyncAnthropic:
        """Build this vendor's own awaitable client for one trial; see ``openai_client``."""
        from pytest_llmeval.models.providers.anthropic import async_client

        return async_client(calls, connect=self.connections, retries=self._retries)

    def ollama_client(self, calls: CachedCalls) -> ollama.Client:
        """Build this vendor's own client for one trial; see ``openai_client``."""
        from pytest_llmeval.models.providers.ollama import client

        return client(calls, connect=self.connections, retries=self._retries)

    def async_ollama_client(self, calls: CachedCalls) -> ollama.AsyncClient:
        """Build this vendor's own awaitable client for one trial; see ``openai_client``."""
        from pytest_llmeval.models.providers.ollama import async_client

        return async_client(calls, connect=self.connections, retries=self._retries)

    def post(
        self, url: str, *, headers: Mapping[str, str], content: bytes, deadline: Deadline
    ) -> HttpReply:
        """Post a question of our own once, past the SDKs; see ``Post``."""
        return self._poster().post(url, headers=headers, content=content, deadline=deadline)

    def _poster(self) -> Wire | Connections:
        from urllib.request import getproxies

        from pytest_llmeval.models.http.plain_http import Wire

        with self._opening:
            if self._wire is None and not getproxies():
                self._wire = Wire(self._retries.limit.seconds, most=self._retries.max_reply_bytes)
            wire = self._wire
        return self.connections() if wire is None else wire

    def connections(self) -> Connections:
        """Open, at the first call, what the clients of all trials send through; from any thread."""
        with self._opening:
            if self._connections is None:
                from pytest_llmeval.models.http.transports import Connections

                self._connections = Connections(
                    self._retries.limit.seconds, most=self._retries.max_reply_bytes
                )
            return self._connections

    def close(self) -> None:
        """Close every connection, and send calls away that wait for their turn."""
        self._retries.gates.close()
        self._retries.budget.close()
        with self._opening:
            for opened in (self._connections, self._wire):
                if opened is not None:
                    opened.close()
            self._connections = self._wire = None

    def _load_function(self, target: str) -> LoadedFunction:
        from pytest_llmeval.models.providers.function import load_function

        if target not in self._functions:
            self._functions[target] = load_function(target)
        return self._functions[target]


class _Prepared(Generic[P]):
    """The providers that one trial asks, by the names of their models.

    Args:
        build: makes what speaks to the provider of a model.
        default: the model of requests that name none.
        trial: is told of what cannot be asked.
    """

    def __init__(
        self, build: Callable[[ModelName], P], *, default: str | None, trial: CurrentTrial
    ) -> None:
        self._build = build
        self._default = default
        self._trial = trial
        self._prepared: dict[ModelName, P] = {}
        if default is not None:
            self._find(default)  # so that mistakes show before a test runs

    def __repr__(self) -> str:
        """Name the model: pytest shows the arguments of a test that fails."""
        return f"<{type(self).__name__}: {self._default or 'no model named'}>"

    def _find(self, name: str | None) -> tuple[str, P]:
        """Return the model's name at its provider, and the provider."""
        name = name or self._default
        if name is None:
            raise SettingsError(
                "no model is named. Type --llm-model=provider/model, "
                "or ask with model='provider/model'."
            )
        parsed = parse_model_name(name)
        if parsed not in self._prepared:
            self._prepared[parsed] = self._build(parsed)
        return parsed.model, self._prepared[parsed]

    @contextmanager
    def _mistakes_noted(self) -> Iterator[None]:
        """Tell the trial of a mistake: the application may take it for a failing provider."""
        try:
            yield
        except SettingsError as exc:
            self._trial.refuse(exc)
            raise


class TrialModel(_Prepared[Provider]):
    """The model of one trial: sends each request to the provider that its name names."""

    def ask(
        self, prompt: str, *, system: str | None = None, model: str | None = None, **params: object
    ) -> Reply:
        """Ask one question; see ``Model``."""
        return self.chat(_question(prompt, system), model=model, **params)

    def chat(self, messages: Messages, *, model: str | None = None, **params: object) -> Reply:
        """Continue a conversation; see ``Model``."""
        with self._mistakes_noted():
            name, provider = self._find(model)
            return provider.chat(name, messages, params=params)


class AsyncTrialModel(_Prepared[AsyncProvider]):
    """The same, to be awaited."""

    def ask(
        self, prompt: str, *, system: str | None = None, model: str | None = None, **params: object
    ) -> PendingReply:
        """Ask one question; see ``AsyncModel``."""
        return self.chat(_question(prompt, system), model=model, **params)

    def chat(
        self, messages: Messages, *, model: str | None = None, **params: object
    ) -> PendingReply:
        """Continue a conversation; see ``AsyncModel``."""
        return PendingReply(self._chat(messages, model, params))

    async def _chat(
        self, messages: Messages, model: str | None, params: Mapping[str, object]
    ) -> Reply:
        with self._mistakes_noted():
            name, provider = self._find(model)
            return await provider.chat(name, messages, params=params)


def _form(provider: str) -> ChatForm:
    """Load how a vendor is asked: a session that asks another one need not."""
    if provider == "anthropic":
        from pytest_llmeval.models.providers.anthropic import FORM
    elif provider == "ollama":
        from pytest_llmeval.models.providers.ollama import FORM
    else:
        from pytest_llmeval.models.providers.openai import FORM
    return FORM


def _question(prompt: str, system: str | None) -> Messages:
    question = {"role": "user", "content": prompt}
    return [question] if system is None else [{"role": "system", "content": system}, question]
