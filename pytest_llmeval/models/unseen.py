"""Count the connections of trials that bypass the cache, and refuse them in a replay.

CPython tells an audit hook of each socket that connects and of each program that is started,
whichever library does it. The hook is told addresses, so the names are taken from the lookups
before. What connects past Python's own sockets (uvloop, libcurl) is not seen here.
"""

from __future__ import annotations

import _socket as lookups
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, wraps
from queue import SimpleQueue
from types import FrameType
from typing import Any

from pytest_llmeval.errors import ProgramRefused, ReplayMiss
from pytest_llmeval.models.attribution import CurrentTrial, replaced

_PORTS = (80, 443)  # that go without saying
# Which argument of an event has the program and its arguments.
_PROGRAMS = {"subprocess.Popen": 1, "os.posix_spawn": 1, "os.exec": 1, "os.spawn": 2}
_PROGRAMS["os.system"] = 0
_EVENTS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg", *_PROGRAMS})
_OF_MACHINE = ("platform", "ctypes.util", "uuid")  # they start uname, ldconfig and the like
_RUNS_TESTS = ("_pytest", "pluggy")
_STARTS_TASKS = ("anyio",)  # in which nobody can tell who wanted them
_OWN = __name__.partition(".")[0]


@dataclass(kw_only=True)
class UnseenConnections:
    """The connections that trials open while none of our adapters sends for them.

    Attributes:
        is_refused: tells by host and port whether no connection at all is to be opened there, as
            a model is known to be there and only replays are wanted.
        only_replays: evals reach this machine alone, and what is allowed.
        allowed: patterns of hosts, of ``host:port`` and of programs that are let out all the same.
        seen: the libraries that are intercepted.
    """

    is_refused: Callable[[str, int], bool]
    only_replays: bool = False
    allowed: Sequence[str] = ()
    seen: Collection[str] = ()
    # Names that were looked up last, by address: by a test function, and by any.
    _names: dict[tuple[str | None, str | int], str] = field(default_factory=dict)
    _opened: SimpleQueue[tuple[str, str, str, int]] = field(default_factory=SimpleQueue)
    _counts: Counter[tuple[str, str, str, int]] = field(default_factory=Counter)  # with the family
    _told: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    @contextmanager
    def watching(self, current_trial: Callable[[], CurrentTrial | None]) -> Iterator[None]:
        """Watch sockets in here, and in a replay what is looked up and started.

        Args:
            current_trial: returns the trial of this thread or task; None where we send for it.
        """
        plain, watchers = lookups.getaddrinfo, _watchers()

        @wraps(plain)
        def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
            trial = current_trial() if host else None
            if trial is not None and self.only_replays:
                self._looking_up(trial, _text(host), *args[:1])
            found = plain(host, *args, **kwargs)
            if host:  # bytes, where anyio asks, and so for awaitable clients of httpx
                for asker in (None, None if trial is None else trial.function):
                    self._names.update({(asker, one[-1][0]): _text(host) for one in found})
            return found

        def told(event: str, args: Sequence[Any]) -> None:
            if event != "socket.connect" and not self.only_replays:
                return
            trial = current_trial()
            if trial is None:
                return
            if event in _PROGRAMS:
                self._starting(trial, args[_PROGRAMS[event]])
            else:
                self._sending(trial, *args, connects=event == "socket.connect")

        watchers.append(told)
        try:
            with replaced(lookups, "getaddrinfo", getaddrinfo):
                yield
        finally:
            watchers.remove(told)

    def take(self) -> list[tuple[str, str, str, int]]:
        """Return host, test function, library and number of the connections since the last time.

        A host is often tried at an address of either family, one after the other. So the family
        counts of which there were more. The library is "" where it is a seen one, or not known.
        """
        while not self._opened.empty():
            self._counts[self._opened.get()] += 1
        most: Counter[tuple[str, str, str]] = Counter()
        for (host, function, library, _), count in self._counts.items():
            most[host, function, library] = max(most[host, function, library], count)
        news = most - self._told
        self._told = most
        return [(*whose, count) for whose, count in news.items()]

    def _sending(self, trial: CurrentTrial, opened: Any, address: Any, *, connects: bool) -> None:
        """Count a connection; refuse it, or a datagram, that is to go out of a replay."""
        is_stream = opened.type == socket.SOCK_STREAM
        if opened.family not in (socket.AF_INET, socket.AF_INET6) or is_stream is not connects:
            return
        # Windows has no other pair of sockets, and each event loop needs one.
        caller = sys._getframe(2).f_back  # none where a thread runs nothing but this
        is_pair = caller is not None and caller.f_code.co_name.endswith("socketpair")
        if is_pair or not address:
            return
        trial.reached_out = True
        number, port = _text(address[0]), address[1]
        host = self._names.get((None, number), number)
        host = self._names.get((trial.function, number), host)
        library = _library_of(caller, self.seen)
        try:
            self._check(trial, (host, number), port, library)
        except ReplayMiss:
            opened.close()  # most libraries do so at an OSError alone, which many would try again
            raise
        if trial.function and connects:
            self._opened.put((_shown(host, port), trial.function, library, int(opened.family)))

    def _looking_up(self, trial: CurrentTrial, host: str, port: object = None) -> None:
        """Refuse before the lookup what would be refused after it.

        Where there is no network the lookup fails, and would look like the application's failure.
        """
        if ":" not in host and not host.replace(".", "").isdigit():
            number = int(str(port)) if str(port).isdigit() else 0
            library = _library_of(sys._getframe(2), self.seen)
            self._check(trial, (host,), number, library)

    def _starting(self, trial: CurrentTrial, command: Any) -> None:
        trial.reached_out = True
        is_text = isinstance(command, str | bytes)
        words = os.fsdecode(command).split() if is_text else map(os.fsdecode, command)
        program = next(iter(words), "").rpartition(os.sep)[2]
        frame = sys._getframe(2).f_back
        while frame is not None and frame.f_globals.get("__name__") == "subprocess":
            frame = frame.f_back
        asks_machine = frame is not None and frame.f_globals.get("__name__") in _OF_MACHINE
        if trial.function and not (asks_machine or self._is_allowed(program)):
            refusal = ProgramRefused(
                f"the program {program} was not started: what it asks is not seen, and "
                "--llm-cache=replay lets nothing out. If it asks no model, say so in the ini file: "
                f"llm_replay_allow = {program}. Start it:  pytest --llm-cache=auto"
            )
            trial.deny(refusal)
            raise refusal

    def _check(self, trial: CurrentTrial, names: Sequence[str], port: int, library: str) -> None:
        """Refuse what is not to be reached, by what it was looked up as and by its number.

        Args:
            trial: that asks.
            names: of the host.
            port: 0 where it is not known yet.
            library: see ``take``.
        """
        hosts = [name.lower().rstrip(".") for name in names]
        is_model = any(self.is_refused(host, port or _PORTS[1]) for host in hosts)
        may_go = not (self.only_replays and trial.function) or _is_here(hosts[0])
        if not is_model and (may_go or any(self._is_allowed(host, port) for host in hosts)):
            return
        shown = _shown(names[0], port)
        if not trial.intercepts:
            way = "Have it kept:  @llm_eval(intercept=True)"
        elif is_model:
            way = "Only questions as JSON can be replayed, by a client that is seen."
        else:
            way = (
                f"If a model is there say in the ini file  llm_intercept_hosts = {shown}  if not  "
                f"llm_replay_allow = {shown}"
            )
        refusal = ReplayMiss(
            f"a connection to {shown} was refused: the cache does not see what "
            f"{f'{library} asks' if library else 'is asked'} there, and --llm-cache=replay lets "
            f"nothing out. {way}  Make it:  pytest --llm-cache=auto"
        )
        trial.deny(refusal)
        raise refusal

    def _is_allowed(self, name: str, port: int | None = None) -> bool:
        """Whether the ini file lets a host or a program pass."""
        named = [one.partition(":")[0] if port == 0 else one for one in self.allowed]
        return any(fnmatchcase(text, one) for one in named for text in (name, f"{name}:{port}"))


