"""The section that the README shows is what the example prints."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.docs.pages import ROOT, blocks, chapter
from tests.project import Project

SHOWN_COMMIT = "97a1bbe81c20"


def as_shown(printed: str) -> list[str]:
    """Put the commit of the README in the place of the one that the project has."""
    printed = re.sub(r"@ [0-9a-f]{12}$", f"@ {SHOWN_COMMIT}", printed, flags=re.MULTILINE)
    return re.sub(r"(?<=main@)[0-9a-f]{7}", SHOWN_COMMIT[:7], printed).splitlines()


def lines_of_the_glossary() -> list[str]:
    table = chapter("docs/glossary.md", "A section, line by line")
    return [
        line.replace("[...]", "") for line in re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE)
    ]


def test_the_section_of_the_readme_is_what_the_example_prints(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    unwanted = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".llmeval")
    example = ROOT / "example_project"
    shutil.copytree(example, pytester.path, ignore=unwanted, dirs_exist_ok=True)
    project = Project(pytester)
    project.git("init", "-q", "-b", "main", "--template=")
    project.commit("main")
    assert project.run("--llm-repeats=10").ret == 0
    project.git("switch", "-qc", "shorter-prompt")
    shutil.copyfile(ROOT / "demo" / "shorter_prompt.txt", project.path / "triage" / "prompt.txt")
    project.commit("shorter")

    result = project.run("--llm-baseline=main")

    assert result.ret == 1
    printed = as_shown(str(result.stdout))
    (block,) = blocks("README.md", language="text")
    first, *others = block.text.split("...\n")
    start = printed.index(first.splitlines()[0])
    assert printed[start : start + len(first.splitlines())] == first.splitlines()
    for other in others:
        assert set(other.splitlines()) <= set(printed[start:])
    words = set(" ".join(printed).replace(";", " ").split())
    for line in lines_of_the_glossary():
        assert set(line.replace("...", "").split()) <= words, line
