"""``llmeval tries``: one table of a loop at a prompt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.records import Run
from pytest_llmeval.runs.store import RunStore
from tests.transcripts.recorded import Recorder, run_of, said, system, user

NAMES = ("late", "lost", "gift", "double")
PROMPTS = ("Name the team.", "Name the team. Be brief.", "Name the right team. Be brief.")


def invoke(*arguments: str, width: int = 120) -> Result:
    return CliRunner().invoke(main, arguments, env={"COLUMNS": str(width), "PY_COLORS": "0"})


def record(
    recorder: Recorder, second: int, prompt: str, *outcomes: str, against: str | None = None
) -> str:
    """Record a run of one case for each text of outcomes; returns its id."""
    cases = [
        recorder.case(
            name, ended, lambda _, name=name: [([system(prompt), user(name)], said("billing"))]
        )
        for name, ended in zip(NAMES, outcomes, strict=False)
    ]
    how = {"tree": "f" * 40, "ref": "main", "dirty": against is not None, "attempts": 8}
    run = run_of(*cases, second=second, **how, complete=True, compared_with=against)
    RunStore(recorder.home).save(run)
    return run.id


@pytest.fixture
def looped(recorder: Recorder) -> str:
    """A baseline, and two tries against it."""
    baseline = record(recorder, 1, PROMPTS[0], "pm", "mm", "pp", "mm")
    record(recorder, 2, PROMPTS[1], "pp", "pm", "pp", "mm", against=baseline)
    record(recorder, 3, PROMPTS[2], "pp", "pp", against=baseline)  # a part of the cases
    return baseline


def test_each_try_has_its_words_and_its_difference(looped: str) -> None:
    result = invoke("tries")

    assert result.exit_code == 0, result.output
    heading, first, second, *luck = result.stdout.splitlines()
    assert heading.split()[:3] == ["tried", "what", "changed"]
    assert "2026-11-21 08:41  {+Be brief.+}" in first
    assert " 4  0.625" in first
    assert "+0.250" in first
    assert "{+right+}  " in second
    assert "+0.750" in second
    luck_of = "after 2 tries up to 1 in 10 teams see an improvement by luck alone"
    assert (
        " ".join(map(str.strip, luck))
        == f"2 tries against main@aaaaaaa, by the trials of that run alone: {luck_of}"
    )
    assert invoke("tries", looped).stdout.splitlines()[:3] == [heading, first, second]


def test_hidden_texts_are_hidden_here_too(looped: str) -> None:
    Path("pytest.ini").write_text("[pytest]\nllm_show_texts = false\n")
    result = invoke("tries")
    assert result.exit_code == 0, result.output
    assert "brief" not in result.stdout
    assert "+0.250" in result.stdout


def test_several_functions_have_a_row_each(recorder: Recorder) -> None:
    def run(second: int, prompt: str, **how: Any) -> Run:
        exchange = ([system(prompt), user("late")], said("billing"))
        cases = [
            recorder.case("late", "pm", lambda _: [exchange], function=f"evals/test_a.py::{name}")
            for name in ("test_label", "test_tone")
        ]
        return run_of(*cases, second=second, tree="f" * 40, complete=True, **how)

    baseline = run(1, PROMPTS[0])
    for each in (baseline, run(2, PROMPTS[1], compared_with=baseline.id)):
        RunStore(recorder.home).save(each)

    for width in (120, 80):  # a row without its function would tell nothing
        lines = invoke("tries", width=width).stdout.splitlines()[1:]
        assert [line.split()[2] for line in lines] == ["test_label", "test_tone"]


def test_every_line_fits_the_page(looped: str) -> None:
    assert max(map(len, invoke("tries", width=60).stdout.splitlines())) <= 60


def test_without_a_try_it_says_what_to_type(recorder: Recorder) -> None:
    none = invoke("tries")
    assert none.exit_code == 4
    assert "was compared with another. Record one: pytest --llm-baseline=main" in none.stderr
    baseline = record(recorder, 1, PROMPTS[0], "pm")
    named = invoke("tries", baseline)
    assert named.exit_code == 4
    assert "no try was compared with" in named.stderr


def test_a_later_run_that_paid_for_nothing_hides_no_try(looped: str, recorder: Recorder) -> None:
    told = invoke("tries").stdout
    other = record(recorder, 4, PROMPTS[0], "pm", "mm", "pp", "mm")
    store = RunStore(recorder.home)
    replayed = {"id": "20261121T084109-1a2b3c", "compared_with": other, "attempts": 0}
    store.save(replace(store.load(store.files()[other]), **replayed))

    assert invoke("tries").stdout == told


def test_a_try_that_changed_nothing_is_no_row(recorder: Recorder) -> None:
    baseline = record(recorder, 1, PROMPTS[0], "pm")
    store = RunStore(recorder.home)
    same = {"id": "20261121T084109-1a2b3c", "compared_with": baseline}
    store.save(replace(store.load(store.files()[baseline]), **same))
    result = invoke("tries")
    assert result.exit_code == 4
    assert "no try has a case that changed" in result.stderr


def test_json_has_the_figures_of_the_table(looped: str) -> None:
    first, second = json.loads(invoke("tries", "--json").stdout)

    assert (first["changed"], second["changed"]) == ("{+Be brief.+}", "{+right+}")
    assert first["run"] < second["run"]
    assert (first["cases"], first["mean"], first["difference"]) == (4, 0.625, 0.25)
    assert second["difference"] == 0.75
