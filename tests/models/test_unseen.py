"""Sockets that connect while a trial runs."""

from __future__ import annotations

import _socket
import _thread
import socket
import sys
from contextvars import copy_context

import pytest

from pytest_llmeval.errors import LLMEvalError, ReplayMiss
from pytest_llmeval.models.unseen import UnseenConnections


class Trial:
    function = "test_a.py::test_x"
    intercepts = True

    def __init__(self) -> None:
        self.refusals: list[LLMEvalError] = []

    def refuse(self, refusal: LLMEvalError) -> None:
        self.refusals.append(refusal)


def tried(address: tuple[str, int]) -> socket.socket:
    """A socket of which Python tells that it connects, though it does not."""
    opened = socket.socket()
    sys.audit("socket.connect", opened, address)
    return opened


def socketpair() -> None:
    """Do as the function of that name does on Windows."""
    with socket.socket() as opened:
        sys.audit("socket.connect", opened, ("127.0.0.1", 49152))


def everywhere(_host: str, _port: int) -> bool:
    return True


def nowhere(_host: str, _port: int) -> bool:
    return False


def test_a_host_tried_at_addresses_of_both_families_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [
        (socket.AF_INET6, 1, 6, "", ("2001:db8::1", 80, 0, 0)),
        (socket.AF_INET, 1, 6, "", ("192.0.2.1", 80)),
    ]
    monkeypatch.setattr(_socket, "getaddrinfo", lambda *_: found)
    unseen = UnseenConnections(nowhere)
    with unseen.watching(Trial):
        socket.getaddrinfo("Tools.example.com", 80)
        assert unseen.take() == []
        # a machine need not have this family
        fake = type("V6", (), {"family": socket.AF_INET6, "type": socket.SOCK_STREAM})
        sys.audit("socket.connect", fake, ("2001:db8::1", 80, 0, 0))
        tried(("192.0.2.1", 80)).close()
        assert unseen.take() == [("Tools.example.com", Trial.function, 1)]
        tried(("192.0.2.1", 80)).close()
        assert unseen.take() == [("Tools.example.com", Trial.function, 1)]
        assert unseen.take() == []


def test_a_refused_connection_is_told_to_its_trial_and_closed() -> None:
    unseen, trial = UnseenConnections(everywhere), Trial()
    opened = socket.socket()
    with unseen.watching(lambda: trial), pytest.raises(ReplayMiss, match=r"192\.0\.2\.1:8080 was"):
        opened.connect(("192.0.2.1", 8080))
    assert opened.fileno() == -1
    assert [type(one) for one in trial.refusals] == [ReplayMiss]
    assert unseen.take() == []


def test_nothing_is_watched_where_no_trial_runs_and_after_the_session() -> None:
    lookup, unseen, trial = _socket.getaddrinfo, UnseenConnections(everywhere), Trial()
    with unseen.watching(lambda: None):
        tried(("192.0.2.1", 443)).close()
        with UnseenConnections(nowhere).watching(lambda: trial):  # of a session in this one
            tried(("192.0.2.1", 443)).close()
    tried(("192.0.2.1", 443)).close()
    assert (unseen.take(), trial.refusals, _socket.getaddrinfo) == ([], [], lookup)


def test_the_pair_of_sockets_of_an_event_loop_is_no_connection() -> None:
    unseen = UnseenConnections(everywhere)
    with unseen.watching(Trial):
        socketpair()
    assert unseen.take() == []


@pytest.mark.parametrize("host", ["API.example.com.", b"api.example.com", bytearray(b"192.0.2.1")])
def test_a_host_may_be_written_in_any_way(host: object) -> None:
    asked = []
    unseen = UnseenConnections(lambda *address: bool(asked.append(address)))
    with unseen.watching(Trial), socket.socket() as opened:
        sys.audit("socket.connect", opened, (host, 443))
    assert asked[0] in [("api.example.com", 443), ("192.0.2.1", 443)]
    assert len(unseen.take()) == 1


@pytest.mark.parametrize("host", ["Tools.example.com", b"Tools.example.com"], ids=["str", "bytes"])
def test_a_name_may_be_looked_up_as_bytes(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    found = [(socket.AF_INET, 1, 6, "", ("192.0.2.1", 443))]
    monkeypatch.setattr(_socket, "getaddrinfo", lambda *_: found)
    unseen = UnseenConnections(lambda host, _port: host == "tools.example.com")
    with unseen.watching(Trial):
        socket.getaddrinfo(host, 443)
        with pytest.raises(ReplayMiss, match=r"to Tools\.example\.com was refused"):
            tried(("192.0.2.1", 443))


def test_a_thread_may_run_nothing_but_a_connection() -> None:
    unseen = UnseenConnections(nowhere)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as opened:
        with unseen.watching(Trial):
            _thread.start_new_thread(copy_context().run, (opened.connect, server.getsockname()))
            server.settimeout(5)
            server.accept()[0].close()
        assert [count for _, _, count in unseen.take()] == [1]
