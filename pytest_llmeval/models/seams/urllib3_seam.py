"""The adapters of requests and botocore to the hook: both send a prepared request by urllib3.

Their seams are ``HTTPAdapter.send`` and ``URLLib3Session.send``. Each takes one request that is
ready to be sent, signed if it is to be, and returns one response around urllib3's. They are taken
where the application has imported the library. A question is sent by the application's own
adapter, which has its connections, proxies and certificates.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.client import responses
from io import BytesIO
from types import SimpleNamespace
from typing import Any, NamedTuple

from pytest_llmeval.models.http.seam import send_once
from pytest_llmeval.models.http.sender import newest
from pytest_llmeval.models.interception import Interception, Method

PIECE = 2**16  # bytes that are read at a time
_POOLS = {
    "urllib3.connectionpool": ("HTTPConnectionPool", "HTTPSConnectionPool"),
    "botocore.awsrequest": ("AWSHTTPConnectionPool", "AWSHTTPSConnectionPool"),
}
_OWN = ("urllib3", "botocore")  # whose connections the pools have where nobody put stubs there


def sending_by_requests(plain: Method, module: Any, interception: Interception) -> Method:
    """Make the method by which adapters of requests send.

    Args:
        plain: the library's own method.
        module: ``requests.adapters``.
        interception: decides what is kept.
    """

    def send(adapter: Any, request: Any, *args: Any, **options: Any) -> Any:
        timeout = options.get("timeout")  # seconds of silence, or of a pair the second
        read = timeout[1] if isinstance(timeout, tuple) and len(timeout) > 1 else timeout
        library = Library(
            wrap=partial(adapter.build_response, request),
            late=partial(module.ReadTimeout, request=request),
            broken=partial(module.ConnectionError, request=request),
            patience=read if isinstance(read, int | float) else None,
        )
        sending = partial(plain, adapter, request, *args, **options)
        answer = _answer(interception, library, request, sending)
        return sending() if answer is None else answer

    return send


def sending_by_botocore(plain: Method, module: Any, interception: Interception) -> Method:
    """Make the method by which sessions of botocore send.

    Args:
        plain: the library's own method.
        module: ``botocore.httpsession``.
        interception: decides what is kept.
    """
    response: Any = sys.modules["botocore.awsrequest"].AWSResponse

    def send(session: Any, request: Any) -> Any:
        url = request.url
        library = Library(
            wrap=lambda reply: response(url, reply.status, reply.headers, reply),
            late=lambda message: module.ReadTimeoutError(endpoint_url=url, error=message),
            broken=lambda error: module.ConnectionClosedError(endpoint_url=url, error=error),
        )

        def sending() -> Any:
            request.stream_output = True  # else it reads all that comes, however much
            return plain(session, request)

        answer = _answer(interception, library, request, sending)
        return plain(session, request) if answer is None else answer

    return send


class Library(NamedTuple):
    """The parts of a library that the hook needs, for one request.

    Attributes:
        wrap: makes a response of the library out of urllib3's.
        late: makes the error of a reply that took too long, with a sentence.
        broken: makes the error of a reply that broke off, of urllib3's.
        patience: seconds for which the application wants to wait; None where it did not say.
    """

    wrap: Callable[[Any], Any]
    late: Callable[[str], Exception]
    broken: Callable[[Exception], Exception]
    patience: float | None = None

    @staticmethod
    def ByteStream(content: bytes) -> BytesIO:  # noqa: N802 - as httpx names it
        """Make what a response is read from."""
        return BytesIO(content)

    def ReadTimeout(self, message: str, *, request: object) -> Exception:  # noqa: N802
        """Make the error of a request that took too long."""
        return self.late(message)

    def Response(self, status: int, *, headers: Mapping[str, str], stream: BytesIO) -> Any:  # noqa: N802
        """Make a response of which nothing is read yet."""
        from urllib3 import HTTPResponse

        reason = responses.get(status)
        reply = HTTPResponse(stream, headers, status, reason=reason, preload_content=False)
        return self.wrap(reply)


def _answer(
    interception: Interception, library: Library, sent: Any, send: Callable[[], Any]
) -> Any | None:
    """Answer a prepared request; None for one that is no question, which is not touched.

    Args:
        interception: decides that.
        library: whose request it is.
        sent: as it is about to be sent.
        send: sends it, and returns a response that is not read yet.
    """
    if sent.method != "POST" or interception.trial_to_charge() is None:
        return None
    headers = {_text(name).lower(): _text(value) for name, value in sent.headers.items()}
    seen = SimpleNamespace(method=sent.method, url=sent.url, headers=headers)
    candidate = None if _is_stubbed() else interception.candidate(seen)
    content = sent.body.encode() if isinstance(sent.body, str) else sent.body
    if candidate is None or not isinstance(content, bytes | bytearray):
        return None
    ours = newest()
    timeouts = {"timeout": {"read": library.patience}}
    request = ours.Request(
        "POST", sent.url, headers=headers, content=bytes(content), extensions=timeouts
    )
    question = interception.question(library, request, candidate)
    if question is None:
        return None

    def sending(_: Any) -> Any:
        reply = send().raw
        own = list(reply.headers.items())
        return ours.Response(reply.status, headers=own, content=_pieces(reply, library))

    most = interception.sender.most
    receive = partial(send_once, ours, sending, request, most=most)
    return question.answer(lambda deadline: deadline.run(receive))


def _pieces(reply: Any, library: Library) -> Iterator[bytes]:
    """Read the body of a response of urllib3's as it came, packed or not."""
    from urllib3.exceptions import HTTPError

    try:
        yield from reply.stream(PIECE, decode_content=False)
    except HTTPError as exc:
        raise library.broken(exc) from exc
    finally:
        reply.close()  # its connection is back in its pool where all was read


def _is_stubbed() -> bool:
    """Whether somebody put connections of his own into the pools, as vcrpy does."""
    found = (
        getattr(getattr(sys.modules.get(module), pool, None), "ConnectionCls", None)
        for module, pools in _POOLS.items()
        for pool in pools
    )
    return any(one is not None and one.__module__.partition(".")[0] not in _OWN for one in found)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
