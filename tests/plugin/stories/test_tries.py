"""A loop of tries against one baseline is counted, and judged by fresh trials."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.project import EVALS, Project, made_once

SMALL = EVALS.replace("range(20)", "range(4)").replace("repeats=5", "repeats=2")


def begin(project: Project) -> None:
    project.write(test_evals=SMALL)
    project.commit()
    project.run()
    project.git("switch", "-qc", "branch")


@pytest.fixture
def looped(pytester: pytest.Pytester, originals: Path) -> Project:
    """Main was recorded, and a branch begins."""
    return made_once(originals / "tries", pytester, begin)


def tried(project: Project, prompt: str, *arguments: str) -> str:
    project.write(app=f'PROMPT = "{prompt} {{case}}. rate=0.8"\n')
    result = project.run("--llm-baseline=main", *arguments)
    told = [line for line in result.outlines if " try against " in line]
    return " ".join(told)


def test_the_second_try_says_what_luck_does(
    looped: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tried(looped, "Please say yes to") == ""
    second = tried(looped, "Do say yes to", "-k", "case-1")  # a part is a try, too
    assert second.startswith("2nd try against main@")
    assert tried(looped, "Do say yes to", "-k", "case-1") == ""  # all came from the cache
    assert tried(looped, "Now say yes to").startswith("3rd try against main@")
    looped.git("checkout", "-q", "--", "app.py")
    looped.git("switch", "-qc", "other")
    assert tried(looped, "Kindly say yes to") == ""  # the tries of another branch are none of it
    assert tried(looped, "So say yes to").startswith("2nd try against main@")
    monkeypatch.setenv("CI", "true")
    assert tried(looped, "In CI say yes to") == ""


def test_what_goes_on_with_a_try_is_no_further_one(looped: Project) -> None:
    assert tried(looped, "Do say yes to", "-k", "case-1") == ""
    assert tried(looped, "Do say yes to") == ""
    assert tried(looped, "Do say yes to", "--llm-repeats=3") == ""
    assert tried(looped, "Do say yes to", "--llm-cache=refresh").startswith("2nd try against main@")


def test_the_command_asks_for_fresh_trials_of_both_sides(looped: Project) -> None:
    tried(looped, "Please say yes to")
    told = tried(looped, "Do say yes to")
    found = re.search("pytest (--llm-baseline=.*)", told)
    assert found is not None

    result = looped.pytester.runpytest(*found[1].split())

    assert result.ret == 0
    lines = [gzip.decompress(path.read_bytes()).splitlines() for path in looped.runs()[-2:]]
    headers = [json.loads(header) for header, *_ in lines]
    assert [one["attempts"] for one in headers] == [8, 8]
    assert headers[0]["made"] == "rerun"
    assert headers[1]["compared_with"] == headers[0]["id"]


def test_the_command_below_what_is_inconclusive_decides_it(looped: Project) -> None:
    looped.write(app='PROMPT = "Please say yes to {case}. rate=0.8"\n')
    told = "\n".join(looped.run("--llm-baseline=main").outlines)
    found = re.search(r"^to decide it, .*:  pytest (--llm-baseline=.*)$", told, re.MULTILINE)
    assert found is not None, told

    again = looped.pytester.runpytest(*found[1].split())

    assert any(line.startswith("no significant change: ") for line in again.outlines)
    repeats = int(found[1].rpartition("=")[2])
    lines = [gzip.decompress(path.read_bytes()).splitlines() for path in looped.runs()[-2:]]
    paid = [json.loads(header)["attempts"] for header, *_ in lines]
    assert paid == [4 * (repeats - 2)] * 2  # the first two came from the cache


def test_only_what_is_inconclusive_is_asked_again(looped: Project) -> None:
    asked = "from pytest_llmeval import llm_eval\n\n@llm_eval(repeats=2)\ndef test_calm(llm):\n"
    looped.write(test_calm=f"{asked}    assert llm.ask('Say yes. rate=1').text == 'yes'\n")
    looped.write(app='PROMPT = "Please say yes to {case}. rate=0.8"\n')
    told = "\n".join(looped.run("--llm-baseline=main").outlines)
    found = re.search(r"^to decide it, .*:  pytest (.*)$", told, re.MULTILINE)
    assert found is not None, told

    again = looped.pytester.runpytest(*found[1].split())

    assert found[1].startswith("test_evals.py::test_says_yes --llm-baseline=main ")
    assert again.ret == 0
    assert any(line.startswith("no significant change: ") for line in again.outlines)
    assert not any("test_calm" in line for line in again.outlines)


def test_a_run_without_any_reply_is_no_try(looped: Project) -> None:
    tried(looped, "Please say yes to")
    looped.write(model="def answer(messages, **_):\n    raise OSError('down')\n")

    assert tried(looped, "Do say yes to") == ""
