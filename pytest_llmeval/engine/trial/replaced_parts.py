"""Two parts of pytest that are replaced while trials run.

Shared fixtures, those wider than a function, are set up where pytest does so: in the session's
own thread. A trial that is the first to ask for one lets the session do it, and waits. So what is
bound to its thread meets that thread again at its end, a signal handler may be installed, and
a context variable that is set there is seen by all that comes later, and can be reset.

The capture stays on between the phases of a trial. pytest turns it off after every phase, so that
its own report can be printed, and on before the next. Of a trial nothing is printed; and with 64
in flight each of those twelve system calls hands the interpreter's lock to another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

import pytest
from _pytest.fixtures import FixtureDef

from pytest_llmeval.engine.baton.trial_thread import TrialThread
from pytest_llmeval.engine.trial.trial import TRIAL

T = TypeVar("T")


@contextmanager
def shared_fixtures_in_session() -> Iterator[None]:
    """Have the session set up shared fixtures, in its own thread."""
    plain = FixtureDef.execute

    def execute(definition: FixtureDef[Any], request: pytest.FixtureRequest) -> Any:
        __tracebackhide__ = True
        run: Callable[[], Any] = partial(plain, definition, request)  # type: ignore[arg-type]
        if definition.scope == "function" or _is_there(definition, request):
            return run()  # nothing of the user's is called, or nothing that is shared
        trial = request._pyfuncitem.stash.get(TRIAL, None)
        if trial is None or not isinstance(trial.thread, TrialThread):
            return run()
        return _run_in_session(trial.thread, run)

    FixtureDef.execute = execute  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        FixtureDef.execute = plain  # type: ignore[method-assign]


def _is_there(definition: FixtureDef[Any], request: pytest.FixtureRequest) -> bool:
    """Whether a fixture is set up, with the same parameter."""
    cached = definition.cached_result
    return cached is not None and cached[1] is definition.cache_key(request)  # type: ignore[arg-type]


def _run_in_session(thread: TrialThread, run: Callable[[], T]) -> T:
    """Run a function in the session's thread and context; take over context variables it set."""
    __tracebackhide__ = True
    news: dict[ContextVar[Any], object] = {}

    def observed() -> T:
        __tracebackhide__ = True
        before = copy_context()
        try:
            return run()
        finally:
            after = copy_context().items()
            news.update((var, value) for var, value in after if before.get(var) is not value)

    try:
        return thread.on_main_thread(observed)
    finally:
        for variable, value in news.items():
            variable.set(value)


@contextmanager
def capturing_throughout(config: pytest.Config) -> Iterator[None]:
    """Leave the capture on between the phases of trials."""
    manager: Any = config.pluginmanager.getplugin("capturemanager")
    plain = getattr(manager, "item_capture", None)
    if plain is None:  # or it is not as we know it: then no trial overlaps another
        yield
        return

    @contextmanager
    def item_capture(when: str, item: pytest.Item) -> Iterator[None]:
        trial = item.stash.get(TRIAL, None)
        if trial is None:
            with plain(when, item):
                yield
            return
        manager.activate_fixture()
        try:
            yield
        finally:
            manager.deactivate_fixture()
            out, err = manager.read_global_capture()
            if trial.context is not None:  # what was drained while the trial waited comes first
                drained = trial.context.out
                out, err = drained["stdout"] + out, drained["stderr"] + err
                drained["stdout"] = drained["stderr"] = ""
            item.add_report_section(when, "stdout", out)
            item.add_report_section(when, "stderr", err)

    manager.item_capture = item_capture
    try:
        yield
    finally:
        del manager.item_capture
