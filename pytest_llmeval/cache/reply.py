"""A reply: as the call brought it, as a test gets it, and as the cache keeps it.

A stored value is zlib over one line of JSON (the header), a newline, and the body as it came.
Nothing but JSON is ever parsed from it.
"""

from __future__ import annotations

import hashlib
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from json import dumps
from operator import attrgetter
from secrets import token_hex
from time import gmtime, strftime
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict, Union

import msgspec

from pytest_llmeval.cache.key import Canonical, parse_json
from pytest_llmeval.errors import RowRefused
from pytest_llmeval.originals import Clock
from pytest_llmeval.records import Parameter, Slot, Usage

SCHEMA = 1
HEADER = ("draw", "sha256", "status", "headers", "facts", "created", "session")
SUCCESS = range(200, 300)
TIME = "%Y-%m-%dT%H:%M:%SZ"  # sorts as it runs
SHORT = 2048  # bytes of a text that is not worth to be packed
STORED = b"\x78\x01\x01"  # zlib's beginning of a text in one stored block
MAX_HEADER = 2**20
MAX_BODY = 2**28  # 256 MiB, far above any reply: what inflates to more is a bomb
KEPT_HEADERS = frozenset({"content-type"})  # others may carry cookies, accounts or keys

_header_fields = attrgetter(*HEADER)
_LARGEST = sys.float_info.max
Finite = Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]  # JSON's 1e999 is infinity
Scalar = Union[str, int, Finite, bool, None]  # noqa: UP007 - a type with bounds has no |
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
LARGEST_NUMBER = 2**53 - 1  # beyond it readers of JSON round
LONGEST_NAME = 500  # characters of a model, a fingerprint or a tier
_NAMES = ("model", "fingerprint", "tier")
_NUMBERS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("input_tokens", "output_tokens", "cached_input_tokens"), (int,)),
    **dict.fromkeys(("first_chunk_seconds", "seconds"), (int, float)),
}
_USAGE = tuple(field.name for field in fields(Usage))
USUAL_TIERS = (None, "auto", "default", "on_demand", "standard")

Told = Mapping[str, Any]  # by name, as a reply has them
Facts = Mapping[str, Parameter]  # by name, those that make sense
NewRow = tuple[str, bytes]  # name and value
Headers = Mapping[str, str]
Value = bytes | RowRefused  # why it is not read, if we did not write it


class _Header(TypedDict):
    """The line before the body of a reply."""

    schema: Literal[1]
    draw: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
    status: Annotated[int, msgspec.Meta(ge=200, lt=300)]
    headers: dict[str, Annotated[str, msgspec.Meta(pattern=r"^[ -~]*\Z")]]
    facts: dict[str, Scalar]
    session: str
    created: NotRequired[Any]


_HEADER = msgspec.json.Decoder(_Header)
OBJECT = msgspec.json.Decoder(dict[str, Any])


class StoredRow(NamedTuple):
    """A row of the database; a row with a larger ``place`` was written later."""

    place: int
    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class StoredReply:
    """One draw of a request.

    Attributes:
        draw: 32 hex digits, made when the call was paid for.
        sha256: digest of the body, 64 hex digits.
        headers: the kept ones, names in lower case.
        facts: of the call, those that make sense.
        usage: what it took, as they tell.
        session: the one that paid for the draw.
        created: when, UTC; "" if not known.
        replayed: no call was made for it now.
    """

    draw: str
    sha256: str
    body: bytes
    status: int
    headers: Headers
    facts: Facts
    session: str
    created: str
    replayed: bool
    usage: Usage


