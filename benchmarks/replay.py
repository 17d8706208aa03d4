"""How long do 1000 trials take when every reply is stored?

200 cases x 5 as a whole process, from the start of the interpreter to the printed section,
beside a bare script that imports openai and diskcache, opens the same cache and reads the same
1000 rows. The target is at most twice its wall time. Run: ``python benchmarks/replay.py``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from concurrency import start_server
from stopwatch import OUR_PYTEST, ROUNDS, interleaved, python, ratio, table

CASES = 200
REPEATS = 5
TARGET = 2.0  # times the bare script
COMPARED = "pytest, compared with the last run"
ALONE = "pytest, not compared"
PRICED = "pytest, compared, with a price in the ini file"
BARE = "bare script: import openai and diskcache, read 1000 rows"

PROJECT = {
    "pytest.ini": "[pytest]\nllm_model = openai/bench\n",
    "test_questions.py": f"""
import pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats={REPEATS})
@pytest.mark.parametrize("number", range({CASES}), ids=[f"q{{n}}" for n in range({CASES})])
def test_question(llm, number):
    assert llm.ask(f"Question {{number}}?").text == "yes"
""",
    "bare.py": f"""
import json
import zlib

import diskcache
import openai

with diskcache.Cache(".llmeval/cache") as cache:
    names = [name for name in cache.iterkeys() if not name.startswith("request/")]
    assert len(names) == {CASES * REPEATS}
    for name in names:
        body = zlib.decompress(cache[name]).partition(b"\\n")[2]
        assert json.loads(body)["choices"][0]["message"]["content"] == "yes"
""",
}


def main() -> int:
    """Print the table; 1 if the target was missed."""
    with tempfile.TemporaryDirectory(prefix="llmeval-replay-") as name:
        folder = Path(name)
        for file, text in PROJECT.items():
            (folder / file).write_text(text, encoding="utf-8")
        os.environ |= {"OPENAI_BASE_URL": start_server(wait=0.0), "OPENAI_API_KEY": "bench"}
        python(OUR_PYTEST, folder=folder)
        replay = [*OUR_PYTEST, "--llm-cache=replay"]
        usages = interleaved(
            {
                COMPARED: [*replay, "--llm-baseline=last"],
                PRICED: [*replay, "--llm-baseline=last", "-o", "llm_prices=openai/bench = 1, 2"],
                ALONE: replay,
                BARE: ["bare.py"],
            },
            folder=folder,
            rounds=ROUNDS,
        )
    targets = dict.fromkeys((COMPARED, PRICED, ALONE), f"wall {TARGET}")
    print(table(usages, unit=f"{CASES * REPEATS} trials replayed", targets=targets))
    return 0 if all(ratio(usages[name], usages[BARE]) <= TARGET for name in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
