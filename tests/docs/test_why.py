"""The pictures of docs/why.md are as new as their code, and its figures come from there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from docs.make_pictures import FOLDER, PICTURES, Picture
from tests.docs.pages import chapter, text_of

PAGE = "docs/why.md"
FIGURE = re.compile(r"\b\d*\.\d+\b|\b\d+\s%")


@pytest.fixture(scope="module")
def pictures() -> dict[str, Picture]:
    return {name: make() for name, make in PICTURES.items()}


def figures_of(text: str) -> Iterator[str]:
    return (re.sub(r"\s", " ", found) for found in FIGURE.findall(text))


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_its_code_draws(pictures: dict[str, Picture], name: str) -> None:
    drawn = pictures[name].svg

    assert (FOLDER / f"{name}.svg").read_text(encoding="utf-8") == drawn, "run: make docs"


def test_each_picture_is_shown_with_a_text_for_those_who_do_not_see_it() -> None:
    shown = re.findall(r"!\[([^]]*)\]\(pictures/(\w+)\.svg\)", text_of(PAGE))

    assert [name for _, name in shown] == list(PICTURES)
    assert {path.stem for path in FOLDER.iterdir()} == set(PICTURES)
    assert all(len(text) > 60 for text, _ in shown)


def test_each_figure_in_the_text_comes_from_the_pictures(pictures: dict[str, Picture]) -> None:
    for name, section in zip(PICTURES, text_of(PAGE).split("\n## ")[1:], strict=True):
        level = {"5 %"}
        assert set(figures_of(section)) - level == set(pictures[name].figures) - level, name


def test_the_figures_of_the_readme_come_from_its_picture(pictures: dict[str, Picture]) -> None:
    said = set(figures_of(chapter("README.md", "Why repeat")))

    assert len(said) == 4
    assert said <= set(pictures["repeat"].figures)


@pytest.mark.parametrize("name", PICTURES)
def test_what_a_picture_draws_lies_within_it(pictures: dict[str, Picture], name: str) -> None:
    root = ElementTree.fromstring(pictures[name].svg)  # noqa: S314 - our own
    width, height = float(root.attrib["width"]), float(root.attrib["height"])

    dots = [one.attrib for one in root.iter("{http://www.w3.org/2000/svg}circle")]

    assert dots
    assert all(0 < float(dot["cx"]) < width and 0 < float(dot["cy"]) < height for dot in dots)
