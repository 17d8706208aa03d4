"""Files of every schema that was ever released are read for ever."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from pytest_llmeval.errors import Lost
from pytest_llmeval.records import Call, Case, Outcome, Run, Slot, Trial, Usage
from pytest_llmeval.runs.run_file import read_run, read_run_header, write_run
from pytest_llmeval.runs.run_lines import ModelUse, read_trial

TESTS = Path(__file__).parents[1]
GOLDEN = TESTS / "golden" / "run-schema-1.jsonl.gz"
FORMAT = TESTS.parent / "docs" / "run-format.md"

FIRST = Call(
    key="3f" * 32,
    slot=Slot(0, 0),
    draw="00112233445566778899aabbccddeeff",
    reply_sha256="c4" * 32,
    model="openai/gpt-4o-mini",
    served="gpt-4o-mini-2024-07-18",
    fingerprint="fp_0aa8d3e20b",
    host="https://api.openai.com",
    parameters={"seed": 7, "stop": None, "stream": False, "temperature": 0.5, "tier": "flex"},
    usage=Usage(input_tokens=21, output_tokens=0),
    seconds=0.75,
)
REPLAYED = Call(
    key="3f" * 32, slot=Slot(0, 1), draw="ffeeddccbbaa99887766554433221100", replayed=True
)
SHARED = Call(
    key="77" * 32, slot=Slot(None, 2), draw="0f" * 16, model="function/app:answer", seconds=0.0
)
TIMED_OUT = Call(
    key="5e" * 32,
    slot=Slot(2, 0),
    draw=None,
    model="openai/gpt-4o-mini",
    lost=Lost.OTHER,
    lost_for=("timeout after 60 s",),
)
REFUSED = Call(key="5e" * 32, slot=Slot(0, 0), draw=None, lost=Lost.CONTENT, lost_for=("400",))

PERU = "tests/test_capitals.py::test_capital[Peru]"
CHAD = "tests/test_capitals.py::test_capital[Tchad \u2192 N\u2019Djam\u00e9na]"
TONE = "tests/test_tone.py::TestTone::test_polite"

GOLDEN_RUN = Run(
    id="20261121T084100-1a2b3c",
    created="2026-11-21T08:41:00+00:00",
    commit="4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f70",
    tree="0918273645546372819009182736455463728190",
    dirty=True,
    ref="feature/shorter-prompt",
    root="packages/bot",
    versions={"openai": "3.1.0", "pytest": "9.0.1", "pytest-llm-baseline": "0.1.0"},
    selection=("tests/test_capitals.py", "tests/test_tone.py"),
    complete=False,
    partial=("tests/test_tone.py::TestTone::test_polite",),
    cases=(
        Case(id=PERU, function="tests/test_capitals.py::test_capital", repeats=4),
        Case(
            id=CHAD,
            function="tests/test_capitals.py::test_capital",
            repeats=4,
            parameters="9a" * 32,
            positional=True,
            cluster="africa",
        ),
        Case(
            id=TONE,
            function="tests/test_tone.py::TestTone::test_polite",
            repeats=1,
            gate=("tone", "latency"),
            better="lower",
        ),
    ),
    trials=(
        Trial(
            case=PERU,
            index=0,
            outcome=Outcome.PASSED,
            scores={"pass": 1.0, "tone": -0.1},
            calls=(FIRST, REPLAYED, SHARED),
            seconds=1.5,
        ),
        Trial(
            case=PERU,
            index=1,
            outcome=Outcome.MISSED,
            scores={"pass": 0.0},
            message="AssertionError tests/test_capitals.py:12",
        ),
        Trial(
            case=PERU,
            index=2,
            outcome=Outcome.ERRORED,
            calls=(TIMED_OUT,),
            message="ProviderFailed tests/test_capitals.py:11",
            seconds=60.25,
        ),
        Trial(case=PERU, index=3, outcome=Outcome.SKIPPED),
        Trial(
            case=CHAD,
            index=0,
            outcome=Outcome.CRASHED,
            scores={"pass": 0.0},
            calls=(REFUSED,),
            message="KeyError app/answer.py:40",
        ),
    ),
    outside_calls=3,
)


def test_a_run_of_schema_1_is_read_for_ever():
    assert read_run(GOLDEN) == GOLDEN_RUN


def test_a_header_of_schema_1_is_read_for_ever():
    header = read_run_header(GOLDEN)
    assert header.trials == 5
    assert (header.errored, header.skipped, header.ran) == (1, 1, 4)
    assert header.models_asked == {"openai/gpt-4o-mini", "function/app:answer"}
    assert header.models[2] == ModelUse(
        model="openai/gpt-4o-mini",
        served=("gpt-4o-mini-2024-07-18",),
        hosts=("https://api.openai.com",),
        parameters={name: (value,) for name, value in FIRST.parameters.items()},
        calls=2,
        made=1,
    )


def lines_of(path):
    # Unpacked: another zlib may pack the same lines into other bytes.
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_the_writer_writes_to_schema_1_no_more_than_why_a_call_was_lost(tmp_path):
    again = tmp_path / "again.jsonl.gz"
    write_run(GOLDEN_RUN, again)
    *written, _ = lines_of(again)
    *golden, _ = lines_of(GOLDEN)
    added = [
        (call.pop("lost"), call.pop("lost_for"))
        for line in written
        for call in line.get("calls", ())
        if "lost" in call
    ]
    assert added == [("other", ["timeout after 60 s"]), ("content", ["400"])]
    for call in (call for line in golden for call in line.get("calls", ()) if "reason" in call):
        call["reason"] = call["reason"].replace("400", "HTTP 400")
    assert written == golden


# As files of earlier versions have it.
EARLIER = {
    "cap --llm-max-calls=2": (Lost.CAP, "--llm-max-calls=2"),
    "not set: OPENAI_API_KEY": (Lost.NO_KEY, "OPENAI_API_KEY"),
    "not set: OPENAI_API_KEY, OPENAI_BASE_URL": (Lost.NO_KEY, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "key refused: HTTP 401 (invalid_api_key)": (Lost.KEY_REFUSED, "401", "invalid_api_key"),
    "CancelledError": (Lost.CANCELLED,),
    "network: timeout of the client": (Lost.OWN_TIMEOUT,),
    "network: ConnectError": (Lost.OTHER, "network: ConnectError"),
    "HTTP 503 (overloaded)": (Lost.OTHER, "HTTP 503 (overloaded)"),
    None: (Lost.OTHER,),
}


@pytest.mark.parametrize(("reason", "loss"), EARLIER.items(), ids=map(str, EARLIER))
def test_why_a_call_was_lost_is_read_from_the_words_of_earlier_versions(reason, loss):
    call = read_call(failure="infrastructure", reason=reason)
    assert (call.lost, *call.lost_for) == loss
    assert (call.failure, call.reason) == ("infrastructure", reason or "")


@pytest.mark.parametrize(
    ("reason", "values"),
    [
        ("HTTP 400", ("400",)),
        ("HTTP 400 (content_filter)", ("400", "content_filter")),
        ("no", ("no",)),
        (None, ()),
    ],
)
def test_so_is_what_was_refused_for_its_content(reason, values):
    call = read_call(failure="content", reason=reason)
    assert (call.lost, call.lost_for, call.failure) == (Lost.CONTENT, values, "content")


def read_call(**fields):
    call = {"key": "5e" * 32, "slot": "0/0", **fields}
    line = {"case": "c", "function": "f", "trial": 0, "outcome": "errored", "calls": [call]}
    (read,) = read_trial(json.dumps(line).encode() + b"\n", functions={"c": "f"}).calls
    return read


@pytest.fixture
def documented():
    """The example of the documentation, and the Python that asks it."""
    text = FORMAT.read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return example, program


def test_the_documented_example_is_a_run(documented, tmp_path):
    path = tmp_path / "example.jsonl.gz"
    path.write_bytes(gzip.compress(documented[0].encode()))
    run = read_run(path)
    assert run.complete
    assert [trial.outcome for trial in run.trials] == [Outcome.PASSED, Outcome.MISSED]


def test_the_documented_program_answers(documented, tmp_path, monkeypatch, capsys):
    folder = tmp_path / ".llmeval" / "runs" / "no-commit"
    folder.mkdir(parents=True)
    (folder / "one.jsonl.gz").write_bytes(gzip.compress(documented[0].encode()))
    monkeypatch.chdir(tmp_path)
    exec(documented[1], {})  # noqa: S102 - the documentation is ours
    assert capsys.readouterr().out == "tests/test_capitals.py::test_capital[Peru] 0.5\n"


def test_every_field_is_documented():
    written = gzip.decompress(GOLDEN.read_bytes()).decode()
    text = FORMAT.read_text(encoding="utf-8")
    # Names of metrics, packages and parameters are the user's own.
    own = {"tone", *GOLDEN_RUN.versions, *FIRST.parameters}
    names = set(re.findall(r'"([a-z_0-9-]+)":', written)) - own
    assert {name for name in names if f"`{name}`" not in text} == set()
