"""Trials without a pytest session: bodies that a scheduler runs, one of them at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from pytest_llmeval.engine.baton import Baton
from pytest_llmeval.engine.compat import Abilities
from pytest_llmeval.engine.schedule.scheduler import Scheduler
from pytest_llmeval.engine.trial_thread import TrialCancelled, TrialThread

Body = Callable[[TrialThread], object]


class Node:
    """An item, or its clone."""

    def __init__(self, name: str) -> None:
        self.name = self.nodeid = name
        self.stash: dict[object, object] = {}
        self._fixtureinfo = SimpleNamespace(name2fixturedefs={})

    def listchain(self) -> list[Node]:
        return [self]


class Trial:
    """A trial whose body is a function of its thread."""

    def __init__(
        self, case: Case, index: int, *, overlaps: bool, baton: Baton[TrialThread]
    ) -> None:
        self.item, self.index = case.item, index
        self.clone = Node(f"{case.item.name} {index}")
        self.ledger = SimpleNamespace()
        self._body = case.bodies[index]
        self.thread = TrialThread(
            self.run, function=case.spec.case.function, overlaps=overlaps, baton=baton
        )
        self.is_released = False

    def run(self) -> None:
        with suppress(TrialCancelled):  # pytest reports it
            self._body(self.thread)
        self.thread.left_setup = self.thread.in_teardown = True

    def release(self) -> None:
        self.is_released = True


class Case:
    """As ``CaseTrials``, for the scheduler."""

    def __init__(
        self,
        name: str,
        *bodies: Body,
        serial: str = "",
        signature: object = "",
        is_set_up: bool = True,
        function: str = "",
    ) -> None:
        self.item, self.bodies = Node(name), bodies
        self.spec = SimpleNamespace(case=SimpleNamespace(function=function or name))
        self.repeats, self.serial, self.signature = len(bodies), serial, signature
        self.is_set_up, self.saw_others = is_set_up, False
        self.calls: dict[int, tuple[int, int]] = {}
        self.due, self.begun, self.awaits_look = len(bodies), 0, False
        self.looks: int | None = None
        self.running: dict[int, Trial] = {}

    @property
    def may_begin(self) -> bool:
        return self.begun < self.due

    def begin(self, *, overlaps: bool, baton: Baton[TrialThread]) -> Trial:
        index, self.begun = self.begun, self.begun + 1
        self.running[index] = Trial(self, index, overlaps=overlaps, baton=baton)
        return self.running[index]

    def finished(self, trial: Trial) -> None:
        self.calls[trial.index] = (1, 0)
        del self.running[trial.index]
        trial.release()

    @property
    def due_have_ended(self) -> bool:
        return len(self.calls) >= self.due

    @property
    def recorded(self) -> list[Any]:
        trials = [SimpleNamespace(case=self.item.name, index=index) for index in self.calls]
        return [SimpleNamespace(record=one, saw_others=self.saw_others) for one in trials]

    ended = recorded

    def forget(self) -> None:
        self.calls, self.begun = {}, 0

    def have_ended(self) -> bool:
        return self.due_have_ended and not self.awaits_look


def bench(*cases: Case, limit: int = 64, **options: object) -> Scheduler:
    """Return the scheduler of a session that has nothing but these cases."""
    config: Any = SimpleNamespace(
        pluginmanager=SimpleNamespace(getplugin=lambda _: None, get_plugins=list),
        getoption=lambda name, default=None: options.get(name, default),
    )
    nodes = SimpleNamespace(stack={}, teardown_exact=lambda _: nodes.stack.clear())
    session: Any = SimpleNamespace(
        config=config, items=[case.item for case in cases], _setupstate=nodes
    )
    of_items: Any = {case.item: case for case in cases}
    return Scheduler(session, of_items, abilities=Abilities(swaps_logs=False), limit=limit)


def run(scheduler: Scheduler, *cases: Any) -> None:
    """Run cases as a session does: each in its turn, to its end."""
    for case in cases:
        scheduler.run(case, until=case.have_ended)
