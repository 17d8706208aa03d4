from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_llmeval.errors import BaselineUnreadable, Lost
from pytest_llmeval.records import Run
from pytest_llmeval.runs import run_file as run_files
from pytest_llmeval.runs.run_file import read_run, read_run_header, write_run
from tests.runs.builders import lines_of, make_call, make_run, make_trials, write_lines
from tests.runs.strategies import runs

quick = settings(
    max_examples=25,
    # Each example writes the file anew; nothing of the one before is left.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "20261121T084100-1a2b3c.jsonl.gz"


@pytest.fixture
def stored(path):
    write_run(make_run(), path)
    return path


def refusal(path) -> str:
    """The sentence with which a file is refused."""
    with pytest.raises(BaselineUnreadable) as caught:
        read_run(path)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.startswith(str(path))
    return sentence


# --- written and read back ---------------------------------------------------------------


@quick
@given(run=runs())
def test_any_run_is_read_back_as_it_was(run: Run, path):
    write_run(run, path)
    assert read_run(path) == run


def test_what_few_runs_have_is_read_back(path):
    function = "tests/test_a.py::test_a"
    rare = make_run(fixtures={function: {"b": "1", "a": "2"}}, looks={function: 2})
    write_run(rare, path)
    assert read_run(path) == rare


@quick
@given(run=runs())
def test_the_header_is_the_run_without_its_trials(run: Run, path):
    write_run(run, path)
    header = read_run_header(path)
    assert header.run == replace(run, trials=())
    assert header.trials == len(run.trials)


def test_equal_runs_are_equal_bytes(tmp_path):
    trial, *others = make_run().trials
    one = make_run(
        versions={"a": "1", "b": "2"},
        trials=(replace(trial, scores={"pass": 1.0, "tone": 0.5}), *others),
    )
    other = make_run(
        versions={"b": "2", "a": "1"},
        trials=(replace(trial, scores={"tone": 0.5, "pass": 1.0}), *others),
    )
    assert one == other
    write_run(one, tmp_path / "one.jsonl.gz")
    write_run(other, tmp_path / "other.jsonl.gz")
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "other.jsonl.gz").read_bytes()


def test_the_bytes_hold_no_time(stored):
    assert stored.read_bytes()[4:8] == b"\0\0\0\0"


def test_what_has_its_default_value_is_left_out(stored):
    header, trial, *_ = lines_of(stored)
    assert set(header["cases"][0]) == {"id", "function", "repeats"}
    assert set(trial) == {"case", "function", "trial", "outcome", "scores", "calls", "seconds"}
    assert set(trial["calls"][0]) == {"key", "slot", "draw", "reply_sha256", "model"}


def test_the_header_sums_up_models_hosts_and_parameters(path):
    run = make_run()
    calls = (
        make_call(host="https://a", served="m-2", parameters={"seed": 1, "temperature": 1.0}),
        make_call(host="https://a", served="m-1", parameters={"seed": True}),
        make_call(model=None),
    )
    write_run(replace(run, trials=(replace(run.trials[0], calls=calls),)), path)
    nameless, named = read_run_header(path).models
    assert (nameless.model, nameless.calls) == (None, 1)
    assert (named.model, named.calls) == ("openai/gpt-6-luna", 2)
    assert (named.served, named.hosts) == (("m-1", "m-2"), ("https://a",))
    assert json.dumps(named.parameters) == '{"seed": [1, true], "temperature": [1.0]}'
    assert read_run_header(path).models_asked == {"openai/gpt-6-luna"}


def test_the_header_counts_errored_and_skipped_trials(path):
    write_run(make_run(trials=make_trials(9, errored=3, skipped=2)), path)
    header = read_run_header(path)
    assert (header.trials, header.errored, header.skipped, header.ran) == (9, 3, 2, 7)


PAID = make_call()
REPLAYED = make_call(replayed=True)
FAILED = make_call(draw=None, lost=Lost.STATUS, lost_for=("503",))
REFUSED = make_call(draw=None, lost=Lost.CONTENT, lost_for=("400", "long"))


