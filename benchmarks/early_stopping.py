"""What does a gate take that stops early where nothing changed, beside one that runs to its end?

100 cases x 5 with replies of 200 ms, 64 at once, whose rates are mixed. The prompt has another
word, and answers as well as before. The target is at most .75 of the wall time.
Run: ``python benchmarks/early_stopping.py``.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

sys.path.append(str(Path(__file__).parents[1]))

from stopwatch import OUR_PYTEST, interleaved, python, table

from tests.project import Project

ROUNDS = 15  # a build stops after two, three or five fifths: whatever its draws show
TARGET = 0.75
MODEL = """
import asyncio


async def answer(messages, *, draw):
    await asyncio.sleep(0.2)
    number = int(messages[-1]["content"].split()[-1])
    return "yes" if draw.rng.random() < (0.2, 0.6, 0.9, 1.0)[number % 4] else "no"
"""
EVALS = """
import pytest
from pytest_llmeval import llm_eval
from app import WORD

@llm_eval(repeats=5)
@pytest.mark.parametrize("number", range(100))
def test_question(llm, number):
    assert llm.ask(f"{WORD} {number}").text == "yes"
"""
INI = "[pytest]\nllm_model = function/model:answer\npythonpath = .\n"
EARLY, WHOLE = "stopped early", "to the end"
# One build in twenty is red by chance. The benchmark goes on after such a build.
ANY_END = ("-c", "import sys, pytest; pytest.main(sys.argv[1:])")


def main() -> int:
    """Print the table; 1 if the target was missed."""
    with tempfile.TemporaryDirectory(prefix="llmeval-early-stopping-") as name:
        project = Project(SimpleNamespace(path=Path(name)))
        project.write(model=MODEL, test_evals=EVALS, app='WORD = "Question"\n', pytest_ini=INI)
        (project.path / ".gitignore").write_text(".llmeval/\n__pycache__/\n")
        project.git("init", "-q", "-b", "main", "--template=")
        project.commit()
        python([*OUR_PYTEST, "--llm-repeats=10"], folder=project.path)
        kept = Path(name, "kept")
        shutil.copytree(project.path / ".llmeval", kept)
        project.git("switch", "-qc", "feature")
        words = itertools.count()

        def change() -> None:
            """Change the prompt, alike for both of a round, and forget what was asked."""
            project.write(app=f'WORD = "Question {next(words) // 2}"\n')
            shutil.rmtree(project.path / ".llmeval")
            shutil.copytree(kept, project.path / ".llmeval")

        gate = [*ANY_END, *OUR_PYTEST[2:], "--llm-baseline=main", "--llm-concurrency=64"]
        usages = interleaved(
            {EARLY: [*gate, "--llm-sequential"], WHOLE: gate},
            folder=project.path,
            rounds=ROUNDS,
            before_each=change,
        )
    print(table(usages, unit="500 trials of 200 ms", targets={EARLY: f"wall {TARGET}"}))
    early, whole = (sum(one.wall for one in usages[name]) for name in (EARLY, WHOLE))
    print(f"all rounds together: {early / whole:.2f} of the wall time")
    return 0 if early <= TARGET * whole else 1


if __name__ == "__main__":
    sys.exit(main())
