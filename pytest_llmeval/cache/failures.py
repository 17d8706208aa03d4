"""Two ways in which the cache can say no; both are told apart by ``Replies`` alone."""

from __future__ import annotations

from pytest_llmeval.errors import CacheError


class RowRefused(CacheError):
    """A row is not one that we wrote: nothing of it is read, unpickled or followed."""


class CacheUnusable(CacheError):
    """The database cannot be opened, read or written as things are (full, locked, read-only)."""
