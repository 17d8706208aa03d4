"""How often a suite in four shards cries wolf: merged and gated once, or a gate for each shard.

Nothing changed in any build, and all cases are asked anew. `make calibrate` prints the rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_llmeval.gate import conclusion
from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.records import Run
from pytest_llmeval.runs.run_lines import collected_cases
from pytest_llmeval.runs.sharing.merging import merge_runs
from pytest_llmeval.settings import GateRules
from tests.gate.layouts import ab_post, alike, asked_anew, everywhere
from tests.gate.simulation import Function, Rates, Share, Suite

SHARDS = 4
BUILDS = 500
MOST_REGRESSED = 0.08
FUNCTIONS = 4

pytestmark = pytest.mark.calibration


def dealt_out(run: Run) -> list[Run]:
    """The runs of four shards among which a plugin deals the cases out."""
    return [
        replace(
            run,
            id=f"20261121T084100-00000{number}",
            cases=run.cases[number::SHARDS],
            trials=tuple(t for t in run.trials if t.case in ids),
            complete=False,
            partial=tuple({case.function: None for case in run.cases}),
            collected=collected_cases(case.id for case in run.cases),
        )
        for number in range(SHARDS)
        for ids in [{case.id for case in run.cases[number::SHARDS]}]
    ]


def is_red(baseline: Run, run: Run) -> bool:
    found = compare(baseline, run, GateRules())
    assert found.verdict is not Verdict.NOT_COMPARABLE
    return found.verdict is Verdict.REGRESSED


@pytest.mark.parametrize("rates", [everywhere(0.8), alike(ab_post)], ids=["eight_tenths", "mixed"])
def test_merged_shards_cry_wolf_no_more_than_one_session(
    rates: Rates,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    monkeypatch.setattr(conclusion, "remedies", lambda *_, **__: (None, None))
    layout = asked_anew(30)
    functions = [
        Function(layout, rates, repeats=(5, 5), name=f"test_{at}") for at in range(FUNCTIONS)
    ]
    suite = Suite(*functions)
    merged = alone = 0
    for seed in range(BUILDS):
        baseline, current = suite.build(seed)
        shards = dealt_out(current)
        whole = merge_runs(shards)
        assert whole.run.complete
        merged += is_red(baseline, whole.run)
        alone += any(is_red(baseline, shard) for shard in shards)
    print(f"merged: {Share(found=merged, builds=BUILDS)}, alone: {alone / BUILDS:.3f}")
    record_property("merged", merged / BUILDS)
    record_property("alone", alone / BUILDS)
    assert merged / BUILDS <= MOST_REGRESSED
    assert alone > merged
