"""Give a trial that seeds a random generator of the process a state of its own.

A trial that seeds one, as for few-shot examples that are to be the same each time, has that one for
itself from then on. One that does not draws from that of all, as their order is chance anyway:
were it given a copy, all trials would draw the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from pytest_llmeval.engine.baton import check_in
from pytest_llmeval.engine.isolation.part import Part
from pytest_llmeval.engine.isolation.places import noted
from pytest_llmeval.models.seams.imported import once_imported

# By module: the functions that seed, that which reads the state, and that which puts it back.
_KNOWN = {
    "random": (("seed", "setstate"), "getstate", "setstate"),
    "numpy.random": (("seed", "set_state"), "get_state", "set_state"),
    "torch": (("manual_seed", "set_rng_state"), "get_rng_state", "set_rng_state"),
}

States = dict[str, object]  # by module


class Generators(Part[States]):
    """Swap the generators that the trial in turn has seeded.

    Args:
        is_in_trial: whether a trial has its turn, and what it does is its own.
    """

    def __init__(self, is_in_trial: Callable[[], bool]) -> None:
        self._is_in_trial = is_in_trial
        self._of_all: States = {}  # of those that the trial has seeded, as the others know them
        self._watched: dict[str, tuple[Callable[[], object], Callable[[Any], object]]] = {}
        self._stack = ExitStack()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Notice who seeds, also a generator that the trial itself is the first to import."""
        with self._stack, once_imported(_KNOWN, self._watch):
            yield

    def _watch(self, module: Any) -> None:
        name = module.__name__
        seeding, read, write = _KNOWN[name]
        if hasattr(module, write):
            self._watched[name] = getattr(module, read), getattr(module, write)
            for function in seeding:
                self._stack.enter_context(noted(module, function, partial(self._seed, name)))

    def take_off(self) -> States:
        """Put back the states that all trials share; return the states that the trial had."""
        own = {name: self._watched[name][0]() for name in self._of_all}
        while self._of_all:
            name, state = self._of_all.popitem()
            self._watched[name][1](state)
        return own

    def put_on(self, saved: States) -> None:
        """Put in place what a trial had."""
        for name, state in saved.items():
            self._of_all[name] = self._watched[name][0]()
            self._watched[name][1](state)

    def fork(self, saved: States) -> States:
        """Begin with the states that all trials share."""
        return {}

    def is_as(self, saved: States) -> bool:
        """Whether the trial has seeded none."""
        return not self._of_all

    def _seed(self, name: str, *_: object, **__: object) -> None:
        check_in(alone=True)
        if name not in self._of_all and self._is_in_trial():
            self._of_all[name] = self._watched[name][0]()
