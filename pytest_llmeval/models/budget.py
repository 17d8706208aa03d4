"""The caps of a session: how many calls it may make and what they may cost, over all workers.

A call is let through only if the most that it can cost still fits; that sum is reserved, and
what is not used of it is given back when the reply says what it took. Every attempt that is
sent is a call, unless the provider turned it away for being one too many. An attempt that
got lost may have been charged for, so it counts at its most.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any, TypeVar

from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.errors import BudgetExceeded
from pytest_llmeval.models.deadline import Deadline, Watched
from pytest_llmeval.models.journal import Journal, Room, Spending
from pytest_llmeval.models.prices import Prices, Tariff, most_input_tokens, most_output_tokens
from pytest_llmeval.records import Usage

T = TypeVar("T")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.002, 0.05

OwnLimit = Callable[[Mapping[str, Any]], object]


def no_own_limit(_body: Mapping[str, Any]) -> None:
    """Read no limit: the vendor has the fields alone that others have, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The outcome of an attempt, as far as it costs something.

    Attributes:
        counts: it was a call; False if the provider turned it away untouched.
        is_free: it was refused with an error, which nobody is charged for.
        usage: as the reply tells it.
    """

    counts: bool = True
    is_free: bool = False
    usage: Usage = field(default_factory=Usage)


class Budget:
    """Let calls through while they fit under the caps. Safe for threads.

    Args:
        max_calls: the most calls, None for any number.
        max_cost: the most dollars, None for any sum.
        prices: of the models.
        journal: in which the processes of the session note their calls, None for one alone.
        process: a name for this one among them.
    """

    def __init__(
        self,
        *,
        max_calls: int | None = None,
        max_cost: Decimal | None = None,
        prices: Prices | None = None,
        journal: Journal | None = None,
        process: str = "",
    ) -> None:
        self.is_limited = max_calls is not None or max_cost is not None
        self._max_calls = max_calls
        self._max_cost = max_cost
        self._prices = prices or Prices({})
        self._journal = journal
        self._process = process or str(os.getpid())
        self._spending = Spending(max_calls=max_calls, max_cost=max_cost)
        self._numbers = count()
        self._lock = fork_safe_lock()
        self._sent = 0
        self._counting = fork_safe_lock()  # the other one is held while the journal is read
        self._is_closed = threading.Event()

    @contextmanager
    def meter(
        self, model: str | None, body: Mapping[str, Any], own_limit: OwnLimit = no_own_limit
    ) -> Iterator[Meter]:
        """Meter a call, which may take several attempts.

        An attempt that has not ended when its call does counts at its most.

        Args:
            model: ``provider/model``.
            body: what is sent.
            own_limit: reads the limit of the reply from a field that the vendor alone has.

        Raises:
            BudgetExceeded: what the call may cost cannot be known.
        """
        meter = Meter(self, model, *self._most(model, body, own_limit))
        try:
            yield meter
        finally:
            meter.close()

    @contextmanager
    def metered(
        self,
        send: Callable[[Deadline], T],
        bill: Callable[[T], Bill],
        *,
        model: str | None,
        body: Mapping[str, Any],
        own_limit: OwnLimit = no_own_limit,
    ) -> Iterator[Callable[[Deadline], T]]:
        """Make of a function that sends one that sends under the caps.

        Args:
            send: makes an attempt; waiting for room uses up its time.
            bill: reads from the reply what that came to.
            model: as for ``meter``.
            body: likewise.
            own_limit: likewise.
        """
        if not self.is_limited:
            yield partial(self._counted, send)
            return
        with self.meter(model, body, own_limit) as meter:
            yield lambda deadline: deadline.run(
                lambda: meter.attempt(lambda: send(Watched()), bill)
            )

    def count_sent(self) -> None:
        """Count an attempt that is about to be sent, whatever will come of it."""
        with self._counting:
            self._sent += 1

    def take_sent(self) -> int:
        """Return how many attempts were sent since the last time."""
        with self._counting:
            sent, self._sent = self._sent, 0
        return sent

    def close(self) -> None:
        """Refuse the calls that wait for room."""
        self._is_closed.set()

    def take(self, model: str | None, most: Decimal) -> str:
        """Reserve what a call may cost, once calls under way have left room for it.

        Returns:
            A name for it.

        Raises:
            BudgetExceeded: it does not fit, and never will.
        """
        pause = SHORTEST_PAUSE
        while True:
            with self._lock:
                name, room = self._try(most)
            if room == "now":
                return name
            if room == "never" or self._is_closed.wait(pause):
                raise self._refusal(model, most)
            pause = min(2 * pause, LONGEST_PAUSE)

    def end(self, name: str, *, calls: int, cost: Decimal) -> None:
        """Note what a call came to; one that has ended before stays as it is."""
        with self._lock:
            try:
                self._note("end", name, str(calls), str(cost))
            except OSError:  # then it stays reserved
                return

    def _counted(self, send: Callable[[Deadline], T], deadline: Deadline) -> T:
        with self._counting:
            self._sent += 1
        return send(deadline)

    def _most(
        self, model: str | None, body: Mapping[str, Any], own_limit: OwnLimit
    ) -> tuple[Decimal, Tariff | None]:
        """Tell the most that a call can cost, and by which tariff."""
        if self._max_cost is None:
            return Decimal(0), None
        tariff = self._prices.tariff(model)
        if tariff is None:
            remedy = self._prices.remedy(model)
            raise self._cost_refusal(model, f"its price is not known. {remedy}")
        window, limit = tariff.window, own_limit(body)
        most = tariff.cost(
            Usage(
                input_tokens=most_input_tokens(body, window=window),
                output_tokens=most_output_tokens(body, window=window, own_limit=limit),
            )
        )
        if most is None:
            raise self._cost_refusal(
                model,
                "how much it may cost cannot be told: the request names no limit of the reply, or "
                "points to a picture or file. Give it max_tokens, or leave the cap out",
            )
        return most, tariff

    def _try(self, most: Decimal) -> tuple[str, Room]:
        """Note a call in the journal if it seems to fit, and see whether it was granted."""
        name = f"{self._process}:{next(self._numbers)}"
        try:
            self._catch_up()
            room = self._spending.room(most)
            if room == "now":
                self._note("take", name, str(most))
                self._catch_up()
                room = "now" if self._spending.holds(name) else "later"
        except OSError as exc:
            raise BudgetExceeded(
                f"the caps of this session cannot be held over its workers: {exc}. Make --llm-dir "
                "writable, or run without -n",
                cap="that the workers cannot share",
            ) from exc
        return name, room

    def _note(self, *entry: str) -> None:
        if self._journal is None:
            self._spending.add([*entry])
        else:
            self._journal.append(*entry)

    def _catch_up(self) -> None:
        for entry in () if self._journal is None else self._journal.unread():
            self._spending.add(entry)

    def _refusal(self, model: str | None, most: Decimal) -> BudgetExceeded:
        if not self._spending.has_calls_left:
            option = f"--llm-max-calls={self._max_calls}"
            return BudgetExceeded(
                f"{model or 'the model'} was not asked: {option} is reached. Raise it, or replay "
                "what is stored with --llm-cache=replay",
                cap=option,
            )
        return self._cost_refusal(
            model,
            f"it may cost up to ${most:.4f}, and ${self._spending.spent:.4f} is spent. "
            "Raise the cap, or ask with a lower max_tokens (without one a reply may fill the "
            "model's window)",
        )

    def _cost_refusal(self, model: str | None, why: str) -> BudgetExceeded:
        option = f"--llm-max-cost={self._max_cost}"
        return BudgetExceeded(
            f"{model or 'the model'} was not asked under {option}: {why}",
            cap=option,
        )


@dataclass(slots=True)
class Meter:
    """One call, metered attempt by attempt.

    Attributes:
        budget: under whose caps the attempts are.
        model: ``provider/model``.
        most: the most that an attempt can cost.
        tariff: tells what one has cost; None where no cap asks.
    """

    budget: Budget
    model: str | None
    most: Decimal
    tariff: Tariff | None
    _open: str | None = None
    _is_over: bool = False

    def close(self) -> None:
        """Count an attempt that has not ended at its most."""
        self._is_over = True
        if self._open is not None:
            self.budget.end(self._open, calls=1, cost=self.most)

    def attempt(self, send: Callable[[], T], bill: Callable[[T], Bill]) -> T:
        """Send once, if it fits under the caps.

        Args:
            send: makes the attempt; if it raises, that may have been charged for.
            bill: reads from the reply what it came to.

        Raises:
            BudgetExceeded: it does not fit; nothing was sent.
        """
        budget = self.budget
        name = self._open = budget.take(self.model, self.most)
        if self._is_over:  # nobody waits any more: it had to wait for room too long
            self._end(name, Bill(counts=False, is_free=True))
            why = "given up before there was room for it under the cap"
            raise BudgetExceeded(f"the call was {why}", cap=f"({why})")
        budget.count_sent()
        try:
            reply = send()
        except BaseException:
            self._end(name, Bill())
            raise
        self._end(name, bill(reply))
        return reply

    def _end(self, name: str, bill: Bill) -> None:
        self._open = None
        cost: Decimal | None = Decimal(0)
        if not bill.is_free and self.tariff is not None:
            cost = self.tariff.cost(bill.usage)
        self.budget.end(name, calls=int(bill.counts), cost=self.most if cost is None else cost)
