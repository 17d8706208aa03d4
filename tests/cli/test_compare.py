"""`llmeval compare`, as a user types it: exit codes, one line for a mistake, the same figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from tests.cli.recording import record
from tests.gate.builders import a_case, a_run, runs
from tests.project import Project


def compare(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


def figures(*arguments: object) -> dict[str, Any]:
    result = compare(*arguments, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == int(document["fails"])
    (function,) = document["functions"]
    return dict(function)


def assert_refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 4
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("ERROR: ")
    for part in parts:
        assert part in line


def write_table(
    name: str, rate: float, *, cases: int = 20, repeats: int = 5, more: str = ""
) -> str:
    """Write a table of passes: every case at the same rate, spread evenly over its repeats."""
    rows = ["case_id,repeat,score"]
    for case in range(cases):
        hits = round(rate * repeats)
        rows += [f"case-{case},{n},{int(n < hits)}" for n in range(repeats)]
    Path(name).write_text("\n".join(rows) + f"\n{more}")
    return name


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- the files of the result --------------------------------------------------------------


@pytest.mark.parametrize("command", [("compare", "a.csv", "b.csv"), ("show", "last")])
def test_a_result_is_written_as_a_session_writes_it(command: tuple[str, ...]) -> None:
    for name in ("a.csv", "b.csv"):
        write_table(name, 1)
    record(a_run(*(a_case(f"c{n}", "ppppp") for n in range(20))))
    options = [f"--report=out/a{ending}" for ending in (".html", ".md", ".json")]

    result = CliRunner().invoke(main, [*command, *options])

    assert result.exit_code == 0, result.output
    assert result.stdout == CliRunner().invoke(main, command).stdout
    assert Path("out/a.html").read_text().startswith("<!DOCTYPE html>")
    assert Path("out/a.md").read_text().startswith("## LLM evals: ")
    assert json.loads(Path("out/a.json").read_text())["run"]["cases"] == 20


def test_a_result_that_cannot_be_written_is_refused_or_told() -> None:
    table = write_table("a.csv", 1)

    assert_refused(compare(table, table, "--report=a.txt"), "ends in .html, .md or .json")
    for arguments in (["last", "test_it"], [table]):
        alone = CliRunner().invoke(main, ["show", *arguments, "--report=a.md"])
        assert_refused(alone, "report")
    failed = compare(table, table, f"--report={table}/a.md")
    assert (failed.exit_code, failed.stderr.count("\n")) == (1, 1)
    assert failed.stderr.startswith("--report=a.csv/a.md: not written: ")


def test_the_spellings_of_before_1_0_still_print_the_result() -> None:
    table = write_table("a.csv", 1)
    compare(table, table, "--report=a.md", "--report=a.html")

    assert compare(table, table, "--markdown").stdout == Path("a.md").read_text()
    assert compare(table, table, "--html").stdout == Path("a.html").read_text()


# --- score tables ------------------------------------------------------------------------


def test_a_table_that_fell_exits_1_with_the_words_of_a_session() -> None:
    result = compare(write_table("a.csv", 0.8), write_table("b.csv", 0.4))

    assert result.exit_code == 1
    first, *lines, last = result.stdout.splitlines()
    assert first == "REGRESSED: 1 metric vs a.csv"
    assert lines[-2:] == ["baseline a.csv (table), 5 repeats", "here b.csv (table), 5 repeats"]
    assert last.startswith("llm evals: scores fell by 0.400 (0.800 -> 0.400); chance alone")
    assert "20/20" in result.stdout
    assert "REGRESSED" in result.stdout
    assert "no call that was seen" not in result.stdout


def test_a_table_that_rose_exits_0() -> None:
    result = compare(write_table("a.csv", 0.4), write_table("b.csv", 0.8))

    assert result.exit_code == 0
    assert "improved" in result.stdout
    assert "llm evals:" not in result.stdout


def test_every_common_case_of_a_table_counts_as_changed() -> None:
    same = write_table("a.csv", 0.8)
    function = figures(same, same)

    assert (function["cases"], function["changed"]) == (20, 20)
    assert function["verdict"] != "unchanged"
    assert function["changed_kinds"]["unseen"] == 20


def test_an_errored_trial_never_changes_a_score() -> None:
    before = write_table("a.csv", 0.8, cases=40)
    plain = figures(before, write_table("b.csv", 0.6, cases=40))
    erred = figures(before, write_table("c.csv", 0.6, cases=40, more="case-0,5,\ncase-7,5,\n"))

    assert erred["trials"]["errored"] == 2
    for key in ("difference", "mean", "baseline_mean", "t", "p", "verdict"):
        assert erred[key] == plain[key]


def test_unequal_repeats_and_missing_cases_are_compared_by_case_means() -> None:
    Path("a.csv").write_text(
        "case_id,repeat,score\n" + "".join(f"c{n},0,{n % 2}\nc{n},1,1\n" for n in range(20))
    )
    Path("b.csv").write_text(
        "case_id,repeat,score\n" + "".join(f"c{n},0,0.5\n" for n in range(1, 21))
    )
    function = figures("a.csv", "b.csv")

    assert function["cases"] == 19
    assert function["only_here"] == ["c20"]
    assert function["only_in_baseline"] == ["c0"]
    assert function["baseline_mean"] == pytest.approx((10 * 1.0 + 9 * 0.5) / 19)
    assert function["mean"] == pytest.approx(0.5)


def test_clusters_of_a_table_are_units() -> None:
    for name, shift in (("a.csv", 7), ("b.csv", 8)):
        rows = [f"c{n},0,{n * n % 7 / shift},doc-{n % 8}\n" for n in range(24)]
        Path(name).write_text("case_id,repeat,score,cluster\n" + "".join(rows))

    assert figures("a.csv", "b.csv")["units"] == 8


def test_each_metric_is_gated_and_one_can_be_chosen() -> None:
    rows = "".join(f"c{n},0,tone,{n}\nc{n},0,pass,1\n" for n in range(8))
    Path("a.csv").write_text(f"case_id,repeat,metric,score\n{rows}")

    document = json.loads(compare("a.csv", "a.csv", "--json").stdout)

    assert [each["metric"] for each in document["functions"]] == ["tone", "pass"]
    assert [each["family_size"] for each in document["functions"]] == [2, 2]
    assert figures("a.csv", "a.csv", "--metric=tone")["metric"] == "tone"


def test_where_lower_is_better_a_rise_is_a_regression() -> None:
    first, second = write_table("a.csv", 0.4), write_table("b.csv", 0.8)
    assert compare(first, second, "--better=lower").exit_code == 1
    found = figures(first, second, "--better=lower")
    # a nameless metric is a score then: passes have a direction of their own
    assert (found["metric"], found["better"]) == ("score", "lower")
    assert found["difference"] == pytest.approx(-0.4)
    assert figures(first, second)["metric"] == "pass"


@pytest.mark.parametrize(("metric", "better"), [("pass", "lower"), ("seconds", "higher")])
def test_a_table_of_metrics_with_another_direction_of_their_own_is_not_turned(
    metric: str, better: str
) -> None:
    for name in ("a.csv", "b.csv"):
        rows = [f"c{case},0,{metric},1" for case in range(8)]
        write_rows(name, *rows, header="case_id,repeat,metric,score")
    refused = compare("a.csv", "b.csv", f"--better={better}")
    assert_refused(refused, f"--better={better} has nothing to turn: {metric} has a direction")
    rows = [f"c{case},0,tone,1" for case in range(8)]
    write_rows("b.csv", *rows, header="case_id,repeat,metric,score")
    assert "nothing to turn" not in compare("a.csv", "b.csv", f"--better={better}").output


def test_rules_are_those_of_a_session() -> None:
    first, second = write_table("a.csv", 0.8, cases=4), write_table("b.csv", 0.6, cases=4)

    assert figures(first, second)["verdict"] == "inconclusive"
    assert compare(first, second).exit_code == 0
    assert compare(first, second, "--strict").exit_code == 1
    big = write_table("c.csv", 0.8, cases=30), write_table("d.csv", 0.6, cases=30)
    assert compare(*big).exit_code == 1
    assert compare(*big, "--margin=0.3", "--target=0.4").exit_code == 0
    document = json.loads(compare(*big, "--alpha=0.01", "--json").stdout)
    assert document["settings"]["alpha"] == 0.01


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--alpha=0.5"], "--alpha=0.5: must lie above 0 and below 0.5, such as 0.05"),
        (["--margin=-1"], "--margin=-1: must be 0 or more"),
        (["--target=0"], "--target=0: must be above 0"),
        (["--target=nan"], "--target=nan: must be a number"),
        (["--margin=0.1"], "--margin=0.1 must be smaller than --target=0.1 (the default)"),
        (["--test=student"], "--test=student: must be one of auto, paired-t"),
        (
            ["--test=mcnemar", "--margin=0.02"],
            "--margin=0.02 with --test=mcnemar: it tests for any",
        ),
        (["--better=more"], "--better"),
        (["--metric=tone"], "no column 'tone'"),
        (["third.csv"], "third.csv"),
    ],
)
def test_a_mistaken_option_is_one_line_and_exit_4(arguments: list[str], part: str) -> None:
    table = write_table("a.csv", 1)
    assert_refused(compare(table, table, *arguments), part)


def test_a_bad_table_is_one_line_and_exit_4() -> None:
    good = write_table("a.csv", 1)
    bad = write_table("b.csv", 1, more="case-0,9,high\n")

    assert_refused(compare(good, bad), "b.csv, line 102: score is 'high'")
    assert_refused(compare(good, "c.csv"), "c.csv: there is no such file")
    assert_refused(compare(good, "main"), "a.csv is a score table and main is none")
    assert_refused(compare("main", good), "a.csv is a score table and main is none")


def test_tables_without_a_common_case_are_not_comparable() -> None:
    Path("b.csv").write_text("case_id,repeat,score\nother,0,1\n")
    result = compare(write_table("a.csv", 1), "b.csv")

    assert result.exit_code == 1
    assert "NOT COMPARABLE" in result.stdout


def test_tables_of_one_case_and_of_failed_calls_alone_have_a_verdict() -> None:
    one = write_table("a.csv", 1, cases=1)
    Path("b.csv").write_text("case_id,repeat,score\ncase-0,0,\n")

    assert figures(one, write_table("c.csv", 0, cases=1))["verdict"] in (
        "regressed",
        "inconclusive",
    )
    assert figures(one, one)["verdict"] == "inconclusive"
    assert figures(one, "b.csv")["verdict"] == "not_comparable"


def test_a_gate_that_breaks_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by hand")

    monkeypatch.setattr("pytest_llmeval.judging.compare", broken)
    table = write_table("a.csv", 1)
    result = compare(table, table)

    assert result.exit_code == 1
    assert "llm evals: could not judge: ZeroDivisionError: by hand" in result.stdout


# --- recorded runs -----------------------------------------------------------------------


def worse(project: Project) -> None:
    project.write(app='PROMPT = "Say yes to {case}. rate=0.1"')


def test_two_runs_compare_as_the_session_did(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.run()
    project.git("switch", "-qc", "side")
    worse(project)
    project.commit("worse")
    _, report = project.gate("--llm-baseline=main")

    result = compare("main", "side", "--json")

    assert result.exit_code == 1
    compared = json.loads(result.stdout)["functions"]
    assert {case["failure"] for case in compared[0]["moved"]} == {"AssertionError test_evals.py:10"}
    assert without_texts(compared) == without_texts(report["functions"])
    old, new = project.runs() if "main" in str(project.runs()[0]) else compare_order(project)
    assert compare(old, new).exit_code == 1
    assert compare(new, old).exit_code == 0
    assert "here last" in compare("last", "last").stdout


def without_texts(functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a report tells of functions, but the texts that a run file does not hold."""
    texts = {"failure": None, "excerpt": None}
    return [one | {"moved": [case | texts for case in one["moved"]]} for one in functions]


