"""The caching transport for httpx2, which carries the openai SDK.

Nothing is decided here: this shim turns the library's requests and replies into ours
and back.
"""

from __future__ import annotations

import time

import httpx2

from pytest_llmeval.models.base import CachedCalls
from pytest_llmeval.models.exchange import (
    PLACEHOLDER_KEY,
    Dialect,
    JsonObject,
    WireRequest,
    cached_body,
    exchange,
)
from pytest_llmeval.models.retries import NetworkFailed, RetryPolicy, WireReply


class CachingTransport(httpx2.BaseTransport):
    """Answers requests to models from the store; sends what is not there.

    It leaves ``inner`` open when its client is closed: connections are shared by the
    clients of all trials.

    Args:
        inner: sends a request.
        calls: the calls of the trial whose client this carries.
        dialect: the vendor of that client.
        retries: how to try again.
    """

    def __init__(
        self,
        inner: httpx2.BaseTransport,
        calls: CachedCalls,
        *,
        dialect: Dialect,
        retries: RetryPolicy,
    ) -> None:
        self._inner = inner
        self._calls = calls
        self._dialect = dialect
        self._retries = retries

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer one request of the SDK.

        Raises:
            httpx2.RequestError: the network failed, however often it was tried.
            CacheError: the store cannot be used.
        """
        body = cached_body(
            self._dialect,
            method=request.method,
            path=request.url.path,
            content_type=request.headers.get("content-type", ""),
            read=request.read,
        )
        if body is None:
            return self._inner.handle_request(request)
        try:
            reply = exchange(
                self._wire_request(request, body),
                lambda: self._attempt(request),
                dialect=self._dialect,
                calls=self._calls,
                retries=self._retries,
            )
        except NetworkFailed as exc:
            error = exc.error
        else:
            return httpx2.Response(reply.status, headers=reply.headers, content=reply.body)
        # The SDK knows the errors of its own library. Raised out here so that ours
        # does not stand in the traceback.
        raise error

    def _wire_request(self, request: httpx2.Request, body: JsonObject) -> WireRequest:
        url = request.url
        path, _, query = url.raw_path.decode("ascii").partition("?")
        return WireRequest(
            method=request.method,
            origin=f"{url.scheme}://{url.netloc.decode('ascii')}",
            path=path,
            query=query,
            body=body,
            beta=request.headers.get(self._dialect.beta_header),
            has_key=not any(PLACEHOLDER_KEY in text for text in request.headers.values()),
        )

    def _attempt(self, request: httpx2.Request) -> WireReply:
        started = time.perf_counter()
        try:
            response = self._inner.handle_request(request)
            try:
                body = response.read()
            finally:
                response.close()
        except (httpx2.RequestError, OSError) as exc:  # a TLS error can come as it is
            raise NetworkFailed(exc) from exc
        seconds = time.perf_counter() - started
        return WireReply(
            status=response.status_code,
            headers=dict(response.headers),
            body=body,
            seconds=seconds,
        )


class ClientTransport(httpx2.BaseTransport):
    """Sends through a whole client: only a client heeds the proxies of the environment."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request as it is and hand over the reply unread."""
        return self._client.send(request, stream=True, auth=None, follow_redirects=False)

    def close(self) -> None:
        """Close the client and its connections."""
        self._client.close()
