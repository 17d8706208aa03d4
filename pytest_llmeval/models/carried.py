"""From the requests of an HTTP library to ours, and from our replies back.

httpx and httpx2 are alike in all that is touched here, and neither is imported.
"""

from __future__ import annotations

from typing import Any

from pytest_llmeval.models.exchange import PLACEHOLDER_KEY, Dialect, JsonObject, WireRequest
from pytest_llmeval.models.masking import secrets_of
from pytest_llmeval.models.retries import WireReply


def wire_request(request: Any, dialect: Dialect, body: JsonObject) -> WireRequest:
    """Say what a request sends.

    Args:
        request: of the library.
        dialect: whose request it is.
        body: what was read of it.
    """
    url = request.url
    path, _, query = url.raw_path.decode("ascii").partition("?")
    return WireRequest(
        method=request.method,
        origin=f"{url.scheme}://{url.netloc.decode('ascii')}",
        path=path,
        query=query,
        body=body,
        beta=request.headers.get(dialect.beta_header) if dialect.beta_header else None,
        has_key=lambda: not any(PLACEHOLDER_KEY in text for text in request.headers.values()),
        secrets=lambda: secrets_of(request.headers.items(), query=query),
    )


def response(library: Any, reply: WireReply) -> Any:
    """Hand a reply to a library.

    Args:
        library: the module ``httpx`` or ``httpx2``.
        reply: as the SDK is to have it.
    """
    # Not content=: such a response counts as read, and its raw bytes cannot be asked for.
    headers = {**reply.headers, "content-length": str(len(reply.body))}
    return library.Response(reply.status, headers=headers, stream=library.ByteStream(reply.body))
