"""Failures of single trials on the report of their case, for whoever asked to see them all."""

from __future__ import annotations

import re
from bdb import BdbQuit
from collections.abc import Sequence

import pytest

from pytest_llmeval.engine.trial.outcome import TrialFailures
from pytest_llmeval.engine.trial.trial import Ended
from pytest_llmeval.safe_text import printable_lines

_ASKS = frozenset("APm")  # -rA, -rP, -rm
_OF_TRIAL = re.compile(r"\[trial (\d+)\]")
Section = tuple[str, str]


class DebuggedFailures(TrialFailures, BdbQuit):
    """Too many trials did not pass, and --pdb has stopped in each of them.

    pytest's debugger takes no interest in a ``BdbQuit``: it would stop again, in this plugin.
    """


def failures_of_trials(reason: str, *, config: pytest.Config) -> TrialFailures:
    """Make the exception of a case whose trials did not pass."""
    return (DebuggedFailures if config.getoption("usepdb", False) else TrialFailures)(reason)


def shows_each(config: pytest.Config) -> bool:
    """Whether the failure of every trial is to be rendered, and not the first of a case alone."""
    asked: str = config.getoption("reportchars", "") or ""
    return bool(_ASKS.intersection(asked)) or config.getoption("usepdb", False)


def sections_by_trial(
    sections: Sequence[Section], ended: Sequence[Ended], *, without: object = None
) -> list[Section]:
    """Put the failure of each trial before what that trial printed.

    Args:
        sections: of the report.
        ended: the trials of the case.
        without: a failure that the report shows anyway.
    """
    failed = [
        (trial.record.index, (f"Trial {trial.record.index} {trial.record.outcome}", shown))
        for trial in ended
        if trial.longrepr is not None and trial.longrepr is not without
        for shown in ["\n".join(printable_lines(str(trial.longrepr)))]
    ]
    printed = [(_trial_of(title), (title, text)) for title, text in sections]
    return [section for _, section in sorted([*failed, *printed], key=lambda one: one[0])]


def _trial_of(title: str) -> int:
    found = _OF_TRIAL.search(title)
    return -1 if found is None else int(found[1])
