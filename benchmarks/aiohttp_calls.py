"""What does it cost that calls of an aiohttp client session are looked at and kept?

64 calls of 200 ms at once, three times in one eval: intercepted with an empty cache, with a full
one, and left alone, which is the client's own time. Whole processes, in interleaved rounds; the
clock runs while the calls are under way. The first 64 of a session also open the cache and start
its threads. The target, 1.3 times the client's own time, is for those that follow.
Run: ``python benchmarks/aiohttp_calls.py``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from concurrency import start_server
from stopwatch import OUR_PYTEST, python

CALLS = 64
SECONDS = 0.2
ROUNDS = 9
MOST = 1.3  # times the client's own time
KINDS = {"paid": "seen", "replayed": "seen", "left alone": "alone"}

EVAL = f"""
import asyncio
import json
import os
import time
from pathlib import Path

import aiohttp
from pytest_llmeval import llm_eval

URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"


async def ask_all(times):
    async def ask(number):
        messages = [{{"role": "user", "content": f"Question {{times}}, {{number}}?"}}]
        async with client.post(URL, json={{"model": "bench", "messages": messages}}) as reply:
            assert (await reply.json())["choices"]

    async with aiohttp.ClientSession() as client:
        started = time.perf_counter()
        await asyncio.gather(*map(ask, range({CALLS})))
        return time.perf_counter() - started


@llm_eval(repeats=1, intercept=INTERCEPT)
async def test_calls():
    Path("seconds").write_text(json.dumps([await ask_all(times) for times in range(3)]))
"""


def seconds_of(file: str, folder: Path) -> tuple[float, float]:
    """Run an eval in a process; return how long its first calls took, and those that followed."""
    python([*OUR_PYTEST, f"test_{file}.py", f"--llm-concurrency={CALLS}"], folder=folder)
    first, *later = json.loads((folder / "seconds").read_text(encoding="utf-8"))
    return first, min(later)


def one_round() -> dict[str, tuple[float, float]]:
    """Measure each kind once, from an empty folder."""
    with tempfile.TemporaryDirectory(prefix="llmeval-aiohttp-") as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        for file in set(KINDS.values()):
            text = EVAL.replace("INTERCEPT", str(file == "seen"))
            (folder / f"test_{file}.py").write_text(text, encoding="utf-8")
        return {kind: seconds_of(file, folder) for kind, file in KINDS.items()}


def main() -> int:
    """Print the table; 1 if the target was missed."""
    os.environ |= {"OPENAI_BASE_URL": start_server(SECONDS), "OPENAI_API_KEY": "bench"}
    one_round()
    rounds = [one_round() for _ in range(ROUNDS)]
    print(f"| {CALLS} calls of {SECONDS * 1000:.0f} ms at once | first | ratio | later | ratio |")
    print("|---|---:|---:|---:|---:|")
    ratios = {}
    for kind in KINDS:
        cells = []
        for place in range(2):
            ratios[kind] = median(one[kind][place] / one["left alone"][place] for one in rounds)
            cells.append(f"{median(one[kind][place] for one in rounds):.3f} s | {ratios[kind]:.2f}")
        print(f"| {kind} | {' | '.join(cells)} |")
    return 1 if ratios["paid"] > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