def test_a_call_is_made_when_it_was_neither_replayed_nor_failed(path):
    trials = make_trials(3, calls=[PAID, REPLAYED, FAILED, REFUSED])
    write_run(make_run(trials=trials), path)
    (use,) = read_run_header(path).models
    assert (use.calls, use.made) == (12, 3)


@pytest.mark.parametrize(
    ("calls", "only_replayed"),
    [
        ([], False),
        ([PAID], False),
        ([REPLAYED], True),
        ([REPLAYED, FAILED], True),
        ([REPLAYED, make_call(model=None)], False),
    ],
)
def test_a_run_that_paid_for_no_call_only_replayed(calls, only_replayed, path):
    write_run(make_run(trials=make_trials(2, calls=calls)), path)
    assert read_run_header(path).only_replayed is only_replayed


def test_without_the_later_counts_nothing_is_errored_and_every_call_was_made(path):
    write_run(make_run(trials=make_trials(4, errored=1, skipped=1, calls=[REPLAYED])), path)
    lines = lines_of(path)
    for record, name in (
        (lines[0], "errored"),
        (lines[0], "skipped"),
        (lines[0]["models"][0], "made"),
    ):
        del record[name]
    header = read_run_header(write_lines(path, lines))
    assert (header.errored, header.skipped, header.models[0].made) == (0, 0, 4)


def test_reading_the_header_reads_no_further(stored):
    whole = stored.read_bytes()
    stored.write_bytes(whole[:-20])
    assert read_run_header(stored).run.id == make_run().id


# --- what cannot be written --------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "../../etc/passwd"},
        {"commit": "main"},
        {"created": "yesterday"},
        {"created": "2026-11-21T08:41:00"},
        {"trials": make_run().trials[::-1]},
        {"trials": make_run().trials[:1] * 2},
        {"trials": (replace(make_run().trials[0], case="unknown"),)},
        {"trials": (replace(make_run().trials[0], scores={"pass": float("nan")}),)},
        {"cases": make_run().cases[:1] * 2, "trials": ()},
    ],
)
def test_a_run_that_could_not_be_read_back_is_not_written(changes, path):
    with pytest.raises(ValueError, match=r".+"):
        write_run(make_run(**changes), path)
    assert not list(path.parent.iterdir())


def test_a_failed_write_leaves_the_old_file_and_no_other(stored, monkeypatch):
    before = stored.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_run(make_run(dirty=True), stored)
    assert [entry.name for entry in stored.parent.iterdir()] == [stored.name]
    assert stored.read_bytes() == before


def test_a_file_that_cannot_even_be_begun_is_an_os_error(stored):
    with pytest.raises(OSError, match=r"exists|directory"):
        write_run(make_run(), stored / "below-a-file.jsonl.gz")


# --- what is refused ---------------------------------------------------------------------


def test_every_truncation_is_refused(stored):
    whole = stored.read_bytes()
    for length in range(len(whole)):
        stored.write_bytes(whole[:length])
        refusal(stored)


def test_no_flipped_byte_goes_unnoticed(stored):
    whole = stored.read_bytes()
    for place in range(10, len(whole)):  # before lies gzip's own header, which holds no data
        stored.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        refusal(stored)


@quick
@given(junk=st.binary(max_size=300))
def test_arbitrary_bytes_are_refused_in_a_sentence(junk, path):
    path.write_bytes(junk)
    refusal(path)