def compare_order(project: Project) -> list[Path]:
    """The run files, main's first: ids of one second are in no order."""
    main_commit = project.git("rev-parse", "main")
    return sorted(project.runs(), key=lambda path: path.parent.name != main_commit)


def test_what_the_session_was_let_off_is_not_missed_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    same, old = a_case("x", "pm"), a_case("a", "pp", function="test_old")
    ids = [f"20261121T08410{n}-1a2b3c" for n in range(3)]
    rules = {"accept_gone": ("test_old",)}
    record(replace(a_run(same, old), id=ids[0]))
    record(replace(a_run(same), id=ids[1]))
    record(replace(a_run(same), id=ids[2], rules=rules))

    assert compare(ids[0], ids[1]).exit_code == 1
    assert compare(ids[0], ids[2]).exit_code == 0


def test_runs_are_told_of_the_options_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ids = [f"20261121T08410{n}-1a2b3c" for n in range(3)]
    old = a_case("a", "pp", function="test_old")
    many = [a_case(str(n), "pm") for n in range(4)]
    record(replace(a_run(*many, old), id=ids[0]))
    record(replace(a_run(*many[1:], old), id=ids[1]))
    record(replace(a_run(*many, selection=("test_suite.py::test_f",)), id=ids[2]))

    told = " ".join(compare(ids[0], ids[1]).stdout.split())
    assert "more than 10 %: if that is right, type --max-gone=0.25" in told
    assert compare(ids[0], ids[1], "--max-gone=0.25").exit_code == 0
    strict = compare(ids[0], ids[2], "--strict")
    assert (strict.exit_code, "not judged: 1 (--strict)" in strict.stdout) == (1, True)


