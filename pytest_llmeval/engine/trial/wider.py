"""Fixtures that outlive a trial: the session sets them up before any trial of their case begins.

So each is made in the session's own thread and context, once, in the setup phase of the first item
that needs it, as in a session without trials. A test may ask for another one while it runs
(``request.getfixturevalue``): its trial sets that up in its own thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any

import pytest

from pytest_llmeval.engine.trial.clone import definitions_of, end_clone, is_own
from pytest_llmeval.engine.trial.other_loops import loop_fixture, own_loop


def are_set_up(item: pytest.Function) -> bool:
    """Whether the wider fixtures of a case are there, or have failed."""
    return all(definition.cached_result is not None for _, definition in _wider(item))


def must_be_set_up(item: pytest.Function) -> bool:
    """Whether a wider fixture of a case is not there, or may be there with another parameter."""
    callspec: Any = getattr(item, "callspec", None)
    parameters = () if callspec is None else callspec.params
    wider = _wider(item)
    return any(one.cached_result is None or name in parameters for name, one in wider)


def set_up(item: pytest.Function, clone: pytest.Function) -> None:
    """Set up the wider fixtures of a case, in its own setup phase, up to one that fails.

    pytest keeps the error of that one and raises it for each trial.

    Args:
        item: the case.
        clone: of the item, which asks for them; it has ended then.
    """
    active = item.session._setupstate.stack
    active[clone] = ([], None)
    try:
        for name, _ in _wider(item):
            clone._request.getfixturevalue(name)
    except pytest.exit.Exception:
        raise
    except (Exception, pytest.skip.Exception, pytest.fail.Exception):
        return
    finally:
        del active[clone]
        end_clone(clone, of=item)


def _wider(item: pytest.Function) -> Iterator[tuple[str, pytest.FixtureDef[Any]]]:
    """Give the wider fixtures of a case in the order in which pytest sets them up."""
    is_async = iscoroutinefunction(item.obj)
    for name in item.fixturenames:
        for definition in definitions_of(item, name)[-1:]:
            is_async |= iscoroutinefunction(definition.func) or isasyncgenfunction(definition.func)
            if not is_own(definition, item):
                yield name, definition
    name = loop_fixture(item)
    if is_async and not own_loop(item):
        for definition in definitions_of(item, name)[-1:]:
            yield name, definition
