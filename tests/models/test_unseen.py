"""Sockets that connect while a trial runs."""

from __future__ import annotations

import _socket
import _thread
import platform
import socket
import subprocess
import sys
from contextvars import copy_context

import pytest
import requests

from pytest_llmeval.errors import LLMEvalError, ProgramRefused, ReplayMiss
from pytest_llmeval.models.unseen import UnseenConnections


class Trial:
    function = "test_a.py::test_x"
    intercepts = True

    def __init__(self) -> None:
        self.refusals: list[LLMEvalError] = []

    def deny(self, refusal: LLMEvalError) -> None:
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
    unseen = UnseenConnections(is_refused=nowhere)
    with unseen.watching(Trial):
        socket.getaddrinfo("Tools.example.com", 80)
        assert unseen.take() == []
        # a machine need not have this family
        fake = type("V6", (), {"family": socket.AF_INET6, "type": socket.SOCK_STREAM})
        sys.audit("socket.connect", fake, ("2001:db8::1", 80, 0, 0))
        tried(("192.0.2.1", 80)).close()
        assert unseen.take() == [("Tools.example.com", Trial.function, "", 1)]
        tried(("192.0.2.1", 80)).close()
        assert unseen.take() == [("Tools.example.com", Trial.function, "", 1)]
        assert unseen.take() == []


def test_a_refused_connection_is_told_to_its_trial_and_closed() -> None:
    unseen, trial = UnseenConnections(is_refused=everywhere), Trial()
    opened = socket.socket()
    with unseen.watching(lambda: trial), pytest.raises(ReplayMiss, match=r"192\.0\.2\.1:8080 was"):
        opened.connect(("192.0.2.1", 8080))
    assert opened.fileno() == -1
    assert [type(one) for one in trial.refusals] == [ReplayMiss]
    assert unseen.take() == []


def test_nothing_is_watched_where_no_trial_runs_and_after_the_session() -> None:
    lookup, unseen, trial = _socket.getaddrinfo, UnseenConnections(is_refused=everywhere), Trial()
    with unseen.watching(lambda: None):
        tried(("192.0.2.1", 443)).close()
        with UnseenConnections(is_refused=nowhere).watching(
            lambda: trial
        ):  # of a session in this one
            tried(("192.0.2.1", 443)).close()
    tried(("192.0.2.1", 443)).close()
    assert (unseen.take(), trial.refusals, _socket.getaddrinfo) == ([], [], lookup)


def test_the_pair_of_sockets_of_an_event_loop_is_no_connection() -> None:
    unseen = UnseenConnections(is_refused=everywhere)
    with unseen.watching(Trial):
        socketpair()
    assert unseen.take() == []


@pytest.mark.parametrize("host", ["API.example.com.", b"api.example.com", bytearray(b"192.0.2.1")])
def test_a_host_may_be_written_in_any_way(host: object) -> None:
    asked = []
    unseen = UnseenConnections(is_refused=lambda *address: bool(asked.append(address)))
    with unseen.watching(Trial), socket.socket() as opened:
        sys.audit("socket.connect", opened, (host, 443))
    assert asked[0] in [("api.example.com", 443), ("192.0.2.1", 443)]
    assert len(unseen.take()) == 1


