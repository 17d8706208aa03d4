from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.errors import TableError
from pytest_llmeval.runs.run_file import write_run
from pytest_llmeval.runs.score_table import ScoreTable, named_alike, read_table, table_named
from tests.runs.builders import make_run

ROWS = "case_id,repeat,score\nPeru,0,1\nPeru,1,0\nChad,0,0.5\n"


def write(folder: Path, text: str, name: str = "scores.csv") -> Path:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(path: Path, **choice: str) -> ScoreTable:
    return read_table(path, reference=str(path), **choice)


def trial(case: str = "Peru", repeat: object = 0, score: object = 1, **more: object) -> dict:
    return {"case_id": case, "repeat": repeat, "score": score, **more}


# --- what is read ------------------------------------------------------------------------


def test_a_table_is_read_by_case_and_repeat(tmp_path: Path) -> None:
    table = read(write(tmp_path, ROWS))

    assert table.scores == {None: {"Peru": {0: 1.0, 1: 0.0}, "Chad": {0: 0.5}}}


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "A.CSV"])
def test_every_ending_reads_the_same(tmp_path: Path, name: str) -> None:
    text = (
        lines(trial(), trial(repeat=1, score=None))
        if "json" in name
        else ("case_id,repeat,score\nPeru,0,1\nPeru,1,\n")
    )

    assert read(write(tmp_path, text, name)).scores == {None: {"Peru": {0: 1.0, 1: None}}}


def test_a_mark_of_byte_order_blanks_and_blank_lines_do_not_matter(tmp_path: Path) -> None:
    text = "\ufeff\r\n \r\ncase_id, repeat, score\r\n\r\nPeru, 0, 1\r\n"
    assert read(write(tmp_path, text)).scores == {None: {"Peru": {0: 1.0}}}
    with pytest.raises(TableError, match="line 4: repeat is 'x'"):
        read(write(tmp_path, "\n\ncase_id,repeat,score\nPeru,x,1\n"))
    assert read(write(tmp_path, ROWS + "Lima,0,9007199254740992\n"))
    padded = '"case_id" , "repeat" ,score \nPeru, 0 ,1\n'
    assert read(write(tmp_path, padded)).scores == {None: {"Peru": {0: 1.0}}}
    packed = "\n" + lines(trial()) + "\n"
    assert read(write(tmp_path, packed, "a.jsonl")).scores == {None: {"Peru": {0: 1.0}}}


@pytest.mark.parametrize(("separator", "name"), [(";", "a.csv"), ("\t", "a.csv"), ("\t", "a.tsv")])
def test_the_header_shows_what_separates_cells(tmp_path: Path, separator: str, name: str) -> None:
    rows = [["case_id", "repeat", "score"], ["Lima, Peru", "0", "0.5"]]
    text = "".join(separator.join(row) + "\r\n" for row in rows)
    assert read(write(tmp_path, text, name)).scores == {None: {"Lima, Peru": {0: 0.5}}}


def test_accents_may_be_composed_in_either_way(tmp_path: Path) -> None:
    text = "case_id,repeat,score\nPeru\N{COMBINING ACUTE ACCENT},0,1\n"
    assert read(write(tmp_path, text)).scores == {
        None: {"Per\N{LATIN SMALL LETTER U WITH ACUTE}": {0: 1.0}}
    }


def test_ids_that_are_numbers_are_texts(tmp_path: Path) -> None:
    assert list(read(write(tmp_path, lines(trial(case=7)), "a.jsonl")).scores[None]) == ["7"]  # type: ignore[arg-type]


def test_a_condition_is_chosen_by_its_column(tmp_path: Path) -> None:
    path = write(tmp_path, lines(trial(condition=0.5), trial(condition="b", score=0)), "a.jsonl")

    assert read(path, condition="b").scores == {None: {"Peru": {0: 0.0}}}
    assert read(path, condition="0.5").scores == {None: {"Peru": {0: 1.0}}}


def test_a_single_condition_need_not_be_named(tmp_path: Path) -> None:
    assert read(write(tmp_path, lines(trial(condition="a")), "a.jsonl")).scores


