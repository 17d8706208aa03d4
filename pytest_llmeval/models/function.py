"""Function models: any callable ``(messages, **params) -> str``."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import math
import random
import traceback
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from json import dumps
from pathlib import Path
from typing import NamedTuple

from pytest_llmeval.cache.key import canonical_request, parse_json
from pytest_llmeval.cache.replies import StoredReply
from pytest_llmeval.cache.reply import paid_reply
from pytest_llmeval.errors import BudgetExceeded, CallAbandoned, ProviderFailed, SettingsError
from pytest_llmeval.models.calls import CachedCalls, Request, sampling_parameters
from pytest_llmeval.models.http.masking import masked_answer, masked_text
from pytest_llmeval.models.limits.budget import Reservation
from pytest_llmeval.models.limits.deadline import Deadline, TimeIsUp, run_on_loop
from pytest_llmeval.models.llm import Messages, Params, Reply
from pytest_llmeval.models.source import drop_docstrings, innermost
from pytest_llmeval.originals import Clock
from pytest_llmeval.records import Slot, Usage
from pytest_llmeval.safe_text import printable

Run = Callable[[Awaitable[object]], object]


@dataclass(frozen=True, slots=True)
class Draw:
    """The draw of a request that a function model is to make.

    Attributes:
        trial: index of the trial, from 0; None outside any trial.
        occurrence: how many identical requests came before in that trial.
        rng: seeded from the request and these two, so that the draw can be made again.
    """

    trial: int | None
    occurrence: int
    rng: random.Random


class LoadedFunction(NamedTuple):
    """A callable that was found.

    Attributes:
        target: as it was named, ``package.module:callable``.
        source: stands for its code in every key.
        takes_draw: it wants to be told which draw it makes.
    """

    target: str
    function: Callable[..., object]
    source: str
    takes_draw: bool


def load_function(target: str) -> LoadedFunction:
    """Import a function model.

    Args:
        target: ``package.module:callable``.

    Raises:
        SettingsError: it cannot be imported or called, or its source cannot be found.
    """
    module_name, _, attribute = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as exc:  # importing runs the user's code, which may raise anything
        raise SettingsError(
            f"model function/{target}: {module_name} cannot be imported "
            f"({type(exc).__name__}: {_first_line(exc)}). "
            f"Is its folder on sys.path (pytest's ini option pythonpath)?"
        ) from exc
    function = getattr(module, attribute, None)
    if not callable(function):
        problem = "has no" if function is None else "holds no callable"
        raise SettingsError(
            f"model function/{target}: {module.__file__} {problem} {attribute!r}. "
            f"Name a function that takes messages and returns a str."
        )
    if getattr(function, "llm_serial", False) and _is_async(function):
        raise SettingsError(
            f"model function/{target}: llm_serial holds for plain functions; an async def shares "
            "its loop with the tests. Take an asyncio.Lock in it, or make it a plain function."
        )
    try:
        takes_draw = "draw" in inspect.signature(function).parameters
    except ValueError:  # some builtins do not tell
        takes_draw = False
    return LoadedFunction(target, function, _source(target, function), takes_draw)


class FunctionProvider:
    """Ask one function model.

    Args:
        calls: the calls of the trial.
        loaded: the function.
    """

    def __init__(self, calls: CachedCalls, loaded: LoadedFunction) -> None:
        self._calls = calls
        self._loaded = loaded

    def chat(self, model: str, messages: Messages, *, params: Params) -> Reply:
        """Call the function, unless its reply is stored.

        An ``async def`` is run on a loop of its own.

        Raises:
            ProviderFailed: it raised, took too long, or returned no str.
            ReplayMiss: only replays are wanted and there is none.
        """
        return _reply(self._calls.call(self._request(model, messages, params, _run_alone)))

    async def chat_async(self, model: str, messages: Messages, *, params: Params) -> Reply:
        """Call the function in another thread, or on this loop if it is an ``async def``.

        Raises:
            ProviderFailed, ReplayMiss: as ``chat``.
        """
        request = self._request(model, messages, params, _runner_on_this_loop())
        return _reply(await self._calls.call_async(request))

    def _request(self, model: str, messages: Messages, params: Params, run: Run) -> Request:
        function, source = self._loaded.function, self._loaded.source
        body = {"messages": list(messages), "params": dict(params)}
        canonical = canonical_request(
            provider="function", method="CALL", origin="", path=model, body=body, source=source
        )
        key = canonical.key()
        return Request(
            key=key,
            model=f"function/{model}",
            parameters=sampling_parameters(params),
            canonical=canonical,
            serial=bool(getattr(function, "llm_serial", False)),
            perform=partial(self._perform, key, messages, params, run),
            awaits=run is not _run_alone and _is_async(function),
        )

    def _perform(
        self, key: str, messages: Messages, params: Params, run: Run, slot: Slot
    ) -> StoredReply:
        loaded, services = self._loaded, self._calls.services
        limit, budget, name = services.limit, services.budget, f"function/{loaded.target}"
        arguments = dict(params)
        if loaded.takes_draw:
            seed = hashlib.sha256(f"{key} {slot}".encode()).digest()
            rng = random.Random(int.from_bytes(seed, "big"))  # noqa: S311 - a simulator, no secret
            arguments["draw"] = Draw(slot.trial, slot.occurrence, rng)
        asked = deepcopy(list(messages))  # no replay could repeat what it does to the test's own
        reservation = Reservation(budget, budget.most(name, {"messages": messages, **params}))

        def made() -> object:
            reservation.take()
            answer = loaded.function(asked, **arguments)
            answer = run(answer) if inspect.isawaitable(answer) else answer
            reservation.settle()
            return answer

        started = Clock.seconds()
        try:
            text = Deadline(limit.seconds, limit.worker).run(made)
        except (BudgetExceeded, CallAbandoned):
            raise
        except TimeIsUp:
            reason = f"{name} gave no reply within {limit.seconds:g} s (--llm-timeout)"
            told = f"{reason}. If it needs longer, raise that"
            raise ProviderFailed(told, lost_for=(reason,)) from None
        except Exception as exc:  # the user's code may raise anything
            frame = traceback.extract_tb(exc.__traceback__)[-1]
            place = f"{Path(frame.filename).name}:{frame.lineno}"
            reason = f"{name} raised {type(exc).__name__} at {place}"
            # Its text may quote the prompt: for the eyes of this session only.
            raise ProviderFailed(f"{reason}: {_first_line(exc)}", lost_for=(reason,)) from exc
        finally:
            reservation.close()
        seconds = Clock.seconds() - started
        if not isinstance(text, str):
            raise ProviderFailed(f"{name} returned {type(text).__name__}, not str")
        body = dumps({"text": masked_answer(text)}).encode()
        return paid_reply(body=body, facts={"seconds": seconds})


def _reply(stored: StoredReply) -> Reply:
    text = parse_json(stored.body)["text"]
    return Reply(text=text, parse=lambda: text, model=None, usage=Usage(), cached=stored.replayed)


async def _awaited(answer: Awaitable[object]) -> object:
    return await answer


def _run_alone(answer: Awaitable[object]) -> object:
    import asyncio

    with asyncio.Runner() as runner:  # no loop runs in this thread, which was lent for the call
        Clock.keep(runner.get_loop())
        return runner.run(_awaited(answer))


def _is_async(function: Callable[..., object]) -> bool:
    called = type(function).__call__  # for an object whose class makes it callable
    return any(map(inspect.iscoroutinefunction, (function, called)))


def _runner_on_this_loop() -> Run:
    """Return what lets another thread run a coroutine here, as this one's own, and wait for it."""
    import asyncio

    loop, context = asyncio.get_running_loop(), copy_context()

    def run(answer: Awaitable[object]) -> object:
        try:
            return run_on_loop(lambda: answer, loop, context, Deadline(math.inf, None))
        except CallAbandoned:
            if inspect.iscoroutine(answer):
                answer.close()  # else it would be said, too, that it was never awaited
            raise

    return run


def _first_line(exc: Exception) -> str:
    return printable(masked_text(str(exc).partition("\n")[0]))


def _source(target: str, function: Callable[..., object]) -> str:
    """Digest the code that makes the replies, so that an edited model is called again.

    Two modules count: the one that the target names, and the one that defines the callable.
    The two differ where the callable is an object of an imported class.
    """
    version = getattr(function, "llm_version", None)
    if version is not None:
        return f"llm_version {version}"
    named = target.partition(":")[0]
    defining = getattr(innermost(function), "__module__", None) or named
    try:
        dumps = [_dump(module) for module in dict.fromkeys((named, defining))]
    except (OSError, TypeError) as exc:
        raise SettingsError(
            f"model function/{target}: its source cannot be read ({exc}), so a change of it "
            f"would go unseen. Give the callable an attribute llm_version and raise it with "
            f"every change."
        ) from exc
    return hashlib.sha256("\n".join(dumps).encode()).hexdigest()


def _dump(module_name: str) -> str:
    """Write a module's code without comments, layout and docstrings."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module_name)))
    drop_docstrings(tree)
    return ast.dump(tree)
