"""What is concluded from score tables: as public files of other harnesses are, and bug reports."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main

Row = tuple[object, ...]


def concluded(folder: Path, rows: Iterable[Row], *options: str, column: str = "") -> dict[str, Any]:
    """The comparison of A with B, of rows with the condition last."""
    columns = ["case_id", "repeat", "score", *([column] if column else []), "condition"]
    path = folder / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    result = CliRunner().invoke(main, ["compare", f"{path}::A", f"{path}::B", "--json", *options])
    (function,) = json.loads(result.stdout)["functions"]
    return {"exit": result.exit_code, **function}


@pytest.mark.parametrize("cases", [40, 60])
@pytest.mark.parametrize("name", ["", "accuracy"])
def test_one_run_a_case_that_hardly_moved_rules_the_target_out(
    cases: int, name: str, tmp_path: Path
) -> None:
    half = cases // 2
    rows: list[Row] = [
        (
            i,
            0,
            int(i < half) if side == "A" else int(1 <= i < half + 1),
            *([name] if name else []),
            side,
        )
        for i in range(cases)
        for side in "AB"
    ]
    found = concluded(tmp_path, rows, "--strict", column="metric" if name else "")
    low = {40: -0.08652, 60: -0.05826}[cases]
    assert (found["verdict"], found["exit"]) == ("no_significant_change", 0)
    assert found["interval"][0] == pytest.approx(low, abs=1e-4)
    assert found["sentence"].endswith(f"ruled out (95% sure), a drop of up to {-low:.3f} is not")


def test_all_trials_of_b_count_where_a_has_one(tmp_path: Path) -> None:
    rows: list[Row] = [(i, 0, 1, "A") for i in range(8)]
    rows += [(i, r, int(r == 0), "B") for i in range(8) for r in range(5)]
    found = concluded(tmp_path, rows)
    assert (found["verdict"], found["baseline_mean"], found["mean"]) == (
        "regressed",
        1.0,
        pytest.approx(0.2),
    )


@pytest.mark.parametrize("cases", [20, 100])
def test_what_fails_on_both_sides_cannot_fall(cases: int, tmp_path: Path) -> None:
    rows: list[Row] = [(i, r, 0, k) for i in range(cases) for r in range(5) for k in "AB"]
    found = concluded(tmp_path, rows, "--strict")
    assert (found["verdict"], found["exit"]) == ("no_significant_change", 0)


@pytest.mark.parametrize(("bad", "better"), [(0, "higher"), (1, "lower")])
def test_too_few_trials_of_what_always_fails_are_told_as_that(
    bad: int, better: str, tmp_path: Path
) -> None:
    rows: list[Row] = [(i, r, bad, better, k) for i in range(3) for r in range(5) for k in "AB"]
    found = concluded(tmp_path, rows, column="better")
    words = "5 repeats of 3 cases can show no drop, as too little was right in the baseline"
    assert found["sentence"].startswith(f"inconclusive: {words}; about ")


def test_few_cases_are_told_as_that_though_all_of_them_moved(tmp_path: Path) -> None:
    rows: list[Row] = [
        (i, r, int(r > 0 or k == "A"), k) for i in range(2) for r in range(3) for k in "AB"
    ]
    found = concluded(tmp_path, rows)
    assert found["sentence"].startswith("inconclusive: 2 cases are too few to tell; a drop of")
    assert "builds if all cases fall alike; about" in found["sentence"]  # nothing of a third


def test_what_found_a_fall_is_not_said_to_find_none(tmp_path: Path) -> None:
    rows: list[Row] = [(i, 0, 0.7 if k == "A" else 0.5, k) for i in range(5) for k in "AB"]
    assert concluded(tmp_path, rows)["verdict"] == "regressed"
    pair = [f"{tmp_path / 't.csv'}::{k}" for k in "AB"]
    for form in ((), ("--markdown",), ("--html",)):
        told = CliRunner().invoke(main, ["compare", *pair, *form]).stdout
        assert "can find" not in told
        assert "cannot see" not in told


def test_three_cases_that_fell_are_counted(tmp_path: Path) -> None:
    rows: list[Row] = [
        (i, 0, int(i < (33 if k == "A" else 30)), k) for i in range(50) for k in "AB"
    ]
    found = concluded(tmp_path, rows)
    assert found["verdict"] == "inconclusive"
    assert "3 cases fell, none rose: chance alone does this in 1 of 8" in found["sentence"]


def test_clusters_that_are_too_few_are_told_as_that(tmp_path: Path) -> None:
    rows: list[Row] = [
        (f"{g}{i}", 0, int((i + (k == "B") * (1 if i % 2 else -1)) % 3 == 0), g, k)
        for g in "abcd"
        for i in range(20)
        for k in "AB"
    ]
    found = concluded(tmp_path, rows, column="cluster")
    assert found["sentence"].startswith("inconclusive: 4 clusters are too few to tell")


def test_clusters_of_unlike_size_are_told_with_what_they_are_worth(tmp_path: Path) -> None:
    sizes = [3] * 19 + [60]
    rows: list[Row] = [
        (f"{g}-{i}", 0, int((i + g + (k == "B") * (1 if i % 2 else -1)) % 3 == 0), g, k)
        for g, size in enumerate(sizes)
        for i in range(size)
        for k in "AB"
    ]
    found = concluded(tmp_path, rows, column="cluster")
    words = "20 clusters, worth 3.6 of one size, are too few to tell"
    assert found["sentence"].startswith(f"inconclusive: {words}")
    assert "117 changed cases, 20 independent, worth 3.6 of one size" in found["remarks"]


@pytest.mark.parametrize("labelled", ["A", "B", "AB"])
def test_a_cluster_column_of_one_side_ties_both(labelled: str, tmp_path: Path) -> None:
    rows: list[Row] = [
        (f"{g}{i}", 0, i % 2, g if k in labelled else "", k)
        for g in "abcd"
        for i in range(5)
        for k in "AB"
    ]
    found = concluded(tmp_path, rows, column="cluster")
    assert (found["units"], found["changed"]) == (4, 20)


def test_an_end_that_rounds_to_the_target_has_a_digit_more(tmp_path: Path) -> None:
    rows: list[Row] = [
        (i, 0, int(i < 20) if k == "A" else int(1 <= i < 21), k) for i in range(40) for k in "AB"
    ]
    found = concluded(tmp_path, rows, "--target=0.0866")
    assert found["sentence"].endswith("a drop of up to 0.0865 is not")


def figures_of(value: Any) -> Any:
    """A report without the names of its metric and its file."""
    if isinstance(value, dict):
        names = (
            "metric",
            "label",
            "sentence",
            "remarks",
            "scope",
            "created",
            "id",
            "name",
            "missed",
        )
        return {key: figures_of(one) for key, one in value.items() if key not in names}
    if isinstance(value, list):
        return list(map(figures_of, value))
    return value


def told_of(folder: Path, metric: str, *, better: str = "higher") -> dict[str, Any]:
    """What compare, show and plan tell of hits of that name; half of the trials are lost."""
    good = better == "higher"
    hit = [
        (i, r, (i * 7 + r * 5) % 10 < 6 - 2 * (k == "B"))
        for k in "AB"
        for i in range(20)
        for r in range(3)
    ]
    rows = [
        (i, r, int(h == good), metric, better, "AB"[at >= 60]) for at, (i, r, h) in enumerate(hit)
    ]
    path = folder / "t.csv"
    with path.open("w", newline="") as file:
        head = ("case_id", "repeat", "score", "metric", "better", "condition")
        csv.writer(file).writerows([head, *rows])

    def typed(*arguments: str) -> str:
        return CliRunner().invoke(main, arguments).stdout

    report = json.loads(typed("compare", f"{path}::A", f"{path}::B", "--json"))
    forms = [
        typed("compare", f"{path}::A", f"{path}::B", f"--{one}") for one in ("markdown", "html")
    ]
    return {
        "json": figures_of(report),
        "scores": [re.findall(r"\b\d/\d\b|\bpass\^\d", one) for one in forms],
        "show": re.findall(r"[\d./\[\]]+", typed("show", f"{path}::B").partition("mean")[2]),
        "plan": typed("plan", f"{path}::A").partition("cases x")[2],
    }


def test_hits_have_the_same_figures_whatever_they_are_called(tmp_path: Path) -> None:
    expected = told_of(tmp_path, "pass")
    assert told_of(tmp_path, "correct") == expected
    assert "pass^k" in CliRunner().invoke(main, ["show", "-v", f"{tmp_path / 't.csv'}::B"]).stdout
    (function,) = expected["json"]["functions"]
    assert function["pass_hat"]["k"] == 3
    assert all(scores[:2] for scores in expected["scores"])


def test_hits_of_which_fewer_are_better_count_those_that_did_not_hit(tmp_path: Path) -> None:
    (higher,) = told_of(tmp_path, "correct")["json"]["functions"]
    (lower,) = told_of(tmp_path, "wrong", better="lower")["json"]["functions"]
    for name in ("difference", "interval", "p", "pass_hat", "verdict", "smallest_detectable_drop"):
        assert (
            lower[name] == pytest.approx(higher[name])
            if name == "p"
            else lower[name] == higher[name]
        )
