"""The errors of this plugin, as one tree.

::

    LLMEvalError
      SettingsError                 a bad option, ini value or marker argument: exit 4; where
                                    it ends a trial, that is errored
      BaselineError                 exit 4
        BaselineNotFound              no run is stored for what was named
        BaselineUnreadable            the run file is damaged, foreign or too new
        BaselineUnlike                the run belongs to another project folder
      GitFailed                     git could not do what was asked; in its own words
      ModelError                    the trial is errored, never scored
        ProviderNotInstalled          the SDK of the provider cannot be imported
        ProviderFailed                the provider, or a function model, gave no reply
          CallAbandoned                 who asked gave the call up before the reply came
          ClientLate                    its client waited no longer when it was recorded
        ReplayMiss                    --llm-cache=replay, and the reply is not stored
          ProgramRefused                the same, and a program was to be started
        BudgetExceeded                --llm-max-calls or --llm-max-cost leave no room for it
      TableError                    a score table cannot be compared: exit 4
      CacheError                    the cache cannot be used as it is
        RowRefused                    a row of it is not one that this plugin wrote
        CacheUnusable                 the database cannot be opened, read or written
      ScoreError                    a test recorded a score that is none: the trial crashes

A message says what is wrong with the value, what was looked for, and what to type next.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from types import UnionType
from typing import Literal

from pytest_llmeval.safe_text import printable

# User and password of an address.
USER_IN_URL = re.compile(r"(?<=//)[^/\s]+(?=@)")
Failure = Literal["infrastructure", "content"]


class Lost(StrEnum):
    """Why a call brought no reply. The values in brackets, for run files, are no secret."""

    NO_KEY = "no_key"  # nothing was sent (variables that are not set: key, base URL)
    KEY_REFUSED = "key_refused"  # the provider does not take the key (HTTP status, error code)
    CAP = "cap"  # nothing was sent (the option that left no room, with its value)
    MISS = "miss"  # likewise: only replays were wanted, and there was none
    CANCELLED = "cancelled"  # the application gave it up
    OWN_TIMEOUT = "own_timeout"  # its client waited no longer
    ABANDONED = "abandoned"  # whoever asked was gone before the reply came
    NETWORK = "network"  # no attempt got a reply (type of the error)
    TIMEOUT = "timeout"  # --llm-timeout ran out (its seconds)
    STATUS = "status"  # the provider answered so, or nothing of use (HTTP status, error code)
    CONTENT = "content"  # it refused what was asked (likewise)
    OTHER = "other"  # (in words)

    @property
    def failure(self) -> Failure:
        """``content`` if the request was refused for what it contains.

        Else ``infrastructure``: asking again might help.
        """
        return "content" if self is Lost.CONTENT else "infrastructure"

    @property
    def is_given_up(self) -> bool:
        """Whether the application did not wait: it had a deadline, or another reply."""
        return self in (Lost.CANCELLED, Lost.OWN_TIMEOUT)

    def told(self, values: Sequence[str]) -> str:
        """Name the loss in a few words."""
        if self in (Lost.STATUS, Lost.CONTENT, Lost.KEY_REFUSED):
            values = [" ".join(["HTTP", *values[:1], *(f"({code})" for code in values[1:])])]
        return _TOLD.get(self, "{}").format(", ".join(values))


_TOLD = {
    Lost.NO_KEY: "not set: {}",
    Lost.KEY_REFUSED: "key refused: {}",
    Lost.CAP: "cap {}",
    Lost.MISS: "ReplayMiss",
    Lost.CANCELLED: "CancelledError",
    Lost.OWN_TIMEOUT: "network: timeout of the client",
    Lost.ABANDONED: "the call was given up before the reply came",
    Lost.NETWORK: "network: {}",
    Lost.TIMEOUT: "no reply within {} s (--llm-timeout)",
}


class LLMEvalError(Exception):
    """Anything that this plugin raises on purpose."""


class SettingsError(LLMEvalError):
    """An option, an ini value or a marker argument cannot be used."""


class BaselineError(LLMEvalError):
    """The baseline cannot be compared with."""


class BaselineNotFound(BaselineError):
    """No stored run fits the name.

    Attributes:
        line: one line for a session that goes on: which run is missing and how to record it.
        stops: the session does not run, unless the user wants it all the same.
    """

    def __init__(self, message: str, *, line: str | None = None, stops: bool = True) -> None:
        """Keep the message and the line."""
        super().__init__(message)
        self.stops = stops
        self.line = message if line is None else line


class BaselineUnreadable(BaselineError):
    """The run file is damaged, foreign or newer than this version.

    Attributes:
        file: whose fault it is; ``why`` is the rest of a sentence without its full stop.
        todo: what helps where another version of this plugin does; else another run does.
        option: by which another run can be named.
    """

    def __init__(self, file: object, why: str, *, todo: str = "") -> None:
        """Keep the facts, of which messages are made."""
        super().__init__()
        self.file, self.why, self.todo = file, why, todo
        self.option = "--llm-baseline"

    def __str__(self) -> str:
        """Say it in two sentences."""
        again = f"Record the run again (pytest), or name another one with {self.option}."
        return f"{self.file} {self.why}. {self.todo or again}"


class BaselineUnlike(BaselineError):
    """The run was recorded for another folder of the repository."""


class GitFailed(LLMEvalError):
    """A git command failed, or git cannot be run."""


class ModelError(LLMEvalError):
    """A request got no reply."""


class ProviderNotInstalled(ModelError):
    """The package of the provider cannot be imported."""


class ProviderFailed(ModelError):
    """The provider, or a function model, gave no usable reply.

    Attributes:
        lost: why the call was lost; see ``Lost``.
        lost_for: the values that a run file may have beside ``lost``: the message, unless this may
            quote a prompt, a reply or a secret.
        is_refusal: we sent nothing, as it would have been in vain.
    """

    def __init__(
        self,
        message: str,
        *,
        lost: Lost = Lost.OTHER,
        lost_for: tuple[str, ...] | None = None,
        is_refusal: bool = False,
    ) -> None:
        """Keep the message, and the values that may be recorded."""
        super().__init__(message)
        self.is_refusal = is_refusal
        self.lost = lost
        self.lost_for = (message,) if lost_for is None else lost_for

    @property
    def in_words(self) -> str:
        """The loss in a few words."""
        return self.lost.told(self.lost_for)

    @property
    def failure(self) -> Failure:
        """``content`` or ``infrastructure``, see ``Lost``."""
        return self.lost.failure


class CallAbandoned(ProviderFailed):
    """The caller gave up before the reply came; others who wait for the reply ask again."""

    def __init__(self) -> None:
        """Write the message."""
        super().__init__(Lost.ABANDONED.told(()), lost=Lost.ABANDONED, lost_for=())


class ClientLate(ProviderFailed):
    """A replay of a call for whose reply its client did not wait, by a timeout of its own."""

    def __init__(self) -> None:
        """Write the message of the call itself."""
        super().__init__("the client waited no longer", lost=Lost.OWN_TIMEOUT, lost_for=())


class ReplayMiss(ModelError):
    """Replay was asked for and the reply is not stored."""

    lost, lost_for = Lost.MISS, ()


class ProgramRefused(ReplayMiss, PermissionError):
    """A program was not started; libraries go on without a program that fails to start."""


class BudgetExceeded(ModelError):
    """The call was not made: a cap of the session leaves no room for it."""

    def __init__(self, message: str, *, cap: str) -> None:
        """Keep the message and the cap: the option, or why its room is not known."""
        super().__init__(message)
        self.lost, self.lost_for = Lost.CAP, (cap,)  # a run file may have this text


class CacheError(LLMEvalError):
    """The cache of replies cannot be used in its present state."""


class RowRefused(CacheError):
    """A row that we did not write: nothing of it is read, unpickled or followed."""


class CacheUnusable(CacheError):
    """The database cannot be opened, read or written now (full, locked, read-only)."""


class ScoreError(LLMEvalError):
    """A test recorded something that is no score, or recorded it twice."""


class TableError(LLMEvalError):
    """A score table cannot be compared."""


def comes_of(
    error: BaseException, kinds: type[BaseException] | UnionType | tuple[type[BaseException], ...]
) -> bool:
    """Whether an exception is of these kinds, holds one, or was raised because of one."""
    return any(isinstance(one, kinds) for one in chain_of(error))


def chain_of(error: BaseException) -> list[BaseException]:
    """List an exception, what it holds, and what these were raised because of."""
    seen: list[BaseException] = []
    rest: list[BaseException | None] = [error]
    while rest:
        one = rest.pop()
        if one is not None and one not in seen:
            seen.append(one)
            rest += [one.__cause__ or one.__context__, *parts_of(one)]
    return seen


def parts_of(error: BaseException) -> list[BaseException]:
    """List the exceptions in a group and its inner groups; another exception is its only part."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [part for one in error.exceptions for part in parts_of(one)]


