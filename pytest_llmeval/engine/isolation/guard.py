"""Well-known places of the process that a trial may have swapped by whatever means.

``MonkeyPatch`` and ``unittest.mock`` are watched, but a test can freeze the clock, stub a client or
fake the files without them. So places that such libraries swap are compared, at the moment when a
trial would give its turn up, with what was there when the last trial began.
"""

from __future__ import annotations

import os
import sys
from _locale import LC_ALL, setlocale  # below Python's own function, which may be replaced
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from operator import attrgetter
from pkgutil import resolve_name
from typing import Any

from pytest_llmeval.models.attribution import replaced
from pytest_llmeval.originals import Clock

_CLOCKS = (
    "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns sleep localtime gmtime "
    "strftime tzname"
)
_FILES = (
    "open close read write stat lstat listdir scandir mkdir makedirs remove unlink rename replace "
    "rmdir environ getenv urandom system popen"
)
_HANDLERS = "handle_request handle_async_request"
# Modules, the classes in each or "", and names there. Those of other packages count once imported.
_PLACES = (
    ("time", "", _CLOCKS),
    ("datetime", "", "datetime date"),
    ("os", "", _FILES),
    ("os.path", "", "exists isfile isdir getsize"),
    ("builtins io", "", "open input __import__"),
    ("sys threading", "", "argv stdin excepthook unraisablehook"),
    ("warnings", "", "showwarning formatwarning"),
    ("pathlib", "", "Path PosixPath"),
    ("pathlib", "Path", "open exists read_text write_text read_bytes write_bytes stat"),
    ("socket", "", "socket create_connection getaddrinfo gethostbyname"),
    ("socket", "socket", "connect __init__"),
    ("ssl", "SSLContext", "wrap_socket"),
    ("subprocess", "", "Popen run check_output"),
    ("uuid", "", "uuid1 uuid4"),
    ("http.client", "", "HTTPConnection HTTPSConnection"),
    ("http.client", "HTTPConnection", "request connect getresponse"),
    ("urllib.request", "", "urlopen _opener"),
    ("urllib.request", "OpenerDirector", "open"),
    ("urllib3.connectionpool", "HTTPConnectionPool HTTPSConnectionPool", "urlopen ConnectionCls"),
    ("requests", "", "request get post Session"),
    ("requests.sessions", "Session", "request send get_adapter"),
    ("requests.adapters", "HTTPAdapter", "send"),
    ("httpx", "", "get post request Client AsyncClient"),
    ("httpx httpx2", "Client AsyncClient", "send request _transport_for_url"),
    ("httpx httpx2", "HTTPTransport AsyncHTTPTransport", _HANDLERS),
    ("httpcore httpcore2", "ConnectionPool AsyncConnectionPool", _HANDLERS),
    ("aiohttp", "ClientSession TCPConnector", "_request connect"),
    ("botocore.httpsession", "URLLib3Session", "send"),
    ("botocore.client", "BaseClient", "_make_api_call"),
    ("grpc", "", "insecure_channel secure_channel"),
    ("openai anthropic", "", "OpenAI AsyncOpenAI Anthropic AsyncAnthropic"),
    ("openai.resources.chat.completions", "Completions AsyncCompletions", "create"),
    ("anthropic.resources.messages", "Messages AsyncMessages", "create"),
)
# Functions that give a setting of the process.
_SETTINGS = (
    "sys.getrecursionlimit", "sys.getswitchinterval", "sys.get_int_max_str_digits", "gc.isenabled",
    "socket.getdefaulttimeout", "logging.getLoggerClass", "logging.getLogRecordFactory",
)  # fmt: skip
_LARGEST_DRIFT = 1.0  # seconds; a clock that jumps is frozen, or was set

# Reads some places; gives what was there; their name as shown.
Look = tuple[Callable[[], object], object, str]


class Guard:
    """Compare the places with what was there."""

    def __init__(self) -> None:
        self._modules = 0
        self._looks: list[Look] = []
        self._umasks: tuple[int, int] | None = None  # before the first change, and now
        self._settings = [(resolve_name(name), name.replace(".get", ".set")) for name in _SETTINGS]
        self.take()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Notice changes of the umask, which nobody can read without changing it."""
        plain = os.umask

        def umask(mask: int) -> int:
            before = plain(mask)
            self._umasks = (self._umasks or (before,))[0], mask
            return before

        with replaced(os, "umask", umask):
            yield

    def take(self) -> None:
        """Take what is there now for what all trials are to find."""
        if len(sys.modules) != self._modules or self._changed():
            self._modules, self._umasks = _count_modules(), None
            locale = partial(setlocale, LC_ALL)
            self._looks = [
                *_looks(),
                (self._is_clock_off, False, "time"),
                *((read, read(), shown) for read, shown in self._settings),
                (self._is_umask_off, False, "os.umask"),
                (locale, locale(), "locale"),
            ]
        self._drift = Clock.wall() - Clock.seconds()

    def changed(self) -> str:
        """Name a place that is not as it was; "" if all are."""
        if len(sys.modules) != self._modules:  # what was imported since is looked at, too
            self._modules = _count_modules()
            known = {shown for _, _, shown in self._looks}
            self._looks += [look for look in _looks() if look[-1] not in known]
        return self._changed()

    def _changed(self) -> str:
        shown = ""
        try:
            for read, before, shown in self._looks:
                if read() != before:
                    return shown
        except Exception:  # it is gone, or has an equality of its own
            return shown
        return ""

    def _is_clock_off(self) -> bool:
        """Whether it was swapped below Python, where all names for it stay what they are."""
        return abs(Clock.wall() - Clock.seconds() - self._drift) > _LARGEST_DRIFT

    def _is_umask_off(self) -> bool:
        return self._umasks is not None and self._umasks[0] != self._umasks[1]


def _count_modules() -> int:
    """Count the modules, to see later whether there are more; 0 to look again in any case."""
    names = (name for modules, _, _ in _PLACES for name in modules.split())
    return 0 if any(map(_is_under_way, names)) else len(sys.modules)


def _is_under_way(name: str) -> bool:
    """Whether a module is being imported: we take hold of it at the end, and no trial does."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def _looks() -> Iterator[Look]:
    """Look at the places that are there."""
    for modules, owners, names in _PLACES:
        for module, owner in product(modules.split(), owners.split() or [""]):
            found: Any = None if _is_under_way(module) else sys.modules.get(module)
            if found is not None and owner:
                found = getattr(found, owner, None)
            there = dir(found) if owner else getattr(found, "__dict__", ())
            present = [name for name in names.split() if name in there]
            if found is not None and present:
                read = partial(attrgetter(*present), found)  # of a class also what it inherits
                yield read, read(), ".".join(filter(None, (module, owner)))
