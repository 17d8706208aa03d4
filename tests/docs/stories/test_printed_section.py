"""What README and the glossary show of a red build is what the example prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from docs.make_screens import COLUMNS, FOLDER, SCHEMES, drawn, judge_the_example, shown
from tests.docs.pages import blocks, chapter, text_of

SVG = "{http://www.w3.org/2000/svg}"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return judge_the_example(tmp_path_factory.mktemp("screens") / "triage")


@pytest.fixture(scope="module")
def plain(printed: str) -> list[str]:
    return re.sub(r"\x1b\[\d+m", "", printed).splitlines()


def lines_of_the_glossary() -> list[str]:
    table = chapter("docs/glossary.md", "A section, line by line")
    return [
        line.replace("[...]", "") for line in re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE)
    ]


def test_the_section_of_the_glossary_is_what_the_example_prints(plain: list[str]) -> None:
    (block,) = blocks("docs/glossary.md", language="text")
    first, *others = block.text.split("...\n")
    start = plain.index(first.splitlines()[0])

    assert plain[start : start + len(first.splitlines())] == first.splitlines()
    for other in others:
        assert set(other.splitlines()) <= set(plain[start:])
    words = set(" ".join(plain).replace(";", " ").split())
    for line in lines_of_the_glossary():
        assert set(line.replace("...", "").split()) <= words, line


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_picture_of_the_section_is_what_the_example_prints(printed: str, scheme: str) -> None:
    found = (FOLDER / f"section-{scheme}.svg").read_text(encoding="utf-8")

    assert found == drawn(shown(printed), scheme), "run: make pictures"


def drawn_lines(svg: str) -> Iterator[tuple[float, str]]:
    """Give each piece of text in a picture, and where it ends."""
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own
    for text in root.iter(f"{SVG}text"):
        end = float(text.attrib["x"]) + float(text.attrib["textLength"])
        yield end / float(root.attrib["width"]), text.text or ""


def test_a_picture_has_the_lines_in_full_and_its_colours(plain: list[str], printed: str) -> None:
    pictures = {scheme: drawn(shown(printed), scheme) for scheme in SCHEMES}
    pieces = list(drawn_lines(pictures["light"]))

    assert max(end for end, _ in pieces) < 1
    assert all(len(text) <= COLUMNS for _, text in pieces)
    whole = "\n".join(plain)
    assert all(text == "..." or text.replace("\u00a0", " ") in whole for _, text in pieces)
    for scheme, picture in pictures.items():
        assert f'fill="{SCHEMES[scheme]["31"]}" font-weight="bold"' in picture


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_picture_of_the_page_is_small_and_there(scheme: str) -> None:
    picture = (FOLDER / f"page-{scheme}.png").read_bytes()

    assert picture.startswith(PNG)
    assert len(picture) < 150_000
    assert {path.name for path in FOLDER.iterdir()} == {
        f"{name}-{one}.{ending}"
        for name, ending in (("section", "svg"), ("page", "png"))
        for one in SCHEMES
    }


def test_the_readme_shows_each_picture_light_and_dark() -> None:
    pairs = re.findall(
        r'<picture><source media="\(prefers-color-scheme: dark\)" srcset="docs/screens/(\S+)">\n'
        r'<img src="docs/screens/(\S+)" alt="([^"]{30,})"></picture>\n',
        text_of("README.md"),
    )

    assert [(dark, light) for dark, light, _ in pairs] == [
        ("section-dark.svg", "section-light.svg"),
        ("page-dark.png", "page-light.png"),
    ]


def test_what_the_readme_says_of_the_picture_is_what_it_shows(plain: list[str]) -> None:
    said = chapter("README.md", "What a red build says").replace("\n  ", " ")
    row = next(line for line in plain if line.startswith("REGRESSED  "))
    main, here, _, low, high = map(float, re.findall(r"-?\d\.\d+", row))
    (most,) = re.findall(r"fewer than (1 of \d+)", next(line for line in plain if "chance" in line))

    assert f"{main:.0%} of the answers were right on `main`, and {here:.0%} on the branch." in (
        said.replace("\u202f%", "%").replace(" %", "%")
    )
    assert f"between {-high * 100:.0f} and {-low * 100:.0f} points" in said
    assert f"fewer than {most} comparisons" in said
    assert "1 in 20" in said  # llm_alpha, which the example leaves at its default
    assert "10 points" in said
    assert "-0.10" in " ".join(plain)
    assert any("(9/10) -> " in line for line in plain)
    assert f"test_topic fell from {main:.3f} to {here:.3f}" in text_of("README.md")
