"""Telling the requests of an application that are questions to a model from all others.

A path alone is no proof: many a service has one that ends in /completions. So the request
must also go to, or be sent by, something that is known to speak a vendor's dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from pytest_llmeval.cache.key import DEFAULT_PORTS
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.http.masking import key_of_environment
from pytest_llmeval.models.providers.vendor import Headers, Vendor, vendor_named
from pytest_llmeval.vendors import VENDORS

Certainty = Literal["known", "if it names a model", "no"]


def check_keys() -> None:
    """Find out whether the keys can be sent that clients of the application read themselves.

    One that cannot fails as the client builds its request, where nothing of ours stands between,
    with an error that quotes it.

    Raises:
        SettingsError: a key cannot be sent; names its variable.
    """
    for vendor in map(vendor_named, VENDORS):
        for variable in (vendor.key_variable, *vendor.more_keys):
            key_of_environment(variable)


class Recognition:
    """Tells questions to models from all other traffic.

    Args:
        hosts: others that speak a vendor's dialect: ``host`` or ``host:port``.
    """

    def __init__(self, hosts: Sequence[str] = ()) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        by_path = [(path, vendor) for vendor in map(vendor_named, VENDORS) for path in vendor.paths]
        # The longest first: /api/embeddings of one ends as /embeddings of another does.
        self._by_path = sorted(by_path, key=lambda pair: len(pair[0]), reverse=True)

    def vendor_of(self, method: str, url: SplitResult, headers: Headers) -> Vendor | None:
        """Find the vendor in whose dialect a request may be, by method, path and type."""
        for end, vendor in self._by_path:
            if url.path.endswith(end):
                return vendor if vendor.keeps(method, url.path, headers) else None
        return None

    def certainty(self, vendor: Vendor, url: SplitResult, headers: Headers) -> Certainty:
        """Tell whether a request in that dialect goes to, or comes from, somebody who speaks it.

        Returns:
            "if it names a model" where the body has the last word.
        """
        host = url.hostname or ""
        if self._hosts and (host in self._hosts or f"{host}:{_port(url)}" in self._hosts):
            return "known"
        if host in vendor.hosts or host.endswith(vendor.domains):
            return "known"
        if _is_below_base_url(url, vendor) or vendor.is_marked(headers):
            return "known"
        return "if it names a model" if vendor.may_be_meant(url, headers) else "no"


def _is_below_base_url(url: SplitResult, vendor: Vendor) -> bool:
    try:
        base = urlsplit(vendor.base_url())
        port = _port(base)
    except (SettingsError, ValueError):  # the client that reads it will say so
        return False
    is_same = (base.scheme, base.hostname, port) == (url.scheme, url.hostname, _port(url))
    is_below = url.path.startswith(base.path.rstrip("/") + "/")
    return bool(base.hostname) and is_same and is_below


def _port(url: SplitResult) -> int | None:
    return url.port or DEFAULT_PORTS.get(url.scheme)
