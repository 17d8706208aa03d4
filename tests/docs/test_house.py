"""docs/design.md names every module, and all pages have short sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import PAGES, ROOT, chapter, text_of

PACKAGE = ROOT / "pytest_llmeval"
DESIGN = "docs/design.md"


def modules_there() -> set[str]:
    """List the rooms and modules of the package; an `__init__.py` of a docstring is none."""
    rooms = {path.parent for path in PACKAGE.rglob("__init__.py")} - {PACKAGE}
    files = {
        path
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py" or len(ast.parse(path.read_text(encoding="utf-8")).body) > 1
    }
    return {f"{path.relative_to(PACKAGE).as_posix()}/" for path in rooms} | {
        path.relative_to(PACKAGE).as_posix() for path in files
    }


def modules_named() -> list[str]:
    """List what stands in the tree of design.md, each by its path from the package."""
    _, tree, _ = chapter(DESIGN, "3. The house").split("```")
    named, rooms = [], [""]
    for indent, name in re.findall(r"^((?:  ){0,3})(\w+(?:\.py|/))(?: |$)", tree, re.MULTILINE):
        del rooms[len(indent) // 2 + 1 :]
        named.append(rooms[-1] + name)
        rooms.append(rooms[-1] + name)
    assert named[0] == "pytest_llmeval/"
    return named[1:]


def test_the_tree_names_every_module_and_nothing_else() -> None:
    named = modules_named()

    assert sorted(modules_there() - set(named)) == [], "docs/design.md, section 3, lacks these"
    assert sorted(set(named) - modules_there()) == [], "docs/design.md, section 3: these are gone"
    assert len(named) == len(set(named))


def test_what_the_path_of_a_trial_names_in_the_code_is_there() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    named = re.findall(r"`([A-Z]\w+|overlap)\.(\w+)`", chapter(DESIGN, "4. The path of a trial"))
    homes = {
        owner: next(
            text for name, text in texts.items() if f"class {owner}" in text or name == owner
        )
        for owner, _ in named
    }

    assert len(named) > 20
    assert [one for one in named if not re.search(rf"(def |self\.){one[1]}\b", homes[one[0]])] == []


def sentences(page: str) -> Iterator[str]:
    """Yield the sentences of a page: of paragraphs, of items of lists and of cells of tables."""
    text = text_of(page).partition("\n## Appendix\n")[0]
    text = re.sub(r"^```.*?^```|^\[[\w-]+\]: [^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^#.*|^\s*(?:-|\d+\.) |(?<!\\)\|", "\n\n", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", text):
        yield from re.split(r"(?<=[.!?])[)*]* +(?=[^a-z])", " ".join(paragraph.split()))


# tables of options and of formats are lists of what may be there
LISTS = {f"docs/{name}.md" for name in ("options", "performance", "report-format", "run-format")}


@pytest.mark.parametrize("page", sorted(set(PAGES) - LISTS))
def test_no_sentence_of_a_page_is_longer_than_thirty_words(page: str) -> None:
    long = {one: len(one.split()) for one in sentences(page) if len(one.split()) > 30}

    assert long == {}
