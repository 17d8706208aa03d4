"""The outcome of a trial, and of the case whose trials have ended; the lines that say why."""

from __future__ import annotations

import os
import re
import sys
import unittest
from bdb import BdbQuit
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest

from pytest_llmeval.engine.marker import Eval
from pytest_llmeval.engine.trial.ledger import Ledger
from pytest_llmeval.errors import ReplayMiss, SettingsError, comes_of, parts_of
from pytest_llmeval.gate.marks import below_min_score
from pytest_llmeval.models.http.masking import masked_text
from pytest_llmeval.models.vendors.recognition import lacks_key
from pytest_llmeval.records import PASS_METRIC, CaseOutcome, Outcome, Trial
from pytest_llmeval.runs.keyless import lacks_only_a_key
from pytest_llmeval.safe_text import printable
from pytest_llmeval.settings import is_to_be_gated

Failure = pytest.ExceptionInfo[BaseException]

WITHOUT_KEY = "asks something new, and there is no key"
_MISSES = (AssertionError, pytest.fail.Exception)
_SKIPS = (pytest.skip.Exception, unittest.SkipTest)
_ORDINARY = "no call, no connection, and every trial missed alike, as an ordinary test does"
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
        return Outcome.ERRORED if _why_void(None, ledger) else Outcome.PASSED
    if asked_in_vain(failure.value, ledger):
        return Outcome.ERRORED
    if is_skip(failure.value):
        return Outcome.SKIPPED
    return Outcome.MISSED if _is_miss(failure.value) and not in_setup else Outcome.CRASHED


def is_skip(exception: BaseException) -> bool:
    """Whether a test skipped itself, as pytest or as unittest does; in all parts of a group."""
    return all(isinstance(part, _SKIPS) for part in parts_of(exception))


def _is_miss(exception: BaseException) -> bool:
    """Whether what was asserted did not hold; a part of a group that is skipped ends alone."""
    return all(isinstance(part, (*_MISSES, *_SKIPS)) for part in parts_of(exception))


def asked_in_vain(error: BaseException, ledger: Ledger) -> bool:
    """Whether a trial failed for want of a reply, a model, a key or the network: no miss.

    That the application waited no longer is a miss, unless a provider held its calls up.
    """
    blocks: Any = sys.modules.get("pytest_socket")  # raises where it keeps a test from the network
    names = ("SocketBlockedError", "SocketConnectBlockedError")
    in_vain = (SettingsError, *(getattr(blocks, name) for name in names if hasattr(blocks, name)))
    if _why_void(error, ledger) or comes_of(error, in_vain) or lacks_key(error):
        return True
    return bool(ledger.setback) and comes_of(error, TimeoutError)


def _why_void(error: BaseException | None, ledger: Ledger) -> str:
    """Say why a trial is errored however it ended; "" if that counts."""
    if not ledger.had_trouble:
        return ""
    if refusal := _refusal(error, ledger):
        return refusal
    if loss := ledger.loss:
        return f"a reply was lost: {loss}"
    hindrance = ledger.hindrance
    return hindrance and f"a call was given up, or left behind: {hindrance}"


def _refusal(error: BaseException | None, ledger: Ledger) -> str:
    """Say what we did not let a trial ask or send; "" if it got over it.

    It did if that is no question that we know of, it has an answer, and it passed, or missed for
    another reason.
    """
    if ledger.refusal or not ledger.denial:
        return ledger.refusal
    got_over = error is None or (_is_miss(error) and not comes_of(error, ReplayMiss))
    return "" if ledger.has_answer and got_over else ledger.denial


def explain(error: BaseException) -> None:
    """Add what to type to the error of a test that awaits ``llm``.

    A note, as a ``Reply`` that can be awaited in order to explain itself would pass for an
    awaitable with everybody who asks ``inspect.isawaitable``.
    """
    for part in parts_of(error):
        if isinstance(part, TypeError) and _AWAITED_REPLY.match(str(part)):
            part.add_note(
                "llm answers without await: type llm.ask(...), or take the fixture async_llm and "
                "type await async_llm.ask(...), so that other trials go on meanwhile"
            )


def headline(failure: Failure | None, ledger: Ledger) -> str:
    """Say in a line why a trial did not pass; "" if it did."""
    if refusal := _refusal(failure and failure.value, ledger):
        return refusal  # what the application made of it says less
    if failure is not None:
        return shown(_told(failure)).partition("\n")[0]
    return _why_void(None, ledger)


