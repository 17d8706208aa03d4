"""Fixtures that can be made once for a test id, and so for one trial of a case alone.

Bags of results (pytest-harvest, pytest-evals) keep what they hold by node id, and refuse a second
one. Trials of a case share its id, so every trial but one would count as crashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten

import pytest

from pytest_llmeval.engine.ended import Ended
from pytest_llmeval.records import Outcome

_SHOWN = 90  # characters of the error
_JUDGES = (AssertionError, pytest.fail.Exception)  # of a reply, and not of the test's id


def failed_fixture(clone: pytest.Function, error: BaseException) -> str:
    """Name the fixture of a trial that has just raised an error; "" if none is known to."""
    for name, definitions in clone._fixtureinfo.name2fixturedefs.items():
        for definition in definitions:
            raised = definition.cached_result and definition.cached_result[2]
            if raised and raised[0] is error:
                return name
    return ""


def refused_if_made_once(ended: Sequence[Ended]) -> list[Ended]:
    """Take trials as errored where one fixture could be set up for one of them alone.

    That is no answer of a model, and such a run must be nobody's baseline. A fixture that asked a
    model, or that asserts, may well have failed by chance in all trials but one: that is a score.

    Args:
        ended: all trials of a case, by index.
    """
    failed = [
        one
        for one in ended
        if one.in_setup
        and one.record.outcome is Outcome.CRASHED
        and not (one.record.asked or one.may_have_asked)
        and not isinstance(one.exception, _JUDGES)
    ]
    kinds = {(one.fixture, type(one.exception)) for one in failed}
    if not failed or len(failed) != len(ended) - 1 or len(kinds) != 1 or not failed[0].fixture:
        return list(ended)
    indices = ", ".join(str(one.record.index) for one in failed)
    trials = f"trial {indices}" if len(failed) == 1 else f"trials {indices}"
    why = shorten(failed[0].headline, _SHOWN, placeholder="...")
    line = (
        f"fixture {failed[0].fixture} could not be set up for {trials} ({why}): it can be made "
        "once per test id, which the trials share. Return a fresh one from a fixture of this name "
        'in conftest.py; if it can be made one at a time, use concurrency="serial"'
    )
    return [one.errored(line) for one in ended]
