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
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Any, NamedTuple

from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.errors import BudgetExceeded
from pytest_llmeval.models.limits.journal import Journal, Room, Spending
from pytest_llmeval.models.limits.prices import Prices, Tariff
from pytest_llmeval.records import Usage

SHORTEST_PAUSE, LONGEST_PAUSE = 0.002, 0.05


OwnLimit = Callable[[Mapping[str, Any]], object]


@dataclass(kw_only=True, eq=False)
class Budget:
    """Let calls through while they fit under the caps. Safe for threads.

    Attributes:
        max_calls: the most calls, None for any number.
        max_cost: the most dollars, None for any sum.
        prices: of the models.
        journal: in which the processes of the session note their calls, None for one alone.
        process: a name for this one among them.
        closed: once it is set the calls that wait for room are refused.
        count_sent: counts an attempt that is about to be sent, whatever will come of it.
    """

    max_calls: int | None = None
    max_cost: Decimal | None = None
    prices: Prices = field(default_factory=lambda: Prices({}))
    journal: Journal | None = None
    process: str = field(default_factory=lambda: str(os.getpid()))
    closed: threading.Event = field(default_factory=threading.Event)
    _numbers: Iterator[int] = field(default_factory=count)
    _lock: threading.Lock = field(default_factory=fork_safe_lock)
    _counted: int = 0
    # The other one is held while the journal is read.
    _counting: threading.Lock = field(default_factory=fork_safe_lock)

    def __post_init__(self) -> None:
        """Begin with nothing spent."""
        self.count_sent = count().__next__
        self._spending = Spending(max_calls=self.max_calls, max_cost=self.max_cost)

    def most(
        self, model: str | None, body: Mapping[str, Any], own_limit: OwnLimit | None = None
    ) -> HighestCost | None:
        """Tell the most that an attempt of a call can cost; None where no cap asks.

        Args:
            model: ``provider/model``.
            body: what is sent.
            own_limit: reads the limit of the reply from a field that the vendor alone has.

        Raises:
            BudgetExceeded: what the call may cost cannot be known.
        """
        if self.max_calls is None and self.max_cost is None:
            return None
        if self.max_cost is None:
            return HighestCost(model)
        tariff = self.prices.tariff(model)
        if tariff is None:
            remedy = self.prices.remedy(model)
            raise self._cost_refusal(model, f"its price is not known. {remedy}")
        most = tariff.most(body, own_limit(body) if own_limit else None)
        if most is None:
            raise self._cost_refusal(
                model,
                "how much it may cost cannot be told: the request names no limit of the reply, or "
                "points to a picture or file. Give it max_tokens, or leave the cap out",
            )
        return HighestCost(model, most, tariff)

    def take_sent(self) -> int:
        """Return how many attempts were sent since the last time."""
        with self._counting:
            seen, now = self._counted, self.count_sent()
            self._counted = now + 1  # this look counts, too
        return now - seen

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
            if room == "never" or self.closed.wait(pause):
                raise self._refusal(model, most)
            pause = min(2 * pause, LONGEST_PAUSE)

    def end(self, name: str, *, calls: int, cost: Decimal) -> None:
        """Note what a call came to; one that has ended before stays as it is."""
        with self._lock:
            try:
                self._note("end", name, str(calls), str(cost))
            except OSError:  # then it stays reserved
                return

    def _try(self, most: Decimal) -> tuple[str, Room]:
        """Note a call in the journal if it seems to fit, and see whether it was granted."""
        name = f"{self.process}:{next(self._numbers)}"
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
        if self.journal is None:
            self._spending.add([*entry])
        else:
            self.journal.append(*entry)

    def _catch_up(self) -> None:
        for entry in () if self.journal is None else self.journal.unread():
            self._spending.add(entry)

    def _refusal(self, model: str | None, most: Decimal) -> BudgetExceeded:
        if not self._spending.has_calls_left:
            option = f"--llm-max-calls={self.max_calls}"
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
        option = f"--llm-max-cost={self.max_cost}"
        told = f"{model or 'the model'} was not asked under {option}: {why}"
        return BudgetExceeded(told, cap=option)


class HighestCost(NamedTuple):
    """The cost of an attempt, before anybody knows it.

    Attributes:
        model: ``provider/model``.
        dollars: the most that it can be.
        tariff: tells what it was; None where no cap asks.
    """

    model: str | None
    dollars: Decimal = Decimal(0)
    tariff: Tariff | None = None


@dataclass(slots=True)
class Reservation:
    """The room under the caps that one attempt takes until it is known what it came to.

    Attributes:
        budget: that has the caps.
        most: that the attempt can cost; None where no cap asks.
    """

    budget: Budget
    most: HighestCost | None
    _open: str | None = None
    _is_over: bool = False

    def take(self) -> None:
        """Wait for room, and count the attempt, which is about to be sent.

        Raises:
            BudgetExceeded: it does not fit, or whoever asked waits no longer; nothing is sent.
        """
        if self.most is not None:
            self._open = self.budget.take(self.most.model, self.most.dollars)
            if self._is_over:  # nobody waits any more: it had to wait for room too long
                self.settle(counts=False, is_free=True)
                why = "given up before there was room for it under the cap"
                raise BudgetExceeded(f"the call was {why}", cap=f"({why})")
        self.budget.count_sent()

    def settle(
        self, usage: Usage | None = None, *, counts: bool = True, is_free: bool = False
    ) -> None:
        """Give back what was not used.

        Args:
            usage: as the reply tells it.
            counts: it was a call; False if the provider turned it away untouched.
            is_free: it was refused with an error, which nobody is charged for.
        """
        if self._open is None or self.most is None:
            return
        name, self._open = self._open, None
        cost: Decimal | None = Decimal(0)
        if not is_free and self.most.tariff is not None:
            cost = self.most.tariff.cost(usage or Usage())
        self.budget.end(name, calls=int(counts), cost=self.most.dollars if cost is None else cost)

    def close(self) -> None:
        """Count an attempt that was left behind at its most: it may have been charged for."""
        self._is_over = True
        self.settle()