def _told(failure: Failure) -> Failure:
    """Return the first part of a failure that is no skip: the group around it says nothing."""
    parts = parts_of(failure.value)
    told = next((part for part in parts if not is_skip(part)), parts[0])
    if told is failure.value or told.__traceback__ is None:  # it was never raised
        return failure
    return pytest.ExceptionInfo.from_exception(told)


def shown(failure: Failure) -> str:
    """Write an exception as pytest does, with keys and the secrets of URLs masked."""
    text = failure.exconly(tryshort=True).removeprefix("pytest_llmeval.errors.")
    return "\n".join(map(printable, masked_text(text).split("\n")))


def message(failure: Failure | None, ledger: Ledger, *, root: Path) -> str:
    """Name the type of a failure and its line under ``root``: no prompt and no reply."""
    if failure is None:
        return _refusal(None, ledger).partition(":")[0]
    failure = _told(failure)
    inside = str(root) + os.sep  # compared as texts: paths of a deep traceback cost 0.5 ms
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(failure.tb)]
    own = [(path.removeprefix(inside), line) for path, line in lines if path.startswith(inside)]
    path, line = own[-1] if own else (Path(lines[-1][0]).name, lines[-1][1])
    return f"{failure.type.__name__} {Path(path).as_posix()}:{line}"


class TrialFailures(AssertionError):
    """Too many trials of a case did not pass."""


class DebuggedFailures(TrialFailures, BdbQuit):
    """Too many trials did not pass, and --pdb has stopped in each of them.

    pytest's debugger takes no interest in a ``BdbQuit``: it would stop again, in this plugin.
    """


@dataclass(frozen=True, slots=True)
class Fold:
    """The outcome of a case and, unless it passed, why; whether it lacks a key and nothing else."""

    outcome: CaseOutcome
    reason: str = ""
    is_keyless: bool = False


_PASSED = Fold(CaseOutcome.PASSED)


def fold(
    trials: Sequence[Trial], spec: Eval, *, xfail: bool = False, is_ordinary: bool = False
) -> Fold:
    """Decide the outcome of a case from its trials.

    Args:
        trials: every trial of the case.
        spec: the case.
        xfail: an xfail mark applies, so that anything but a clean pass is expected.
        is_ordinary: it asked nothing and missed throughout, so that no rate is measured.
    """
    scored = [trial for trial in trials if trial.outcome.is_scored]
    if all(trial.outcome is Outcome.SKIPPED for trial in trials):
        return Fold(CaseOutcome.SKIPPED, "every trial was skipped")
    if not scored:
        is_gated = is_to_be_gated(spec.settings) or spec.settings.makes_baseline
        if is_gated and lacks_only_a_key(trials):  # the gate says so in one line, and fails
            return Fold(CaseOutcome.SKIPPED, WITHOUT_KEY, is_keyless=True)
        return Fold(CaseOutcome.ERRORED, f"no answer to score ({tally(trials)})")
    if all(trial.outcome is Outcome.CRASHED for trial in scored):
        return Fold(CaseOutcome.FAILED, "every scored trial crashed: " + tally(trials))
    if xfail and any(trial.outcome is not Outcome.PASSED for trial in scored):
        return Fold(CaseOutcome.FAILED, tally(trials))
    reason = _below_min_score(trials, spec) or (_ORDINARY if is_ordinary else "")
    if spec.settings.fail_on_miss and any(trial.outcome is not Outcome.PASSED for trial in scored):
        reason = reason or "--llm-fail-on-miss"
    return Fold(CaseOutcome.FAILED, f"{reason}: {tally(trials)}") if reason else _PASSED


def _below_min_score(trials: Sequence[Trial], spec: Eval) -> str:
    """Name the first mean that is below what the mark asks for; "" if none is."""
    below = below_min_score(trials, spec.case)
    return f"mean {' '.join(below)} is below min_score={spec.case.min_score:g}" if below else ""


def tally(trials: Sequence[Trial]) -> str:
    """Count the trials by outcome: ``3 passed, 2 missed``."""
    outcomes = [trial.outcome for trial in trials]
    counts = {outcome: outcomes.count(outcome) for outcome in Outcome}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)


def shown_score(trials: Sequence[Trial], means: Mapping[str, float | None]) -> str:
    """Write the result of a case: ``4/5 passed``, and the mean of a score of its own."""
    scored = [trial for trial in trials if trial.outcome.is_scored]
    passed = sum(trial.outcome is Outcome.PASSED for trial in scored)
    own = [
        f"{printable(metric)} {round(mean, 12):.3f}"  # as the section has it, ties too
        for metric, mean in means.items()
        if metric != PASS_METRIC and mean is not None
    ]
    return ", ".join([f"{passed}/{len(scored)} passed", *own])