def test_a_metric_is_a_column_of_names_or_of_scores(tmp_path: Path) -> None:
    long = write(tmp_path, "case_id,repeat,metric,score\nPeru,0,tone,1\nPeru,0,pass,0\n")
    wide = write(tmp_path, "case_id,repeat,score,tone\nPeru,0,1,0.3\n", "wide.csv")

    assert read(long).scores == {"tone": {"Peru": {0: 1.0}}, "pass": {"Peru": {0: 0.0}}}
    assert read(long, metric="tone").scores == {"tone": {"Peru": {0: 1.0}}}
    assert read(wide, metric="tone").scores == {"tone": {"Peru": {0: 0.3}}}


def test_scores_may_be_declared_passes(tmp_path: Path) -> None:
    path = write(tmp_path, "case_id,repeat,score\nPeru,0,1\n")
    assert read(path, metric="pass").scores == {"pass": {"Peru": {0: 1.0}}}


def test_clusters_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path, "case_id,repeat,score,cluster\nPeru,0,1,south\nChad,0,1,\n")
    assert read(path).clusters == {"Peru": "south"}


def test_a_case_is_one_in_each_wording(tmp_path: Path) -> None:
    rows = "case_id,repeat,score,wording\nPeru,0,1,terse\nPeru,0,0,polite\nChad,0,1,\n"
    found = read(write(tmp_path, rows))
    assert found.scores[None] == {"Peru[terse]": {0: 1}, "Peru[polite]": {0: 0}, "Chad": {0: 1}}
    assert found.wordings == {
        "Peru[terse]": ("Peru", "terse"),
        "Peru[polite]": ("Peru", "polite"),
    }


def test_only_nameless_scores_of_0_and_1_may_be_passes(tmp_path: Path) -> None:
    binary = write(tmp_path, "case_id,repeat,score,x\nPeru,0,1,1\nPeru,1,,0\n")
    assert read(binary).may_be_passes
    assert not read(binary, metric="x").may_be_passes
    assert not read(write(tmp_path, ROWS)).may_be_passes


def test_a_column_says_which_direction_of_a_metric_is_good(tmp_path: Path) -> None:
    header = "case_id,repeat,metric,score,better\n"
    rows = "Peru,0,wer,1,lower\nPeru,0,tone,1,\n"
    assert read(write(tmp_path, header + rows)).better == {"wer": "lower"}
    for row, part in (
        ("Chad,0,wer,1,higher", "another one above"),
        ("a,0,wer,1,up", "is 'up'"),
        ("a,0,pass,1,lower", "better is 'lower', and of pass higher is always better"),
        ("a,0,cost,1,higher", "better is 'higher', and of cost lower is always better"),
    ):
        with pytest.raises(TableError, match=part):
            read(write(tmp_path, f"{header}{rows}{row}\n"))


def test_true_and_false_are_1_and_0(tmp_path: Path) -> None:
    rows = "case_id,repeat,score\na,0,true\nb,0,False\n"
    assert read(write(tmp_path, rows)).scores == {None: {"a": {0: 1}, "b": {0: 0}}}
    packed = lines(trial(score=True), trial(case="b", score=False))
    assert read(write(tmp_path, packed, "a.jsonl")).scores == {None: {"Peru": {0: 1}, "b": {0: 0}}}


def test_a_wide_table_is_told_how_to_name_the_column_of_scores(tmp_path: Path) -> None:
    wide = write(tmp_path, "case_id,repeat,faithfulness,precision\na,0,1,1\n")
    with pytest.raises(TableError, match=r"Name the one with the scores, .* --metric=faithfulness"):
        read(wide)


