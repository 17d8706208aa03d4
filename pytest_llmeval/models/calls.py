"""Make a call: replay its stored reply, or pay for one and store it.

The request has a key, and the trial gives the key a slot. The reply of that slot is replayed
if it is stored; else the call is made and its reply stored. Then the trial records the call.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from sys import intern
from types import coroutine
from typing import Any

from pytest_llmeval import errors
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import KeptRequest, StoredReply
from pytest_llmeval.models.attribution import CurrentTrial, charge
from pytest_llmeval.models.course import ROUNDS, Course, OpenCall, go_round, running_loop
from pytest_llmeval.models.limits.budget import Budget
from pytest_llmeval.models.limits.deadline import TimeLimit
from pytest_llmeval.models.limits.throttle import Throttle
from pytest_llmeval.records import Call, Parameter, Slot

SAMPLING_PARAMETERS = ("temperature", "seed", "top_p")
MAX_REPLY_BYTES = 128 * 2**20
_NO_PARAMETERS: Mapping[str, Parameter] = {}  # one for all calls that name none


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every call of a session shares: throttle, budget and limits.

    Attributes:
        retries: attempts after the first one; refusals for being one too many not counted.
        throttle: through which every attempt goes, and whose clock passes the time.
        budget: from which every attempt is paid.
        limit: for all attempts of one call and the waits between them; those at the throttle, for
            the provider's sake, do not count.
        max_reply_bytes: decoded, that are read of a reply.
    """

    retries: int = 2
    throttle: Throttle = field(default_factory=Throttle)
    budget: Budget = field(default_factory=Budget)
    limit: TimeLimit = field(default_factory=TimeLimit)
    max_reply_bytes: int = MAX_REPLY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(KeptRequest):
    """A request; run files get all but ``canonical``, which holds the prompt.

    The call raises ``ProviderFailed``, whose ``reason`` is recorded, so it must hold no secret.

    Attributes:
        model: the model asked for, ``provider/model``.
        host: origin of the API, None for a function model.
        parameters: the sampling parameters it names.
        serial: no test and no other call may run while this one is made.
        patience: seconds for which its client waits, None where that is not known.
    """

    model: str | None = None
    host: str | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    serial: bool = False
    patience: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class CachedCalls:
    """The calls of one trial: each answered from the store or made, and recorded.

    Attributes:
        trial: gives slots and is told of every call.
        replies: the replies that were paid for.
        services: throttle, budget and limits of what is made.
        aliases: pairs of origins; a request to the first has the key of the second.
    """

    trial: CurrentTrial
    replies: Replies
    services: Services = field(default_factory=Services)
    aliases: Sequence[tuple[str, str]] = ()

    def call(self, request: Request) -> StoredReply:
        """Answer a request.

        Raises:
            ReplayMiss: only replays are wanted and there is none.
            BudgetExceeded: a cap of the session leaves no room for the call.
            ProviderFailed: as the call raised it.
            CacheError: the store cannot be used.
        """
        opened, reply = self._begin(request)
        course = self.trial.course
        try:
            if reply is None:  # wait for the reply, and until it is on disk
                if opened.given_up:
                    self.trial.wait(partial(course.wait, opened, None))
                pay = partial(self._pay, request, opened)
                reply = self.trial.wait(pay, serial=request.serial)
            # Where nothing else of the trial goes on, there is nothing to wait for.
            elif course.others and course.is_held(opened, reply.draw):
                self.trial.wait(partial(course.wait, opened, reply.draw))
        except BaseException as exc:  # whatever leaves a call has brought no reply
            self._note_loss(request, opened, exc)
            raise
        self._note_reply(request, opened, reply)
        return reply

    async def call_async(self, request: Request) -> StoredReply:
        """Answer a request of a coroutine; if it gives up, the reply is lost to it but kept."""
        opened, reply = self._begin(request)
        course = self.trial.course
        try:
            await self._wait_for_others(opened, reply)
            if reply is None:
                pay = partial(self._pay, request, opened)
                reply = await self.trial.wait_async(
                    pay, awaits=request.awaits, serial=request.serial
                )
                if opened.recorded:
                    await _settled(course)
            if not opened.recorded:  # nothing more may lengthen what is recorded now
                await _alone_in_its_round(course)
        except Exception as exc:  # as above
            self._note_loss(request, opened, exc)
            raise
        except BaseException as exc:  # it was cancelled
            if course.came_late(opened):  # no fault of its own: a replay is in time
                self.trial.note_late()
                self._note_loss(request, opened, exc)
            lost = None if opened.draw else errors.Lost.CANCELLED
            course.end(opened, opened.draw, given_up=lost)
            raise
        self._note_reply(request, opened, reply)
        return reply

    def _begin(self, request: Request) -> tuple[OpenCall, StoredReply | None]:
        """Give a request its slot, and look for the reply that is stored there."""
        course = self.trial.course
        slot = self.trial.slot(request.key, course.occurrences(request.key, self.replies))

        def leave(draw: str, lost: errors.Lost) -> None:
            self.trial.record(_lost_call(request, slot, lost, draw=draw))

        opened = course.begin(request.key, slot, self.replies, leave)
        if opened.given_up and opened.is_late_again(request.patience):
            late = errors.ClientLate()
            self._note_loss(request, opened, late)
            raise late
        try:
            reply = self.replies.lookup(request, slot, place=opened.draw_place)
        except BaseException as exc:
            opened.miss = exc if isinstance(exc, errors.ReplayMiss) else None
            if opened.miss and opened.given_up:
                return opened, None
            self._note_loss(request, opened, exc)
            raise
        if reply and not opened.given_up:
            opened.is_stored = course.has_replayed = True
            if opened.recorded:  # the trial may end before it is handed over
                self.trial.record(_answered_call(request, slot, reply))
                opened.draw = reply.draw
        return opened, reply

    async def _wait_for_others(self, opened: OpenCall, reply: StoredReply | None) -> None:
        """Let a replayed reply wait for earlier ones, and be cancelled as the recorded call was."""
        draw, course = reply.draw if reply else None, self.trial.course
        if not (opened.recorded or (course.loop and reply)) or running_loop() is None:
            return
        if (opened.given_up or not _is_alone(course)) and course.is_held(opened, draw):
            await self.trial.wait_async(partial(course.wait, opened, draw), awaits=True)
            await _let_loop_go_round()  # a deadline that is over cancels the call now
        await _settled(course)

    def _note_reply(self, request: Request, opened: OpenCall, reply: StoredReply) -> None:
        call = None if opened.draw else _answered_call(request, opened.slot, reply)
        if self.trial.course.end(opened, reply.draw) and call is not None:
            self.trial.record(call)

    def _note_loss(self, request: Request, opened: OpenCall, exc: BaseException) -> None:
        course = self.trial.course
        if isinstance(exc, errors.ProviderFailed) and exc.lost is errors.Lost.OWN_TIMEOUT:
            course.end(opened, given_up=exc.lost)
            return
        if course.end(opened):
            self.trial.record(_failed_call(request, opened.slot, exc))
        was_asked = isinstance(exc, errors.ProviderFailed) and not exc.is_refusal
        if isinstance(exc, errors.LLMEvalError) and not was_asked:
            self.trial.refuse(exc)

    def _pay(self, request: Request, opened: OpenCall) -> StoredReply:
        course = self.trial.course
        if opened.miss is not None:  # it was given up, and is not now
            raise opened.miss
        if opened.given_up and not course.is_open(opened):
            raise errors.CallAbandoned
        course.pay(opened)
        context = copy_context()
        context.run(charge, None)  # a model is not intercepted while it answers
        reply = context.run(self.replies.pay, request, opened.slot, place=opened.draw_place)
        course.come(opened)
        if not (reply.replayed or course.is_open(opened)):
            course.paid_late.add(reply.draw)
        if course.others:
            course.wait(opened, None)
        return reply