@quick
@given(junk=st.binary(max_size=300))
def test_arbitrary_bytes_in_gzip_are_refused_in_a_sentence(junk, path):
    path.write_bytes(gzip.compress(junk))
    refusal(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@settings(quick, max_examples=80)
@given(value=json_values, data=st.data())
def test_a_forged_value_is_refused_or_read_as_a_sound_run(value, data, path, tmp_path):
    run = make_run()
    write_run(run, path)
    lines = lines_of(path)
    record = lines[data.draw(st.sampled_from([0, 1]), label="line")]
    if data.draw(st.booleans(), label="deeper"):
        record = record["cases"][0] if "cases" in record else record["calls"][0]
    record[data.draw(st.sampled_from(sorted(record)), label="field")] = value
    write_lines(path, lines)
    try:
        forged = read_run(path)
    except BaselineUnreadable:
        return
    write_run(forged, tmp_path / "again.jsonl.gz")
    assert read_run(tmp_path / "again.jsonl.gz") == forged


HEADER = [
    *("schema", "id", "created", "commit", "tree", "dirty", "ref", "root", "versions", "selection"),
    *("complete", "partial", "outside_calls", "trials", "models", "cases"),
]
TRIAL = ["case", "function", "trial", "outcome"]


@pytest.mark.parametrize(
    ("line", "name"), [*((0, name) for name in HEADER), *((1, name) for name in TRIAL)]
)
def test_a_missing_field_is_named(line, name, stored):
    lines = lines_of(stored)
    del lines[line][name]
    sentence = refusal(write_lines(stored, lines))
    assert f"line {line + 1}: Object missing required field `{name}`" in sentence


@pytest.mark.parametrize("name", ["key", "slot"])
def test_a_field_missing_in_a_call_is_named(name, stored):
    lines = lines_of(stored)
    del lines[1]["calls"][0][name]
    sentence = refusal(write_lines(stored, lines))
    assert f"line 2: Object missing required field `{name}` - at `$.calls[0]`" in sentence


WRONG_IN_HEADER = {
    "schema": "1",
    "id": "../20261121T084100-1a2b3c",
    "created": "2026-11-21T08:41:00+02:00",
    "commit": "main",
    "tree": 7,
    "dirty": 0,
    "ref": ["main"],
    "root": None,
    "versions": {"python": 3},
    "selection": "tests",
    "complete": "yes",
    "partial": [None],
    "outside_calls": -1,
    "attempts": 1.5,
    "ci": {"event": "push"},
    "collected": {"cases": 2},
    "tests": {"tests/test_a.py::test_a": None},
    "made": True,
    "trials": True,
    "errored": -1,
    "skipped": None,
    "models": {},
    "cases": ["tests/test_a.py::test_a"],
}
WRONG_IN_MODEL = {
    "model": 1,
    "served": [1],
    "hosts": "a",
    "parameters": {"seed": [[]]},
    "calls": 1.5,
    "made": "4",
}
WRONG_IN_CASE = {
    "id": None,
    "function": 1,
    "repeats": 5.0,
    "marked": -1,
    "min_score": "0.8",
    "parameters": 1,
    "positional": None,
    "gate": "pass",
    "better": "bigger",
    "cluster": 3,
}
WRONG_IN_TRIAL = {
    "case": "tests/test_a.py::test_a[Oslo]",
    "function": "tests/test_a.py::test_b",
    "trial": -1,
    "outcome": "failed",
    "scores": {"pass": "1.0"},
    "calls": {},
    "message": None,
    "seconds": True,
}
WRONG_IN_CALL = {
    "key": None,
    "slot": "0/-1",
    "draw": 1,
    "reply_sha256": 1,
    "replayed": 1,
    "model": 1,
    "served": 1,
    "fingerprint": 1,
    "host": 1,
    "parameters": {"stop": ["a"]},
    "input_tokens": 2**53,
    "output_tokens": "7",
    "seconds": 10**400,
    "failure": "network",
    "reason": 1,
    "lost": "elsewhere",
    "lost_for": "OPENAI_API_KEY",
}


def wrong(table):
    return pytest.mark.parametrize(("name", "value"), table.items())


def assert_named(path, lines, *, place: str) -> None:
    sentence = refusal(write_lines(path, lines))
    assert re.search(rf"`{re.escape(place)}\b", sentence)
    assert len(sentence) < len(str(path)) + 260


@wrong(WRONG_IN_HEADER)
def test_a_wrong_value_in_the_header_is_named(name, value, stored):
    lines = lines_of(stored)
    lines[0][name] = value
    assert_named(stored, lines, place=f"$.{name}")


@pytest.mark.parametrize(
    "looks", [{"tests/test_a.py::test_a": 0}, {"tests/test_a.py::test_a": 3}, {"test_b": 1}]
)
def test_looks_are_repeats_of_a_function_that_the_run_has(looks, stored):
    header, *trials = lines_of(stored)
    assert_named(stored, [{**header, "looks": looks}, *trials], place="$.looks")


@wrong(WRONG_IN_MODEL)
def test_a_wrong_value_in_a_model_is_named(name, value, stored):
    lines = lines_of(stored)
    lines[0]["models"][0][name] = value
    assert_named(stored, lines, place=f"$.models[0].{name}")


@wrong(WRONG_IN_CASE)
def test_a_wrong_value_in_a_case_is_named(name, value, stored):
    lines = lines_of(stored)
    lines[0]["cases"][0][name] = value
    assert_named(stored, lines, place=f"$.cases[0].{name}")


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**400, True, [0.8]])
def test_a_min_score_is_a_finite_number(value, stored):
    lines = lines_of(stored)
    lines[0]["cases"][0]["min_score"] = value
    assert refusal(write_lines(stored, lines))


