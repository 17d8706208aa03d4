"""A coin that sleeps before it falls: how long a trial blocks says nothing of how it ends.

Trials block outside of any call that is seen, in functions of three kinds: they say so by
``waiting``, they say nothing, or they have patched something as well. The coin is beside the
replies, so that a trial which ran once more would be another toss; tosses are counted, and
seeded by their numbers, so that the figures are the same in every session.

Time is scaled, for trials and for the engine's watch over those that block: a hundredth of a
second there is ten milliseconds of sleep here. One part runs unscaled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import fmean

import pytest

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.records import Run, Trial
from pytest_llmeval.runs.run_file import read_run
from pytest_llmeval.settings import GateRules
from tests.forked import ForkedSession
from tests.truth.kinds import APP, PRELUDE

CONFTEST = """
from pytest_llmeval.engine.stall import StallWatch

StallWatch.PERIOD /= {scale}
"""

# The tests begin with the name of their number; of each three one seen, unseen and patched.
EVAL = """
@evaluated(cases=CASES, repeats=2)
def test_{number}({fixtures}i):
    body()
    seconds = SECONDS[0] + (SECONDS[1] - SECONDS[0]) * random.Random(f"{number} {{i}}").random()
    {block}
    {ask}
    assert coin("{side} {number} " + str(i), {rate})
"""

BLOCKS = {
    "seen": "waiting(time.sleep, seconds)",
    "unseen": "time.sleep(seconds)",
    "patched": 'monkeypatch.setattr(app, "MODE", "patched"); time.sleep(seconds)',
}
RATES = (0.1, 0.5, 0.9)
WAYS = [(block, rate) for block in BLOCKS for rate in RATES]
SLOW, FAST = (0.4, 1.0), (0.1, 0.3)

SCALE = 50
PAIRS = 10
EVALS = 30  # of each session
CASES = 20
MOST_FALSE_ALARMS = 0.06


@dataclass(frozen=True)
class Tossed:
    """A session: its run, and how many bodies were begun."""

    run: Run
    bodies: int

    def of(self, number: int) -> Run:
        """Return the part of the run that is one function's."""
        cases = tuple(one for one in self.run.cases if one.function == f"test_a.py::test_{number}")
        ids = {case.id for case in cases}
        trials = tuple(one for one in self.run.trials if one.case in ids)
        return replace(self.run, cases=cases, trials=trials)


def written(side: str, evals: int, *, cases: int, seconds: tuple[float, float]) -> str:
    """Write the evals of a session."""
    text = f"{PRELUDE}\nimport app\n\nCASES, SECONDS = {cases}, {seconds}\n"
    for number in range(evals):
        block, rate = WAYS[number % len(WAYS)]
        asks = number // len(WAYS) % 2
        text += EVAL.format(
            number=number,
            fixtures="monkeypatch, " * (block == "patched") + "llm, " * asks,
            block=BLOCKS[block],
            ask='assert llm.ask(f"q {i} rate=1").text == "yes"' if asks else "",
            side=side,
            rate=rate,
        )
    return text


def toss(folder: Path, text: str, *, scale: int) -> Tossed:
    """Run the evals in a process of their own."""
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "test_a.py").write_text(text)
    (folder / "conftest.py").write_text(CONFTEST.format(scale=scale))
    (folder / "pytest.ini").write_text(
        "[pytest]\nllm_model = function/app:answer\npythonpath = .\n"
    )
    session = ForkedSession(
        folder, "-q", "-p", "no:cacheprovider", "--llm-report=report.json", output=folder / "out"
    )
    output, _ = session.communicate(timeout=600)
    assert session.returncode in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), output
    report = json.loads((folder / "report.json").read_text())
    bodies = (folder / "bodies.log").read_text().count("\n")
    return Tossed(run=read_run(folder / report["run"]["file"]), bodies=bodies)


def scores(tossed: Tossed) -> Mapping[tuple[str, float], list[float]]:
    """Return what the coins fell on, by the way of the function."""
    fell: dict[tuple[str, float], list[float]] = {way: [] for way in WAYS}
    for trial in tossed.run.trials:
        number = int(trial.case.partition("::test_")[2].partition("[")[0])
        fell[WAYS[number % len(WAYS)]].append(value(trial))
    return fell


def value(trial: Trial) -> float:
    return trial.scores["pass"]


def off(fell: list[float], rate: float) -> float:
    """Return how many standard errors a mean is away from the true rate."""
    return (fmean(fell) - rate) / sqrt(rate * (1 - rate) / len(fell))


def test_how_long_a_trial_blocks_says_nothing_of_how_it_ends(
    tmp_path: Path, pytester: pytest.Pytester
) -> None:
    def pair(number: int) -> tuple[Tossed, Tossed]:
        sides = {"main": SLOW, "branch": FAST} if number % 2 else {"main": FAST, "branch": SLOW}
        baseline, current = (
            toss(
                tmp_path / f"{number}-{side}",
                written(f"{side} {number}", EVALS, cases=CASES, seconds=scaled(seconds)),
                scale=SCALE,
            )
            for side, seconds in sides.items()
        )
        return baseline, current

    with ThreadPoolExecutor(2) as pool:
        pairs = list(pool.map(pair, range(PAIRS)))

    tossed = [session for both in pairs for session in both]
    trials = EVALS * CASES * 2
    fell = {way: [one for each in tossed for one in scores(each)[way]] for way in WAYS}
    verdicts = list(judged(pairs))
    alarms = verdicts.count(Verdict.REGRESSED)
    for (block, rate), values in fell.items():
        mean = fmean(values)
        print(f"{block}, {rate}: {mean:.4f} of {len(values)}, {off(values, rate):+.1f} errors")
    print(f"bodies {sum(one.bodies for one in tossed)} of {trials * len(tossed)} trials")
    print(f"false alarms {alarms}, false joy {verdicts.count(Verdict.IMPROVED)} of {len(verdicts)}")
    assert [one.bodies for one in tossed] == [trials] * len(tossed)
    assert [len(one.run.trials) for one in tossed] == [trials] * len(tossed)
    assert [way for way, values in fell.items() if abs(off(values, way[1])) > 3] == []
    assert alarms <= MOST_FALSE_ALARMS * len(verdicts)


def scaled(seconds: tuple[float, float]) -> tuple[float, float]:
    return seconds[0] / SCALE, seconds[1] / SCALE


def judged(pairs: list[tuple[Tossed, Tossed]]) -> Iterator[Verdict]:
    """Judge each function of each pair, as a build of its own."""
    for baseline, current in pairs:
        for number in range(EVALS):
            yield compare(baseline.of(number), current.of(number), GateRules()).verdict


def test_unscaled_sleeps_are_trials_once(tmp_path: Path, pytester: pytest.Pytester) -> None:
    text = written("unscaled", 2 * len(WAYS), cases=4, seconds=(0.1, 1.0))

    tossed = toss(tmp_path / "unscaled", text, scale=1)

    assert (tossed.bodies, len(tossed.run.trials)) == (144, 144)
    for (_, rate), fell in scores(tossed).items():
        assert abs(off(fell, rate)) <= 3