def listed_names(names: Sequence[str], most: int) -> str:
    """Write the first of some names, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def counted(count: int, noun: str, nouns: str | None = None) -> str:
    """Write ``1 case``, ``3 cases``, ``2 replies``."""
    return f"{count} {noun if count == 1 else nouns or f'{noun}s'}"


def did_you_mean(typed: str, names: Sequence[str], *, most: int, others: Sequence[str] = ()) -> str:
    """Write the names like an unknown one; if there are none, all known names.

    Args:
        typed: the name.
        names: the known ones.
        most: how many names are written at most.
        others: further names that the user may want.
    """
    near = nearest(typed, [*names, *others])
    return f"Did you mean {', '.join(near)}?" if near else f"It has {listed_names(names, most)}"


def nearest(typed: str, names: Sequence[str], *, most: int = 3, likeness: float = 0.6) -> list[str]:
    """Return the names that are most like what was typed, from some likeness between 0 and 1 on."""
    from difflib import get_close_matches  # few sessions come to this

    return get_close_matches(typed, names, n=most, cutoff=likeness)


# Masks users and passwords of addresses: a token of CI is mostly one.
without_user = partial(USER_IN_URL.sub, "***")


def files_unknown(error: Exception) -> str:
    """Say that the files which a process used could not be listed."""
    told = printable(traceback.format_exception_only(error)[-1].strip())
    return (
        f"the files that this run loaded could not be listed ({told}), so it does not tell whether "
        "git knows them all"
    )