@wrong(WRONG_IN_TRIAL)
def test_a_wrong_value_in_a_trial_is_named(name, value, stored):
    lines = lines_of(stored)
    lines[1][name] = value
    # Both may be sound texts, and not belong together.
    are_texts = name in ("case", "function")
    assert_named(stored, lines, place=name if are_texts else f"$.{name}")


@wrong(WRONG_IN_CALL)
def test_a_wrong_value_in_a_call_is_named(name, value, stored):
    lines = lines_of(stored)
    lines[1]["calls"][0][name] = value
    assert_named(stored, lines, place=f"$.calls[0].{name}")


@pytest.mark.parametrize("slot", ["1", "0/0/0", "1_0/0", " 1/0", "\u0663/0", "9999999999/0", 3])
def test_a_slot_is_two_plain_numbers(slot, stored):
    lines = lines_of(stored)
    lines[1]["calls"][0]["slot"] = slot
    assert "slot" in refusal(write_lines(stored, lines))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_score_that_is_not_finite_is_refused(number, stored):
    lines = lines_of(stored)
    lines[1]["scores"]["pass"] = 12345.5
    assert "line 2" in refusal(write_lines(stored, lines, written={"12345.5": number}))


def test_nan_is_no_json_even_in_an_unknown_field(stored):
    lines = lines_of(stored)
    lines[1]["cost"] = float("nan")
    assert "line 2: not JSON" in refusal(write_lines(stored, lines))


def test_the_newline_of_the_closing_line_belongs_to_the_file(stored):
    stored.write_bytes(gzip.compress(gzip.decompress(stored.read_bytes())[:-1]))
    assert "line 6: cut off" in refusal(stored)


def test_a_whole_number_will_do_as_a_score(stored):
    lines = lines_of(stored)
    lines[1]["scores"]["pass"] = 1
    assert read_run(write_lines(stored, lines)) == make_run()


def test_unknown_fields_are_ignored(stored):
    lines = lines_of(stored)
    for record in (*lines, lines[0]["cases"][0], lines[1]["calls"][0]):
        record["cost"] = 0.25
    assert read_run(write_lines(stored, lines, hosts=1)) == make_run()


def test_a_newer_schema_says_to_upgrade(stored):
    sentence = refusal(write_lines(stored, [{"schema": 2, "id": 7}]))
    assert "newer version" in sentence
    assert "schema 2" in sentence
    assert "pip install --upgrade pytest-llm-baseline" in sentence


def test_a_newer_schema_is_told_by_the_header_alone(stored):
    write_lines(stored, [{"schema": 2}])
    with pytest.raises(BaselineUnreadable, match="newer version"):
        read_run_header(stored)


def test_a_schema_that_never_was_is_refused(stored):
    assert "never was" in refusal(write_lines(stored, [{"schema": 0}]))


def test_a_lost_closing_line_is_refused(stored):
    data = gzip.decompress(stored.read_bytes())
    stored.write_bytes(gzip.compress(b"".join(data.splitlines(keepends=True)[:-1])))
    assert "closing line is missing" in refusal(stored)


def test_a_lone_header_is_refused(stored):
    header = gzip.decompress(stored.read_bytes()).splitlines(keepends=True)[0]
    stored.write_bytes(gzip.compress(header))
    assert "line 2: cut off" in refusal(stored)