@pytest.mark.parametrize("host", ["Tools.example.com", b"Tools.example.com"], ids=["str", "bytes"])
def test_a_name_may_be_looked_up_as_bytes(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    found = [(socket.AF_INET, 1, 6, "", ("192.0.2.1", 443))]
    monkeypatch.setattr(_socket, "getaddrinfo", lambda *_: found)
    unseen = UnseenConnections(is_refused=lambda host, _port: host == "tools.example.com")
    with unseen.watching(Trial):
        socket.getaddrinfo(host, 443)
        with pytest.raises(ReplayMiss, match=r"to Tools\.example\.com was refused"):
            tried(("192.0.2.1", 443))


def test_a_thread_may_run_nothing_but_a_connection() -> None:
    unseen = UnseenConnections(is_refused=nowhere)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as opened:
        with unseen.watching(Trial):
            _thread.start_new_thread(copy_context().run, (opened.connect, server.getsockname()))
            server.settimeout(300)
            server.accept()[0].close()
        assert [count for *_, count in unseen.take()] == [1]


LOOKED_UP = [(socket.AF_INET, 1, 6, "", ("127.0.0.1", 443))]


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> UnseenConnections:
    """A replay in which all names lead to this machine, and one host and one program may pass."""
    monkeypatch.setattr(_socket, "getaddrinfo", lambda *_: LOOKED_UP)
    return UnseenConnections(
        is_refused=nowhere, only_replays=True, allowed=("*.local:5432", "tool*")
    )


@pytest.mark.parametrize(
    ("host", "port", "is_refused"),
    [
        ("shop.example.com", 443, True),
        (b"shop.example.com", "443", True),
        ("shop.example.com", None, True),
        ("localhost", 8000, False),
        ("app.localhost", 8000, False),
        (socket.gethostname(), None, False),
        ("db.local", 5432, False),
        ("db.local", None, False),
        ("db.local", 80, True),
        ("192.0.2.1", 80, False),  # which goes out only once it connects
        ("2001:db8::1", 80, False),
    ],
)
def test_in_a_replay_other_machines_are_not_even_looked_up(
    replay: UnseenConnections, host: str, port: int | None, is_refused: bool
) -> None:
    trial = Trial()
    with replay.watching(lambda: trial):
        if is_refused:
            with pytest.raises(ReplayMiss, match="was refused: the cache does not see"):
                socket.getaddrinfo(host, port)
        else:
            socket.getaddrinfo(host, port)
    assert len(trial.refusals) == is_refused


@pytest.mark.parametrize(
    ("address", "is_refused"),
    [
        (("192.0.2.1", 443), True),
        (("2001:db8::1", 443, 0, 0), True),
        (("127.0.0.1", 8000), False),
        (("127.1.2.3", 8000), False),
        (("::1", 8000, 0, 0), False),
    ],
)
def test_in_a_replay_only_this_machine_is_connected_to(
    replay: UnseenConnections, address: tuple[str, int], is_refused: bool
) -> None:
    trial = Trial()
    with replay.watching(lambda: trial):
        if is_refused:
            with pytest.raises(ReplayMiss):
                tried(address)
        else:
            tried(address).close()
    assert (len(trial.refusals), len(replay.take())) == (is_refused, not is_refused)


def test_in_a_replay_no_datagram_goes_to_another_machine(replay: UnseenConnections) -> None:
    trial = Trial()
    with replay.watching(lambda: trial), socket.socket(type=socket.SOCK_DGRAM) as opened:
        sys.audit("socket.sendto", opened, ("127.0.0.1", 8125))
        sys.audit("socket.sendmsg", opened, None)
        sys.audit("socket.connect", opened, ("192.0.2.1", 80))  # sends nothing
        with pytest.raises(ReplayMiss):
            sys.audit("socket.sendto", opened, ("192.0.2.1", 8125))
    assert (len(trial.refusals), replay.take()) == (1, [])


@pytest.mark.parametrize(
    ("event", "args", "program"),
    [
        ("subprocess.Popen", ("/usr/bin/curl", ["curl", "-s"], None, None), "curl"),
        ("subprocess.Popen", ("curl", [b"/usr/bin/curl"], None, None), "curl"),
        ("subprocess.Popen", ("curl", "curl -s", None, None), "curl"),
        ("os.posix_spawn", ("/usr/bin/curl", ["/usr/bin/curl"], {}), "curl"),
        ("os.exec", ("/usr/bin/curl", ("/usr/bin/curl",), {}), "curl"),
        ("os.spawn", (0, "/usr/bin/curl", ["curl"], {}), "curl"),
        ("os.system", (b"curl -s",), "curl"),
        ("subprocess.Popen", ("tool9", ["tool9"], None, None), ""),
    ],
)
def test_in_a_replay_no_program_is_started_that_is_not_allowed(
    replay: UnseenConnections, event: str, args: tuple[object, ...], program: str
) -> None:
    trial = Trial()
    with replay.watching(lambda: trial):
        if program:
            with pytest.raises(ProgramRefused, match=f"the program {program} was not started"):
                sys.audit(event, *args)
        else:
            sys.audit(event, *args)
    assert len(trial.refusals) == bool(program)


def test_a_program_that_is_refused_is_one_that_cannot_be_started_to_a_library(
    replay: UnseenConnections,
) -> None:
    with replay.watching(Trial), pytest.raises(OSError, match="curl"):
        subprocess.run(["curl"], check=False)


def test_in_a_replay_python_may_ask_programs_about_this_machine(replay: UnseenConnections) -> None:
    trial = Trial()
    with replay.watching(lambda: trial):
        platform._syscmd_file(sys.executable)  # type: ignore[attr-defined]
    assert trial.refusals == []


def test_in_a_replay_what_hooks_do_around_trials_is_their_own_business(
    replay: UnseenConnections,
) -> None:
    trial = Trial()
    trial.function = ""
    with replay.watching(lambda: trial):
        socket.getaddrinfo("reports.example.com", 443)
        tried(("192.0.2.1", 443)).close()
        sys.audit("os.system", b"true")
    assert (trial.refusals, replay.take()) == ([], [])


def test_outside_a_replay_all_is_let_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_socket, "getaddrinfo", lambda *_: LOOKED_UP)
    trial = Trial()
    unseen = UnseenConnections(is_refused=nowhere)
    with unseen.watching(lambda: trial), socket.socket(type=socket.SOCK_DGRAM) as opened:
        socket.getaddrinfo("shop.example.com", 443)
        sys.audit("socket.sendto", opened, ("192.0.2.1", 8125))
        sys.audit("os.system", b"true")
    assert trial.refusals == []


def test_the_library_that_connects_is_named_unless_it_is_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        for seen, library in [((), "urllib3"), (("requests",), ""), (("urllib3",), "")]:
            unseen = UnseenConnections(is_refused=nowhere, seen=seen)
            with unseen.watching(Trial), pytest.raises(requests.Timeout):
                requests.get(url, timeout=0.05)
            assert [named for _, _, named, _ in unseen.take()] == [library]
        unseen = UnseenConnections(is_refused=nowhere)
        with unseen.watching(Trial), socket.create_connection(server.getsockname()):
            pass
        assert [named for _, _, named, _ in unseen.take()] == ["socket"]
