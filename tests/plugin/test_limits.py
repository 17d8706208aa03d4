"""A provider that cannot take as much as we could ask."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.servers.openai_server import OpenAIServer, Received, Scripted


class BusyServer(OpenAIServer):
    """Refuses what comes while so many requests are being answered.

    Attributes:
        refused: how many it has refused.
        seconds: that it waits for the first one too many, before it answers anything. A busy
            machine may take long to send so many.
    """

    def __init__(self, capacity: int, headers: Mapping[str, str]) -> None:
        super().__init__()
        self.refused = 0
        self.seconds = 0.0
        self._has_refused = threading.Event()
        self._capacity = capacity
        self._headers = headers
        self._busy = 0
        self._count = threading.Lock()

    def take(self, received: Received) -> Scripted:
        with self._count:
            if self._busy >= self._capacity:
                self.refused += 1
                self._has_refused.set()
                return Scripted(status=429, headers=self._headers, body={})
            self._busy += 1
        self._has_refused.wait(self.seconds)
        time.sleep(0.02)
        with self._count:
            self._busy -= 1
        return super().take(received)


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[BusyServer]:
    with BusyServer(4, {"retry-after-ms": "50"}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield server


EVALS = """
import os
import signal
import pytest
from pytest_llmeval import llm_eval

@pytest.mark.parametrize("n", range(20))
@llm_eval(repeats=2)
def test_it(llm, n):
    assert llm.ask(f"{n}").text
"""


def run(pytester: pytest.Pytester, *arguments: str, more: str = "") -> Any:
    pytester.makepyfile(EVALS + more)
    pytester.makeini("[pytest]\nllm_model = openai/gpt\n")
    return pytester.runpytest("-p", "no:cacheprovider", *arguments)


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "workers"])
def test_what_is_refused_for_being_one_too_many_costs_no_trial(
    pytester: pytest.Pytester, busy: BusyServer, arguments: tuple[str, ...]
) -> None:
    busy.seconds = 10
    result = run(pytester, "--llm-concurrency=32", *arguments)

    result.assert_outcomes(passed=20)
    assert busy.refused > 0
    result.stdout.fnmatch_lines(
        ["*40 calls made, 0 replayed · *n/a", "openai slowed us down * at once, * s waited"]
    )
    assert not (pytester.path / ".llmeval" / "pace").exists()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_a_worker_that_is_killed_takes_nothing_with_it(
    pytester: pytest.Pytester, busy: BusyServer
) -> None:
    killed = """
    if n == 8 and not os.path.exists("killed"):
        open("killed", "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
"""
    busy.seconds = 10
    result = run(pytester, "--llm-concurrency=32", "-n", "2", more=killed)

    result.assert_outcomes(passed=19, failed=1)
    assert busy.refused > 0
    assert not (pytester.path / ".llmeval" / "pace").exists()


def test_a_provider_that_takes_it_all_is_not_spoken_of(
    pytester: pytest.Pytester, busy: BusyServer
) -> None:
    result = run(pytester, "--llm-concurrency=4")

    result.assert_outcomes(passed=20)
    assert busy.refused == 0
    result.stdout.no_fnmatch_line("*slowed us down*")
