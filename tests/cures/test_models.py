"""Cures of what is said of models, keys, caps and the cache work where they are printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cures.bench import Bench, taken
from tests.servers.openai_server import OpenAIServer

MODEL = "function/model:answer"
ERRORED = "errored"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


def test_no_model_is_named(bench: Bench) -> None:
    ini = bench.project.path / "pytest.ini"
    ini.write_text(re.sub(r"llm_model.*\n", "", ini.read_text()))
    printed = bench.session()
    assert "no model is named" in printed

    typed = taken(printed, r"Type (--llm-model=provider/model), such as openai/gpt-6-luna")
    printed = bench.type(typed.replace("provider/model", MODEL))

    assert (bench.exit, "no model is named" in printed) == (0, False)


@pytest.mark.parametrize(
    ("way", "cure"),
    [("--llm-cache=replay", r"once: (pytest --llm-cache=auto)"),
     ("--llm-max-calls=3", r"(--llm-max-calls=3) is reached\. Raise it"),
     ("--llm-max-calls=3", r"replay what is stored with (--llm-cache=replay)")],
)  # fmt: skip
def test_replies_that_are_not_stored(bench: Bench, way: str, cure: str) -> None:
    printed = bench.session(way)
    assert ERRORED in printed
    typed = taken(printed, cure)
    if typed == way:
        typed = way.replace("3", "12")
    if typed == "--llm-cache=replay":
        bench.session()  # they are stored now
        printed = bench.session(way, typed)
    elif typed.startswith("pytest"):
        bench.session(*typed.split()[1:])
        printed = bench.session(way)
    else:
        printed = bench.session(typed)

    assert ERRORED not in printed


def test_a_price_that_is_not_known(bench: Bench) -> None:
    bench.ini("llm_model = openai/unheard-of")
    ini = bench.project.path / "pytest.ini"
    ini.write_text(ini.read_text().replace(f"llm_model = {MODEL}\n", ""))
    printed = bench.session("--llm-max-cost=1")
    assert "the price of" in printed, printed

    typed = taken(printed, r"in the ini file (llm_prices = \S+ = INPUT, OUTPUT)")
    printed = bench.type(typed.replace("INPUT, OUTPUT", "1, 2"))

    assert "the price of" not in printed


def test_a_key_that_is_not_set(
    bench: Bench, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ini = bench.project.path / "pytest.ini"
    ini.write_text(ini.read_text().replace(MODEL, "openai/gpt"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    printed = bench.session()
    said = "OPENAI_API_KEY is not set. Set it, or replay a recorded run with --llm-cache=replay"
    assert said in printed

    variable = taken(said, r"(\w+) is not set\. Set it")
    monkeypatch.setenv(variable, "sk-test")
    assert said not in bench.last()
    monkeypatch.delenv(variable)
    assert said not in bench.type(taken(said, r"run with (--llm-cache=replay)"))


def test_an_eval_that_asks_no_model_in_a_replay(bench: Bench) -> None:
    source = (bench.project.path / "test_evals.py").read_text()
    source = source.replace("llm.ask(PROMPT.format(case=case)).text", '"yes"')
    bench.project.write(test_evals=source.replace("(llm, ", "("))
    printed = bench.session("--llm-cache=replay")
    assert "replayed nothing" in printed

    mark = taken(printed, r"say so: @(llm_eval\(intercept=False\))")
    source = source.replace("llm_eval(repeats=5)", mark).replace("(llm, ", "(")
    bench.project.write(test_evals=source)

    assert "replayed nothing" not in bench.last()
    assert bench.exit == 0


def test_a_model_that_needs_longer(bench: Bench) -> None:
    model, go = bench.project.path / "model.py", bench.project.path / "go"
    waits = f"    while not Path({str(go)!r}).exists():\n        time.sleep(0.01)\n    question"
    imports = "import time\nfrom pathlib import Path\n"
    model.write_text(imports + model.read_text().replace("    question", waits))
    printed = bench.session("--llm-timeout=0.05", "-k", "case-0")
    assert "gave no reply within 0.05 s (--llm-timeout)" in printed

    go.touch()
    printed = bench.session(f"{taken(printed, r's .(--llm-timeout).')}=60", "-k", "case-0")

    assert "gave no reply" not in printed


def test_a_folder_of_the_store_that_is_a_link(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (bench.project.path / ".llmeval").mkdir()
    (bench.project.path / ".llmeval" / "runs").symlink_to(tmp_path / "there")
    printed = bench.session()
    assert "is a symbolic link" in printed

    typed = taken(printed, r"place with (--llm-dir)")
    named = bench.session(f"{typed}={tmp_path / 'elsewhere'}")
    assert "is a symbolic link" not in named
    Path(taken(printed, r"Remove it: rm (\S+) \(")).unlink()
    assert "is a symbolic link" not in bench.session()


PROGRAM = """
import subprocess
from pytest_llmeval import llm_eval

@llm_eval
def test_program(llm):
    subprocess.run(["git", "--version"], check=True)
    assert llm.ask("Say it rate=1").text == "yes"
"""


@pytest.mark.parametrize(
    "cure", [r"file: (llm_replay_allow = git)\.", r"(pytest --llm-cache=auto)"]
)
def test_a_program_in_a_replay(bench: Bench, cure: str) -> None:
    bench.commit(test_program=PROGRAM)
    bench.session("test_program.py")
    printed = bench.session("test_program.py", "--llm-cache=replay")
    assert "the program git was not started" in printed, printed

    typed = taken(printed, cure)
    printed = (
        bench.session("test_program.py", typed.split()[1])
        if "pytest" in typed
        else bench.type(typed)
    )

    assert "was not started" not in printed
    assert bench.exit == 0
