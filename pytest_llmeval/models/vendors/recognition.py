"""Recognition of questions to models among all traffic, and of the keys that go with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from traceback import walk_tb
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from pytest_llmeval.cache.key import DEFAULT_PORTS
from pytest_llmeval.errors import SettingsError, chain_of
from pytest_llmeval.models.http.dialect import PLACEHOLDER_KEY, ending_in
from pytest_llmeval.models.http.masking import key_of_environment
from pytest_llmeval.models.vendors.vendor import Headers, Vendor, vendor_named
from pytest_llmeval.vendors import OTHER_HOSTS, SERVICES, VENDORS, ServiceLine

OLLAMA_HERE = "localhost:11434"
_THIS_MACHINE = re.compile(r"^(?:127\.0\.0\.1|\[?::1\]?)(?=:\d+$|$)")
# Packages of clients that look for a key before they build a request; what they say without one.
_SDKS = ("anthropic", "cohere", "google", "groq", "litellm", "mistralai", "openai", "together")
_NO_KEY = re.compile(r"api[_ ]?key|credentials|authentication method", re.IGNORECASE)


def lacks_key(error: BaseException) -> bool:
    """Tell whether an error comes of a client of the application that was given no key."""
    # Only an SDK's own error is asked for its text: that of an application may have none.
    return any(_raised_in(one) in _SDKS and _NO_KEY.search(str(one)) for one in chain_of(error))


def _raised_in(error: BaseException) -> str:
    """Name the package of the line that raised an exception; "" for one that never was."""
    modules = [frame.f_globals.get("__name__") for frame, _ in walk_tb(error.__traceback__)]
    return str(modules[-1]).partition(".")[0] if modules else ""


def any_key_is_set(environ: Mapping[str, str]) -> bool:
    """Tell whether there is a key of any vendor; secrets that CI keeps from a fork are empty."""
    names = (name for line in services() for name in line.keys)
    return any(environ.get(name, "").strip() not in ("", PLACEHOLDER_KEY) for name in names)


Certainty = Literal["known", "if it names a model", "no"]


def check_keys() -> None:
    """Find out whether the keys can be sent that clients of the application read themselves.

    One that cannot fails as the client builds its request, where nothing of ours stands between,
    with an error that quotes it.

    Raises:
        SettingsError: a key cannot be sent; names its variable.
    """
    for line in services():
        for variable in line.keys:
            key_of_environment(variable)


def services() -> Iterator[ServiceLine]:
    """List whom clients of the application may ask: the vendors themselves first."""
    for vendor in map(vendor_named, VENDORS):
        yield ServiceLine(vendor.provider, (vendor.key_variable, *vendor.more_keys), vendor.hosts)
    yield from SERVICES


class Recognition:
    """Tells questions to models from all other traffic.

    Args:
        hosts: others that speak a vendor's dialect: ``host`` or ``host:port``.
    """

    def __init__(self, hosts: Sequence[str] = ()) -> None:
        self._named = frozenset(map(_one_name, (OLLAMA_HERE, *hosts)))
        lines = [(host, line) for line in services() for host in line.hosts]
        hosts_known, self._lines = zip(*lines, strict=True)
        self._host, self._other_host = _one_of_hosts(hosts_known), _one_of_hosts(OTHER_HOSTS)
        vendors = map(vendor_named, VENDORS)
        ends = [(end, one) for one in vendors for end in (*one.paths, *one.uploads)]
        paths, self._speakers = zip(*ends, strict=True)
        self._end = ending_in(paths)

    def recognize(
        self, method: str, url: SplitResult, headers: Headers
    ) -> tuple[Vendor | None, Certainty]:
        """Find the vendor in whose dialect a request is, by all but its body.

        Returns:
            None where the request is in no dialect. And whether it goes to, or comes from, somebody
            who speaks that dialect: "if it names a model" where the body has the last word.
        """
        end = self._end.search(url.path)
        vendor = self._speakers[end.lastindex - 1] if end and end.lastindex else None
        if vendor is None or not vendor.keeps(method, url.path, headers):
            return None, "no"
        host, port = url.hostname or "", url.port or DEFAULT_PORTS.get(url.scheme)
        base, *at = _base_of(vendor)
        is_base = (base.scheme, *at) == (url.scheme, _one_name(host), port) and bool(base.hostname)
        is_below = is_base and url.path.startswith(base.path.rstrip("/") + "/")
        if is_below or self._is_named(host, port):
            return vendor, "known"
        service = self.service_at(host)
        if service is not None:
            is_own = service.name == vendor.provider
            return vendor if is_own else vendor.served_by(service), "known"
        if vendor.is_marked(headers):
            return vendor, "known"
        return vendor, "if it names a model" if vendor.may_be_meant(url, headers) else "no"

    def is_model_host(self, host: str, port: int) -> bool:
        """Tell whether somebody who speaks a dialect is known to be at a host in lower case."""
        if self._is_named(host, port) or self.service_at(host) or self._other_host.search(host):
            return True
        at = _one_name(host), port
        return any(at == _base_of(one)[1:] for one in map(vendor_named, VENDORS))

    def _is_named(self, host: str, port: int | None) -> bool:
        return not self._named.isdisjoint((_one_name(host), f"{_one_name(host)}:{port}"))

    def service_at(self, host: str) -> ServiceLine | None:
        """Find the service, or the vendor itself, that has a host; None for any other host."""
        found = self._host.search(host)
        return self._lines[found.lastindex - 1] if found and found.lastindex else None


def _one_name(host: str) -> str:
    """Give this machine one name, whichever of its own somebody wrote; a port may follow it."""
    return _THIS_MACHINE.sub("localhost", host.lower())


def _one_of_hosts(hosts: Sequence[str]) -> re.Pattern[str]:
    """Compile names of hosts as a ``ServiceLine`` has them; each has a numbered group."""
    patterns = []
    for host in hosts:
        pattern = re.escape(host).replace(r"\*", "[^.]+")
        patterns.append(pattern if host[0] == "." else f"^{pattern}")
    return ending_in(tuple(patterns))


def _base_of(vendor: Vendor) -> tuple[SplitResult, str | None, int | None]:
    """Read the base URL of a vendor, with its host and port; an empty one if it is none.

    The host has the one name that ``_one_name`` gives it.
    """
    try:
        base = urlsplit(vendor.base_url())
        host = base.hostname and _one_name(base.hostname)
        return base, host, base.port or DEFAULT_PORTS.get(base.scheme)
    except (SettingsError, ValueError):  # the client that reads it will say so
        return urlsplit(""), None, None
