"""Rows whose label or question was edited are shown, before and after, and are no regression."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import INI, Project, made_once

EVALS = """
import pytest
from app import PROMPT
from pytest_llmeval import cases_from, llm_eval


@llm_eval(repeats=2)
@pytest.mark.parametrize("row", cases_from("rows.jsonl", id="id"))
def test_c(llm, row):
    assert llm.ask(PROMPT.format(row["mail"])).text == row["expects"]
"""
APP = 'PROMPT = "{} rate=1"\n'
LEGAL, SALES = '"expects": "yes"', '"expects": "sales"'


def row(at: int) -> str:
    return f'{{"id": "c{at}", "mail": "Mail {at}", "expects": "yes", "weight": 1}}\n'


def write_rows(project: Project, edit: object = None) -> None:
    lines = [row(at) for at in range(20)]
    if callable(edit):
        lines = [edit(at, line) for at, line in enumerate(lines)]
    (project.path / "rows.jsonl").write_text("".join(lines))


def record(project: Project) -> None:
    project.write(test_evals=EVALS, app=APP)
    write_rows(project)
    project.commit()
    assert project.run().ret == 0
    project.git("switch", "-qc", "branch")


@pytest.fixture
def main(pytester: pytest.Pytester, originals: Path) -> Project:
    return made_once(originals / "edited-cases", pytester, record)


def mended(*numbers: int) -> object:
    return lambda at, line: line.replace(LEGAL, SALES) if at in numbers else line


def asked(*numbers: int) -> object:
    return lambda at, line: line.replace("Mail", "Letter") if at in numbers else line


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_mended_labels_are_shown_before_and_after_and_fail_nothing(
    main: Project, workers: tuple[str, ...]
) -> None:
    write_rows(main, mended(3, 7))
    pages = [main.path / "out" / f"page.{kind}" for kind in ("md", "html")]

    named = [f"--llm-report={page}" for page in pages]
    result, report = main.gate("--llm-baseline=main", *named, *workers)

    assert (result.ret, report["verdict"]) == (0, "unchanged")
    line = (
        "2 cases were edited: test_c[c3] expects 'sales', was 'yes' (1.000 -> 0); test_c[c7] "
        "expects 'sales', was 'yes' (1.000 -> 0): not compared, as the replies are the "
        "baseline's own"
    )
    assert line in result.stdout.str()
    assert line in report["functions"][0]["remarks"]
    for page in pages:
        assert "2 cases were edited: test" in page.read_text().replace("\\_", "_")
    (first, _) = report["functions"][0]["edited"]
    assert first == {
        "case": "test_evals.py::test_c[c3]",
        "was": "test_evals.py::test_c[c3]",
        "is_replayed": True,
        "baseline_mean": 1.0,
        "mean": 0.0,
        "changes": [{"field": "expects", "baseline": "'yes'", "here": "'sales'"}],
    }


def test_of_a_mended_label_with_new_replies_no_other_request_is_told(main: Project) -> None:
    write_rows(main, mended(3))

    result = main.run("--llm-baseline=main", "--llm-cache=refresh")

    result.stdout.fnmatch_lines(
        ["*1 case was edited: test_c*c3* not compared, as the replies are*"]
    )
    result.stdout.no_fnmatch_line("*requests differ*")


def test_edited_questions_are_counted_with_the_gone_ones(main: Project) -> None:
    write_rows(main, asked(3, 7))
    result, report = main.gate("--llm-baseline=main")
    assert (result.ret, report["verdict"]) == (0, "unchanged")
    result.stdout.fnmatch_lines(
        ["*2 cases were edited: test_c*c3* mail 'Letter 3', was 'Mail 3' *counted as gone*"]
    )

    write_rows(main, asked(3, 7, 8))
    result, report = main.gate("--llm-baseline=main")
    assert (result.ret, report["verdict"]) == (1, "not_comparable")
    result.stdout.fnmatch_lines(
        ["*(edited, with other replies: 3; gone or skipped here: 0): *merge the labels first; *"]
    )


def test_a_worse_prompt_is_red_though_rows_were_edited(main: Project) -> None:
    main.write(app=APP.replace("rate=1", "rate=0"))
    write_rows(main, mended(3, 7))
    result, report = main.gate("--llm-baseline=main")
    assert (result.ret, report["verdict"]) == (1, "regressed")
    assert report["functions"][0]["cases"] == 18


def test_a_column_of_prompts_is_compared(main: Project) -> None:
    write_rows(main, lambda _, line: line.replace("Mail", "Letter"))
    result, report = main.gate("--llm-baseline=main")
    assert (result.ret, report["functions"][0]["cases"]) == (0, 20)
    assert len(report["functions"][0]["inputs_changed"]) == 20
    result.stdout.fnmatch_lines(["*input changed in 20 of 20 cases, over half of all: this is*"])


def test_all_may_be_compared_as_the_ini_file_says(main: Project) -> None:
    write_rows(main, mended(*range(8)))
    main.write(pytest_ini=f"{INI}llm_edited = compare\n")
    result, report = main.gate("--llm-baseline=main")
    assert (result.ret, report["verdict"]) == (1, "regressed")
    result.stdout.fnmatch_lines(["*test_c: input changed (8 cases: *"])
    main.write(pytest_ini=f"{INI}llm_edited = keep\n")
    assert main.run("--llm-baseline=main").ret == 4


def test_what_hides_replies_hides_texts_and_not_figures(main: Project) -> None:
    write_rows(main, lambda at, line: mended(3)(at, line).replace("1}", "2}" if at == 3 else "1}"))
    main.write(pytest_ini=f"{INI}llm_show_texts = false\n")
    result, report = main.gate("--llm-baseline=main")
    assert "test_c[c3] expects was edited and weight 2, was 1 (1.000 -> 0)" in result.stdout.str()
    assert "sales" not in str(report)
    assert "sales" not in result.stdout.str()


def test_a_run_file_holds_no_parameter(main: Project) -> None:
    from gzip import decompress

    write_rows(main, mended(3))
    main.run("--llm-baseline=main")
    assert all(b"sales" not in decompress(path.read_bytes()) for path in main.runs())


def test_what_was_is_left_out_where_its_cache_is_not_here(main: Project) -> None:
    import shutil

    write_rows(main, mended(3))
    shutil.rmtree(main.path / ".llmeval" / "cache")
    result, _ = main.gate("--llm-baseline=main")
    assert "1 case was edited: test_c[c3] (1.000 -> 0): not compared" in result.stdout.str()


def test_values_are_printable_and_short(main: Project) -> None:
    planted = '"expects": "\\u001b[2J::error::' + "x" * 300 + '"'
    write_rows(main, lambda at, line: line.replace(LEGAL, planted) if at == 3 else line)
    result, _ = main.gate("--llm-baseline=main")
    (line,) = [one for one in result.outlines if "case was edited" in one]
    assert "\x1b" not in line
    assert "xxx..." in line
    assert len(line) < 300


def test_an_edit_that_makes_another_id_is_no_regression(main: Project) -> None:
    evals = """
    import pytest
    from pytest_llmeval import llm_eval


    @llm_eval(repeats=2)
    @pytest.mark.parametrize(("mail", "label"), [(f"mail {at}", "yes") for at in range(8)] + MORE)
    def test_d(llm, mail, label):
        assert llm.ask(mail + " rate=1").text == label
    """
    main.write(test_evals=evals.replace("MORE", '[("one", "yes"), ("two", "yes")]'))
    main.commit()
    main.run()
    main.git("branch", "-f", "main")
    main.write(test_evals=evals.replace("MORE", '[("one", "legal"), ("two", "sales")]'))
    main.commit()
    result, report = main.gate("--llm-baseline=main")
    assert (result.ret, report["verdict"]) == (0, "unchanged")
    assert "test_d[one-legal], was test_d[one-yes], label 'legal', was 'yes'" in result.stdout.str()
