"""Are the replies of a case there at once, also where a suite is large?

Two runs of 5,000 cases x 10 repeats, each trial with a call of its own, and the texts of the case
that fell most: ``llmeval diff``, which has to find that case, and ``llmeval show last CASE``, as
whole processes (target of the first: below 0.5 s). Run: ``python benchmarks/reading.py``.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from statistics import median

from stopwatch import interleaved

from pytest_llmeval.records import Call, Case, Outcome, Slot, Trial, Usage
from pytest_llmeval.runs.store import RunStore

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.transcripts.recorded import FUNCTION, Exchange, Recorder, run_of, said, user

CASES, REPEATS, ROUNDS = 5_000, 10, 7
TARGET = 0.5  # seconds


def main() -> int:
    """Print the table; 1 if the target was missed."""
    with tempfile.TemporaryDirectory(prefix="llmeval-reading-") as name:
        folder = Path(name)
        record(folder / ".llmeval")
        command = ["-m", "pytest_llmeval"]
        usages = interleaved(
            {
                "llmeval diff": [*command, "diff"],
                "llmeval show last CASE": [*command, "show", "last", "worst"],
                "llmeval --version": [*command, "--version"],
            },
            folder=folder,
            rounds=ROUNDS,
        )
    print("| 5,000 cases x 10 | wall | CPU |\n|---|---:|---:|")
    for title, each in usages.items():
        wall, cpu = (median(getattr(usage, of) for usage in each) for of in ("wall", "cpu"))
        print(f"| {title} | {wall:.2f} s | {cpu:.2f} s |")
    return int(median(usage.wall for usage in usages["llmeval diff"]) >= TARGET)


def record(home: Path) -> None:
    """Record the baseline, and a run in which one case fell most."""
    recorder, store, random = Recorder(home), RunStore(home), Random(1)  # noqa: S311 - no secret
    before = None
    for second, (outcome, prompt) in enumerate((("p", "Answer billing."), ("m", "Answer."))):
        exchanges: list[Exchange] = [([user(prompt)], said("billing" if outcome == "p" else "?"))]
        worst = recorder.case("worst", outcome * REPEATS, lambda _, asked=exchanges: asked)
        cases = [made_up(f"case-{number}", random) for number in range(CASES - 1)]
        run = replace(run_of(*cases, worst, second=second), tree="f" * 40, compared_with=before)
        store.save(run)
        before = run.id
    recorder.store.close()


def made_up(name: str, random: Random) -> tuple[Case, tuple[Trial, ...]]:
    """Make up a case whose replies are nowhere."""
    case_id = f"{FUNCTION}[{name}]"
    key = sha256(case_id.encode()).hexdigest()
    trials = []
    for index in range(REPEATS):
        is_passed = random.random() < 0.9
        call = Call(
            key=key,
            slot=Slot(index, 0),
            draw=random.randbytes(16).hex(),
            reply_sha256=random.randbytes(32).hex(),
            model="openai/gpt-6-luna",
            served="gpt-6-luna-2026-09-22",
            host="https://api.openai.com",
            parameters={"seed": 7},
            usage=Usage(input_tokens=21, output_tokens=2),
            seconds=0.75,
        )
        trial = Trial(
            case=case_id,
            index=index,
            outcome=Outcome.PASSED if is_passed else Outcome.MISSED,
            scores={"pass": float(is_passed)},
            calls=(call,),
            message="" if is_passed else "AssertionError evals/test_shop.py:12",
            seconds=0.8,
        )
        trials.append(trial)
    return Case(id=case_id, function=FUNCTION, repeats=REPEATS, parameters=key), tuple(trials)


if __name__ == "__main__":
    sys.exit(main())
