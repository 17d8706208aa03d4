"""Give each trial its own filters of warnings, and its own list of those they let through."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from pytest_llmeval.engine.compat import tell_of_new_filters
from pytest_llmeval.engine.isolation.part import Part

Show = Callable[[warnings.WarningMessage], object]


class WarningState(NamedTuple):
    """What a trial has.

    Attributes:
        filters: the list that is in force.
        show: is shown them now.
        own: is shown those that nothing in the trial records, as ``pytest.warns`` does.
    """

    filters: Any
    show: Show
    own: Show | None = None


class Warnings(Part[WarningState]):
    """Swap them."""

    def __init__(self) -> None:
        self._own: Show | None = None

    def take_off(self) -> WarningState:
        """Return them."""
        return WarningState(warnings.filters, warnings._showwarnmsg_impl, self._own)  # type: ignore[attr-defined]

    def put_on(self, saved: WarningState) -> None:
        """Put them in force."""
        if warnings.filters is not saved.filters:
            warnings.filters = saved.filters
            tell_of_new_filters()
        warnings._showwarnmsg_impl = saved.show  # type: ignore[attr-defined]
        self._own = saved.own

    def is_as(self, saved: WarningState) -> bool:
        """Whether the trial records no warnings, as others' would be among them."""
        return bool(self._own == warnings._showwarnmsg_impl)  # type: ignore[attr-defined]
