"""What does a harmless pull request take on the workflow of the README, beside pytest alone?

60 cases x 5 with replies of 50 ms, in the checkout that GitHub makes for a pull request: one
commit, and what main's job left. It asks nothing, and runs the suite once. The target is at most
1.15 of the wall time of pytest alone, which replays too.
Run: ``python benchmarks/pull_request.py``.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from concurrency import start_server
from stopwatch import OUR_PYTEST, interleaved, python, ratio, table

from tests.ci.hosts import github_push, pull_request
from tests.ci.origin import Origin

ROUNDS = 5
TARGET = 1.15
PROJECT = {
    "pytest.ini": "[pytest]\nllm_model = openai/bench\n",
    "test_evals.py": """
import pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats=5)
@pytest.mark.parametrize("number", range(60))
def test_question(llm, number):
    assert llm.ask(f"Question {number}?").text == "yes"
""",
}
GATED = "the pull request, compared with the run that main left"
RERUN = "the same without that run: the base is run first"
PAID = "pytest alone, each reply paid for"
ALONE = "pytest alone, each reply replayed"


def main() -> int:
    """Print the table; 1 if the target was missed."""
    os.environ |= {"OPENAI_BASE_URL": start_server(wait=0.05), "OPENAI_API_KEY": "bench"}
    with tempfile.TemporaryDirectory(prefix="llmeval-pull-request-") as name:
        folder = Path(name)
        origin = Origin(folder / "host")
        origin.advance(PROJECT)
        main_job = github_push(origin, folder / "main")
        python(OUR_PYTEST, folder=main_job.path)
        head = origin.commit({"notes.txt": "harmless"}, on=origin.tip)
        job = pull_request(origin, folder / "job", head=head)
        left = job.path / ".llmeval"

        def restore() -> None:
            shutil.rmtree(left, ignore_errors=True)
            shutil.copytree(main_job.path / ".llmeval", left)

        os.environ |= job.environ
        gate = [*OUR_PYTEST, "--llm-baseline=auto"]
        usages = interleaved(
            {
                GATED: [*gate, "--llm-on-missing=rerun"],
                RERUN: [*gate, "--llm-on-missing=rerun-always"],
                PAID: [*OUR_PYTEST, "--llm-cache=off"],
                ALONE: OUR_PYTEST,
            },
            folder=job.path,
            rounds=ROUNDS,
            before_each=restore,
        )
    print(table(usages, unit="60 cases x 5", targets={GATED: f"wall {TARGET}"}))
    for name, each in usages.items():
        wall, cpu = (min(getattr(one, of) for one in each) for of in ("wall", "cpu"))
        print(f"least: {wall:.2f} s, CPU {cpu:.2f} s  {name}")
    return 0 if ratio(usages[GATED], usages[ALONE]) <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
