"""Patch each HTTP library that an application has imported, at its seam."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from types import ModuleType
from typing import Any

from pytest_llmeval.models.interception import Interception, Method
from pytest_llmeval.models.seams.httpx_seam import sending_awaitably, sending_by_httpx
from pytest_llmeval.models.seams.urllib3_seam import sending_by_botocore, sending_by_requests


def take_over(library: ModuleType, interception: Interception) -> None:
    """Stand between all clients of a library of ``SEAMS`` and the network.

    One that has such a class or method no more is left alone, with a note.

    Args:
        library: is imported.
        interception: decides which requests are kept.
    """
    for kind, name, arguments, patched in SEAMS[library.__name__]:
        owner = getattr(library, kind, None)
        try:
            plain = vars(owner)[name]
            signature(plain).bind(*range(arguments))
        except (KeyError, TypeError, ValueError):
            interception.note_unknown(library, f"{kind}.{name} is not as expected")
        else:
            setattr(owner, name, patched(plain, library, interception))
            interception.undoing.callback(setattr, owner, name, plain)


def _connecting(plain: Method, library: Any, interception: Interception) -> Method:
    """Make the method by which connectors of aiohttp get a connection for a request.

    Its adapter takes httpx, which is imported once an eval sends by aiohttp, and not before.
    """

    @cache
    def adapted() -> Method:
        try:
            from pytest_llmeval.models.seams.aiohttp_seam import connecting
        except Exception as exc:  # a version whose parts are others
            interception.note_unknown(library, f"its parts are others ({type(exc).__name__})")
            return plain
        return connecting(plain, library, interception)

    async def connect(connector: Any, sent: Any, traces: Any, timeout: Any) -> Any:
        is_eval = interception.trial_to_charge() is not None
        return await (adapted() if is_eval else plain)(connector, sent, traces, timeout)

    return connect


Seam = tuple[str, str, int, Callable[[Method, Any, Interception], Method]]
# Class, method, how many arguments it takes, and what makes another of it, by module of ``SEEN``.
_OF_HTTPX: tuple[Seam, ...] = (
    ("HTTPTransport", "handle_request", 2, sending_by_httpx),
    ("AsyncHTTPTransport", "handle_async_request", 2, sending_awaitably),
)
SEAMS: Mapping[str, tuple[Seam, ...]] = {
    "httpx": _OF_HTTPX,
    "httpx2": _OF_HTTPX,
    "aiohttp": (("BaseConnector", "connect", 4, _connecting),),
    "requests.adapters": (("HTTPAdapter", "send", 2, sending_by_requests),),
    "botocore.httpsession": (("URLLib3Session", "send", 2, sending_by_botocore),),
}