# --- what is refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ("Peru,0,high", "line 2: score is 'high', not a finite number"),
        ("Peru,0,NaN", "score is 'NaN'"),
        ("Peru,0,-inf", "score is '-inf'"),
        ("Peru,0,1e999", "score is '1e999'"),
        ("Peru,0,1e200", "score is '1e200', beyond 1e+100"),
        ("Peru,0,-9007199254740993", "score is '-9007199254740993': its last digits would be lost"),
        ("Peru,0,C", "score is 'C', not a finite number; write a number for it, such as 1 for"),
        ("Peru,0,pass", "not a finite number; write a number for it, such as 1 for right and 0"),
        ("Peru,0,85%", "write a number for it, such as 0.85 for 85% or 0,85"),
        ('Peru,0,"0,85"', "write a number for it, such as 0.85 for 85% or 0,85"),
        ("Peru,0,85 %", "not a finite number; write a number for it, such as 0.85 for 85%"),
        ("Peru,0,4/5", "not a finite number; write a number for it, such as 0.85 for 85%"),
        ("Peru,0,$2", "not a finite number; write a number for it, such as 0.85 for 85%"),
        ("Peru,0,gpt-85%", "score is 'gpt-85%', not a finite number; write a number for it"),
        ("Peru,0,None", "score is 'None', not a finite number; leave it empty for a failed call"),
        ("Peru,0,1_0", "score is '1_0'"),
        ("Peru,first,1", "repeat is 'first', not a whole number from 0"),
        ("Peru,,1", "repeat is empty"),
        ("Peru,-1,1", "repeat is '-1'"),
        ("Peru,99999999999999999999999,1", "repeat is"),
        (",0,1", "case_id is empty, not a name"),
        ("Peru,0", "line 2: 2 cells, the header has 3"),
        ("Peru,0,1\nPeru,0,1", "line 3: repeat 0 of case 'Peru' is there a second time"),
    ],
)
def test_a_bad_row_is_refused_by_its_line(tmp_path: Path, row: str, part: str) -> None:
    path = write(tmp_path, f"case_id,repeat,score\n{row}\n")

    with pytest.raises(TableError) as caught:
        read(path)

    assert str(caught.value).startswith(str(path))
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("score", ["gpt-85%", "great, an 85% match", "gpt-6-sol", "1e999", "1_0"])
def test_a_text_that_is_no_mark_is_told_of_no_mark(tmp_path: Path, score: str) -> None:
    path = write(tmp_path, f'case_id,repeat,score\nPeru,0,"{score}"\n')

    with pytest.raises(TableError, match=r"write a number for it, or name another column .*NAME$"):
        read(path)


@pytest.mark.parametrize(
    ("row", "part"),
    [
        (trial(score=[1]), "score is [1]"),
        (trial(score=10**400), "score is 1000"),
        (trial(repeat=0.5), "repeat is 0.5"),
        (trial(repeat=True), "repeat is True"),
        (trial(case=None), "case_id is empty"),  # type: ignore[arg-type]
        ({"case_id": "Peru", "repeat": 1}, "line 2: it has no 'score'"),
        ([1], "line 2: not a JSON object"),
    ],
)
def test_a_bad_object_is_refused_by_its_line(tmp_path: Path, row: Any, part: str) -> None:
    path = write(tmp_path, lines(trial(case="Chad"), row), "a.jsonl")
    with pytest.raises(TableError) as caught:
        read(path)
    assert part in str(caught.value)


def test_a_bad_row_of_another_condition_is_not_looked_at(tmp_path: Path) -> None:
    path = write(tmp_path, "case_id,repeat,score,condition\nPeru,0,1,a\nPeru,0,high,b\n")
    assert read(path, condition="a").scores == {None: {"Peru": {0: 1.0}}}


@pytest.mark.parametrize(
    ("text", "choice", "part"),
    [
        ("", {}, "is empty: a score table has case_id, repeat and score"),
        ("case_id,repeat,score\n", {}, "no row follows the header"),
        ("case_id,repeat,score,condition\n", {"condition": "a"}, "no row follows the header"),
        ("case_id,repeat,value\n", {}, "no column 'score' for the score of the trial"),
        ("repeat,score\n", {}, "no column 'case_id'"),
        (ROWS, {"metric": "tone"}, "no column 'tone' for the score of the trial (--metric)"),
        (ROWS, {"condition": "a"}, "no column 'condition' for what follows ::"),
        ("case_id,repeat,score,score\nPeru,0,1,1\n", {}, "has 'score' more than once"),
        (ROWS, {"metric": "pass"}, "line 4: score is '0.5', but the metric 'pass' is 0 or 1"),
    ],
)
def test_a_table_that_lacks_something_is_refused(
    tmp_path: Path, text: str, choice: dict[str, str], part: str
) -> None:
    with pytest.raises(TableError) as caught:
        read(write(tmp_path, text), **choice)
    assert part in str(caught.value)


def test_several_conditions_want_a_choice(tmp_path: Path) -> None:
    path = write(tmp_path, "case_id,repeat,score,condition\nPeru,0,1,a b\nPeru,0,1,\n")
    with pytest.raises(TableError, match=r"holds 2 conditions: name one, such as '.*::a b'"):
        read(path)


