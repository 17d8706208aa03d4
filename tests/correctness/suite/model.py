"""A model that says which trial asks, and notes whether others waited at the same time."""

import os
import threading
import time
from pathlib import Path

LOG = Path(__file__).with_name("waits.log")
OVERLAPS = bool(os.environ.get("SUITE_OVERLAPS"))
WAITING = {}
CHANGED = threading.Condition()


def answer(messages, *, draw, **params):
    """Wait; under ``meet: x`` until two trials have been seen waiting for ``meet: x``."""
    prompt = messages[-1]["content"]
    if prompt.startswith("broken"):
        raise RuntimeError("out of order")
    if OVERLAPS and prompt.startswith("meet"):
        _note("met" if _meet(prompt) else "missed", prompt)
    else:
        time.sleep(0.002)
    return str(draw.trial)


def _meet(prompt):
    with CHANGED:
        WAITING[prompt] = WAITING.get(prompt, 0) + 1
        CHANGED.notify_all()
        met = CHANGED.wait_for(lambda: WAITING[prompt] >= 2, timeout=300)
    time.sleep(0.005)
    return met


def _note(word, prompt):
    with LOG.open("a") as file:
        file.write(f"{word} {prompt}\n")
