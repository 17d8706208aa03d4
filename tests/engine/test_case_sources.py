"""Cases that are drawn from a generator, or read from a file."""

from __future__ import annotations

import csv
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_llmeval import cases_from, sample_cases
from pytest_llmeval.engine.case_sources import is_sampled
from pytest_llmeval.errors import SettingsError
from tests.project import Project


def pair(rng: random.Random) -> tuple[int, int]:
    return rng.randrange(1000), rng.randrange(1000)


def test_the_same_seed_gives_the_same_cases() -> None:
    assert sample_cases(pair, 5, seed=7) == sample_cases(pair, 5, seed=7)
    assert sample_cases(pair, 5, seed=8)[0].values != sample_cases(pair, 5, seed=7)[0].values


def test_a_larger_sample_keeps_the_cases_that_were_there() -> None:
    assert sample_cases(pair, 9, seed=7)[:5] == sample_cases(pair, 5, seed=7)


def test_cases_are_the_same_in_every_process_and_python() -> None:
    assert [case.values for case in sample_cases(pair, 2, seed=7)] == [(722, 362), (56, 565)]


def test_ids_name_seed_and_index() -> None:
    assert [case.id for case in sample_cases(pair, 2, seed=7)] == ["seed7-0", "seed7-1"]


def test_a_tuple_is_one_value_for_each_argument_and_anything_else_a_single_one() -> None:
    assert len(sample_cases(pair, 1, seed=0)[0].values) == 2
    [single] = sample_cases(lambda rng: [rng.random()], 1, seed=0)
    assert len(single.values) == 1


@pytest.mark.parametrize(
    ("n", "seed", "part"),
    [(0, 1, "n must be 1 or more, not 0"), (2.5, 1, "n must be a whole"), (3, "x", "seed must be")],
)
def test_numbers_that_are_none_are_refused(n: int, seed: int, part: str) -> None:
    with pytest.raises(SettingsError, match=part):
        sample_cases(pair, n, seed=seed)


@pytest.mark.parametrize(
    ("id_", "sampled"),
    [
        ("seed7-0", True),
        ("seed-7-12", True),
        ("Peru-seed7-0", True),
        ("seed7-0-Peru", True),
        ("seed7", False),
        ("birdseed7-0", False),
        ("Peru", False),
    ],
)
def test_sampled_ids_are_told_from_others(id_: str, sampled: bool) -> None:
    assert is_sampled(id_) is sampled


def test_importing_it_imports_neither_pytest_nor_numpy() -> None:
    script = "import sys; from pytest_llmeval import cases_from, sample_cases; "
    script += "print({'pytest', '_pytest', 'numpy'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


EVALS = """
import pytest
from pytest_llmeval import llm_eval, sample_cases

@llm_eval(repeats=2)
@pytest.mark.parametrize("number", sample_cases(lambda rng: rng.randrange({most}), 20, seed=3))
def test_says_yes(llm, number):
    assert llm.ask(f"Say yes to {{number}}. rate=1").text == "yes"
"""


def test_an_edited_generator_makes_cases_that_are_not_paired(project: Project) -> None:
    project.write(test_evals=EVALS.format(most=10**6))
    project.commit()
    project.run()
    project.write(test_evals=EVALS.format(most=10**9))

    _, report = project.gate("--llm-baseline=main")

    [function] = report["functions"]
    assert len(function["mismatched"]) == 20


def test_a_larger_sample_replays_what_was_paid_for(project: Project) -> None:
    project.write(test_evals=EVALS.format(most=10**6))
    project.commit()
    project.run()
    project.calls()
    project.write(test_evals=EVALS.format(most=10**6).replace("20,", "22,"))

    _, report = project.gate("--llm-baseline=main")

    assert project.calls() == 4
    assert report["verdict"] == "unchanged"


ROWS = {
    "tickets.csv": 'ticket,text\nlate,Where is it?\nlost,"Gone, it seems"\n',
    "tickets.jsonl": '{"ticket": "late", "text": "Where is it?"}\n\n'
    '{"ticket": "lost", "text": "Gone, it seems"}\n',
    "tickets.yaml": "- ticket: late\n  text: Where is it?\n"
    "- {ticket: lost, text: 'Gone, it seems'}\n",
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ROWS)
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(pytest.Collector.CollectError, match="it is no plain file"):
        cases_from(tmp_path / name, id="ticket")


