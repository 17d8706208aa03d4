"""A loopback server that speaks OpenAI's wire format, counts, and can be told to fail.

In a thread::

    with OpenAIServer() as server:
        server.then(Scripted(status=500), Scripted(status=429, headers={"retry-after": "3"}))
        ...  # base URL: server.url
        assert len(server.requests) == 3

As a process, which prints its base URL as its first line::

    python -m tests.servers.openai_server
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

from tests.servers.openai_streams import chat_stream, response_stream
from tests.servers.received_body import received_body

if TYPE_CHECKING:
    import pytest

S = TypeVar("S", bound="OpenAIServer")
NEVER = 3600.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Scripted:
    """What the server does with one request, instead of answering as usual.

    Attributes:
        body: bytes as they are, or a JSON value; None for the usual reply.
        chunks: sent one by one, instead of a body; ``pause`` is the seconds after each.
        delay: seconds before it answers; ``NEVER`` for not at all.
        until: what it waits for before it answers.
        drop: close the connection before the reply, or in the middle of it.
        trickle: seconds between two bytes of the body.
    """

    status: int = 200
    body: object = None
    chunks: Sequence[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    until: threading.Event | None = None
    pause: float = 0.0
    drop: Literal["before", "midway"] | None = None
    trickle: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Received:
    """One request as it arrived, from this port of the client.

    Attributes:
        head: names and texts of its headers, as they were written and in their order.
    """

    port: int
    method: str
    path: str
    headers: Mapping[str, str]
    head: Sequence[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class OpenAIServer:
    """Serves on the loopback interface from ``start`` (or ``with``) to ``close``.

    Args:
        answer: the text for a chat request, given its body and how many requests came
            before; by default ``reply 0``, ``reply 1`` and so on.
        port: 0 for any free one.
    """

    def __init__(
        self, answer: Callable[[Mapping[str, Any], int], str] | None = None, *, port: int = 0
    ) -> None:
        self.requests: list[Received] = []
        self._answer = answer or (lambda _body, number: f"reply {number}")
        self._script: deque[Scripted] = deque()
        self._lock = threading.Lock()
        self.closed = threading.Event()
        self._http = _Server(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        """What belongs into OPENAI_BASE_URL."""
        return f"{self.origin}/v1"

    def then(self, *scripted: Scripted) -> None:
        """Say what to do with the next requests."""
        self._script.extend(scripted)

    def start(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        self.closed.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def wait_for_requests(self, count: int) -> None:
        """Wait until so many requests have been read: who sent them may have given up before."""
        while len(self.requests) < count:
            time.sleep(0.01)

    def take(self, received: Received) -> Scripted:
        """Note a request and say what to do with it, with the body filled in."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(received)
            scripted = self._script.popleft() if self._script else Scripted()
        if scripted.body is None and scripted.chunks is None:
            if scripted.status == 200 and _asks_for_stream(received):
                return replace(scripted, chunks=self._usual_stream(received.json, number))
            is_well = scripted.status == 200
            body = self._usual(received, number) if is_well else self._failure()
            return replace(scripted, body=body)
        return scripted

    def _failure(self) -> object:
        return {"error": {"message": "scripted", "type": "test", "code": "scripted"}}

    def _usual(self, received: Received, number: int) -> object:
        path = received.path.partition("?")[0]
        if received.method == "GET":
            return {"object": "list", "data": []}
        if path.endswith("/chat/completions"):
            return chat_completion(self._answer(received.json, number), received.json["model"])
        if path.endswith("/embeddings"):
            return embeddings(received.json["model"])
        return {}

    def _usual_stream(self, body: Mapping[str, Any], number: int) -> list[bytes]:
        text = self._answer(body, number)
        is_chat = "messages" in body
        return chat_stream(text, body) if is_chat else response_stream(text, body["model"])


def serving(server: S, patch: pytest.MonkeyPatch) -> Iterator[S]:
    """Start a server, and lead OpenAI's clients to it, for a fixture that yields from this."""
    with server as running:
        patch.setenv("OPENAI_BASE_URL", running.url)
        patch.setenv("OPENAI_API_KEY", "sk-test")
        yield running


def _asks_for_stream(received: Received) -> bool:
    can_stream = received.path.endswith(("/chat/completions", "/responses"))
    return can_stream and received.method == "POST" and bool(received.json.get("stream"))


def chat_completion(text: str, model: str) -> dict[str, object]:
    """Word a reply of /chat/completions."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": f"{model}-2026-01-01",
        "system_fingerprint": "fp_1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
    }


def embeddings(model: str) -> dict[str, object]:
    """Word a reply of /embeddings."""
    return {
        "object": "list",
        "model": model,
        "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5]}],
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: OpenAIServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that did not wait is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet a reply, else delayed acknowledgements cost 40 ms each

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""

    def _serve(self) -> None:
        received = Received(
            port=self.client_address[1],
            method=self.command,
            path=self.path,
            headers={name.lower(): text for name, text in self.headers.items()},
            head=self.headers.items(),
            body=received_body(self),
        )
        owner = cast("_Server", self.server).owner
        scripted = owner.take(received)
        owner.closed.wait(scripted.delay)
        while not (scripted.until is None or owner.closed.is_set() or scripted.until.wait(0.1)):
            pass
        body = scripted.body
        self.close_connection = scripted.drop is not None
        if scripted.drop == "before":
            return
        if scripted.chunks is not None:
            self._stream(scripted, scripted.chunks)
        else:
            self._reply(scripted, body if isinstance(body, bytes) else json.dumps(body).encode())

    def _reply(self, scripted: Scripted, content: bytes) -> None:
        self.send_response(scripted.status)
        headers = {"content-type": "application/json", "content-length": str(len(content))}
        for name, text in {**headers, **scripted.headers}.items():
            self.send_header(name, text)
        self.end_headers()
        if scripted.trickle:
            self._trickle(content, scripted.trickle)
        else:
            self.wfile.write(content[: len(content) // 2] if scripted.drop else content)

    def _trickle(self, content: bytes, pause: float) -> None:
        for number in range(len(content)):
            self.wfile.write(content[number : number + 1])
            self.wfile.flush()
            time.sleep(pause)

    def _stream(self, scripted: Scripted, chunks: Sequence[bytes]) -> None:
        owner = cast("_Server", self.server).owner
        self.send_response(scripted.status)
        headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        for name, text in {**headers, **scripted.headers}.items():
            self.send_header(name, text)
        self.end_headers()
        for chunk in chunks[: len(chunks) // 2] if scripted.drop else chunks:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
            owner.closed.wait(scripted.pause)
        if not scripted.drop:
            self.wfile.write(b"0\r\n\r\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve OpenAI's wire format on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0)
    server = OpenAIServer(port=parser.parse_args().port).start()
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
