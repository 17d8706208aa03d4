"""From a model's name to a model, and what the trials of a session share for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.base import (
    CachedCalls,
    Messages,
    Model,
    ModelName,
    Provider,
    Reply,
    parse_model_name,
)
from pytest_llmeval.models.retries import RetryPolicy

if TYPE_CHECKING:
    import openai

    from pytest_llmeval.models.function import LoadedFunction
    from pytest_llmeval.models.transport import Connections


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
        self._opening = threading.Lock()

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
        model = TrialModel(self, calls, default=name)
        if name is not None:
            model.prepare(name)
        return model

    def build_provider(self, name: ModelName, calls: CachedCalls) -> Provider:
        """Build what speaks to the provider of this model, for one trial.

        Raises:
            SettingsError: the function named cannot be used.
        """
        if name.provider == "function":
            from pytest_llmeval.models.function import FunctionProvider

            return FunctionProvider(calls, self._load_function(name.model))
        from pytest_llmeval.models.openai import OpenAIProvider

        return OpenAIProvider(calls, connect=self.connections, retries=self._retries)

    def openai_client(self, calls: CachedCalls) -> openai.OpenAI:
        """Build the vendor's own client for one trial.

        Raises:
            ProviderNotInstalled: the SDK cannot be imported.
        """
        from pytest_llmeval.models.openai import client

        return client(calls, connect=self.connections, retries=self._retries)

    def connections(self) -> Connections:
        """Open, at the first call, what all trials send through; from any thread."""
        with self._opening:
            if self._connections is None:
                from pytest_llmeval.models.transport import Connections

                self._connections = Connections()
            return self._connections

    def close(self) -> None:
        """Close every connection, and send calls away that wait for their turn."""
        self._retries.gates.close()
        with self._opening:
            if self._connections is not None:
                self._connections.close()
                self._connections = None

    def _load_function(self, target: str) -> LoadedFunction:
        from pytest_llmeval.models.function import load_function

        if target not in self._functions:
            self._functions[target] = load_function(target)
        return self._functions[target]


class TrialModel:
    """The model of one trial: sends each request to the provider that its name names."""

    def __init__(self, providers: Providers, calls: CachedCalls, *, default: str | None) -> None:
        self._providers = providers
        self._calls = calls
        self._default = default
        self._prepared: dict[ModelName, Provider] = {}

    def ask(
        self, prompt: str, *, system: str | None = None, model: str | None = None, **params: object
    ) -> Reply:
        """Ask one question; see ``Model``."""
        question = {"role": "user", "content": prompt}
        instruction = [] if system is None else [{"role": "system", "content": system}]
        return self.chat([*instruction, question], model=model, **params)

    def chat(self, messages: Messages, *, model: str | None = None, **params: object) -> Reply:
        """Continue a conversation; see ``Model``."""
        name = model or self._default
        if name is None:
            raise SettingsError(
                "no model is named. Type --llm-model=provider/model, "
                "or ask with model='provider/model'."
            )
        parsed, provider = self.prepare(name)
        return provider.chat(parsed.model, messages, params=params)

    def prepare(self, name: str) -> tuple[ModelName, Provider]:
        """Make ready to ask a model, so that mistakes show before a test runs."""
        parsed = parse_model_name(name)
        if parsed not in self._prepared:
            self._prepared[parsed] = self._providers.build_provider(parsed, self._calls)
        return parsed, self._prepared[parsed]
