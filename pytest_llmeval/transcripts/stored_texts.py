"""The replies and requests of recorded calls, as far as the cache beside the run has them."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from pytest_llmeval.cache.directory import refuse_link
from pytest_llmeval.cache.queries import RowReader
from pytest_llmeval.cache.reply import StoredReply, decode_or_none
from pytest_llmeval.cache.requests import Parts, row_name, unpack_request
from pytest_llmeval.errors import RowRefused
from pytest_llmeval.records import Call

DATABASE = "cache.db"


class StoredTexts:
    """Looks up by key and draw id; what is missing, damaged or foreign is None.

    Args:
        directory: ``.llmeval``; there may be nothing.
    """

    def __init__(self, directory: Path) -> None:
        self._rows: RowReader | None = None
        folder = directory / "cache"
        try:
            refuse_link(folder)
            if (folder / DATABASE).is_file():
                self._rows = RowReader(folder / DATABASE)
        except OSError:
            return

    def __enter__(self) -> StoredTexts:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the database."""
        if self._rows is not None:
            self._rows.close()

    def reply(self, call: Call) -> StoredReply | None:
        """Find the very draw that a call was given."""
        if self._rows is None or call.draw is None:
            return None
        values = self._rows.below(f"{call.key}/{call.slot}/")
        replies = filter(None, map(decode_or_none, values))
        return next((reply for reply in replies if reply.draw == call.draw), None)

    def request(self, key: str) -> Parts | None:
        """Find the request of a key, in its parts."""
        value = None if self._rows is None else self._rows.get(row_name(key))
        if not isinstance(value, bytes):
            return None
        try:
            parts: Parts = unpack_request(value)["request"]
        except RowRefused:
            return None
        return parts
