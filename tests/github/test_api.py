"""What the client of GitHub's API says of a host that does not do as it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from pytest_llmeval.errors import GithubFailed, SettingsError
from pytest_llmeval.github.api import MOST_PAGES, Github
from tests.github.jobs import RUN, job
from tests.servers.github_server import REPOSITORY, TOKEN, Answer, GithubServer

PULLS = f"/repos/{REPOSITORY}/pulls"


@pytest.fixture
def server() -> Iterator[GithubServer]:
    with GithubServer() as running:
        yield running


@pytest.fixture
def github(server: GithubServer, tmp_path: Path) -> Iterator[Github]:
    with Github(job(tmp_path, server.url)) as client:
        yield client


def refused(github: Github) -> str:
    """What is said where a list cannot be had: one line without the token."""
    with pytest.raises(GithubFailed) as raised:
        list(github.pages("pulls", {}))
    message = str(raised.value)
    assert "\n" not in message
    assert TOKEN not in message
    return message


def failure(status: int, told: str = "", **headers: str) -> Answer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status=status, body={"message": told}, headers=named)


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        (failure(401, "Bad credentials"), "GITHUB_TOKEN is not valid"),
        (failure(403, "Resource not accessible by integration"), "pull-requests: write"),
        (failure(403, "Wait", x_ratelimit_remaining="0"), "start the job again in an hour"),
        (failure(403, "You have exceeded a secondary rate limit"), "again in an hour"),
        (failure(403, "Slow down", retry_after="61"), "again in an hour"),
        (failure(429, "Too many"), "again in an hour"),
        (failure(404, "Not Found"), "the token may not see it"),
        (failure(418, "Teapot"), "is GITHUB_API_URL"),
        (failure(500), "a fault of GitHub's: start the job again"),
        (failure(503, "Unicorn"), "a fault of GitHub's: start the job again"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Answer) else value,
)
def test_a_refusal_says_what_to_do(
    server: GithubServer, github: Github, answer: Answer, advice: str
) -> None:
    server.instead["GET "] = answer
    said = refused(github)
    assert f"GET {PULLS}: {answer.status}" in said
    assert advice in said


def test_a_refusal_quotes_a_part_of_what_github_says(server: GithubServer, github: Github) -> None:
    server.instead["GET "] = failure(422, "Validation Failed " + "x" * 1000)
    assert f": 422 (Validation Failed {'x' * 182}): " in refused(github)


@pytest.mark.parametrize(
    "body", [b"<html>", b"\xff", b"[" * 10**5, {"message": "hello"}, None], ids=range(5)
)
def test_an_answer_that_is_no_list_is_refused(
    server: GithubServer, github: Github, body: object
) -> None:
    server.instead["GET "] = Answer(body=body)
    assert "is GITHUB_API_URL the address of GitHub's API?" in refused(github)


def test_a_host_that_is_not_there_is_named(tmp_path: Path) -> None:
    with GithubServer() as gone:
        url = gone.url
    with Github(job(tmp_path, url)) as github:
        assert f"{url}: " in refused(github)


def test_a_list_without_end_is_given_up(server: GithubServer, github: Github) -> None:
    again = {"link": f'<{server.url}{PULLS}>; rel="next"'}
    server.instead["GET "] = Answer(body=[], headers=again)
    assert "there are more than" in refused(github)
    assert len(server.requests) == MOST_PAGES


def test_no_page_is_asked_for_elsewhere(server: GithubServer, github: Github) -> None:
    for where in (f"{server.blobs.url}/pulls", "https://[/"):
        server.instead["GET "] = Answer(body=[], headers={"link": f'<{where}>; rel="next"'})
        refused(github)
    assert server.blobs.requests == []


def test_a_redirect_to_another_host_gets_no_token(server: GithubServer, github: Github) -> None:
    server.add_artifact(RUN, "evals", b"packed")
    number = server.artifacts[RUN][0]["id"]
    assert github.download(f"actions/artifacts/{number}/zip", most=6) == b"packed"
    [asked] = server.blobs.requests
    assert "authorization" not in asked.headers
    assert TOKEN not in repr(asked)


def test_a_renamed_repository_is_followed_on_the_same_host(
    server: GithubServer, github: Github
) -> None:
    where = {"location": f"{server.url}/repositories/1/pulls"}
    server.instead[f"GET {PULLS}"] = Answer(status=301, headers=where)
    server.instead["GET /repositories/1/pulls"] = Answer(body=[{"number": 1}])
    assert list(github.pages("pulls", {})) == [{"number": 1}]
    assert server.requests[-1].headers["authorization"] == f"Bearer {TOKEN}"


def test_what_is_written_follows_no_redirect(server: GithubServer, github: Github) -> None:
    where = {"location": f"{server.blobs.url}/comments"}
    for status in (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.TEMPORARY_REDIRECT):
        server.instead["POST "] = Answer(status=status, headers=where)
        with pytest.raises(GithubFailed, match=str(int(status))):
            github.send("POST", "issues/7/comments", {"body": "text"})
    assert server.blobs.requests == []


def test_redirects_in_a_circle_are_given_up(server: GithubServer, github: Github) -> None:
    where = {"location": f"{server.url}{PULLS}"}
    server.instead["GET "] = Answer(status=302, headers=where)
    assert "redirects" in refused(github)


def test_an_address_with_the_token_in_it_is_shown_without(
    server: GithubServer, github: Github
) -> None:
    server.instead["GET "] = Answer(status=302, headers={"location": f"http://h:{TOKEN}/"})
    assert "***" in refused(github)


def test_a_file_that_is_too_large_is_not_read_to_its_end(
    server: GithubServer, github: Github
) -> None:
    server.add_artifact(RUN, "evals", b"0" * 10**6)
    number = server.artifacts[RUN][0]["id"]
    with pytest.raises(GithubFailed, match="more than 1000 bytes"):
        github.download(f"actions/artifacts/{number}/zip", most=1000)


@pytest.mark.parametrize("viewer", [None, {}, {"login": ""}, {"login": 1}, []], ids=range(5))
def test_an_account_without_a_name_is_refused(
    server: GithubServer, github: Github, viewer: object
) -> None:
    server.instead["POST /graphql"] = Answer(body={"data": {"viewer": viewer}})
    with pytest.raises(GithubFailed, match="whose GITHUB_TOKEN is"):
        github.account()


def test_a_server_of_ones_own_has_graphql_beside_rest(tmp_path: Path) -> None:
    with GithubServer() as server:
        server.instead["POST /api/graphql"] = Answer(body={"data": {"viewer": {"login": "me"}}})
        with Github(job(tmp_path, f"{server.url}/api/v3")) as github:
            assert github.account() == "me"


@pytest.mark.parametrize("token", ["ghs_a\nb: c", "ghs_ä", "ghs_\x00"])
def test_a_token_that_is_none_is_refused_and_not_shown(tmp_path: Path, token: str) -> None:
    with pytest.raises(SettingsError, match="GITHUB_TOKEN") as raised:
        Github({**job(tmp_path, "http://127.0.0.1:1"), "GITHUB_TOKEN": token})
    assert token not in str(raised.value)


@pytest.mark.parametrize("url", ["https://", "https://a:b", "ftp://127.0.0.1", "api.github.com"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="is GITHUB_API_URL the address"):
        Github(job(tmp_path, url))


def test_a_proxy_of_the_environment_is_used(
    server: GithubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with Github(job(tmp_path, "http://github.test")) as github:
        assert list(github.pages("pulls", {"state": "open", "head": "a:b"})) == []
    assert server.requests[-1].headers["host"] == "github.test"
