"""A sample of recorded answers, through the whole plugin; the figures are counted here."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean, stdev

import pytest

from tests.recorded import (
    CASES,
    MADE_UP,
    REPEATS,
    SAMPLE,
    Recorded,
    compare,
    sample_rows,
    write_sample,
)

CHAIN, CONCISE, COMPOSITE = (
    f"{MADE_UP}|{wording}" for wording in ("chain_of_thought", "concise", "composite")
)


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder)
    return folder


@pytest.fixture
def recorded(sample: Path, originals: Path, pytester: pytest.Pytester) -> Recorded:
    return Recorded(sample, originals, pytester)


def means(condition: str) -> list[float]:
    """Return the mean of each case over the calls that did not fail."""
    scores = defaultdict(list)
    for row in sample_rows():
        if row["condition"] == condition and row["score"] is not None:
            scores[row["case_id"]].append(row["score"])
    return [fmean(scores[case]) for case in sorted(scores)]


def failed(condition: str) -> int:
    return sum(row["condition"] == condition and row["score"] is None for row in sample_rows())


@pytest.mark.parametrize(
    ("wording", "condition", "falls"),
    [("concise", CONCISE, True), ("composite", COMPOSITE, False)],
)
def test_answers_are_gated_as_they_are_counted_by_hand(
    recorded: Recorded, sample: Path, wording: str, condition: str, falls: bool
) -> None:
    differences = [
        after - before for after, before in zip(means(condition), means(CHAIN), strict=True)
    ]
    t = fmean(differences) / (stdev(differences) / CASES**0.5)

    status, function = recorded.gate(MADE_UP, wording)

    assert (status, function["verdict"] == "regressed") == (int(falls), falls)
    assert (function["method"], function["cases"], function["dof"]) == (
        "paired-t",
        CASES,
        CASES - 1,
    )
    assert function["difference"] == pytest.approx(fmean(differences))
    assert function["t"] == pytest.approx(t)
    assert function["baseline_mean"] == pytest.approx(fmean(means(CHAIN)))
    assert function["mean"] == pytest.approx(fmean(means(condition)))
    for trials, of in (("baseline_trials", CHAIN), ("trials", condition)):
        assert function[trials]["errored"] == failed(of) > 0
        assert function[trials]["scored"] == CASES * REPEATS - failed(of)
    # the scores alone, without the replies, are worth the same
    table = compare(sample, SAMPLE, CHAIN, condition)
    for figure in ("metric", "verdict", "method", "cases", "dof"):
        assert table[figure] == function[figure]
    for figure in ("difference", "t", "p", "interval", "smallest_detectable_drop"):
        assert table[figure] == pytest.approx(function[figure])
