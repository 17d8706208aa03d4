"""From the requests of an HTTP library to ours, and from our replies back.

httpx and httpx2 are alike in all that is touched here, and neither is imported.
"""

from __future__ import annotations

from typing import Any

from pytest_llmeval.models.http.exchange import JsonObject, WireRequest
from pytest_llmeval.models.http.streams import Reading
from pytest_llmeval.models.limits.retries import WireReply

PIECE = 64  # bytes that are unpacked at a time, as nothing bounds what a library makes of more


def wire_request(request: Any, body: JsonObject) -> WireRequest:
    """Say what a request sends.

    Args:
        request: of the library.
        body: what was read of it.
    """
    url = request.url
    path, _, query = url.raw_path.decode("ascii").partition("?")
    return WireRequest(
        method=request.method,
        origin=f"{url.scheme}://{url.netloc.decode('ascii')}",
        path=path,
        query=query,
        headers=request.headers,
        body=body,
    )


def unpacked(library: Any, response: Any, packed: bytes, *, most: int) -> bytes:
    """Undo the packing of a reply as its library does, but no further than a bound.

    Layer by layer: the library unpacks a piece through all of them, a thousandfold in each.

    Args:
        library: the module ``httpx`` or ``httpx2``.
        response: whose headers tell how it is packed.
        packed: its body as it came.
        most: so many bytes may be in it, and in each layer.

    Raises:
        ReplyTooLarge: there are more.
    """
    for packing in reversed(response.headers.get_list("content-encoding", split_commas=True)):
        pieces = (packed[start : start + PIECE] for start in range(0, len(packed), PIECE))
        again = library.Response(200, headers={"content-encoding": packing}, content=pieces)
        packed = Reading(most=most).add_all(again.iter_bytes())
    return packed


def response(library: Any, reply: WireReply) -> Any:
    """Hand a reply to a library.

    Args:
        library: the module ``httpx`` or ``httpx2``.
        reply: as the SDK is to have it.
    """
    # Not content=: such a response counts as read, and its raw bytes cannot be asked for.
    headers = {**reply.headers, "content-length": str(len(reply.body))}
    return library.Response(reply.status, headers=headers, stream=library.ByteStream(reply.body))
