"""Define the methods of a part of the process state: how it is taken off and put on."""

from __future__ import annotations

from typing import Generic, TypeVar

Saved = TypeVar("Saved")


class Part(Generic[Saved]):
    """A part of the state of which the process has one, and each trial finds its own.

    If one of these raises, the trial whose part it is fails; the other parts are taken off or put
    on all the same.
    """

    def take_off(self) -> Saved:
        """Return what is there, and put away what others must not find."""
        raise NotImplementedError

    def put_on(self, saved: Saved) -> None:
        """Give the process back what was taken off."""
        raise NotImplementedError

    def fork(self, saved: Saved) -> Saved:
        """Return what a new trial begins with, from what the session has."""
        return saved

    def is_as(self, saved: Saved) -> bool:
        """Whether code in other threads sees no difference if what is there stays in its place."""
        return True

    def follow(self, saved: Saved, before: Saved, after: Saved) -> Saved:
        """Return what was taken off with the change that a fixture made for all trials."""
        return saved if before == after else after
