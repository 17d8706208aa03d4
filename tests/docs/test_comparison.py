"""Each statement of docs/comparison.md about another tool has a link to where it can be checked."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import text_of

TEXT, _, _ = text_of("docs/comparison.md").partition("\n[st]: ")
DEFINED = dict(re.findall(r"^\[([a-z-]+)\]: (\S+)$", text_of("docs/comparison.md"), re.MULTILINE))
USED = set(re.findall(r"\]\[([a-z-]+)\]", TEXT))
OTHERS = re.findall(r"^\| \[.*", TEXT, re.MULTILINE)
SECTIONS = dict(re.findall(r"^## (.*)\n\n((?:.|\n)*?)(?=\n## |\Z)", TEXT, re.MULTILINE))


def test_each_link_is_defined_and_used() -> None:
    assert set(DEFINED) == USED
    assert all(address.startswith("https://") for address in DEFINED.values())
    assert len(set(DEFINED.values())) == len(DEFINED)


@pytest.mark.parametrize("row", OTHERS)
def test_a_cell_about_another_tool_links_to_its_pages(row: str) -> None:
    names = {name.partition("-")[0] for name in re.findall(r"\]\[([a-z-]+)\]", row)}

    assert len(names) == 1


@pytest.mark.parametrize(
    "section",
    [name for name in SECTIONS if name not in ("In short", "What this project does not do")],
)
def test_each_paragraph_and_item_about_another_tool_has_a_link(section: str) -> None:
    for part in re.split(r"\n\n|\n- ", SECTIONS[section].strip()):
        assert re.search(r"\]\[[a-z-]+\]|\]\(\w+\.md", part), part


def test_the_page_says_when_it_was_written() -> None:
    assert re.search(r"written\s+on\s+\d+\s+\w+\s+20\d\d", TEXT)
