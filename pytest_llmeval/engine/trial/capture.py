"""Pytest's capture, left on between the phases of a trial.

pytest turns it off after every phase, so that its own report can be printed, and on before
the next. Of a trial nothing is printed; and with 64 in flight each of those twelve system
calls hands the interpreter's lock to another thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_llmeval.engine.trial.trial import TRIAL


@contextmanager
def capturing_throughout(config: pytest.Config) -> Iterator[None]:
    """Have the phases of trials read what was captured, and no more."""
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
            # Before what was captured since comes what was drained while the trial waited.
            drained = {} if trial.context is None else trial.context.out
            out, err = manager.read_global_capture()
            item.add_report_section(when, "stdout", drained.pop("stdout", "") + out)
            item.add_report_section(when, "stderr", drained.pop("stderr", "") + err)

    manager.item_capture = item_capture
    try:
        yield
    finally:
        del manager.item_capture
