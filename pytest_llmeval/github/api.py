"""GitHub's REST API, as far as a comment needs it.

The token comes from the environment. It is in no message and goes to no other host: httpx leaves
it out where a redirect leads elsewhere, and pages of a list are asked for at the API alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Self

import httpx

from pytest_llmeval import __version__
from pytest_llmeval.cache.key import value_at
from pytest_llmeval.errors import GithubFailed, SettingsError
from pytest_llmeval.safe_text import printable

API_URL = "https://api.github.com"
SILENCE = 30.0  # seconds
PAGE, MOST_PAGES = 100, 100  # GitHub gives no larger pages
LONGEST = 200  # characters of GitHub's own words in a message
Object = Mapping[str, Any]
_HEADERS = {
    "accept": "application/vnd.github+json",
    "user-agent": f"pytest-llm-baseline/{__version__}",
    "x-github-api-version": "2022-11-28",
}
_WHERE = "is GITHUB_API_URL the address of GitHub's API?"
_PERMISSIONS = "the job needs permissions: { actions: read, pull-requests: write }"
_ADVICE: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "GITHUB_TOKEN is not valid: hand over the token of this job",
    HTTPStatus.FORBIDDEN: f"the token may not do this: {_PERMISSIONS}",
    HTTPStatus.NOT_FOUND: f"it is not there, or the token may not see it: {_PERMISSIONS}",
}


class Github:
    """A repository at GitHub; to be used in ``with``.

    Args:
        environ: variables of the job: ``GITHUB_TOKEN``, ``GITHUB_REPOSITORY``, ``GITHUB_API_URL``.
            Those of proxies are read by httpx.

    Attributes:
        repository: as OWNER/NAME.

    Raises:
        SettingsError: one of them is missing, or cannot be used.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.repository = needed(environ, "GITHUB_REPOSITORY")
        self._token = needed(environ, "GITHUB_TOKEN")
        if not (self._token.isascii() and self._token.isprintable()):
            raise SettingsError("GITHUB_TOKEN has characters that no token has: hand it over anew")
        url = (environ.get("GITHUB_API_URL") or API_URL).rstrip("/")
        # A server of one's own has REST at /api/v3, and GraphQL at /api/graphql.
        self._graphql = f"{url.removesuffix('/v3')}/graphql"
        headers = {**_HEADERS, "authorization": f"Bearer {self._token}"}
        try:
            self._client = httpx.Client(base_url=url, headers=headers, timeout=SILENCE)
        except (httpx.InvalidURL, ImportError, ValueError) as exc:
            raise SettingsError(f"{url}, or a proxy of the environment: {exc}: {_WHERE}") from None
        base = self._client.base_url
        if base.scheme not in ("http", "https") or not base.host:
            raise SettingsError(f"{url}: it does not begin with https:// and a host: {_WHERE}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def account(self) -> str:
        """Return the name of the account that the token belongs to.

        The token of a job may not ask REST for ``/user``, so GraphQL is asked.
        """
        reply = self.send("POST", self._graphql, {"query": "query { viewer { login } }"})
        login = value_at(reply, "data", "viewer", "login")
        if not isinstance(login, str) or not login:
            raise GithubFailed(
                "GitHub does not say whose GITHUB_TOKEN is: use the token of the job"
            )
        return login

    def send(self, method: str, path: str, body: Object) -> Object:
        """Send an object, and return the one that GitHub makes of it.

        Args:
            method: ``POST`` or ``PATCH``.
            path: below the repository, or a whole address.
            body: the object.

        Raises:
            GithubFailed: GitHub did not do it; a redirect is not followed.
        """
        with self._asking():
            reply = _checked(self._client.request(method, self._address(path), json=body))
        value = _parsed(reply)
        if not isinstance(value, dict):
            raise GithubFailed(f"{method} {reply.url.path}: no object came back: {_WHERE}")
        return value

    def pages(
        self, path: str, query: Mapping[str, str], *, name: str | None = None
    ) -> Iterator[Object]:
        """Read a list to its end, entry by entry.

        Args:
            path: below the repository.
            query: what to ask for.
            name: of the list, where a page is an object that holds it.

        Raises:
            GithubFailed: a page cannot be had, or there are too many.
        """
        url = httpx.URL(self._address(path), params={**query, "per_page": PAGE})
        for _ in range(MOST_PAGES):
            with self._asking():
                reply = _checked(self._client.get(url, follow_redirects=True))
                following = reply.links.get("next", {}).get("url")
                url = reply.url.join(following or "")
            value = _parsed(reply)
            entries = value if name is None else value_at(value, name)
            if not isinstance(entries, list):
                raise GithubFailed(f"GET {reply.url.path}: no list came back: {_WHERE}")
            yield from (entry for entry in entries if isinstance(entry, dict))
            if following is None:
                return
            if _origin(url) != _origin(self._client.base_url):
                raise GithubFailed(f"GET {path}: the next page is at another host: {_WHERE}")
        raise GithubFailed(f"GET {path}: there are more than {PAGE * MOST_PAGES}, so none is used")

    def download(self, path: str, *, most: int) -> bytes:
        """Read a file.

        Args:
            path: below the repository; it may lead to another host, which gets no token.
            most: bytes.

        Raises:
            GithubFailed: it cannot be had, or is larger.
        """
        content = bytearray()
        address = self._address(path)
        with self._asking(), self._client.stream("GET", address, follow_redirects=True) as reply:
            if not reply.is_success:
                reply.read()
            for piece in _checked(reply).iter_bytes():
                content += piece
                if len(content) > most:
                    raise GithubFailed(f"GET {path}: it has more than {most} bytes")
        return bytes(content)

    def _address(self, path: str) -> str:
        return path if "://" in path else f"/repos/{self.repository}/{path}"

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Word what goes wrong on the way to GitHub and back, with the token masked."""
        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as exc:
            told = printable(str(exc).replace(self._token, "***"))[:LONGEST] or type(exc).__name__
            raise GithubFailed(
                f"{self._client.base_url}: {told}: is it reachable from here? Start the job again"
            ) from None


def find_comment(github: Github, *, pull_request: int, marker: str) -> Object | None:
    """Find the first comment of the token's own account that begins with a marker.

    A marker in somebody else's comment, or further down in one of our own, is not looked at.
    """
    account = github.account()
    for entry in github.pages(f"issues/{pull_request}/comments", {}):
        is_own = value_at(entry, "user", "login") == account
        if is_own and str(entry.get("body")).startswith(marker) and "id" in entry:
            return entry
    return None


def write_comment(github: Github, text: str, *, pull_request: int, old: Object | None) -> str:
    """Write a comment, in the place of an old one if there is one; return its address."""
    if old is None:
        made = github.send("POST", f"issues/{pull_request}/comments", {"body": text})
    else:
        made = github.send("PATCH", f"issues/comments/{old['id']}", {"body": text})
    return str(made.get("html_url", ""))


def needed(environ: Mapping[str, str], name: str) -> str:
    """Return the value of a variable that GitHub sets in a job.

    Raises:
        SettingsError: it is not set.
    """
    value = environ.get(name, "").strip()
    if not value:
        raise SettingsError(f"{name} is not set: docs/ci.md has the job that this command is for")
    return value


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _parsed(reply: httpx.Response) -> object:
    try:
        value: object = reply.json()
    except (ValueError, RecursionError):
        return None
    return value


def _checked(reply: httpx.Response) -> httpx.Response:
    """Return a reply that is a success.

    Raises:
        GithubFailed: it is none; the line says what to do.
    """
    if reply.is_success:
        return reply
    status, message = reply.status_code, value_at(_parsed(reply), "message")
    told = printable(message)[:LONGEST] if isinstance(message, str) else ""
    if _is_throttled(reply, told):
        advice = "this token has asked too much: start the job again in an hour"
    elif reply.is_server_error:
        advice = "a fault of GitHub's: start the job again"
    else:
        advice = _ADVICE.get(status, _WHERE)
    named = f"{reply.request.method} {reply.request.url.path}"
    raise GithubFailed(f"{named}: {status}{told and f' ({told})'}: {advice}")


def _is_throttled(reply: httpx.Response, told: str) -> bool:
    """Whether GitHub asks to wait, which it says in several ways."""
    headers = reply.headers
    is_used_up = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers
    waits = is_used_up or "rate limit" in told
    return reply.status_code == HTTPStatus.TOO_MANY_REQUESTS or (
        reply.status_code == HTTPStatus.FORBIDDEN and waits
    )
