"""Ledgers: the calls, draws and scores of a trial, and the calls of no single trial."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from itertools import chain, count, filterfalse
from numbers import Real
from typing import TYPE_CHECKING, Any, SupportsFloat

import pytest

from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.engine.marker import Eval
from pytest_llmeval.errors import LLMEvalError, ScoreError
from pytest_llmeval.models.attribution import charging, trial_to_charge
from pytest_llmeval.models.course import Course
from pytest_llmeval.models.http.masking import masked_text
from pytest_llmeval.records import MEASURED_METRICS, SCORE_METRIC, Call, Slot
from pytest_llmeval.safe_text import printable

if TYPE_CHECKING:
    from pytest_llmeval.models.model_session import ModelSession

_slot = lru_cache(maxsize=1000)(Slot)  # equal ones are one: each trial keeps its own
_LARGEST = 1e100  # squares of larger ones overflow


def _call(function: Callable[[], object], **_: object) -> object:
    return function()


async def _call_elsewhere(function: Callable[[], object], **_: object) -> object:
    from pytest_llmeval.engine.trial.event_loop import wait_in_thread

    def begin(job: Callable[[], None]) -> None:
        # Not in the loop's own pool: asyncio.run would wait there for a call that was given up.
        with charging(None):
            threading.Thread(target=job, daemon=True).start()

    return await wait_in_thread(function, begin=begin)


class Ledger:
    """The current trial, as models and fixtures see it.

    Without arguments it is one for calls of no single trial; no trial goes on while they wait.
    Implements ``models.attribution.CurrentTrial``.

    Attributes:
        index: of the trial, None for what no single trial asks.
        function: whose trial it is, or who asked first; "" where nobody is known.
        intercepts: what the application asks by itself is kept.
        course: of its calls.
        shared: calls of wider fixtures that the trial used.
        refusal: why we did not let it ask something, "" if we let it ask everything.
        denial: what else we did not let out, which the trial may get over; "" if nothing.
        reached_out: it opened a connection, or sent a request that is not kept.
        had_trouble: something else came of a request than a reply; else no other field says why.
        has_ended: nothing asks on its behalf any more but what was left behind.
    """

    def __init__(
        self,
        index: int | None = None,
        *,
        function: str = "",
        name: str = "",
        intercepts: bool = True,
        wait: Callable[..., Any] = _call,
        wait_async: Callable[..., Coroutine[Any, Any, Any]] = _call_elsewhere,
    ) -> None:
        self.index, self.function, self.intercepts = index, function, intercepts
        self.course = Course(name)
        self.scores: dict[str, float] = {}
        self.shared: tuple[Call, ...] = ()
        self.refusal = self.denial = ""
        self.reached_out = self.had_trouble = self.has_ended = False
        self.wait = wait  # runs a function that waits for the outside
        self.wait_async = wait_async  # awaits it, or a coroutine of the loop
        self._calls: dict[tuple[str, Slot], Call] = {}
        self._late = ""  # why a reply that was there came too late
        self._uncached: dict[str, str] = {}  # requests that got no reply, and why
        self._setbacks: dict[tuple[str, Slot], str] = {}
        self._taken: defaultdict[str, set[int]] = defaultdict(set)
        self._lock = fork_safe_lock()  # an application may ask from threads of its own

    @property
    def calls(self) -> tuple[Call, ...]:
        """One call a slot, as it ended; no race decides their order once the trial has ended."""
        strands = {} if self.index is None else self.course.strands()
        own = (
            replace(call, strand=strands[place]) if strands.get(place) else call
            for call in self._calls.values()
            for place in [f"{call.key}/{call.slot}"]
        )
        return (*self.shared, *sorted(own, key=lambda call: call.strand))

    @property
    def loss(self) -> str:
        """Why the first request that got no reply got none, its content apart; "" if all got one.

        One that the application gave up is none of them: its patience is its own.
        """
        lost = (call for call in self.calls if not (_is_answered(call) or _is_given_up(call)))
        uncached = next(iter(self._uncached.values()), "")
        return next((call.reason or "no reply" for call in lost), uncached)

    @property
    def hindrance(self) -> str:
        """Why the application gave a call up, or was late, through no fault of its own; else "".

        The provider failed or wanted fewer calls before the call was given up, or left behind; or
        the reply was there, and the trial had no turn.
        """
        answered = {place for place, call in self._calls.items() if _is_answered(call)}
        setbacks = self._setbacks.items()
        return next((why for place, why in setbacks if place not in answered), self._late)

    @property
    def setback(self) -> str:
        """Why the first call that a provider held up was held up; "" if none was."""
        return next(iter(self._setbacks.values()), "")

    @property
    def has_answer(self) -> bool:
        """Whether some call of the trial got a reply, or a refusal of what it asked."""
        return any(map(_is_answered, self.calls))

    def slot(self, key: str, wanted: Iterable[int] = ()) -> Slot:
        """Take the next free occurrence of a request in this trial, one that is wanted first."""
        with self._lock:
            taken = self._taken[key]
            occurrence = next(filterfalse(taken.__contains__, chain(wanted, count())))
            taken.add(occurrence)
            return _slot(self.index, occurrence)

    def record(self, call: Call) -> None:
        """Note how a request ended.

        A request that failed drew nothing, so its slot is given back: if the application
        asks again it gets the very draw that a replay, which never fails, gives it.
        """
        with self._lock:
            self._calls[call.key, call.slot] = call
            if call.lost is not None:
                self.had_trouble = True
                self._taken[call.key].discard(call.slot.occurrence)

    def refuse(self, refusal: LLMEvalError) -> None:
        """Note that we refused a call: the test may swallow the error."""
        self.refusal, self.had_trouble = self.refusal or _line(refusal), True

    def deny(self, refusal: LLMEvalError) -> None:
        """Note that we let something not out that may be no question to a model."""
        self.denial, self.had_trouble = self.denial or _line(refusal), True

    def note_uncached(self, request: str, *, lost: str) -> None:
        """Note that a request which is not kept got no reply; or that it did, asked again."""
        self.reached_out = True
        self._uncached.pop(request, None)
        if lost:
            self._uncached[request], self.had_trouble = lost, True

    def note_setback(self, key: str, slot: Slot, why: str) -> None:
        """Note that a provider failed an attempt of a call that goes on, or wanted fewer calls."""
        call = self._calls.get((key, slot))
        if call is None or not _is_given_up(call):  # else it fails because it was given up
            self._setbacks.setdefault((key, slot), why)
            self.had_trouble = True

    def note_late(self) -> None:
        """Note that a reply was there, and the trial had no turn until it did not want it."""
        self._late = "its trial waited for its turn meanwhile (fewer at once: --llm-concurrency)"
        self.had_trouble = True

    def end(self) -> None:
        """Forget the trial, which has ended; a thread of the test may still make calls."""
        self.has_ended = True
        self.course.close()
        self.wait = _call
        self.wait_async = _call_elsewhere

    def score(self, value: object, metric: object = SCORE_METRIC) -> None:
        """Record the trial's value for a metric.

        Raises:
            ScoreError: the value is no finite number, or the metric has one already.
        """
        __tracebackhide__ = True
        if not isinstance(metric, str) or not metric:
            raise ScoreError(f"the name of a metric must be a text, not {metric!r}")
        number = _as_number(value)
        if number is None:
            raise ScoreError(
                f"llm_score({value!r}): a score must be a finite number (of at most 1e100); "
                "leave it out where there is nothing to score"
            )
        if metric in MEASURED_METRICS:
            raise ScoreError(
                f'llm_score({value!r}, "{metric}"): "{metric}" is measured from the calls of a '
                f'trial; give a value of your own another name, such as "my_{metric}"'
            )
        if metric in self.scores:
            raise ScoreError(
                f'"{metric}" was scored before in this trial ({self.scores[metric]:g}); '
                f'give the second value a name of its own: llm_score({value!r}, "name")'
            )
        self.scores[metric] = number


def _as_number(value: object) -> float | None:
    """Return a value as a finite number; None if it is none.

    Numbers of numpy and its kind, and arrays of a single one, are had by ``item``. What has
    both, as a mock has, is none of them if what it gives is no number.
    """
    try:
        given: Any = value.item() if hasattr(value, "item") else value
        is_number = isinstance(given, Real | Decimal)
        if is_number or (given is value and isinstance(given, SupportsFloat)):
            number = float(given)
            return number if abs(number) <= _LARGEST else None
    except (TypeError, ValueError, ArithmeticError, RuntimeError):
        pass
    return None


def _line(refusal: LLMEvalError) -> str:
    first, _, _ = str(refusal).partition("\n")
    return f"{type(refusal).__name__}: {printable(masked_text(first))}"


def _is_answered(call: Call) -> bool:
    """Whether a call got a reply, or a refusal of what it asked."""
    return call.failure != "infrastructure"


def _is_given_up(call: Call) -> bool:
    return call.lost is not None and call.lost.is_given_up


class SharedCalls:
    """The calls of wider fixtures, and the calls that belong to no case at all.

    A reply that a fixture got is a draw of every case that uses the fixture. If it belonged to
    nobody, a new draw of it would move many cases at once and look like evidence from each.

    Attributes:
        elsewhere: takes what is asked while a case runs, and no trial is known to ask.
    """

    def __init__(self) -> None:
        self._of_fixtures: dict[Any, Ledger] = {}
        self._handed_out: set[Ledger] = set()
        self.elsewhere = Ledger()
        self._counted = 0

    @contextmanager
    def setting_up(self, fixturedef: Any, spec: Eval) -> Iterator[None]:
        """Set a wider fixture up, for a case that is the first to ask for it."""
        if not spec.intercept:
            yield
            return
        ledger = self._of_fixtures[fixturedef] = Ledger(
            function=spec.case.function, name=f"{fixturedef.baseid} {fixturedef.argname}"
        )
        try:
            with charging(ledger):
                yield
        finally:
            ledger.end()

    def hand_out(self, of_trial: Ledger, clone: pytest.Function) -> None:
        """Give a trial the draws of the wider fixtures that it used; the first one paid."""
        asked = {
            definition: ledger
            for definition, ledger in self._of_fixtures.items()
            if ledger._calls or ledger.reached_out or ledger.had_trouble
        }
        if not asked:
            return
        definitions = clone._fixtureinfo.name2fixturedefs.values()
        used = (asked.get(one) for several in definitions for one in several)
        for ledger in filter(None, used):
            calls = ledger.calls
            if ledger in self._handed_out:
                calls = tuple(replace(call, replayed=call.failure is None) for call in calls)
            self._handed_out.add(ledger)
            of_trial.shared += calls
            of_trial.refusal = of_trial.refusal or ledger.refusal
            of_trial.denial = of_trial.denial or ledger.denial
            of_trial.reached_out |= ledger.reached_out
            of_trial.had_trouble |= ledger.had_trouble

    def take_new_calls(self) -> int:
        """Count the calls that belong to no case, since the last time."""
        count = len(self.elsewhere.calls)
        new, self._counted = count - self._counted, count
        return new


class ImportHooks:
    """Intercept clients while a file is collected, where the ini file wants all intercepted.

    Only that file can tell so early. It is not yet known then which cases there are, so these calls
    belong to none. Each draw of them is the same in every session, whatever else is collected: else
    a system prompt, say, that was made of one would be another each time, and nothing that contains
    it a replay.

    Args:
        models: gives all that the session holds of models.
    """

    def __init__(self, models: Callable[[], ModelSession]) -> None:
        self._models = models

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, Any, Any]:
        """Keep what is asked; counted anew for each file, as which others there are may change."""
        ledger, models = Ledger(), self._models()
        with models.intercepting(trial_to_charge), charging(ledger):
            try:
                return (yield)
            finally:
                models.outside_calls += len(ledger.calls)
