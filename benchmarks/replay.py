"""How long do 1000 trials take when every reply is stored?

200 cases x 5 as a whole process, from the start of the interpreter to the printed section,
beside a bare script that replays the same 1000 replies through the same cache without
pytest. The target is at most 3 s. Run: ``python benchmarks/replay.py``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median

from stopwatch import QUIET_PYTEST, interleaved, python, table

CASES = 200
REPEATS = 5
ROUNDS = 5
TARGET = 3.0  # seconds
COMPARED = "pytest, compared with the last run"

PROJECT = {
    "pytest.ini": "[pytest]\npythonpath = .\nllm_model = function/model:answer\n",
    "model.py": """
def answer(messages):
    return f"Yes to: {messages[-1]['content']}"
""",
    "test_questions.py": f"""
import pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats={REPEATS})
@pytest.mark.parametrize("number", range({CASES}), ids=[f"q{{n}}" for n in range({CASES})])
def test_question(llm, number):
    assert llm.ask(f"Question {{number}}?").text.startswith("Yes")
""",
    "bare.py": f"""
import sys
from pathlib import Path
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.models.base import CachedCalls
from pytest_llmeval.models.providers import Providers
from pytest_llmeval.records import Slot

class Trial:
    def __init__(self, index):
        self.index = index

    def slot(self, key):
        return Slot(self.index, 0)

    def record(self, call):
        assert call.replayed

    def wait(self, fn):
        return fn()

replies = Replies(Path(".llmeval"), mode="replay", session="bare", warn=sys.exit)
providers = Providers()
for number in range({CASES}):
    for index in range({REPEATS}):
        calls = CachedCalls(Trial(index), replies)
        llm = providers.build_model("function/model:answer", calls)
        assert llm.ask(f"Question {{number}}?").text.startswith("Yes")
replies.close()
""",
}


def main() -> int:
    """Print the table; 1 if the target was missed."""
    with tempfile.TemporaryDirectory(prefix="llmeval-replay-") as name:
        folder = Path(name)
        for file, text in PROJECT.items():
            (folder / file).write_text(text, encoding="utf-8")
        python(QUIET_PYTEST, folder=folder)
        replay = [*QUIET_PYTEST, "--llm-cache=replay"]
        seconds = interleaved(
            {
                COMPARED: [*replay, "--llm-baseline=last"],
                "pytest, not compared": replay,
                "bare script": ["bare.py"],
            },
            folder=folder,
            rounds=ROUNDS,
        )
    print(table(seconds, unit=f"{CASES * REPEATS} trials replayed"))
    print(f"\nTarget: at most {TARGET:g} s, compared. Medians of {ROUNDS} interleaved rounds;")
    print("the ratio is taken within each round.")
    return 0 if median(seconds[COMPARED]) <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
