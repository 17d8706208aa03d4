"""The shims for httpx, which carries the ollama SDK.

httpx2 grew out of httpx, so a request of the one becomes a request of the other, and takes
the road of ``transport`` from there: one place that decides, and one that sends.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import cast

import httpx
import httpx2

from pytest_llmeval.models.http.client_hook import AsyncCachingTransport, CachingTransport

DEADLINES = httpx.Timeout(600.0, connect=5.0)  # seconds; those of the other vendors' SDKs


class HttpxTransport(httpx.BaseTransport):
    """Carries a blocking client.

    Args:
        road: where requests go from here.
    """

    def __init__(self, road: CachingTransport) -> None:
        self._road = road

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request of the SDK.

        Raises:
            httpx.RequestError: the network failed, however often it was tried.
            CacheError: the store cannot be used.
        """
        try:
            response = self._road.handle_request(_translated(request, content=_body(request)))
        except httpx2.RequestError as exc:
            error = _error(exc, request)
        else:
            return _response(response, stream=_Chunks(response))
        raise error  # out here, so that the other library's does not stand in the traceback


class AsyncHttpxTransport(httpx.AsyncBaseTransport):
    """Carries an awaitable client.

    Args:
        road: where requests go from here.
    """

    def __init__(self, road: AsyncCachingTransport) -> None:
        self._road = road

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request of the SDK.

        Raises:
            httpx.RequestError: the network failed, however often it was tried.
            CacheError: the store cannot be used.
        """
        content = await request.aread()
        try:
            response = await self._road.handle_async_request(_translated(request, content=content))
        except httpx2.RequestError as exc:
            error = _error(exc, request)
        else:
            return _response(response, stream=_AsyncChunks(response))
        raise error  # as above


class _Chunks(httpx.SyncByteStream):
    """The body of a reply, as it comes in."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from cast("Iterable[bytes]", self._response.stream)

    def close(self) -> None:
        self._response.close()


class _AsyncChunks(httpx.AsyncByteStream):
    """The same, awaited."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in cast("AsyncIterable[bytes]", self._response.stream):
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


def _body(request: httpx.Request) -> Iterable[bytes] | bytes:
    is_upload = "transfer-encoding" in request.headers  # a model, say, that memory may not hold
    return cast("Iterable[bytes]", request.stream) if is_upload else request.read()


def _translated(request: httpx.Request, *, content: Iterable[bytes] | bytes) -> httpx2.Request:
    return httpx2.Request(
        request.method,
        str(request.url),
        headers=request.headers.raw,
        content=content,
        extensions=request.extensions,  # the deadlines
    )


def _response(response: httpx2.Response, *, stream: _Chunks | _AsyncChunks) -> httpx.Response:
    return httpx.Response(response.status_code, headers=response.headers.raw, stream=stream)


def _error(error: httpx2.RequestError, request: httpx.Request) -> httpx.RequestError:
    """Find the error that the SDK knows: both libraries have the same names."""
    kind = getattr(httpx, type(error).__name__, httpx.TransportError)
    found: httpx.RequestError = kind(str(error), request=request)
    return found