@pytest.mark.parametrize("name", ROWS)
def test_each_row_of_a_file_is_a_case_with_an_id_of_its_own(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(f"\ufeff{ROWS[name]}", encoding="utf-8")

    first, second = cases_from(tmp_path / name, id="ticket")

    assert (first.id, first.values) == ("late", ({"ticket": "late", "text": "Where is it?"},))
    assert (second.id, second.values[0]) == ("lost", {"ticket": "lost", "text": "Gone, it seems"})


def test_a_text_of_a_file_may_be_long_and_hold_any_separator(tmp_path: Path) -> None:
    text = "one\u2028two\x85three" * 10_000  # more than a csv reader takes by itself
    (tmp_path / "a.jsonl").write_text(f'{{"id": "a", "text": "{text}"}}\r\n', encoding="utf-8")
    (tmp_path / "A.CSV").write_text(f"id,text\na,{text}\n", encoding="utf-8")
    limit = csv.field_size_limit()

    for name in ("a.jsonl", "A.CSV"):
        (case,) = cases_from(tmp_path / name, id="id")
        assert case.values == ({"id": "a", "text": text},)
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,x\na,1\nb,2\na,3\n", "line 4 has the id 'a' of line 2: give each case"),
        ("a.csv", "id,x\n ,1\n", "line 2 has no 'id', which is the id of its case; it has id, x"),
        ("a.csv", "id,x\na\n", "line 2 has not as many cells as the heading"),
        ("a.csv", "id,x\na,1,2\n", "line 2 has not as many cells as the heading"),
        ("a.csv", 'id,x\n"a,1\n', "unexpected end of data"),
        ("a.csv", "id,x\n", "it has no case"),
        ("a.csv", "name,x\na,1\n", "it has name, x"),
        ("a.jsonl", '{"id": 1}\n{"id": "1"}\n', "line 2 has the id '1' of line 1"),
        ("a.jsonl", '{"id": 1}\nnothing\n', "line 2 is no JSON: Expecting value: column 1"),
        ("a.jsonl", "[1]\n", "line 1 is no case with names and values"),
        ("a.yaml", "id: a\n", "it is no list of cases"),
        ("a.yaml", "- [}\n", "it is no YAML: while parsing"),
        ("a.yaml", "- {id: }\n", "entry 1 has no 'id'"),
        ("a.csv", "id;x\na;1, or 2\n", "its heading is parted by ';': save it with commas"),
        ("a.csv", "id,x,x\na,1,2\n", "its heading has 'x' twice: give each column its own name"),
        ("a.csv", "id,x\na,Gr\xfc\xdfe\n", "it is not UTF-8 (byte 9): save it as UTF-8"),
        ("a.jsonl", f'{{"id": {"[" * 100_000}', "line 1 is no JSON: maximum recursion"),
        ("a.yaml", "- {id: a, 2024-01-02: x}\n", "it is no YAML: keys must be str"),
        ("a.txt", "", "cases are read from .csv, .jsonl and .yaml"),
        ("a.csv", None, "No such file or directory. Write its path from the folder of"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, encoding="latin-1")

    with pytest.raises(pytest.Collector.CollectError) as caught:
        cases_from(tmp_path / name, id="id")

    text = str(caught.value)
    assert text.startswith(f"cases_from: {tmp_path / name}: ")
    assert message in text
    assert "\n" not in text


def test_dates_of_yaml_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("- {id: 2026-11-22, at: 2026-11-22 10:00:00}\n")

    (case,) = cases_from(tmp_path / "a.yaml", id="id")

    assert case.values == ({"id": "2026-11-22", "at": "2026-11-22 10:00:00"},)


def test_a_file_lies_beside_its_test_and_rows_may_change_places(project: Project) -> None:
    folder = project.path / "evals"
    folder.mkdir()
    (folder / "cases.csv").write_text("ticket,rate\nlate,1.0\nlost,1.0\n")
    (folder / "test_file.py").write_text(
        "import pytest\n"
        "from pytest_llmeval import cases_from, llm_eval\n"
        "@llm_eval(repeats=2)\n"
        '@pytest.mark.parametrize("row", cases_from("cases.csv", id="ticket"))\n'
        "def test_row(llm, row):\n"
        "    assert llm.ask(f\"{row['ticket']} rate={row['rate']}\").text\n"
    )
    project.commit("cases of a file")
    assert project.run("evals").ret == 0
    (folder / "cases.csv").write_text("ticket,rate\nnew,1.0\nlost,1.0\nlate,1.0\n")

    _, report = project.gate("evals", "--llm-baseline=last")

    (function,) = report["functions"]
    assert (function["verdict"], function["cases"]) == ("unchanged", 2)
    assert function["only_here"] == ["evals/test_file.py::test_row[new]"]


def test_a_bad_file_ends_the_collection_in_one_line(project: Project) -> None:
    project.write(
        test_file="""
        import pytest
        from pytest_llmeval import cases_from, llm_eval

        @llm_eval
        @pytest.mark.parametrize("row", cases_from("nowhere.csv", id="ticket"))
        def test_row(llm, row): pass
        """
    )

    result = project.run("test_file.py")

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["cases_from: *nowhere.csv: No such file or directory. Write*"])
    assert "Traceback" not in str(result.stdout)
