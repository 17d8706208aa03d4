"""A session without pytest: trials that only count, on top of stored replies."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

import openai
import pytest

from pytest_llmeval.errors import LLMEvalError
from pytest_llmeval.models.attribution import trial_to_charge
from pytest_llmeval.models.calls import MAX_REPLY_BYTES, CachedCalls, Services
from pytest_llmeval.models.course import Course
from pytest_llmeval.models.http.answers import Expected
from pytest_llmeval.models.http.attempt import Attempt, Send, last_reply
from pytest_llmeval.models.http.dialect import HttpRequest
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.interception import Interception
from pytest_llmeval.models.limits.deadline import DEFAULT_SECONDS
from pytest_llmeval.models.limits.throttle import PaceClock
from pytest_llmeval.models.llm import AsyncModel, Model
from pytest_llmeval.models.model_session import ModelSession
from pytest_llmeval.models.seams.imported import SEEN, once_imported
from pytest_llmeval.models.seams.taking_over import take_over
from pytest_llmeval.models.vendors.openai import VENDOR
from pytest_llmeval.models.vendors.recognition import Recognition
from pytest_llmeval.records import Call, Slot
from pytest_llmeval.settings import CacheMode, Settings
from tests.servers.openai_server import OpenAIServer

T = TypeVar("T")

ORIGIN = "https://api.example"
ANSWER = HttpReply(status=200, body=b'{"choices": [{"message": {"content": "Hi"}}]}')
SECRET = "sk-test-4f1d9a"  # noqa: S105 - a test greps for it


class CountingTrial:
    """What the engine does for a trial, as far as models can see it."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.course = Course(f"trial {index}")
        self.calls: list[Call] = []
        self.refusals: list[LLMEvalError] = []
        self.waits = 0
        self.was_late = False
        self.uncached: dict[str, str] = {}
        self._taken: defaultdict[str, set[int]] = defaultdict(set)

    def slot(self, key: str, wanted: Iterable[int] = ()) -> Slot:
        occurrence = next(n for n in chain(wanted, count()) if n not in self._taken[key])
        self._taken[key].add(occurrence)
        return Slot(self.index, occurrence)

    def record(self, call: Call) -> None:
        self.calls.append(call)
        if call.failure:
            self._taken[call.key].discard(call.slot.occurrence)

    def refuse(self, refusal: LLMEvalError) -> None:
        self.refusals.append(refusal)

    def note_setback(self, key: str, slot: Slot, why: str) -> None:
        """Note nothing."""

    def note_late(self) -> None:
        self.was_late = True

    def deny(self, refusal: LLMEvalError) -> None:
        self.refusals.append(refusal)

    def note_uncached(self, request: str, *, lost: str) -> None:
        self.uncached[request] = lost

    def wait(self, fn: Callable[[], T], *, serial: bool = False) -> T:
        self.waits += 1
        return fn()

    async def wait_async(
        self, fn: Callable[[], T], *, awaits: bool = False, serial: bool = False
    ) -> T:
        self.waits += 1
        return await asyncio.to_thread(fn)


def attempted(send: Send, services: Services) -> HttpReply:
    """Attempt a call of OpenAI's until there is a last reply."""
    request = HttpRequest(
        origin=ORIGIN,
        path="/v1/chat/completions",
        query="",
        headers={},
        body={},
    )
    attempt = Attempt(
        request=request,
        send=send,
        services=services,
        expected=Expected(dialect=VENDOR, is_stream=False),
    )
    return last_reply(attempt)


class Time:
    """A clock that only moves when somebody sleeps, or time is let pass."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Session:
    """One session over a cache directory; begin another one to see what was kept."""

    def __init__(
        self,
        directory: Path,
        *,
        mode: CacheMode = "auto",
        timeout: float = DEFAULT_SECONDS,
        most: int = MAX_REPLY_BYTES,
    ) -> None:
        time = Time()
        self.slept = time.slept
        settings = Settings(
            directory=directory, session=uuid.uuid4().hex, cache=mode, timeout=timeout
        )
        clock = PaceClock(now=time.now, sleep=time.sleep, jitter=lambda: 0.5)
        self.models = ModelSession(settings, clock=clock)
        self.models.services = replace(self.models.services, max_reply_bytes=most)
        self.replies = self.models.replies
        self.throttle = self.models.services.throttle

    def alias(self, origin: str, target: str) -> None:
        settings = replace(self.models.settings, origin_aliases=((origin, target),))
        self.models.settings = settings

    def calls(self, trial: CountingTrial) -> CachedCalls:
        return self.models.calls_of(trial)

    def client(self, trial: CountingTrial) -> openai.OpenAI:
        client: openai.OpenAI = self.models.client("openai", trial)
        return client

    def async_client(self, trial: CountingTrial) -> openai.AsyncOpenAI:
        client: openai.AsyncOpenAI = self.models.client("openai", trial, awaits=True)
        return client

    def async_model(self, name: str | None, trial: CountingTrial) -> AsyncModel:
        return self.models.model(name, trial, awaits=True)

    def model(self, name: str | None, trial: CountingTrial) -> Model:
        return self.models.model(name, trial)

    def close(self) -> None:
        self.models.close()
        assert self.models.notes == []


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / ".llmeval"


@pytest.fixture
def begin(directory: Path) -> Iterator[Callable[..., Session]]:
    begun: list[Session] = []

    def begin_session(**options: Any) -> Session:
        begun.append(Session(directory, **options))
        return begun[-1]

    yield begin_session
    for session in begun:
        session.close()


@pytest.fixture
def session(begin: Callable[..., Session]) -> Session:
    return begin()


@pytest.fixture
def trial() -> CountingTrial:
    return CountingTrial(0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        yield running


@pytest.fixture
def behind_proxy(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a model's host reached by a proxy alone, which is the server."""
    monkeypatch.setenv("HTTP_PROXY", server.origin)
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://models.invalid/v1")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    path = tmp_path / "loopback.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    subprocess.run(
        [*command.split(), "-addext", names, "-keyout", path, "-out", tmp_path / "cert"],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + (tmp_path / "cert").read_bytes())
    return path


def encrypted(server: OpenAIServer, certificate: Path) -> str:
    """Have a server speak TLS; return its origin."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    server._http.socket = tls.wrap_socket(server._http.socket, server_side=True)
    return server.origin.replace("http://", "https://")


def interception_of(
    session: Session, *, note: Callable[[str], None], hosts: tuple[str, ...] = ()
) -> Interception:
    """Make what decides in a session which requests of an application are kept."""
    return Interception(
        trial_to_charge=trial_to_charge,
        calls_of=session.calls,  # type: ignore[arg-type]  # of the one kind of trial that is here
        sender=session.models.sender(),
        recognition=Recognition(hosts),
        note=note,
    )


@contextmanager
def intercepting(interception: Interception) -> Iterator[None]:
    """Intercept as a session does."""
    with (
        interception.undoing,
        once_imported(SEEN, lambda library: take_over(library, interception)),
    ):
        yield
