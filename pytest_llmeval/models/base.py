"""What a test asks with, what it gets, and the one road every request takes.

A request becomes a key, the trial gives the key its slot, the stored replies give the
slot its reply or have it called for, and the trial is told what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from pytest_llmeval.errors import BudgetExceeded, LLMEvalError, ProviderFailed, SettingsError
from pytest_llmeval.models.asker import apart
from pytest_llmeval.models.facts import count, duration, word
from pytest_llmeval.records import Call, Parameter, Slot

if TYPE_CHECKING:
    from pytest_llmeval.cache.key import Canonical
    from pytest_llmeval.cache.replies import Answer, Replies, StoredReply

T = TypeVar("T")

Messages = Sequence[Mapping[str, object]]
Facts = Mapping[str, Parameter]

PROVIDERS = ("function", "openai", "anthropic", "ollama")
SAMPLING_PARAMETERS = ("temperature", "seed", "top_p")


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
    """What a model answered.

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
    """What the fixture ``llm`` gives a test.

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


class Provider(Protocol):
    """One vendor behind ``Model``: knows its wire form, nothing of sessions."""

    def chat(self, model: str, messages: Messages, *, params: Mapping[str, object]) -> Reply:
        """Ask the model of this name (without the provider) and wait for the reply."""
        ...


class CurrentTrial(Protocol):
    """The trial on whose behalf requests are made. Called from any thread of the test."""

    def slot(self, key: str, /) -> Slot:
        """Take the next free occurrence of this key in this trial."""
        ...

    def record(self, call: Call, /) -> None:
        """Note what became of a slot.

        The slot of a failed call is free again, so that the application's own retry of
        the same request asks for the same draw.
        """
        ...

    def refuse(self, refusal: LLMEvalError, /) -> None:
        """Note that we did not let it ask: whatever it makes of that is no result."""
        ...

    def wait(self, fn: Callable[[], T], /, *, serial: bool = False) -> T:
        """Run what only waits for the outside world, so that other trials can go on.

        One that is ``serial`` must have nothing run beside it.
        """
        ...

    async def wait_async(
        self, fn: Callable[[], T], /, *, awaits: bool = False, serial: bool = False
    ) -> T:
        """Await what waits for the outside, or ``awaits`` on the loop; it ends in any case."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request; run files get all but ``canonical``, which holds the prompt.

    Attributes:
        key: sha256 of the canonical request, 64 hex digits.
        model: the model asked for, ``provider/model``.
        host: origin of the API, None for a function model.
        parameters: the sampling parameters it names.
        canonical: what the key was made of; kept beside the reply, so that a miss can be explained.
        serial: no test and no other call may run while this one is made.
    """

    key: str
    model: str | None = None
    host: str | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    canonical: Canonical | None = field(default=None, repr=False, compare=False)
    serial: bool = False


class CachedCalls:
    """The calls of one trial: each answered from the store or made, and recorded.

    Args:
        trial: gives slots and is told of every call.
        replies: the replies that were paid for.
        aliases: pairs of origins; a request to the first has the key of the second.
    """

    def __init__(
        self,
        trial: CurrentTrial,
        replies: Replies,
        *,
        aliases: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.trial = trial
        self._replies = replies
        self.aliases = tuple(aliases)

    def call(self, request: Request, perform: Callable[[Slot], Answer]) -> StoredReply:
        """Answer a request.

        Args:
            request: what is asked.
            perform: makes the call if no reply is stored; raises ``ProviderFailed``,
                whose ``reason`` is recorded, so it must hold no secret.

        Raises:
            ReplayMiss: only replays are wanted and there is none.
            BudgetExceeded: a cap of the session leaves no room for the call.
            ProviderFailed: as ``perform`` raised it.
            CacheError: the store cannot be used.
        """
        slot = self.trial.slot(request.key)
        try:
            reply = self._replies.lookup(request.key, slot, request=request.canonical)
            if reply is None:  # wait for the reply, and until it is on disk
                pay = self._payment(request, slot, perform, awaits=False)
                reply = self.trial.wait(pay, serial=request.serial)
        except LLMEvalError as exc:
            self._note_loss(request, slot, exc)
            raise
        self.trial.record(_answered_call(request, slot, reply))
        return reply

    async def call_async(
        self, request: Request, perform: Callable[[Slot], Answer], *, awaits: bool = False
    ) -> StoredReply:
        """Answer a request of a coroutine; if it gives up, the reply is lost to it but kept."""
        from asyncio import CancelledError

        slot = self.trial.slot(request.key)
        try:
            reply = self._replies.lookup(request.key, slot, request=request.canonical)
            if reply is None:
                pay = self._payment(request, slot, perform, awaits=awaits)
                reply = await self.trial.wait_async(pay, awaits=awaits, serial=request.serial)
        except (LLMEvalError, CancelledError) as exc:
            self._note_loss(request, slot, exc)
            raise
        self.trial.record(_answered_call(request, slot, reply))
        return reply

    def _note_loss(self, request: Request, slot: Slot, exc: BaseException) -> None:
        self.trial.record(_failed_call(request, slot, exc))
        was_asked = isinstance(exc, ProviderFailed) and not exc.is_refusal
        if isinstance(exc, LLMEvalError) and not was_asked:
            self.trial.refuse(exc)

    def _payment(
        self, request: Request, slot: Slot, perform: Callable[[Slot], Answer], *, awaits: bool
    ) -> Callable[[], StoredReply]:
        pay = partial(
            self._replies.pay,
            request.key,
            slot,
            partial(perform, slot),
            request=request.canonical,
            on_loop=awaits,
        )
        return partial(apart, pay)  # a model that asks another does so on its own account


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
    if provider not in PROVIDERS:
        raise SettingsError(
            f"model {text!r} has the unknown provider {provider!r}. "
            f"Known are: {', '.join(PROVIDERS)}."
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


def sampling_parameters(body: Mapping[str, object]) -> dict[str, Parameter]:
    """Pick the sampling parameters a request names.

    Args:
        body: the parameters of a request by name.
    """
    picked = {name: body[name] for name in SAMPLING_PARAMETERS if name in body}
    return {
        name: value
        for name, value in picked.items()
        if value is None or isinstance(value, str | int | float | bool)
    }


def _answered_call(request: Request, slot: Slot, reply: StoredReply) -> Call:
    facts = reply.facts
    return Call(
        key=request.key,
        slot=slot,
        draw=reply.draw,
        reply_sha256=reply.sha256,
        replayed=reply.replayed,
        model=request.model,
        served=word(facts.get("model")),
        fingerprint=word(facts.get("fingerprint")),
        host=request.host,
        parameters=request.parameters,
        input_tokens=count(facts.get("input_tokens")),
        output_tokens=count(facts.get("output_tokens")),
        seconds=duration(facts.get("seconds")),
    )


def _failed_call(request: Request, slot: Slot, exc: BaseException) -> Call:
    return Call(
        key=request.key,
        slot=slot,
        draw=None,
        model=request.model,
        host=request.host,
        parameters=request.parameters,
        failure=exc.failure if isinstance(exc, ProviderFailed) else "infrastructure",
        # Only the reasons of this room are known to be short and free of secrets.
        reason=exc.reason
        if isinstance(exc, ProviderFailed | BudgetExceeded)
        else type(exc).__name__,
    )
