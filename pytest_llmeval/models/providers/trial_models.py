"""The models that the fixtures ``llm`` and ``async_llm`` give to one trial."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, NoReturn

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.base import (
    CurrentTrial,
    Messages,
    ModelName,
    Provider,
    Reply,
    parse_model_name,
)


class _AnyModel:
    """Send each request to the provider that the name of its model names.

    Args:
        build: makes what speaks to the provider of a model.
        default: the model of requests that name none.
        trial: is told of what cannot be asked, which the application may take for a provider
            that fails.
    """

    def __init__(
        self, build: Callable[[ModelName], Provider], *, default: str | None, trial: CurrentTrial
    ) -> None:
        self._build = build
        self._default = default
        self._trial = trial
        self._found: dict[str, tuple[str, Provider]] = {}
        if default is not None:
            self._find(default)  # so that mistakes show before a test runs

    def __repr__(self) -> str:
        """Name the model: pytest shows the arguments of a test that fails."""
        return f"<{type(self).__name__}: {self._default or 'no model named'}>"

    def _find(self, name: str | None) -> tuple[str, Provider]:
        """Return the model's name at its provider, and the provider."""
        name = name or self._default
        if name is None:
            raise SettingsError(
                "no model is named. Type --llm-model=provider/model, "
                "or ask with model='provider/model'."
            )
        if name not in self._found:
            parsed = parse_model_name(name)
            self._found[name] = parsed.model, self._build(parsed)
        return self._found[name]


class TrialModel(_AnyModel):
    """A ``Model`` for one trial."""

    def ask(
        self, prompt: str, *, system: str | None = None, model: str | None = None, **params: object
    ) -> Reply:
        """Ask one question; see ``Model``."""
        return self.chat(_question(prompt, system), model=model, **params)

    def chat(self, messages: Messages, *, model: str | None = None, **params: object) -> Reply:
        """Continue a conversation; see ``Model``."""
        try:
            name, provider = self._find(model)
            return provider.chat(name, messages, params=params)
        except SettingsError as exc:
            self._trial.refuse(exc)
            raise


class AsyncTrialModel(_AnyModel):
    """An ``AsyncModel`` for one trial."""

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
        self, messages: Messages, model: str | None, params: dict[str, object]
    ) -> Reply:
        try:
            name, provider = self._find(model)
            return await provider.chat_async(name, messages, params=params)
        except SettingsError as exc:
            self._trial.refuse(exc)
            raise


class PendingReply(Coroutine[Any, Any, Reply]):
    """A reply that is to be awaited, and says so where it is used without.

    Args:
        coroutine: gets it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Reply]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Reply]:
        """Await the reply."""
        return self._coroutine.__await__()

    def send(self, value: object) -> Any:
        """Continue, as any coroutine."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise inside, as any coroutine."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End, as any coroutine."""
        self._coroutine.close()

    def __getattr__(self, name: str) -> NoReturn:
        """Say what to type where the reply was not awaited.

        Raises:
            AttributeError: always.
        """
        __tracebackhide__ = True
        if name in ("text", "raw", "model", "usage", "cached"):
            self._coroutine.close()  # else it would be said, too, that it was never awaited
            raise AttributeError(
                f"the reply of async_llm was not awaited, so it has no {name!r} yet: type "
                f"(await async_llm.ask(...)).{name} in an async def, or take the fixture llm"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _question(prompt: str, system: str | None) -> Messages:
    question = {"role": "user", "content": prompt}
    return [question] if system is None else [{"role": "system", "content": system}, question]
