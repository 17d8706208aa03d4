"""One comment below a pull request, written anew in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_llmeval.github.api import Github, at


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment that is there.

    Attributes:
        id: GitHub's number of it.
        body: its text.
        url: where it is to be seen.
    """

    id: int
    body: str
    url: str


def find_comment(github: Github, *, pull_request: int, marker: str) -> Comment | None:
    """Find the first comment of the token's own account that begins with a marker.

    A marker in somebody else's comment, or further down in one of our own, is not looked at.
    """
    account = github.account()
    for entry in github.pages(f"issues/{pull_request}/comments", {}):
        found = _comment(entry)
        if at(entry, "user", "login") == account and found and found.body.startswith(marker):
            return found
    return None


def write_comment(github: Github, text: str, *, pull_request: int, old: Comment | None) -> str:
    """Write a comment, in the place of an old one if there is one; return its address."""
    if old is None:
        made = github.send("POST", f"issues/{pull_request}/comments", {"body": text})
    else:
        made = github.send("PATCH", f"issues/comments/{old.id}", {"body": text})
    written = _comment(made)
    return written.url if written else ""


def _comment(entry: Mapping[str, object]) -> Comment | None:
    number, body, url = (entry.get(name) for name in ("id", "body", "html_url"))
    if not (isinstance(number, int) and isinstance(body, str) and isinstance(url, str)):
        return None
    return Comment(id=number, body=body, url=url)
