"""A loopback server that speaks the part of GitHub's API that a comment needs.

::

    with GithubServer() as server:
        server.pull_requests.append(pull_request(7, commit="1" * 40))
        server.add_artifact(77, "evals", archive)
        ...  # GITHUB_API_URL: server.url
        assert server.comments[7][0]["body"] == "..."

Lists come in pages of ``page`` entries. Artifacts lie on a server of their own, as at GitHub.
"""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Self, cast
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "octo/bot"
FORK = "mallory/bot"
TOKEN = "ghs_of_the_job"  # noqa: S105 - nobody's
ACCOUNT = "github-actions[bot]"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a server answers; a body that is no bytes becomes JSON."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes


class _Loopback:
    """A server from ``with`` on to its end."""

    def __init__(self) -> None:
        self.requests: list[Asked] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        cast(Any, self._server).owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, asked: Asked) -> Answer:
        raise NotImplementedError


class BlobServer(_Loopback):
    """Where GitHub keeps artifacts: it is given no token."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}

    def answer(self, asked: Asked) -> Answer:
        return Answer(body=self.files[asked.path])


class GithubServer(_Loopback):
    """The API.

    Attributes:
        pull_requests: as the API lists them, open or not.
        comments: by number of the pull request.
        artifacts: by id of the run, as the API lists them.
        instead: what is answered instead of the usual, by a regular expression of
            ``METHOD /path``; the first that fits the beginning.
        account: whose token it is.
        page: entries of a page, at most.
        blobs: the server of the artifacts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pull_requests: list[dict[str, Any]] = []
        self.comments: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        self.artifacts: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        self.instead: dict[str, Answer] = {}
        self.account = ACCOUNT
        self.page = 100
        self.blobs = BlobServer()
        self._ids = count(1000)

    def __enter__(self) -> Self:
        self.blobs.__enter__()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.blobs.__exit__()

    def add_artifact(self, run_id: int, name: str, content: bytes, **extra: object) -> None:
        """Keep an artifact of a run, newer than all before."""
        number = next(self._ids)
        self.artifacts[run_id].append({"id": number, "name": name, "expired": False, **extra})
        self.blobs.files[f"/{number}.zip"] = content

    def add_comment(self, number: int, body: str, *, by: str) -> dict[str, Any]:
        """Put a comment below a pull request."""
        comment_id = next(self._ids)
        url = f"https://github.com/{REPOSITORY}/pull/{number}#issuecomment-{comment_id}"
        made = {"id": comment_id, "body": body, "user": {"login": by}, "html_url": url}
        self.comments[number].append(made)
        return made

    @property
    def written(self) -> list[str]:
        """The requests that changed something, as ``PATCH /path``."""
        changing = [asked for asked in self.requests if asked.method != "GET"]
        return [f"{one.method} {one.path}" for one in changing if one.path != "/graphql"]

    def answer(self, asked: Asked) -> Answer:
        line = f"{asked.method} {asked.path}"
        for pattern, answer in self.instead.items():
            if re.match(pattern, line):
                return answer
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return Answer(status=401, body={"message": "Bad credentials"})
        below = asked.path.removeprefix(f"/repos/{REPOSITORY}/")
        return self._usual(asked, f"{asked.method} {below}")

    def _usual(self, asked: Asked, line: str) -> Answer:
        if line == "POST /graphql":
            return Answer(body={"data": {"viewer": {"login": self.account}}})
        if line == "GET pulls":
            return self._page(asked, self._pulls(asked.query))
        if found := re.fullmatch(r"GET actions/runs/(\d+)/artifacts", line):
            (name,) = asked.query["name"]
            kept = [one for one in self.artifacts[int(found[1])] if one["name"] == name]
            return self._page(asked, kept, name="artifacts")
        if found := re.fullmatch(r"GET actions/artifacts/(\d+)/zip", line):
            return Answer(status=302, headers={"location": f"{self.blobs.url}/{found[1]}.zip"})
        return self._of_comments(asked, line)

    def _of_comments(self, asked: Asked, line: str) -> Answer:
        if found := re.fullmatch(r"GET issues/(\d+)/comments", line):
            return self._page(asked, self.comments[int(found[1])])
        if found := re.fullmatch(r"POST issues/(\d+)/comments", line):
            text = json.loads(asked.body)["body"]
            return Answer(status=201, body=self.add_comment(int(found[1]), text, by=self.account))
        if found := re.fullmatch(r"PATCH issues/comments/(\d+)", line):
            every = [one for comments in self.comments.values() for one in comments]
            (kept,) = (one for one in every if one["id"] == int(found[1]))
            kept["body"] = json.loads(asked.body)["body"]
            return Answer(body=kept)
        return Answer(status=404, body={"message": "Not Found"})

    def _pulls(self, query: Mapping[str, list[str]]) -> list[dict[str, Any]]:
        """Look for a head as GitHub does: by owner and branch, whatever the repository."""
        (head,), (state,) = query["head"], query["state"]
        return [
            one
            for one in self.pull_requests
            if (one["head"]["label"], one["state"]) == (head, state)
        ]

    def _page(self, asked: Asked, entries: list[Any], *, name: str | None = None) -> Answer:
        """Answer with a part of a list, and where the next one is."""
        (number,) = map(int, asked.query.get("page", ["1"]))
        size = min(self.page, int(asked.query["per_page"][0]))
        part = entries[(number - 1) * size : number * size]
        headers = {}
        if len(entries) > number * size:
            query = {**{key: text for key, (text,) in asked.query.items()}, "page": number + 1}
            following = "&".join(f"{key}={text}" for key, text in query.items())
            headers = {"link": f'<{self.url}{asked.path}?{following}>; rel="next"'}
        body = part if name is None else {"total_count": len(entries), name: part}
        return Answer(body=body, headers=headers)


def pull_request(
    number: int,
    *,
    commit: str,
    head: str | None = FORK,
    branch: str = "feature",
    base: str = REPOSITORY,
    state: str = "open",
) -> dict[str, Any]:
    """Word a pull request as the API lists it, from a repository, or from one that is deleted."""
    repo = None if head is None else {"full_name": head}
    label = f"{(head or FORK).partition('/')[0]}:{branch}"
    return {
        "number": number,
        "state": state,
        "head": {"sha": commit, "ref": branch, "label": label, "repo": repo},
        "base": {"ref": "main", "repo": {"full_name": base}},
    }


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that did not wait is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet a reply

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        """Write nothing to stderr."""

    def _serve(self) -> None:
        owner: _Loopback = cast(Any, self.server).owner
        parts = urlsplit(self.path)
        asked = Asked(
            method=self.command,
            path=parts.path,
            query=parse_qs(parts.query),
            headers={name.lower(): text for name, text in self.headers.items()},
            body=self.rfile.read(int(self.headers.get("content-length") or 0)),
        )
        owner.requests.append(asked)
        answer = owner.answer(asked)
        body = answer.body
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(answer.status)
        for name, text in answer.headers.items():
            self.send_header(name, text)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
