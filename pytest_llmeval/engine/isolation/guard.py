"""Notice that a trial swapped a well-known place of the process, by whatever means.

``MonkeyPatch`` and ``unittest.mock`` are watched, but a test can freeze the clock, stub a client or
fake the files without them. So places that such libraries swap are compared, at the moment when a
trial would give its turn up, with what was there when the last trial began.
"""

from __future__ import annotations

import os
import sys
from _locale import LC_ALL, setlocale  # below Python's own function, which may be replaced
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from functools import partial
from logging import getLevelNamesMapping
from operator import attrgetter, itemgetter
from pkgutil import resolve_name
from typing import Any

from pytest_llmeval.models.attribution import replaced
from pytest_llmeval.originals import Clock

# Modules of which every public function and class counts, once they are imported.
_MODULES = (
    "asyncio builtins concurrent.futures datetime getpass hashlib http.client importlib io json "
    "locale logging os os.path pathlib platform random secrets shutil signal smtplib socket "
    "sqlite3 ssl subprocess sys tempfile threading time urllib.request uuid warnings anthropic "
    "grpc httpx openai requests"
)
# Beside them, what stands there otherwise. What we replace while the loop runs does not count.
_VALUES = frozenset(("__import__", "argv", "environ", "stdin", "tzname"))
_OURS = frozenset(("all_tasks",))
# Of these classes, what each has of these methods.
_CLASSES = (
    "pathlib.Path socket.socket ssl.SSLContext json.JSONEncoder json.JSONDecoder "
    "http.client.HTTPConnection urllib.request.OpenerDirector urllib3.HTTPConnectionPool "
    "urllib3.HTTPSConnectionPool requests.Session requests.adapters.HTTPAdapter httpx.Client "
    "httpx.AsyncClient httpx.HTTPTransport httpx.AsyncHTTPTransport httpx2.Client "
    "httpx2.AsyncClient httpx2.HTTPTransport httpx2.AsyncHTTPTransport httpcore.ConnectionPool "
    "httpcore.AsyncConnectionPool httpcore2.ConnectionPool httpcore2.AsyncConnectionPool "
    "aiohttp.ClientSession aiohttp.TCPConnector botocore.httpsession.URLLib3Session "
    "botocore.client.BaseClient openai.resources.chat.completions.Completions "
    "openai.resources.chat.completions.AsyncCompletions anthropic.resources.messages.Messages "
    "anthropic.resources.messages.AsyncMessages"
)
_METHODS = (
    "__init__ open exists stat read_text write_text read_bytes write_bytes connect wrap_socket "
    "default encode decode request _request send getresponse get_adapter urlopen ConnectionCls "
    "handle_request handle_async_request _transport_for_url _make_api_call create"
)
_HOMES = frozenset((*_MODULES.split(), *(path.rpartition(".")[0] for path in _CLASSES.split())))
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
        self._umasks: tuple[int, int] | None = None  # before the first change, and now
        self._settings = [(resolve_name(name), name.replace(".get", ".set")) for name in _SETTINGS]
        self._take_anew()

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
        if self.changed():
            self._take_anew()
        self._drift = _drift()

    def _take_anew(self) -> None:
        self._modules, self._drift, self._umasks = _count_modules(), _drift(), None
        locale = partial(setlocale, LC_ALL)
        self._looks: list[Look] = [
            *_looks(),
            (self._is_clock_off, False, "time"),
            *((read, read(), shown) for read, shown in self._settings),
            (self._is_umask_off, False, "os.umask"),
            (getLevelNamesMapping, getLevelNamesMapping(), "logging.addLevelName"),
            (locale, locale(), "locale"),
        ]

    def changed(self) -> str:
        """Name a place that is not as it was; "" if all are."""
        if len(sys.modules) != self._modules:  # what was imported since is looked at, too
            self._modules = _count_modules()
            self._looks += [*_looks({shown for _, _, shown in self._looks})]
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
        return abs(_drift() - self._drift) > _LARGEST_DRIFT

    def _is_umask_off(self) -> bool:
        return self._umasks is not None and self._umasks[0] != self._umasks[1]


def _drift() -> float:
    """Return how far the clocks are apart, in seconds."""
    return Clock.wall() - Clock.seconds()


def _count_modules() -> int:
    """Count the modules, to see later whether there are more; 0 to look again in any case."""
    return 0 if any(map(_is_under_way, _HOMES)) else len(sys.modules)


def _is_under_way(name: str) -> bool:
    """Whether a module is being imported: we take hold of it at the end, and no trial does."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def _looks(known: Set[str] = frozenset()) -> Iterator[Look]:
    """Look at the places that are there and are not known yet."""
    for module in _MODULES.split():
        if module in known:
            continue
        found = None if _is_under_way(module) else sys.modules.get(module)
        there: Any = getattr(found, "__dict__", {})
        names = [name for name, value in there.items() if _counts(name, value)]
        if names:
            read = partial(itemgetter(*names), there)
            yield read, read(), module
    for path in _CLASSES.split():
        if path in known:
            continue
        module, _, name = path.rpartition(".")
        found = None if _is_under_way(module) else getattr(sys.modules.get(module), name, None)
        names = [name for name in _METHODS.split() if hasattr(found, name)] if found else []
        if names:
            read = partial(attrgetter(*names), found)  # also what it inherits
            yield read, read(), path


def _counts(name: str, value: object) -> bool:
    """Whether a name of a module counts: none of an exception, as there are many."""
    if name.startswith("_") or not callable(value):
        return name in _VALUES
    return name not in _OURS and not (isinstance(value, type) and issubclass(value, BaseException))
