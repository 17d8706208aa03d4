"""The fixtures ``llm`` and ``async_llm``: names of models, what is asked, what is replied."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, Protocol

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.attribution import CurrentTrial
from pytest_llmeval.records import Usage
from pytest_llmeval.vendors import VENDORS

Messages = Sequence[Mapping[str, object]]
Params = Mapping[str, object]  # of a test, by name: they go into the request as they are


class ModelName(NamedTuple):
    """A model as users write it: ``provider/model``."""

    provider: str
    model: str


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The answer of a model.

    Attributes:
        text: the answer; ``""`` if the model gave none (it called a tool, say).
        parse: makes ``raw``.
        model: the model that answered, by the name that the provider gives it; None if it does not
            say.
        usage: the tokens that it took.
        cached: whether the reply was replayed, so that nothing was paid.
    """

    text: str
    parse: Callable[[], object] = field(repr=False, compare=False)
    model: str | None
    usage: Usage
    cached: bool

    @cached_property
    def raw(self) -> object:
        """The SDK's own object; JSON as a dict of a vendor without one; text of a function model.

        Made when it is first asked for: most tests want the text, and importing an SDK
        takes half a second.
        """
        return self.parse()

    def __contains__(self, part: object) -> bool:
        """Refuse ``"Paris" in llm.ask(...)``, where ``.text`` was forgotten."""
        raise TypeError("a Reply is no text: its text is reply.text")


class Model(Protocol):
    """The model that the fixture ``llm`` gives a test.

    Trial i is given draw i of a request: the stored one, or a new one that is paid for and stored
    before the test sees it.
    """

    def ask(
        self, prompt: str, *, system: str | None = None, model: str | None = None, **params: object
    ) -> Reply:
        """Ask one question.

        Args:
            prompt: the message of the user.
            system: the message of the system before it, if there is to be one.
            model: ``provider/model``; if left out, what ``--llm-model`` or ``llm_model`` names.
            **params: what goes into the request as it is, such as ``max_tokens=200``.

        Returns:
            The reply, stored or new.

        Raises:
            SettingsError: no model is named, or its name has no such form; the trial is errored.
            ModelError: no reply came: the provider failed, a cap left no room, or
                ``--llm-cache=replay`` found none. The trial is errored, even if the test catches
                it. Where the provider refused the content, it is crashed unless the test does.
        """

    def chat(self, messages: Messages, *, model: str | None = None, **params: object) -> Reply:
        """Continue a conversation.

        Args:
            messages: one dict a message, oldest first: ``{"role": ..., "content": ...}``, with what
                else the vendor of the model takes.
            model: ``provider/model``; if left out, what ``--llm-model`` or ``llm_model`` names.
            **params: what goes into the request as it is, such as ``max_tokens=200``.

        Returns:
            The reply, stored or new.

        Raises:
            SettingsError: no model is named, or its name has no such form; the trial is errored.
            ModelError: no reply came: the provider failed, a cap left no room, or
                ``--llm-cache=replay`` found none. The trial is errored, even if the test catches
                it. Where the provider refused the content, it is crashed unless the test does.
        """


class AsyncModel(Protocol):
    """The model that the fixture ``async_llm`` gives a test: ``Model``, to be awaited."""

    async def ask(
        self, prompt: str, *, system: str | None = None, model: str | None = None, **params: object
    ) -> Reply:
        """Ask one question and await the reply; for arguments and errors see ``Model.ask``."""

    async def chat(
        self, messages: Messages, *, model: str | None = None, **params: object
    ) -> Reply:
        """Continue a conversation and await the reply; see ``Model.chat``."""


class Provider(Protocol):
    """One vendor, or a function, behind both models: knows nothing of sessions."""

    def chat(self, model: str, messages: Messages, *, params: Params) -> Reply:
        """Ask the model of this name (without the provider) and wait for the reply."""

    async def chat_async(self, model: str, messages: Messages, *, params: Params) -> Reply:
        """Ask the model of this name and await the reply."""


Build = Callable[[ModelName], Provider]  # makes what speaks to the provider of a model


def parse_model_name(text: str) -> ModelName:
    """Split ``provider/model`` at its first slash.

    Raises:
        SettingsError: one line that tells what to type instead.
    """
    provider, slash, model = text.partition("/")
    if not slash:
        raise SettingsError(
            f"model {text!r} names no provider. Write provider/model, such as openai/gpt-6-luna."
        )
    if not provider or not model:
        missing = "model" if provider else "provider"
        raise SettingsError(
            f"model {text!r} has no {missing} at its slash. "
            f"Write provider/model, such as openai/gpt-6-luna."
        )
    providers = ("function", *VENDORS)
    if provider not in providers:
        raise SettingsError(
            f"model {text!r} has the unknown provider {provider!r}. "
            f"Known are: {', '.join(providers)}."
        )
    module, _, attribute = model.partition(":")
    if provider == "function" and not (module and attribute):
        raise SettingsError(
            f"model {text!r} names no callable. "
            f"Write function/package.module:callable, such as function/app.bot:answer."
        )
    return ModelName(provider, model)


class TrialModel:
    """A ``Model``, or an ``AsyncModel``, for one trial: each name of a model names who is asked.

    Args:
        build: is asked once for a model.
        default: the model of requests that name none.
        trial: is told of what cannot be asked, which the application may take for a provider
            that fails.
        awaits: it is an ``AsyncModel``.
    """

    def __init__(
        self, build: Build, *, default: str | None, trial: CurrentTrial, awaits: bool
    ) -> None:
        self._build = build
        self._default = default
        self._trial = trial
        self._awaits = awaits
        self._found: dict[str, tuple[str, Provider]] = {}
        if default is not None:
            self._find(default)  # so that mistakes show before a test runs

    def __repr__(self) -> str:
        """Name the model: pytest shows the arguments of a test that fails."""
        return f"<{type(self).__name__}: {self._default or 'no model named'}>"

    def ask(
        self, prompt: str, *, system: str | None = None, model: str | None = None, **params: object
    ) -> Any:
        """Ask one question; see ``Model`` and ``AsyncModel``."""
        question = {"role": "user", "content": prompt}
        instructions = [] if system is None else [{"role": "system", "content": system}]
        return self.chat([*instructions, question], model=model, **params)

    def chat(self, messages: Messages, *, model: str | None = None, **params: object) -> Any:
        """Continue a conversation; see ``Model`` and ``AsyncModel``."""
        if self._awaits:
            return PendingReply(self._chat_async(messages, model, params))
        try:
            name, provider = self._find(model)
            return provider.chat(name, messages, params=params)
        except SettingsError as exc:
            self._trial.refuse(exc)
            raise

    async def _chat_async(self, messages: Messages, model: str | None, params: Params) -> Reply:
        try:
            name, provider = self._find(model)
            return await provider.chat_async(name, messages, params=params)
        except SettingsError as exc:
            self._trial.refuse(exc)
            raise

    def _find(self, name: str | None) -> tuple[str, Provider]:
        """Return the model's name at its provider, and the provider."""
        name = name or self._default
        if name is None:
            raise SettingsError(
                "no model is named. Type --llm-model=provider/model, such as openai/gpt-6-luna, or "
                "write llm_model into the ini file, or ask with model='provider/model'."
            )
        if name not in self._found:
            parsed = parse_model_name(name)
            self._found[name] = parsed.model, self._build(parsed)
        return self._found[name]


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