def paid_reply(
    body: bytes, status: int = 200, headers: Headers | None = None, facts: Facts | None = None
) -> StoredReply:
    """Give a reply that has just been paid for its draw id; ``Replies`` names the session.

    Args:
        body: decoded bytes of the complete reply.
        status: of HTTP.
        headers: of the reply; only ``content-type`` is kept.
        facts: what is known about the call (model served, fingerprint, tokens, seconds).

    Raises:
        ValueError: it is no success.
    """
    if status not in SUCCESS:
        raise ValueError(f"only a 2xx answer can be a reply, not one of {status}")
    known = sensible(facts or {})
    usage = usage_of(known)
    return StoredReply(
        draw=token_hex(16),
        sha256=hashlib.sha256(body).hexdigest(),
        body=body,
        status=status,
        headers=_kept(headers or {}),
        facts=known,
        session="",
        created=strftime(TIME, gmtime(Clock.began + Clock.seconds())),
        replayed=False,
        usage=usage,
    )


# Whether a stored reply may be replayed.
Accepts = Callable[[StoredReply], bool]


def accept_any(_reply: StoredReply) -> bool:
    """Accept every stored reply."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRequest:
    """A request whose replies are kept.

    Attributes:
        key: sha256 of the canonical request, 64 hex digits.
        canonical: what the key was made of; kept beside the reply, so that a miss can be explained.
        accepts: whether a stored reply can be replayed; any other is drawn again.
        perform: makes the call for a slot if no reply is stored. What it raises passes unchanged.
        awaits: the call goes on only while an event loop runs.
    """

    key: str
    canonical: Canonical | None = field(default=None, repr=False, compare=False)
    accepts: Accepts = field(default=accept_any, repr=False, compare=False)
    perform: Callable[[Slot], StoredReply] = field(repr=False, compare=False)
    awaits: bool = False


def encode(reply: StoredReply) -> bytes:
    """Write a reply as the value of a row.

    Raises:
        RowRefused: header or body are too large to be read back.
    """
    fields = dict(zip(HEADER, _header_fields(reply), strict=True))
    return pack({"schema": SCHEMA, **fields}, reply.body)


def pack(header: Mapping[str, Any], body: bytes) -> bytes:
    """Put header and body together as the value of a row.

    Raises:
        RowRefused: they are too large to be read back.
        TypeError, ValueError: the header is no JSON.
    """
    line = dumps(header, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(line) > MAX_HEADER or len(body) > MAX_BODY:
        raise RowRefused(f"a reply of {len(body)} bytes is too large")
    return deflate(line + b"\n" + body)


def deflate(text: bytes) -> bytes:
    """Write a text as zlib does, quickly: a short one as it is, in one stored block (RFC 1951).

    Each of the two steps of zlib is a turn of the interpreter's lock: 0.1 ms beside other calls.
    The window is no larger than the text: the usual window takes 256 KiB at each call, and many
    threads fragment the memory with it.
    """
    if len(text) <= SHORT:
        length = len(text).to_bytes(2, "little")
        inverse = (len(text) ^ 0xFFFF).to_bytes(2, "little")
        return STORED + length + inverse + text + zlib.adler32(text).to_bytes(4, "big")
    window = min(len(text).bit_length(), zlib.MAX_WBITS)
    packer = zlib.compressobj(1, zlib.DEFLATED, window, window - 7)
    return packer.compress(text) + packer.flush()


def unpack(value: bytes | RowRefused) -> tuple[_Header, bytes]:
    """Take header and body apart, and check both.

    Raises:
        RowRefused: ``encode`` did not write this.
    """
    line, _, body = inflate(value, limit=MAX_HEADER + 1 + MAX_BODY).partition(b"\n")
    if len(line) > MAX_HEADER:
        raise RowRefused(f"its header is longer than {MAX_HEADER} bytes")
    header: _Header = fitting(line, _HEADER, "its header")
    if hashlib.sha256(body).hexdigest() != header["sha256"]:
        raise RowRefused("its body does not have the digest that its header names")
    return header, body


def pack_object(line: Mapping[str, Any]) -> bytes | None:
    """Write an object of JSON as a row; None if it is too long.

    Raises:
        ValueError: it holds a number that is not finite; likewise ``TypeError`` and
            ``RecursionError``.
    """
    text = dumps(line, separators=(",", ":"), allow_nan=False).encode("ascii")
    return deflate(text) if len(text) <= MAX_HEADER else None


def unpack_object(value: bytes | RowRefused, decoder: msgspec.json.Decoder[Any] = OBJECT) -> Any:
    """Read what ``pack_object`` wrote, as a type has it; see ``read_json``.

    Raises:
        RowRefused: it did not write this.
    """
    return fitting(inflate(value, limit=MAX_HEADER), decoder, "it")


def decode(value: bytes | RowRefused) -> StoredReply:
    """Read what ``encode`` wrote.

    Raises:
        RowRefused: it did not write this.
    """
    header, body = unpack(value)
    created, facts = str(header.get("created")), sensible(header["facts"])
    return StoredReply(
        draw=header["draw"],
        sha256=header["sha256"],
        body=body,
        status=header["status"],
        headers=_kept(header["headers"]),
        facts=facts,
        session=header["session"],
        created=created if _TIME.fullmatch(created) else "",
        replayed=True,
        usage=usage_of(facts),
    )


def decode_or_none(value: bytes | RowRefused) -> StoredReply | None:
    """Read the value of a row; None if ``encode`` did not write it."""
    try:
        return decode(value)
    except RowRefused:
        return None


def _kept(headers: Headers) -> dict[str, str]:
    """Pick the kept headers: a planted row may hold more, which an SDK would obey."""
    kept = {}
    for name, value in headers.items():
        if name.lower() in KEPT_HEADERS and value.isascii() and value.isprintable():
            kept[name.lower()] = value
    return kept


def inflate(value: bytes | RowRefused, *, limit: int) -> bytes:
    """Decompress the value of a row.

    Raises:
        RowRefused: it is no zlib, cut off, or has more than ``limit`` bytes.
    """
    if isinstance(value, RowRefused):
        raise value
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(value, limit)
    except zlib.error as exc:
        raise RowRefused(f"it cannot be decompressed ({exc})") from exc
    if not stream.eof or stream.unused_data:
        raise RowRefused(f"it is cut off, has a tail or inflates to more than {limit} bytes")
    return data


def read_json(data: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Read one value of JSON as a type has it; fields that the type does not name are left out.

    Args:
        data: of the value.
        decoder: of the type. Make it before there are threads: two that have msgspec learn one type
            at once crash it.

    Raises:
        msgspec.ValidationError: it does not fit the type; the message names the place.
        ValueError: it is no JSON; likewise ``OverflowError``.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        # msgspec refuses half of a surrogate pair, which a text of JSON may hold.
        return msgspec.convert(parse_json(data), decoder.type)


def fitting(text: bytes, decoder: msgspec.json.Decoder[Any], name: str) -> Any:
    """Read a value of JSON that we wrote.

    Args:
        text: of it.
        decoder: see ``read_json``.
        name: what to call it.

    Raises:
        RowRefused: it is no JSON, or does not fit the type.
    """
    try:
        return read_json(text, decoder)
    except msgspec.ValidationError as exc:
        raise RowRefused(f"{name} does not fit the format: {exc}") from exc
    except (ValueError, OverflowError) as exc:
        raise RowRefused(f"{name} is no JSON ({exc})") from exc


def sensible(facts: Told) -> dict[str, Any]:
    """Keep the facts that make sense: names, counts of tokens, and seconds.

    Args:
        facts: by name, as the reply has them.
    """
    kept: dict[str, Any] = {}
    for name in _NAMES:
        text = facts.get(name)
        if isinstance(text, str) and len(text) <= LONGEST_NAME:
            kept[name] = text
    for name, kinds in _NUMBERS.items():
        number: Any = facts.get(name)
        if type(number) in kinds and 0 <= number <= LARGEST_NUMBER:  # True is no number
            kept[name] = number
    if kept.get("tier") in USUAL_TIERS:
        kept.pop("tier", None)
    return kept


def usage_of(facts: Facts) -> Usage:
    """Pick from sensible facts what the reply took."""
    told: Any = facts.get
    return Usage(**dict(zip(_USAGE, map(told, _USAGE), strict=True)))