def _is_alone(course: Course) -> bool:
    """Whether a coroutine is all that goes on in its trial."""
    import asyncio

    return not course.others and len(asyncio.all_tasks()) == 1


async def _settled(course: Course) -> None:
    """Let the application see what came before, in whatever task."""
    if running_loop() is None or _is_alone(course):
        return
    while course.seen < (events := course.events):
        await _let_loop_go_round()
        course.seen = max(course.seen, events)


async def _alone_in_its_round(course: Course) -> None:
    """Let no reply come in the round of the loop in which another one of the trial came.

    The application would find both, and take either. In a replay, where they come apart, it would
    take the first, and no replay could tell which it took.
    """
    loop = running_loop()
    if loop is None or _is_alone(course):
        return
    import asyncio

    while (shown := course.shown) and shown.get_loop() is loop and not shown.done():
        await asyncio.wait((shown,))  # it is not cancelled with this call
    course.shown = loop.create_future()
    go_round(loop, partial(course.shown.set_result, None))


@coroutine
def _let_loop_go_round() -> Generator[None]:
    for _ in range(ROUNDS):
        yield  # not asyncio.sleep, which a test may mock and count


def sampling_parameters(body: Mapping[str, object]) -> dict[str, Parameter]:
    """Pick the sampling parameters a request names.

    Args:
        body: the parameters of a request by name.
    """
    picked: dict[str, Parameter] = {}
    for name in SAMPLING_PARAMETERS:
        value = body.get(name)
        if name in body and (value is None or isinstance(value, str | int | float | bool)):
            picked[name] = value
    return picked


def _answered_call(request: Request, slot: Slot, reply: StoredReply) -> Call:
    told: Any = reply.facts.get
    texts: dict[str, Any] = {
        "key": request.key,
        "reply_sha256": reply.sha256,
        "model": request.model,
        "served": told("model"),
        "fingerprint": told("fingerprint"),
        "host": request.host,
    }
    for name, text in texts.items():  # a session keeps those of every call to its end
        texts[name] = intern(text) if type(text) is str else text
    return Call(
        **texts,
        slot=slot,
        draw=reply.draw,
        replayed=reply.replayed,
        parameters=request.parameters or _NO_PARAMETERS,
        usage=reply.usage,
        seconds=told("seconds"),
    )


def _failed_call(request: Request, slot: Slot, exc: BaseException) -> Call:
    # Only what errors of this room keep for the record is known to be short and free of secrets.
    if isinstance(exc, errors.ProviderFailed | errors.BudgetExceeded | errors.ReplayMiss):
        return _lost_call(request, slot, exc.lost, *exc.lost_for)
    name = type(exc).__name__
    if name == "CancelledError":  # of asyncio, or of a pool
        return _lost_call(request, slot, errors.Lost.CANCELLED)
    return _lost_call(request, slot, errors.Lost.OTHER, name)


def _lost_call(
    request: Request, slot: Slot, lost: errors.Lost, *lost_for: str, draw: str | None = None
) -> Call:
    return Call(
        key=request.key,
        slot=slot,
        draw=draw,
        model=request.model,
        host=request.host,
        parameters=request.parameters,
        lost=lost,
        lost_for=lost_for,
    )
