"""The outcome of one trial, and the line that tells why it did not pass."""

from __future__ import annotations

import os
import re
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

from pytest_llmeval.engine.trial.ledger import Ledger
from pytest_llmeval.errors import SettingsError, comes_of, printable
from pytest_llmeval.models.http.masking import masked_urls
from pytest_llmeval.records import Outcome

Failure = pytest.ExceptionInfo[BaseException]

# "object Reply can't be used in 'await' expression", "'Reply' object can't be awaited"
_AWAITED_REPLY = re.compile(r"(object Reply|'Reply' object) can't be .*await")


def outcome(failure: Failure | None, ledger: Ledger, *, in_setup: bool) -> Outcome:
    """Decide how a trial ended.

    Args:
        failure: what left it, None if the body returned.
        ledger: what it asked and scored.
        in_setup: the failure left a fixture.
    """
    if failure is None:
        return Outcome.ERRORED if ledger.refusal or _loss_behind(ledger) else Outcome.PASSED
    if asked_in_vain(failure.value, ledger):
        return Outcome.ERRORED
    if isinstance(failure.value, pytest.skip.Exception | unittest.SkipTest):
        return Outcome.SKIPPED
    is_miss = isinstance(failure.value, AssertionError | pytest.fail.Exception)
    return Outcome.MISSED if is_miss and not in_setup else Outcome.CRASHED


def asked_in_vain(error: BaseException, ledger: Ledger) -> bool:
    """Whether a trial failed for want of a reply or a model, which is no miss.

    A call that the application cancelled may be one that it waited for until its own deadline.
    """
    if ledger.refusal or ledger.loss or comes_of(error, SettingsError):
        return True
    if not ledger.cancelled_a_call:
        return False
    from asyncio import CancelledError

    return comes_of(error, TimeoutError | CancelledError)


def explain(error: BaseException) -> None:
    """Add what to type to the error of a test that awaits ``llm``.

    A note, as a ``Reply`` that can be awaited in order to explain itself would pass for an
    awaitable with everybody who asks ``inspect.isawaitable``.
    """
    if isinstance(error, TypeError) and _AWAITED_REPLY.match(str(error)):
        error.add_note(
            "llm answers without await: type llm.ask(...), or take the fixture async_llm and type "
            "await async_llm.ask(...), so that other trials go on meanwhile"
        )


def headline(failure: Failure | None, ledger: Ledger) -> str:
    """Say in a line why a trial did not pass; "" if it did."""
    if ledger.refusal:  # what the application made of it says less
        return ledger.refusal
    if failure is not None:
        return shown(failure).partition("\n")[0]
    return _loss_behind(ledger)


def shown(failure: Failure) -> str:
    """Write an exception as pytest does, with secrets in URLs masked."""
    return "\n".join(map(printable, masked_urls(failure.exconly(tryshort=True)).split("\n")))


def message(failure: Failure | None, ledger: Ledger, *, root: Path) -> str:
    """Name the type of a failure and its line under ``root``: no prompt and no reply."""
    if failure is None:
        return ledger.refusal.partition(":")[0]
    inside = str(root) + os.sep  # compared as texts: paths of a deep traceback cost 0.5 ms
    lines = [(tb.tb_frame.f_code.co_filename, tb.tb_lineno) for tb in _steps(failure.tb)]
    own = [(path.removeprefix(inside), line) for path, line in lines if path.startswith(inside)]
    path, line = own[-1] if own else (Path(lines[-1][0]).name, lines[-1][1])
    return f"{failure.type.__name__} {Path(path).as_posix()}:{line}"


def _loss_behind(ledger: Ledger) -> str:
    """Say why a trial is errored though its body returned; "" if it is not.

    That the body returned shows that it got by without a reply, by that of another model, say.
    A score does not, nor does a body that got no reply at all.
    """
    if ledger.unanswered:
        return f"passed without a reply to any of its calls: {ledger.unanswered}"
    return f"scored without a reply: {ledger.loss}" if ledger.scores and ledger.loss else ""


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next