def test_a_line_after_the_closing_one_is_refused(stored):
    stored.write_bytes(gzip.compress(gzip.decompress(stored.read_bytes()) + b"{}\n"))
    refusal(stored)


def test_a_tampered_score_is_refused(stored):
    data = gzip.decompress(stored.read_bytes())
    stored.write_bytes(gzip.compress(data.replace(b'"pass":1.0', b'"pass":0.0', 1)))
    assert "sha256" in refusal(stored)


@pytest.mark.parametrize("name", ["cases", "trials", "calls"])
def test_a_wrong_count_in_the_closing_line_is_refused(name, stored):
    assert "counts" in refusal(write_lines(stored, lines_of(stored), **{name: 3}))


def test_fewer_trials_than_the_header_says_are_refused(stored):
    assert "4" in refusal(write_lines(stored, lines_of(stored)[:-1], calls=3))


def test_trials_out_of_order_are_refused(stored):
    header, *trials = lines_of(stored)
    assert "order" in refusal(write_lines(stored, [header, *trials[::-1]]))


def test_a_trial_that_is_there_twice_is_refused(stored):
    header, first, *_ = lines_of(stored)
    lines = [{**header, "trials": 2}, first, first]
    assert "twice" in refusal(write_lines(stored, lines, calls=2))


def test_two_cases_of_one_id_are_refused(stored):
    header, *_ = lines_of(stored)
    lines = [{**header, "trials": 0, "cases": header["cases"][:1] * 2}]
    assert "same id" in refusal(write_lines(stored, lines, calls=0))


@pytest.mark.parametrize("value", [[], 7, None, "text"])
def test_a_line_that_is_no_object_is_refused(value, stored):
    assert "line 1" in refusal(write_lines(stored, [value]))


def test_brackets_nested_by_the_thousand_are_refused(stored):
    stored.write_bytes(gzip.compress(b'{"schema":' + b"[" * 200_000 + b"\n"))
    assert "line 1: " in refusal(stored)
    stored.write_bytes(gzip.compress(b'{"unknown":' + b"[" * 200_000 + b"\n"))
    assert "line 1: not JSON" in refusal(stored)


def test_another_encoding_is_refused(stored):
    stored.write_bytes(gzip.compress('{"schema": 1}\n'.encode("utf-16")))
    refusal(stored)


def test_a_plain_file_is_refused(path):
    path.write_text("# README\n")
    assert "Not a gzipped file" in refusal(path)


def test_a_missing_file_is_refused(path):
    assert "No such file" in refusal(path)


def test_a_folder_is_refused(tmp_path):
    assert "it is no plain file" in refusal(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("read", [read_run, read_run_header])
def test_a_named_pipe_is_refused_and_not_waited_for(read, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(BaselineUnreadable, match="it is no plain file"):
        read(path)


def test_a_forbidden_file_is_refused(stored, monkeypatch):
    def forbidden(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run_files, "open_plain", forbidden)
    assert "Permission denied" in refusal(stored)


def test_what_unpacks_beyond_all_bounds_is_refused(stored, monkeypatch):
    monkeypatch.setattr(run_files, "LARGEST", 1000)
    assert "more than 1000 bytes" in refusal(stored)


def test_a_line_beyond_all_bounds_is_refused(stored, monkeypatch):
    monkeypatch.setattr(run_files, "LONGEST_LINE", 100)
    assert "100 in a line" in refusal(stored)


def test_a_bomb_is_refused_before_it_is_unpacked(path):
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as file:
        for _ in range(80):
            file.write(b"0" * 2**20)
    path.write_bytes(packed.getvalue())
    assert "unpacks to more than" in refusal(path)


# --- the cost of an idle session ---------------------------------------------------------


def test_reading_runs_imports_nothing_heavy():
    heavy = {"numpy", "scipy", "asyncio", "diskcache", "openai", "anthropic", "ollama"}
    program = "import sys, pytest_llmeval.runs.lookup.refs; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not heavy & set(done.stdout.split())
