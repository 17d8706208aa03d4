"""numpy and scipy are loaded without their threads keeping every core busy."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_llmeval.stats import arrays

BUSY_LOOP = "OPENBLAS_THREAD_TIMEOUT"
SPY = f"""
import os, sys
seen = {{}}
def watch(event, arguments):
    if event == "import":
        seen.setdefault(arguments[0], os.environ.get("{BUSY_LOOP}"))
sys.addaudithook(watch)
from pytest_llmeval.stats.arrays import special
assert not seen.keys() & {{"numpy", "scipy"}}
special.ndtr
print(seen["numpy"], seen["scipy.special._ufuncs"], os.environ.get("{BUSY_LOOP}"))
"""


@pytest.mark.parametrize("before", [None, "20"])
def test_the_environment_is_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv(BUSY_LOOP, raising=False)
    if before is not None:
        monkeypatch.setenv(BUSY_LOOP, before)

    arrays.load()

    assert os.environ.get(BUSY_LOOP) == before


def test_the_threads_are_told_to_sleep_while_the_libraries_load() -> None:
    env = {name: value for name, value in os.environ.items() if name != BUSY_LOOP}
    done = subprocess.run(
        [sys.executable, "-c", SPY], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["4", "4", "None"]
