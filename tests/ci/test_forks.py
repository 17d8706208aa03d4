"""Jobs without a key, on checkouts of one commit, with the replies that main's job left."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ci.hosts import REPOSITORY, on_laptop, pull_request
from tests.ci.origin import Origin
from tests.ci.test_rerun import OPTIONS, Ended
from tests.plugin.stories.test_keyless import APP, DEFER, EVALS, KEYS, NEW
from tests.servers.openai_server import OpenAIServer, Scripted

NO_KEY = dict.fromkeys(KEYS, "")  # as CI hands out a secret that a fork is not given


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, server: OpenAIServer
) -> tuple[Origin, Path, OpenAIServer]:
    """A repository at its host, the replies that main paid for, and who gave them."""
    folder = tmp_path_factory.mktemp("host")
    origin = Origin(folder / "origin")
    origin.advance({"test_evals.py": EVALS, "app.py": APP, "pytest.ini": DEFER})
    main = on_laptop(origin, folder / "main")
    paid = Ended(main.path, environ={"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-test-1"})
    assert paid.status == 0, paid.output
    return origin, main.path / ".llmeval" / "cache", server


@pytest.mark.parametrize(
    ("app", "repository", "ends"),
    [
        (APP + "# harmless\n", "ada/bot", (0, "unchanged")),
        (NEW, "ada/bot", (0, "deferred")),
        (NEW, REPOSITORY, (1, "not_comparable")),
    ],
    ids=["harmless", "new questions", "new questions in the same repository"],
)
def test_a_pull_request_is_judged_by_what_main_paid_for(
    host: tuple[Origin, Path, OpenAIServer],
    tmp_path: Path,
    app: str,
    repository: str,
    ends: tuple[int, str],
) -> None:
    origin, cache, server = host
    head = origin.commit({"app.py": app}, on=origin.tip)
    job = pull_request(origin, tmp_path / "job", head=head, head_repository=repository)
    shutil.copytree(cache, job.path / ".llmeval" / "cache")
    paid = len(server.requests)

    variables = {**job.environ, **NO_KEY, "OPENAI_BASE_URL": server.url}
    ended = Ended(job.path, *OPTIONS, environ=variables)

    assert ended.found == (*ends, origin.tip, "rerun"), ended.output
    assert len(server.requests) == paid
    is_deferred = "deferred to the merge queue: 12 cases" in ended.output
    assert is_deferred is (ends[1] == "deferred")


@pytest.mark.parametrize(
    ("repository", "ends"),
    [("ada/bot", (0, "deferred")), (REPOSITORY, (1, "not_comparable"))],
    ids=["fork", "same repository"],
)
def test_where_no_reply_is_cached_the_base_lacks_only_a_key_too(
    host: tuple[Origin, Path, OpenAIServer],
    tmp_path: Path,
    repository: str,
    ends: tuple[int, str],
) -> None:
    """It was an ERROR a case of the base, exit 4 and "run again"."""
    origin, _, server = host
    head = origin.commit({"app.py": f"{APP}# harmless\n"}, on=origin.tip)
    job = pull_request(origin, tmp_path / "job", head=head, head_repository=repository)
    paid = len(server.requests)

    variables = {**job.environ, **NO_KEY, "OPENAI_BASE_URL": server.url}
    ended = Ended(job.path, *OPTIONS, environ=variables)

    assert ended.found == (*ends, origin.tip, "rerun"), ended.output
    assert len(server.requests) == paid
    assert "ERROR" not in ended.output
    assert "18 case" in ended.output


UNPAID = {"error": {"code": "insufficient_quota", "message": "m"}}


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Scripted(status=401), 1),
        (Scripted(status=429, body=UNPAID), 4),
    ],
    ids=["revoked", "without quota"],
)
def test_a_key_that_is_refused_is_one_that_lacks(
    host: tuple[Origin, Path, OpenAIServer], tmp_path: Path, reply: Scripted, status: int
) -> None:
    """It was an ERROR a case of the base, exit 4 and "run again"; a lack of money is that still."""
    origin, _, _ = host
    head = origin.commit({"app.py": f"{APP}# harmless\n"}, on=origin.tip)
    job = pull_request(origin, tmp_path / "job", head=head, head_repository="ada/bot")

    with OpenAIServer() as refusing:
        refusing.then(*[reply] * 100)
        variables = {**job.environ, "OPENAI_BASE_URL": refusing.url, "OPENAI_API_KEY": "sk-old-key"}
        ended = Ended(job.path, *OPTIONS, environ=variables)

    assert ended.status == status, ended.output
    line = "18 cases ask something new and the key that is set is refused (openai:"
    assert (line in ended.output) is (status == 1)
    assert "deferred to" not in ended.output


def test_a_host_that_was_asked_before_is_named_where_the_base_is_run(
    host: tuple[Origin, Path, OpenAIServer], tmp_path: Path
) -> None:
    """The base's run asks the usual host as well: the replies tell which one main asked."""
    origin, cache, server = host
    head = origin.commit({"app.py": f"{APP}# harmless\n"}, on=origin.tip)
    job = pull_request(origin, tmp_path / "job", head=head, head_repository="ada/bot")
    shutil.copytree(cache, job.path / ".llmeval" / "cache")
    variables = {**job.environ, **NO_KEY, "OPENAI_BASE_URL": ""}
    alias = f"llm_origin_alias=https://api.openai.com = {server.origin}"

    ended = Ended(job.path, *OPTIONS, environ=variables)

    assert ended.found == (0, "deferred", origin.tip, "rerun"), ended.output
    assert f"Set it, or type  -o '{alias}'" in ended.output

    shutil.rmtree(job.path / ".llmeval" / "runs")
    ended = Ended(job.path, *OPTIONS, "-o", alias, environ=variables)

    assert ended.found == (0, "unchanged", origin.tip, "rerun"), ended.output
