from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from pytest_llmeval.runs.lookup.best_run import OTHER_MODELS
from pytest_llmeval.runs.lookup.refs import Baseline
from tests.runs.builders import make_run


@pytest.mark.parametrize(("how", "kind"), [("table", "table"), ("last", "run")])
def test_a_baseline_is_named_with_its_kind(how: Literal["table", "last"], kind: str) -> None:
    run = make_run()
    baseline = Baseline(run=run, path=Path("x"), reference="main", how=how)
    assert baseline.is_table == (kind == "table")
    assert baseline.named == f"{kind} {run.id}"


def test_notes_on_other_models_are_no_remarks() -> None:
    run, notes = make_run(), (f"{OTHER_MODELS}it asked a, this session asks b", "it is old")
    baseline = Baseline(run=run, path=Path("x"), reference="main", how="last", notes=notes)
    assert baseline.remarks == ("it is old",)
