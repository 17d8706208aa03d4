"""Notice changes of the process when they are made, by patches of Python and pytest.

A trial that is to change anything takes the baton again if it runs without it, and waits for those
that run beside it. Then the change is its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import attrgetter
from typing import Any

import pytest

from pytest_llmeval.engine.baton import check_in
from pytest_llmeval.engine.isolation.patches import SWITCHES, Patches
from pytest_llmeval.engine.isolation.places import Generator, noted
from pytest_llmeval.models.seams.imported import once_imported

# Generators of random numbers of which the process has one, by module: the functions that seed,
# that which reads the state, and that which puts it back.
_GENERATORS = {
    "random": (("seed", "setstate"), "getstate", "setstate"),
    "numpy.random": (("seed", "set_state"), "get_state", "set_state"),
    "torch": (("manual_seed", "set_rng_state"), "get_rng_state", "set_rng_state"),
}
_CURRENT_TEST = os.environ.encodekey("PYTEST_CURRENT_TEST")  # which pytest sets at each phase


@contextmanager
def noted_changes(current: Callable[[], Patches | None]) -> Iterator[None]:
    """Give patches to the trial that makes them.

    Args:
        current: gives what the trial in turn patches.
    """
    redirection: Any = contextlib._RedirectStream
    # Owner, function, which of its calls change something, and how a trial takes note of them.
    places: list[tuple[Any, str, Callable[..., bool], Callable[..., object] | None]] = [
        (os, "putenv", _is_of_trial, Patches.add_variable),
        (os, "unsetenv", _is_of_trial, Patches.add_variable),
        (os, "chdir", _always, None),
        (redirection, "__enter__", _always, None),
        # Without a record libraries do it, for a moment.
        (warnings.catch_warnings, "__enter__", attrgetter("_record"), None),
        (logging.Logger, "__setattr__", _is_switched, Patches.add_switch),
        (pytest.MonkeyPatch, "__init__", _always, Patches.adopt),
    ]

    def note(changes: Callable[..., bool], by: Any, /, *args: Any, **named: Any) -> None:
        if not changes(*args, **named):
            return
        check_in(to_patch=True)
        patches = current()
        if by is not None and patches is not None:
            by(patches, *args, **named)

    with ExitStack() as stack:

        def watch_mock(mock: Any) -> None:
            for kind in (mock._patch, mock._patch_dict):
                for name, by in (("__enter__", Patches.add_mock), ("__exit__", Patches.end_mock)):
                    stack.enter_context(noted(kind, name, partial(note, _always, by)))

        def watch_generator(module: Any) -> None:
            seeding, read, write = _GENERATORS[module.__name__]
            if not hasattr(module, write):
                return
            functions = getattr(module, read), getattr(module, write)

            def seed(patches: Patches, *_: object, **__: object) -> None:
                patches.add(Generator(functions, module.__name__))

            for function in seeding:
                stack.enter_context(noted(module, function, partial(note, _always, seed)))

        for owner, name, changes, by in places:
            stack.enter_context(noted(owner, name, partial(note, changes, by)))
        stack.enter_context(once_imported(["unittest.mock"], watch_mock))
        stack.enter_context(once_imported(_GENERATORS, watch_generator))
        yield


def _always(*_: object, **__: object) -> bool:
    return True


def _is_switched(logger: logging.Logger, name: str, value: object) -> bool:
    """Whether a logger that is there is told what to do otherwise."""
    return name in SWITCHES and vars(logger).get(name, value) != value


def _is_of_trial(name: object, *_: object) -> bool:
    return name != _CURRENT_TEST
