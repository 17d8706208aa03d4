"""The models that a test asks, the replies that it gets, and the trial on whose behalf it asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

from pytest_llmeval.errors import LLMEvalError, SettingsError
from pytest_llmeval.records import Call, Parameter, Slot
from pytest_llmeval.vendors import VENDORS

T = TypeVar("T")

Messages = Sequence[Mapping[str, object]]
Facts = Mapping[str, Parameter]


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model as users write it: ``provider/model``."""

    provider: str
    model: str

    def __str__(self) -> str:
        """Write the name as it was given."""
        return f"{self.provider}/{self.model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one reply; None where the provider did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The answer of a model.

    Attributes:
        text: the answer; "" if the model gave none (it called a tool, say).
        parse: makes ``raw``.
        model: what the provider says answered, None if it does not say.
        cached: the reply was replayed, nothing was paid.
    """

    text: str
    parse: Callable[[], object] = field(repr=False, compare=False)
    model: str | None
    usage: Usage
    cached: bool

    @cached_property
    def raw(self) -> object:
        """The SDK's own object, or the text of a function model.

        Made when it is first asked for: most tests want the text, and importing an SDK
        takes half a second.
        """
        return self.parse()


class Model(Protocol):
    """The model that the fixture ``llm`` gives a test.

    ``model`` is ``provider/model``, by default the one of the session. ``params`` go
    into the request as they are.
    """

    def ask(
        self, prompt: str, *, system: str | None = None, model: str | None = None, **params: object
    ) -> Reply:
        """Ask one question."""
        ...

    def chat(self, messages: Messages, *, model: str | None = None, **params: object) -> Reply:
        """Continue a conversation of ``{"role": ..., "content": ...}`` messages."""
        ...


class AsyncModel(Protocol):
    """The model that the fixture ``async_llm`` gives a test: ``Model``, to be awaited."""

    async def ask(
        self, prompt: str, *, system: str | None = None, model: str | None = None, **params: object
    ) -> Reply:
        """Ask one question."""
        ...

    async def chat(
        self, messages: Messages, *, model: str | None = None, **params: object
    ) -> Reply:
        """Continue a conversation of ``{"role": ..., "content": ...}`` messages."""
        ...


class Provider(Protocol):
    """One vendor, or a function, behind both models: knows nothing of sessions."""

    def chat(self, model: str, messages: Messages, *, params: Mapping[str, object]) -> Reply:
        """Ask the model of this name (without the provider) and wait for the reply."""
        ...

    async def chat_async(
        self, model: str, messages: Messages, *, params: Mapping[str, object]
    ) -> Reply:
        """Ask the model of this name and await the reply."""
        ...


class CurrentTrial(Protocol):
    """The trial on whose behalf requests are made. Called from any thread of the test."""

    def slot(self, key: str, /) -> Slot:
        """Take the next free occurrence of this key in this trial."""
        ...

    def record(self, call: Call, /) -> None:
        """Note how the call for a slot ended.

        The slot of a failed call is free again, so that the application's own retry of
        the same request asks for the same draw.
        """
        ...

    def refuse(self, refusal: LLMEvalError, /) -> None:
        """Note that a request of the trial was not made: how the trial ends is then no result."""
        ...

    def note_uncached(self, request: str, /, *, lost: str) -> None:
        """Note whether a request that is not kept got no reply, and why; "" if it got one."""
        ...

    def wait(self, fn: Callable[[], T], /, *, serial: bool = False) -> T:
        """Run a function that waits for the outside world, so that other trials can go on.

        Nothing may run beside one that is ``serial``.
        """
        ...

    async def wait_async(
        self, fn: Callable[[], T], /, *, awaits: bool = False, serial: bool = False
    ) -> T:
        """Await what waits for the outside, or ``awaits`` on the loop; it ends in any case."""
        ...


def parse_model_name(text: str) -> ModelName:
    """Split ``provider/model`` at its first slash.

    Raises:
        SettingsError: one line that tells what to type instead.
    """
    provider, slash, model = text.partition("/")
    if not slash:
        raise SettingsError(
            f"model {text!r} names no provider. Write provider/model, such as openai/gpt-4o-mini."
        )
    if not provider or not model:
        missing = "model" if provider else "provider"
        raise SettingsError(
            f"model {text!r} has no {missing} at its slash. "
            f"Write provider/model, such as openai/gpt-4o-mini."
        )
    providers = ("function", *VENDORS)
    if provider not in providers:
        raise SettingsError(
            f"model {text!r} has the unknown provider {provider!r}. "
            f"Known are: {', '.join(providers)}."
        )
    if provider == "function":
        _check_function_target(text, model)
    return ModelName(provider, model)


def _check_function_target(text: str, target: str) -> None:
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise SettingsError(
            f"model {text!r} names no callable. "
            f"Write function/package.module:callable, such as function/app.bot:answer."
        )
