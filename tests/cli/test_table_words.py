"""What score tables are told: figures of any size, lines for what is left out, advice to follow."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main

Row = tuple[object, ...]
HEAD = ("case_id", "repeat", "score", "condition")
OF_METRICS = ("case_id", "repeat", "score", "metric", "condition")


def written(folder: Path, rows: Iterable[Row], head: Row = HEAD) -> str:
    path = folder / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return str(path)


def told(*arguments: str) -> str:
    """All that is printed; a fault of ours is raised."""
    result = CliRunner().invoke(main, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def every_face(path: str) -> dict[str, str]:
    pair = (f"{path}::A", f"{path}::B")
    faces = {
        form: told("compare", *pair, form) for form in ("--markdown", "--html", "--json", "-v")
    }
    faces["--html"] = re.sub(
        r"<(style|script).*?</\1>|<[^>]*>", " ", faces["--html"], flags=re.DOTALL
    )
    faces["show"], faces["plan"] = told("show", pair[1]), told("plan", pair[0])
    return faces | {name: told(name, pair[1]) for name in ("selfcheck", "doctor")}


SIZES = (5e-324, 1e-310, 1e-200, 1e-160, 1e-12, 1.0, 1e12, 1e77, 1e99)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("metric", ["score", "seconds"])
def test_scores_of_any_size_are_compared_shown_and_planned(
    size: float, metric: str, tmp_path: Path
) -> None:
    rows = [
        (i, r, size * (1 + i % 3 + r * (i % 2) + (k == "B")), metric, k)
        for i in range(8)
        for r in range(3)
        for k in "AB"
    ]
    for face, text in every_face(written(tmp_path, rows, OF_METRICS)).items():
        assert "could not judge" not in text, face
        assert not re.search(r"Error|\bnan\b", text), face


@pytest.mark.parametrize("cases", [2, 8])
def test_seconds_of_all_sizes_at_once_are_compared(cases: int, tmp_path: Path) -> None:
    rows = [
        (i, r, 10.0 ** (99 - 400 * (k == "A") * (i + r) % 2), "seconds", k)
        for i in range(cases)
        for r in range(2)
        for k in "AB"
    ]
    for face, text in every_face(written(tmp_path, rows, OF_METRICS)).items():
        assert "could not judge" not in text, face


@pytest.mark.parametrize("score", ["inf", "-inf", "nan", "1e101", "-1e300"])
def test_a_score_that_is_no_number_is_one_line(score: str, tmp_path: Path) -> None:
    path = written(tmp_path, [(0, 0, 0.5, "A"), (1, 0, score, "A"), (0, 0, 0.5, "B")])
    for command in (
        ("compare", f"{path}::A", f"{path}::B"),
        ("show", f"{path}::A"),
        ("plan", f"{path}::A"),
    ):
        assert re.fullmatch(rf"ERROR: .*, line 3: score is '{score}'.*\n", told(*command))


@pytest.mark.parametrize(
    ("low", "high", "noted"), [(80, 88, True), (0.01, 0.02, True), (0, 1, False), (-1, 0.5, True)]
)
def test_a_plan_says_where_nobody_chose_the_drop_for_a_scale(
    low: float, high: float, noted: bool, tmp_path: Path
) -> None:
    rows = [(i, r, (low, high)[(i + r) % 2], "A") for i in range(8) for r in range(3)]
    path = written(tmp_path, rows)
    text = told("plan", path)
    assert ("the drop of 0.1 is in units of" in text) is noted
    assert ("--target" in text) is noted
    assert "in units of" in told("plan", path, "--html") or not noted
    assert "in units of" not in told("plan", path, "--drop=0.02")


def test_a_plan_of_scores_that_never_vary_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, [(i, r, 0.7, "A") for i in range(8) for r in range(3)])
    text = told("plan", path)
    assert "(no two repeats of a case differ: how far they scatter is unknown)" in text
    assert "0.000" not in text


@pytest.mark.parametrize("zeros", [1, 3])
def test_seconds_of_0_are_counted_wherever_they_are_left_out(zeros: int, tmp_path: Path) -> None:
    rows = [
        (i, r, 0 if (k == "B" and i < zeros and not r) else 2 + (i + r) % 5 / 10, "seconds", k)
        for i in range(20)
        for r in range(2)
        for k in "AB"
    ]
    path = written(tmp_path, rows, OF_METRICS)
    pair = (f"{path}::A", f"{path}::B")
    line = (
        f"trials without a value above 0 for seconds, not compared: {zeros} here, 0 in the baseline"
    )
    for form in ("--json", "--markdown", "--html"):
        assert line in told("compare", *pair, form)
    assert f"{zeros} without value" in told("show", pair[1])
    assert f"(of its trials {zeros} without value)" in told("plan", pair[1])
    assert f"of its trials {zeros} without value" in told("selfcheck", pair[1])
    reason = "no seconds above 0, more than 5 %"
    assert (reason in told("compare", *pair, "--markdown")) is (zeros == 3)


def test_what_cost_nothing_on_both_sides_is_left_out_and_counted(tmp_path: Path) -> None:
    rows = [(i, 0, 0 if i < 5 else 1 + i, "cost", k) for i in range(25) for k in "AB"]
    path = written(tmp_path, rows, OF_METRICS)
    text = told("compare", f"{path}::A", f"{path}::B")
    assert "left out: 5 trials with no cost above 0 on either side" in text
    assert " 20/20" in text
    assert not text.startswith("NOT COMPARABLE")


def test_a_fall_by_the_margin_is_not_called_rare(tmp_path: Path) -> None:
    rows = [
        (i, r, int(k == "A" or i % 10 > 0), k) for i in range(40) for r in range(3) for k in "AB"
    ]
    path = written(tmp_path, rows)
    text = " ".join(told("compare", f"{path}::A", f"{path}::B", "--margin=0.05").split())
    assert "inconclusive: the drop may be as large as 0.19" in text


def test_an_interval_that_ends_at_the_target_has_few_digits(tmp_path: Path) -> None:
    path = written(tmp_path, [(i, 0, 1 if k == "A" else 0.9, k) for i in range(12) for k in "AB"])
    text = told("compare", f"{path}::A", f"{path}::B")
    assert "[-0.100, -0.057]" in text


def test_cases_that_lose_all_trials_of_one_side_are_counted(tmp_path: Path) -> None:
    rows = [
        (i, r, "" if (k == "B" and i < 2) else (i + r) % 2, k)
        for i in range(40)
        for r in range(2)
        for k in "AB"
    ]
    path = written(tmp_path, rows)
    text = told("compare", f"{path}::A", f"{path}::B", "--max-errored=0.2")
    assert "left out: 4 trials with a score on one side alone" in text
    assert "left out: 2 cases with no score on one side" in text


@pytest.mark.parametrize("side", "AB")
def test_a_case_that_one_side_did_not_score_is_counted(side: str, tmp_path: Path) -> None:
    rows = [
        (i, r, "" if (k, i) == (side, 0) else r % 2, k)
        for i in range(40)
        for r in (0, 1)
        for k in "AB"
    ]
    path = written(tmp_path, rows)
    text = told("compare", f"{path}::A", f"{path}::B")
    assert "errored trials, not scored: 2" in text.replace("0 here, 2", "2")
    assert "not compared: 1 case without a score here or in the baseline\n" in text


def test_two_tables_without_a_common_score_are_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, [(i, 0, "", k) for i in range(8) for k in "AB"])
    text = told("compare", f"{path}::A", f"{path}::B")
    assert text == f"ERROR: {path}::A and {path}::B: no trial has a score on both sides\n"


def latencies(folder: Path) -> str:
    rows = [
        (i, r, value, name, k)
        for i in range(8)
        for r in range(2)
        for name, value in (("latency_ms", 500 + 10 * i + r), ("acc", (i + r) % 2))
        for k in "AB"
    ]
    return written(folder, rows, OF_METRICS)


def test_show_plan_and_selfcheck_take_a_direction(tmp_path: Path) -> None:
    name = f"{latencies(tmp_path)}::B"
    for command in ("show", "plan", "selfcheck", "doctor"):
        assert "--better latency_ms=lower" in told(command, name)
        assert "latency_ms higher is taken" not in told(
            command, name, "--better", "latency_ms=lower"
        )
    lower = told("show", name, "--metric=latency_ms", "--better=lower")
    assert "worst  7  570.500" in lower
    assert "acc" not in lower
    rises = told("plan", name, "--metric=latency_ms", "--better=lower", "--drop=5")
    assert "(535.500 -> 540.500)" in rises
    assert "no such metric" in told("show", name, "--better", "wer=lower")


def test_show_and_plan_take_the_column_of_a_wide_file(tmp_path: Path) -> None:
    rows = [(i, r, (i + r) % 3 / 2, i % 2, "A") for i in range(8) for r in range(2)]
    path = written(tmp_path, rows, ("case_id", "repeat", "faith", "recall", "condition"))
    assert "--metric=faith" in told("show", path)
    assert "scores (faith)" in told("show", path, "--metric=faith")
    assert "mean 0.500" in told("plan", path, "--metric=recall")


def test_rates_stand_for_a_metric_too() -> None:
    assert "--metric" in told("plan", "--rates=0.5", "--metric=acc")


OF_PYTEST = re.compile(
    r"llm_\w+ ?=|--llm-\w+|\bpytest\b|ini file|\bmark\b|marker|calls? made|replayed"
)


@pytest.mark.parametrize(
    "rows",
    [
        [(i, r, int((i + r) % 3 > 0), "acc", k) for i in range(9) for r in range(2) for k in "AB"],
        [(i, 0, i % 2, "acc", k) for i in range(10) for k in "AB" if k == "A" or i > 1],
        [(i, 0, "" if k == "B" and i < 2 else i % 2, "acc", k) for i in range(10) for k in "AB"],
        [(f"{i}.0" if k == "B" else i, 0, i % 2, "acc", k) for i in range(10) for k in "AB"],
        [(i, 0, int(k == "A" or i > 9), "acc", k) for i in range(20) for k in "AB"],
        [(i, 0, 80 + i - 9 * (k == "B"), "f1", k) for i in range(9) for k in "AB"],
        [(i, r, 0 if k == "B" else 1, "cost", k) for i in range(9) for r in (0, 1) for k in "AB"],
        [(i, 0, 0 if k == "B" and i < 3 else 1, "cost", k) for i in range(9) for k in "AB"],
        [(0, 0, 1, "acc", "A"), (0, 0, 0, "acc", "B")],
        [(i, 0, 1, name, k) for i in range(9) for name in "ab" for k in "AB" if k + name != "Bb"],
    ],
    ids=["same", "gone", "lost", "ids", "fell", "scale", "no-cost", "some-cost", "one", "metric"],
)  # fmt: skip
def test_no_face_names_what_a_table_does_not_have(
    rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # its path has a name that must not be there
    for face, text in every_face(Path(written(tmp_path, rows, OF_METRICS)).name).items():
        assert not OF_PYTEST.search(re.sub(r'"\w+":', "", text)), (face, OF_PYTEST.search(text))
        if face in ("show", "plan", "selfcheck", "--markdown"):
            assert "commit none" not in text


def test_strict_is_named_as_it_was_typed(tmp_path: Path) -> None:
    path = written(tmp_path, [(i, 0, i % 2, k) for i in range(9) for k in "AB"])
    text = told("compare", f"{path}::A", f"{path}::B", "--strict")
    assert text.splitlines()[0].endswith("(fails the build: --strict)")


def test_a_ratio_that_is_not_1_does_not_read_as_1(tmp_path: Path) -> None:
    rows = [
        (i, 0, (1 + i / 10) * (1.02 + i / 1e5 if k == "B" else 1), "seconds", k)
        for i in range(20)
        for k in "AB"
    ]
    path = written(tmp_path, rows, OF_METRICS)
    text = told("compare", f"{path}::A", f"{path}::B")
    assert text.startswith("REGRESSED")
    assert re.search(r" x1\.0000\d+$", text, re.MULTILINE)


def test_the_shift_of_a_day_is_told_of_any_measured_metric(tmp_path: Path) -> None:
    rows = [(i, 0, 1 + i % 3, "cost", k) for i in range(9) for k in "AB"]
    path = written(tmp_path, rows, OF_METRICS)
    text = " ".join(told("compare", f"{path}::A", f"{path}::B").split())
    assert "on another day all cases differ in cost (provider, machine), and no test" in text


def test_clusters_of_one_are_told_as_that(tmp_path: Path) -> None:
    head = ("case_id", "repeat", "score", "cluster", "condition")
    rows = [(i, 0, (i + (k == "B")) % 2, "all", k) for i in range(9) for k in "AB"]
    path = written(tmp_path, rows, head)
    text = told("compare", f"{path}::A", f"{path}::B", "--json")
    assert "the 9 cases are a single cluster: no test can tell chance from a drop" in text


def test_cases_of_several_metrics_are_counted_once_and_named_whole(tmp_path: Path) -> None:
    rows = [
        (f"q{i}", r, int(k == "A" or i > 7 + (name == "f1")), name, k)
        for i in range(12)
        for r in range(2)
        for name in ("acc", "f1")
        for k in "AB"
    ]
    path = written(tmp_path, rows, OF_METRICS)
    text = told("compare", f"{path}::A", f"{path}::B", "--metric=acc")
    both = told("compare", f"{path}::A", f"{path}::B")
    assert "the verdict is about these 12 cases" in told(
        "compare", f"{path}::A", f"{path}::B", "-v"
    )
    assert "holds for" not in text
    assert " · q3 2/2 -> 0/2" in both
    assert r"\x3a" not in both


def test_a_drop_of_unknown_size_is_not_called_none(tmp_path: Path) -> None:
    shifts = {"A": 0.0, "B": 0.05}
    rows = [(i, 0, 0.5 + i / 100 - shifts[k], k) for i in range(20) for k in shifts]
    path = written(tmp_path, rows)
    pair = (f"{path}::A", f"{path}::B")
    assert "can find none" not in told("compare", *pair)
    assert "a drop of unknown size, as all cases moved alike" in told(
        "compare", *pair, "--markdown"
    )


def test_metrics_are_no_functions_and_a_case_counts_once(tmp_path: Path) -> None:
    rows = [
        (case, repeat, (case + repeat + (k == "B")) % 3 / 2, metric, k)
        for case in range(12)
        for repeat in range(2)
        for metric in ("tone", "accuracy", "length")
        for k in "AB"
    ]
    pair = [f"{written(tmp_path, rows, OF_METRICS)}::{name}" for name in "AB"]

    markdown, lines = told("compare", *pair, "--markdown"), told("compare", *pair)
    assert "\n12 cases in 3 metrics against" in markdown
    assert "| metric |" in markdown
    assert ": 3 metrics vs " in lines.splitlines()[0]
    assert " metric " in lines
    assert "test function" not in lines + told("show", pair[0]) + told("selfcheck", pair[0])
    assert ", 12 cases, 72 trials" in told("show", pair[0]).splitlines()[0]
    assert "(12 cases, 72 trials)" in told("doctor", pair[0]).splitlines()[0]
    assert "each of 3 is planned by itself" in told("plan", pair[0])
    assert json.loads(told("compare", *pair, "--json"))["run"]["cases"] == 12


def test_an_empty_score_is_no_reason_of_a_fall(tmp_path: Path) -> None:
    rows: list[Row] = [
        (i, r, 1, k) for i in range(20) for r in range(3) for k in "AB" if i or k < "B"
    ]
    path = written(tmp_path, [*rows, (0, 0, "", "B"), (0, 1, 0, "B"), (0, 2, 0, "B")])

    section, run = (
        told("compare", f"{path}::A", f"{path}::B", "-v"),
        told("show", f"{path}::B"),
    )

    assert re.search(r"fell most  0  100% \(3/3\) -> 0% \(0/2\)$", section, re.MULTILINE)
    assert re.search(r"worst  0  0/2$", run, re.MULTILINE)
    for printed in (section, run):
        assert re.search(r"first of them  0  it has no score$", printed, re.MULTILINE)


def test_the_margin_that_is_offered_for_seconds_is_taken(tmp_path: Path) -> None:
    rows = [
        (i, r, 1 + i % 3 / 10 + r / 10, "seconds", k)
        for i in range(8)
        for r in range(2)
        for k in "AB"
    ]
    pair = [f"{written(tmp_path, rows, OF_METRICS)}::{k}" for k in "AB"]

    offered = re.search(
        r"as in (--margin=\S+ --target=[\d.]+); ", " ".join(told("compare", *pair).split())
    )

    assert offered is not None
    assert "no significant change" in told("compare", *pair, *offered[1].split())


def test_a_fall_within_the_margin_has_its_own_interval_and_no_other_reason(tmp_path: Path) -> None:
    rows = [
        (i, r, 0.8 + i % 5 / 50 + r / 50 - 0.1 * (k == "B"), k)
        for i in range(20)
        for r in (0, 1)
        for k in "AB"
    ]
    pair = [
        f"{written(tmp_path, [*rows, (99, 0, 0.8, 'A'), (99, 0, 0.72, 'B')])}::{k}" for k in "AB"
    ]

    allowed = json.loads(told("compare", *pair, "--margin=0.15", "--target=0.3", "--json"))
    strict = json.loads(told("compare", *pair, "--json"))
    section = told("compare", *pair, "--margin=0.15", "--target=0.3")

    assert (allowed["verdict"], strict["verdict"]) == ("no_significant_change", "regressed")
    (one,), (other,) = allowed["functions"], strict["functions"]
    assert one["interval"] == pytest.approx(other["interval"])
    assert "other cases, so it is not called worse" not in " ".join(section.split())