def test_an_unknown_choice_is_told_what_there_is(tmp_path: Path) -> None:
    path = write(tmp_path, "case_id,repeat,score,condition,metric\nPeru,0,1,concise,tone\n")
    with pytest.raises(TableError, match=r"no row of condition 'concis'. Did you mean concise?"):
        read(path, condition="concis")
    with pytest.raises(TableError, match=r"no row of metric 'zzz'. It has tone"):
        read(path, metric="zzz")


def test_a_long_list_is_cut(tmp_path: Path) -> None:
    header = ",".join(f"c{n}" for n in range(30))
    with pytest.raises(TableError, match="c19 and 10 more"):
        read(write(tmp_path, f"{header}\n"))


def test_a_row_without_its_metric_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="line 2: metric is empty, not a name"):
        read(write(tmp_path, "case_id,repeat,score,metric\nPeru,0,1,\n"))


def test_a_case_belongs_to_one_cluster(tmp_path: Path) -> None:
    text = "case_id,repeat,score,cluster\nPeru,0,1,south\nPeru,1,1,north\n"
    with pytest.raises(TableError, match="in cluster 'north' here and in 'south' above"):
        read(write(tmp_path, text))


@pytest.mark.parametrize(
    ("data", "name", "part"),
    [
        (b"case_id,repeat,score\n\xff,0,1\n", "a.csv", "not UTF-8"),
        (b"plain", "a.csv.gz", "damaged, or not packed with gzip"),
        (gzip.compress(ROWS.encode(), mtime=0)[:-9], "a.csv.gz", "damaged, or not packed"),
        (b"case_id,repeat,score\n" + b"x" * 200_000 + b",0,1\n", "a.csv", "not CSV: field larger"),
        (b"{oops\n", "a.jsonl", "line 1: not JSON"),
        (b"[" * 100_000 + b"\n", "a.jsonl", "line 1: not JSON"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, data: bytes, name: str, part: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(TableError) as caught:
        read(path)
    assert part in str(caught.value)


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be read: No such file"):
        read(tmp_path / "a.csv")


# --- what a name means -------------------------------------------------------------------


def test_a_name_may_hold_a_condition(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    odd = write(tmp_path, ROWS, "a::b.csv")

    assert table_named(str(path)) == (path, None)
    assert table_named(f"{path}::gpt-4|t=0.5") == (path, "gpt-4|t=0.5")
    assert table_named(str(odd)) == (odd, None)


def test_a_run_file_is_no_table(tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl.gz"
    write_run(make_run(), run)
    noise = write(tmp_path, "{oops", "noise.jsonl.gz")
    table = write(tmp_path, lines(trial()), "table.jsonl.gz")

    assert table_named(str(run)) is None
    assert table_named(f"{run}::test_a") is None
    assert table_named(str(noise)) is None
    assert table_named(str(table)) == (table, None)
    assert table_named("main") is None


def test_a_missing_table_and_one_of_another_format_are_told(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match=r"folder\.csv: it is a directory"):
        table_named(str(tmp_path / "folder.csv"))
    with pytest.raises(TableError, match="there is no such file"):
        table_named(str(tmp_path / "a.csv"))
    with pytest.raises(TableError, match=r"ends in \.csv, \.csv\.gz, \.tsv, "):
        table_named(str(write(tmp_path, ROWS, "a.txt")))


def test_scores_without_a_name_get_that_of_the_other_table(tmp_path: Path) -> None:
    nameless = read(write(tmp_path, lines(trial(score=0.5)), name="a.jsonl"))
    named = read(write(tmp_path, lines(trial(score=0.4, metric="f1")), name="b.jsonl"))

    (first, second), (note,) = named_alike((nameless, named))
    (same, other), _ = named_alike((named, nameless))

    assert set(first.scores) == set(other.scores) == {"f1"}
    assert (second, same) == (named, named)
    assert note.endswith("a.jsonl does not name its metric: its scores are taken for f1")
    assert named_alike((nameless, nameless)) == ((nameless, nameless), ())


@pytest.mark.parametrize("metrics", [("f1", "tone"), ("pass",)])
def test_scores_without_a_name_cannot_be_one_of_several_metrics(
    tmp_path: Path, metrics: tuple[str, ...]
) -> None:
    nameless = read(write(tmp_path, lines(trial(score=0.5)), name="a.jsonl"))
    rows = [trial(metric=metric) for metric in metrics]
    named = read(write(tmp_path, lines(*rows), name="b.jsonl"))

    with pytest.raises(TableError, match=f"has {', '.join(metrics)}: write which it is in a col"):
        named_alike((named, nameless))
