"""Connections that trials open past the cache: counted, and refused where only replays are wanted.

CPython tells an audit hook of each socket that connects, whichever library opened it. The hook
is told addresses, so the names are taken from the lookups before. What connects past Python's
own sockets (uvloop, gRPC, libcurl, other processes) is not seen.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from queue import SimpleQueue
from typing import Any, Protocol

from pytest_llmeval.errors import LLMEvalError, ReplayMiss

_PORTS = (80, 443)  # that go without saying


class WatchedTrial(Protocol):
    """The trial that opens a connection; see ``CurrentTrial``.

    Attributes:
        function: whose trial it is; "" for what hooks do around trials.
        intercepts: clients of the application are intercepted.
    """

    function: str
    intercepts: bool

    def refuse(self, refusal: LLMEvalError, /) -> None:
        """Note that a connection was refused."""
        ...


class UnseenConnections:
    """The connections that trials open while none of our adapters sends for them.

    Args:
        is_refused: tells by host and port whether a connection is not to be opened.
    """

    def __init__(self, is_refused: Callable[[str, int], bool]) -> None:
        self._is_refused = is_refused
        self._names: dict[str | int, str] = {}  # that were looked up last, by address
        self._opened: SimpleQueue[tuple[str, str, int]] = SimpleQueue()
        self._counts: Counter[tuple[str, str, int]] = Counter()  # with the family of the address
        self._told: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def watching(self, current_trial: Callable[[], WatchedTrial | None]) -> Iterator[None]:
        """Watch sockets in here.

        Args:
            current_trial: returns the trial of this thread or task; None where we send for it.
        """
        import _socket as lookups  # others put their own lookup into socket, over this one
        import socket

        plain, watchers = lookups.getaddrinfo, _watchers()

        @wraps(plain)
        def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
            found = plain(host, *args, **kwargs)
            if host:  # bytes, where anyio asks, and so for awaitable clients of httpx
                self._names.update({one[-1][0]: _text(host) for one in found})
            return found

        def connecting(opened: Any, address: Any) -> None:
            is_internet = opened.family in (socket.AF_INET, socket.AF_INET6)
            trial = current_trial()
            if trial is None or not is_internet or opened.type != socket.SOCK_STREAM:
                return
            # Windows has no other pair of sockets, and each event loop needs one.
            caller = sys._getframe(1).f_back  # none where a thread runs nothing but this
            if caller is None or not caller.f_code.co_name.endswith("socketpair"):
                self._note(trial, opened, address)

        watchers.append(connecting)
        lookups.getaddrinfo = getaddrinfo
        try:
            yield
        finally:
            watchers.remove(connecting)
            lookups.getaddrinfo = plain

    def take(self) -> list[tuple[str, str, int]]:
        """Return host, test function and number of the connections since the last time.

        A host is often tried at an address of either family, one after the other. So the family
        counts of which there were more.
        """
        if self._opened.empty():
            return []
        while not self._opened.empty():
            self._counts[self._opened.get()] += 1
        most: Counter[tuple[str, str]] = Counter()
        for (host, function, _), count in self._counts.items():
            most[host, function] = max(most[host, function], count)
        news = most - self._told
        self._told = most
        return [(host, function, count) for (host, function), count in news.items()]

    def _note(self, trial: WatchedTrial, opened: Any, address: Any) -> None:
        number, port = _text(address[0]), address[1]
        host = self._names.get(number, number)
        bare = f"[{host}]" if ":" in host else host
        shown = bare if port in _PORTS else f"{bare}:{port}"
        if any(self._is_refused(one, port) for one in (host.lower().rstrip("."), number)):
            way = "" if trial.intercepts else "Have it kept:  @llm_eval(intercept=True)  "
            refusal = ReplayMiss(
                f"a connection to {shown} was refused: the cache does not see what is asked there, "
                f"and --llm-cache=replay makes no call. {way}Make it:  pytest --llm-cache=auto"
            )
            trial.refuse(refusal)
            opened.close()  # most libraries do so at an OSError alone, which many would try again
            raise refusal
        if trial.function:
            self._opened.put((shown, trial.function, int(opened.family)))


def _text(host: str | bytes) -> str:
    return host if isinstance(host, str) else bytes(host).decode("ascii", "replace")


@cache
def _watchers() -> list[Callable[[Any, Any], None]]:
    """Add the hook of this process, as none can be removed; return whom it tells: the last one."""
    watchers: list[Callable[[Any, Any], None]] = []

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            for watch in watchers[-1:]:  # of another thread, a session may end meanwhile
                watch(*args)

    sys.addaudithook(hook)
    return watchers