def _shown(host: str, port: int) -> str:
    bare = f"[{host}]" if ":" in host else host
    return bare if port in (*_PORTS, 0) else f"{bare}:{port}"


def _text(host: str | bytes) -> str:
    return host if isinstance(host, str) else bytes(host).decode("ascii", "replace")


def _is_here(host: str) -> bool:
    """Whether a host is this machine, where databases and test servers are."""
    own = ("localhost", "::1", "0.0.0.0", "::", socket.gethostname().lower())  # noqa: S104
    return host in own or host.startswith("127.") or host.endswith(".localhost")


def _library_of(frame: FrameType | None, seen: Collection[str]) -> str:
    """Name the library that connects; "" where it is seen, or nobody knows."""
    found = standard = ""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in seen or package in _STARTS_TASKS:
            return ""
        if package in sys.stdlib_module_names:
            standard = package
        elif "site-packages" in frame.f_code.co_filename and package not in _RUNS_TESTS:
            found = found or package  # another one above it may be seen
        elif package != _OWN:
            break
        frame = frame.f_back
    return found or standard


@cache
def _watchers() -> list[Callable[[str, Sequence[Any]], None]]:
    """Add the hook of this process, as none can be removed; return whom it tells: the last one."""
    watchers: list[Callable[[str, Sequence[Any]], None]] = []

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in _EVENTS:
            for watch in watchers[-1:]:  # of another thread, a session may end meanwhile
                watch(event, args)

    sys.addaudithook(hook)
    return watchers
