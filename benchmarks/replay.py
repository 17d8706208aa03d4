"""How long do 1000 trials take when every reply is stored?

200 cases x 5 as a whole process, from the start of the interpreter to the printed section,
beside a bare script that imports openai, opens the same cache and reads the same 1000
replies. The target is at most 5 times its wall time. Run: ``python benchmarks/replay.py``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from concurrency import start_server
from stopwatch import OUR_PYTEST, interleaved, python, ratio, table

CASES = 200
REPEATS = 5
ROUNDS = 5
TARGET = 5.0  # times the bare script
COMPARED = "pytest, compared with the last run"
BARE = "bare script: import openai, read 1000 replies"

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
    "keys.py": """
import json
from pathlib import Path

from pytest_llmeval.runs.store import RunStore

run = RunStore(Path(".llmeval")).newest().run
keys = [(call.key, trial.index) for trial in run.trials for call in trial.calls]
Path("keys.json").write_text(json.dumps(keys))
""",
    "bare.py": f"""
import json
from pathlib import Path

import openai

from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import KeptRequest
from pytest_llmeval.records import Slot

keys = json.loads(Path("keys.json").read_text())
assert len(keys) == {CASES * REPEATS}
replies = Replies(Path(".llmeval"), mode="replay", session="bare", warn=print)
for key, trial in keys:
    request = KeptRequest(key=key, perform=lambda _slot: None)
    reply = json.loads(replies.lookup(request, Slot(trial, 0)).body)
    assert reply["choices"][0]["message"]["content"] == "yes"
replies.close()
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
        python(["keys.py"], folder=folder)
        replay = [*OUR_PYTEST, "--llm-cache=replay"]
        usages = interleaved(
            {
                COMPARED: [*replay, "--llm-baseline=last"],
                "pytest, not compared": replay,
                BARE: ["bare.py"],
            },
            folder=folder,
            rounds=ROUNDS,
        )
    print(table(usages, unit=f"{CASES * REPEATS} trials replayed"))
    print(f"\nTarget: a ratio of at most {TARGET:g}, compared. Medians of {ROUNDS} interleaved")
    print("rounds; the ratio is taken within each round.")
    return 0 if ratio(usages[COMPARED], usages[BARE]) <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