def test_a_drop_that_the_session_accepted_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ids = [f"20261121T08410{n}-1a2b3c" for n in range(3)]
    old, new = runs([("ppppp", "mmmmm")] * 8)
    record(replace(old, id=ids[0]))
    record(replace(new, id=ids[1]))
    record(replace(new, id=ids[2], rules={"accept": ("test_f:pass >= 0", "x:pass @ cccccc")}))

    assert compare(ids[0], ids[1]).exit_code == 1
    assert compare(ids[0], ids[2]).exit_code == 0


CONDITIONS = """
import pytest
from pytest_llmeval import llm_eval


@llm_eval(repeats=4)
@pytest.mark.parametrize("case", [f"case-{i}" for i in range(12)])
@pytest.mark.parametrize("rate", ["0.9", "0.1"], ids=["bold", "shy"])
def test_says_yes(llm, case, rate):
    assert llm.ask(f"Say yes to {case}. rate={rate}").text == "yes"
"""


def test_two_conditions_of_one_run_are_paired_by_the_other_parameters(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.write(test_evals=CONDITIONS)
    project.run()

    function = figures("last::test_says_yes[bold]", "last::test_says_yes[shy]")

    assert function["verdict"] == "regressed"
    assert function["cases"] == 12
    assert function["compared"][0]["case"] == "test_evals.py::test_says_yes[case-0]"
    apart = compare("last::test_says_yes[bold]", "last::test_says_yes[shy]").stdout
    assert "random id" not in apart
    same = figures("last::test_says_yes[bold]", "last::test_says_yes[bold]")
    assert same["verdict"] == "unchanged"
    assert_refused(compare("last::test_says_yes[bold]", "last"), "name a test of both")
    assert_refused(compare("last", "last"), "no run besides")
    assert_refused(compare("last::test_says_yes[x]", "last::test_says_yes"), "no case ::test_says")
    assert_refused(
        compare("last::test_says_yes", "last::test_says_yes", "--metric=tone"), "--metric=tone"
    )


def test_conditions_of_two_runs_with_ids_by_position_are_told_so(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.write(test_evals=CONDITIONS.replace('f"case-{i}"', "(i, i)"))
    project.run()
    project.run()
    file = project.runs()[0]

    result = compare(f"{file}::test_says_yes[bold]", f"{project.runs()[1]}::test_says_yes[shy]")

    assert result.exit_code == 1
    assert "note: ids are made from positions" in result.stdout


def test_a_run_that_is_not_there_is_one_line_and_exit_4(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    assert_refused(compare("main", "last"), "last: no run in", "Record one: pytest")
    assert_refused(compare("main", "mian"), "mian: no table, run file or run id", "main")


SCORED = """
from pytest_llmeval import llm_eval


@llm_eval(repeats=3)
@pytest.mark.parametrize("case", range(8), ids=str)
def test_tone(llm, llm_score, case):
    llm_score(len(llm.ask(f"Say yes to {case}. rate=0.5").text), "tone")
"""


def test_functions_that_record_a_metric_on_neither_side_are_left_out(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.write(test_scored="import pytest" + SCORED)
    project.run()
    project.run("--llm-cache=refresh")
    newest = str(project.runs()[1])

    both = compare(str(project.runs()[0]), newest)
    assert {"test_says_yes", "test_tone"} <= set(both.stdout.split())
    result = compare(str(project.runs()[0]), newest, "--metric=tone")
    assert result.exit_code == 0
    assert "test_says_yes" not in result.stdout
    assert "NOT COMPARABLE" not in result.stdout


# --- odd tables --------------------------------------------------------------------------


def write_rows(name: str, *rows: str, header: str = "case_id,repeat,score") -> str:
    Path(name).write_text("\n".join([header, *rows]) + "\n")
    return name


def test_a_table_held_against_itself_is_told_so() -> None:
    table = write_table("a.csv", 0.8)
    result = compare(table, table)
    assert result.exit_code == 0
    assert "note: A and B are the very same scores: nothing can differ" in result.stdout
    assert "a drop of 0.10 or more is ruled out" in " ".join(result.stdout.split())


def test_scores_of_a_table_are_no_passes_beside_them() -> None:
    rows = [f"c{case},0,{case / 10}" for case in range(8)]
    document = json.loads(compare(write_rows("a.csv", *rows), "a.csv", "--json").stdout)
    assert document["ungated"] == []


def test_a_column_of_wordings_makes_it_a_claim_about_wordings() -> None:
    def rows(*rates: float) -> list[str]:
        return [
            f"q{case},{n},{int((case + n) % 10 < 10 * rate)},w{at}"
            for case in range(12)
            for at, rate in enumerate(rates)
            for n in range(5)
        ]

    header = "case_id,repeat,score,wording"
    before = write_rows("a.csv", *rows(0.9, 0.8, 0.9, 0.8), header=header)
    after = write_rows("b.csv", *rows(0.6, 0.5, 0.5, 0.4), header=header)
    found = figures(before, after)
    assert (found["method"], found["wordings"], found["units"]) == ("crossed", 4, 12)
    assert "is about cases and wordings like these (4 wordings)" in compare(before, after).stdout


def test_only_some_of_many_lost_cases_are_listed() -> None:
    before = [f"c{case},0,{int(case < 200)}" for case in range(400)]
    after = [f"c{case},0,{int(30 <= case < 230)}" for case in range(400)]
    result = compare(write_rows("a.csv", *before), write_rows("b.csv", *after))
    assert "no significant change" in result.stdout
    assert result.stdout.count("fell most") == 20
    assert "of 400 cases 30 fell, 30 rose" in result.stdout
    assert "and 10 more that fell from all passed to all missed" in result.stdout


@pytest.mark.parametrize("unnamed", ["a.csv", "b.csv"])
@pytest.mark.parametrize(("name", "better"), [("accuracy", ""), ("pass", ""), ("wer", "lower")])
def test_scores_without_a_name_are_taken_for_the_only_metric_of_the_other(
    unnamed: str, name: str, better: str
) -> None:
    for path, falls in (("a.csv", 0), ("b.csv", 6)):
        rows = [f"c{case},0,{int(case >= falls) if not better else case}" for case in range(12)]
        is_named, header = path != unnamed, "case_id,repeat,score"
        more = f",{name},{better}" if is_named else ""
        write_rows(path, *(row + more for row in rows), header=header + ",metric,better" * is_named)
    result = compare("a.csv", "b.csv")
    assert f"note: {unnamed} does not name its metric: its scores are taken for {name}\n" in (
        result.stdout
    )
    assert result.exit_code == (0 if better else 1)
    assert f"lower is better: {name}" in result.stdout or not better


def test_scores_without_a_name_beside_several_metrics_are_asked_for_theirs() -> None:
    write_rows("a.csv", *(f"c{case},0,0.5" for case in range(8)))
    header = "case_id,repeat,score,metric"
    rows = [f"c{case},0,1,{name}" for case in range(8) for name in ("accuracy", "f1")]
    for rows_of_b, names in (
        (rows, "accuracy, f1"),
        (["c0,0,1,pass"], "pass"),
    ):
        write_rows("b.csv", *rows_of_b, header=header)
        assert_refused(
            compare("a.csv", "b.csv"),
            f"a.csv does not name its metric, and b.csv has {names}: write which it is in a column",
        )
    rows = [f"c{case},0,1,{name}" for case in range(8) for name in ("score", "f1")]
    write_rows("b.csv", *rows, header=header)
    assert compare("a.csv", "b.csv").stdout.startswith("improved: 1 of 2 metrics")


def test_a_metric_of_several_is_named_once() -> None:
    rows = [f"c{case},0,{name},{case / 10}" for case in range(8) for name in ("tone", "length")]
    write_rows("a.csv", *rows, header="case_id,repeat,metric,score")
    result = compare("a.csv", "a.csv")
    assert " tone " in result.stdout
    assert "(tone)" not in result.stdout


def test_a_test_that_is_not_for_a_gate_is_taken_and_told() -> None:
    before, after = write_table("a.csv", 0.8), write_table("b.csv", 0.4)
    result = compare(before, after, "--test=cmh")
    assert result.exit_code == 1
    assert "note: cmh is no test for a gate: docs/statistics.md tells when" in result.stdout
    assert (
        "would do this in fewer than 1 of 1000 comparisons (these 20 cases only)" in result.stdout
    )
    result = compare(before, after, "--test=chi-square")
    assert result.stdout.splitlines()[-1].endswith("(if all trials were independent)")
    assert figures(before, after, "--test=two-proportion-z")["method"] == "two-proportion-z"


def test_a_chosen_test_tells_its_own_statistic_and_degrees_of_freedom() -> None:
    # of 20 single draws 9 fell and 1 rose: (|9 - 1| - 1)^2 / 10
    sides = [[1] * 9 + [0] + [1] * 10, [0] * 9 + [1] + [1] * 10]
    for name, scores in zip(("a.csv", "b.csv"), sides, strict=True):
        write_rows(name, *(f"c{at},0,{score}" for at, score in enumerate(scores)))
    result = compare("a.csv", "b.csv", "--test=mcnemar")
    assert "  mcnemar: chi-square = 4.9, degrees of freedom = 1" in result.stdout
    mcnemar = figures("a.csv", "b.csv", "--test=mcnemar")
    assert (mcnemar["statistic"], mcnemar["dof"], mcnemar["t"]) == (pytest.approx(4.9), 1, None)
    exact = compare("a.csv", "b.csv", "--test=mcnemar-exact")
    assert "  mcnemar-exact: trials that rose less those that fell = -8\n" in exact.stdout
    assert "mcnemar" not in compare("a.csv", "b.csv").stdout


def test_repeats_that_never_vary_have_no_statistic() -> None:
    before, after = write_table("a.csv", 0.8), write_table("b.csv", 0.4)
    result = compare(before, after, "--test=welch")
    assert "  welch: t = -1.265, degrees of freedom = 7.692" in result.stdout
    for name, score in (("a.csv", 1), ("b.csv", 0)):
        write_rows(name, *(f"c{case},{n},{score}" for case in range(8) for n in range(3)))
    assert "  welch: no t, as nothing varies" in compare("a.csv", "b.csv", "--test=welch").stdout


def test_a_slower_table_is_asked_for_its_direction_and_then_regressed() -> None:
    rows = [
        f"{i},0,{(500 + i) * (1.5 if k == 'B' else 1)},latency_ms,{k}"
        for i in range(8)
        for k in "AB"
    ]
    header = "case_id,repeat,score,metric,condition"
    write_rows("t.csv", *rows, header=header)
    sides = ("t.csv::A", "t.csv::B")

    assert_refused(
        compare(*sides),
        "of latency_ms, is a higher or a lower value better? Type it, as in  --better",
    )
    found = compare(*sides, "--better", "latency_ms=lower")
    assert (found.exit_code, "lower is better: latency_ms" in found.output) == (1, True)

    right = [f"{i},0,{1 if k == 'A' else 0.5},accuracy,{k}" for i in range(8) for k in "AB"]
    write_rows("t.csv", *rows, *right, header=header)
    assert_refused(compare(*sides, "--better=lower"), "would hold for latency_ms and accuracy")
    found = compare(*sides, "--better", "latency_ms=lower")
    assert found.output.startswith("REGRESSED: 2 metrics")
    said = [f"{row},{'lower' if 'latency' in row else ''}" for row in (*rows, *right)]
    write_rows("t.csv", *said, header=f"{header},better")
    assert compare(*sides).output.startswith("REGRESSED: 2 metrics")


def test_what_neither_side_scored_is_compared_without_it() -> None:
    rows = [f"{i},0,{'' if i < 2 else int(i % 4 > 0)},{k}" for i in range(20) for k in "AB"]
    write_rows("t.csv", *rows, header="case_id,repeat,score,condition")

    found = compare("t.csv::A", "t.csv::B")

    assert found.exit_code == 0
    assert "note: left out: 2 trials with no score on either side" in found.output


def test_losses_of_one_side_are_refused_in_words_of_tables_and_can_be_allowed() -> None:
    header = "case_id,repeat,score,condition"
    rows = [f"{i},0,{'' if (i < 2 and k == 'B') else i % 2},{k}" for i in range(20) for k in "AB"]
    write_rows("t.csv", *rows, header=header)
    refused = compare("t.csv::A", "t.csv::B")
    told = " ".join(refused.output.split())
    assert refused.exit_code == 1
    assert "2 of 20 trials have no score here, more than 5 %: complete it, or type" in told
    assert compare("t.csv::A", "t.csv::B", "--max-errored=0.1").exit_code == 0

    gone = [row for row in rows if row.endswith("A") or not row.startswith(("0,", "1,", "2,"))]
    write_rows("t.csv", *gone, header=header)
    refused = compare("t.csv::A", "t.csv::B")
    told = " ".join(refused.output.split())
    assert "more than 10 %: complete the table, or type --max-gone=SHARE" in told
    assert not [word for word in ("llm_", "ini file", "pytest", "--llm-") if word in told]
    assert compare("t.csv::A", "t.csv::B", "--max-gone=0.3").exit_code == 0


def test_a_prompt_that_is_an_id_is_cut() -> None:
    ids = [f"{i} " + "Tell me a story of the sea. " * 40 for i in range(8)]
    rows = [f"{name},0,{int(k == 'A')},{k}" for name in ids for k in "AB"]
    write_rows("t.csv", *rows, header="case_id,repeat,score,condition")

    assert len(compare("t.csv::A", "t.csv::B").output.splitlines()) < 40


def test_recorded_runs_take_no_share_of_tables() -> None:
    assert_refused(compare("a", "b", "--max-errored=0.1"), "--max-errored is for score tables")


def test_scores_off_the_scale_from_0_to_1_are_told_to_choose_a_target() -> None:
    header = "case_id,repeat,score,condition"
    for scale, told in ((1, "from 80 to 88 here"), (1e-4, "from 0.008 to 0.0088 here")):
        rows = [
            f"{i},{r},{(80 + (i * 7 + r * 5 + (k == 'B') * 3) % 9) * scale:g},{k}"
            for i in range(20)
            for r in range(3)
            for k in "AB"
        ]
        write_rows("t.csv", *rows, header=header)
        said = " ".join(compare("t.csv::A", "t.csv::B").output.split())
        assert f"the target of 0.1 is in units of score, which goes {told}: choose one by" in said
        typed = compare("t.csv::A", "t.csv::B", f"--target={5 * scale:g}").output
        assert "in units of" not in typed
        assert typed.startswith("no significant change")


def test_what_the_ini_file_says_was_renamed_is_paired() -> None:
    same = a_case("a", "ppp"), a_case("b", "ppp")
    old, new = a_run(*same), a_run(*(a_case(name, "ppp", function="test_g") for name in "ab"))
    ids = "20261120T080000-aaaaaa", "20261120T080000-bbbbbb"
    for run, name in zip((old, new), ids, strict=True):
        record(replace(run, id=name))

    apart = compare(*ids)
    Path("pytest.ini").write_text(
        "[pytest]\nllm_renamed = test_suite.py::test_f -> test_suite.py::test_g\n"
    )
    paired = compare(*ids)

    assert (apart.exit_code, "NOT COMPARABLE" in apart.stdout) == (1, True)
    assert (paired.exit_code, "2 cases are paired under new names" in paired.stdout) == (0, True)
