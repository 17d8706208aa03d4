"""Parameters of cases, kept under their digest: a run file, which a team shares, holds no text.

The parameters show what an edited case was before. A value under the name of a secret is blanked,
and long texts are cut, as in a kept request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from json import dumps, loads
from typing import TYPE_CHECKING, Any

from pytest_llmeval.cache.reply import NewRow, pack_object, unpack_object
from pytest_llmeval.cache.requests import trimmed
from pytest_llmeval.errors import RowRefused

if TYPE_CHECKING:
    from pytest_llmeval.cache.database import Store

_AT_A_TIME = 100  # rows of a query

Parameters = Mapping[str, Any]  # by the names of the arguments


def plain_value(value: object) -> object:
    """Write an object that JSON lacks: a record by its fields, a member of an enum by its value.

    Raises:
        TypeError: it is neither; nobody knows what another object holds.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value) if each.compare}
    if isinstance(value, Enum):
        return value.value
    dump = getattr(type(value), "model_dump", None)  # pydantic's
    if callable(dump):
        return dump(value, mode="json")
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def parameters_name(digest: str) -> str:
    """Name the row of some parameters."""
    return f"parameters/{digest}"


def keep_parameters(store: Store, by_digest: Mapping[str, Parameters]) -> None:
    """Write the parameters that are not there yet.

    Raises:
        CacheUnusable: the database cannot be read or written.
    """
    digests = list(by_digest)
    for start in range(0, len(digests), _AT_A_TIME):
        some = digests[start : start + _AT_A_TIME]
        found = store.find(*map(parameters_name, some))
        new = {one: by_digest[one] for one, row in zip(some, found, strict=True) if row is None}
        rows = list(_rows(new))
        if rows:
            store.add(*rows[0], beside=rows[1:])


def _rows(by_digest: Mapping[str, Parameters]) -> Iterator[NewRow]:
    for digest, parameters in by_digest.items():
        with suppress(TypeError, ValueError, RecursionError):  # a test has changed them since
            known = loads(dumps(dict(parameters), default=plain_value))
            value = pack_object(trimmed(known))
            if value is not None:
                yield parameters_name(digest), value


def read_parameters(value: bytes | RowRefused | None) -> Parameters | None:
    """Read the value of a row; None without a row that we wrote."""
    try:
        return None if value is None else unpack_object(value)
    except RowRefused:
        return None
