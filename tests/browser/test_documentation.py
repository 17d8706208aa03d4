"""Pages of the site in a real Chromium, opened from the disk."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urlparse

import pytest

from tests.browser.test_page import AXE, Opened
from tests.docs.stories.test_site import PAGES, Elements, site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["site"]

LINKS = "[...document.querySelectorAll('a[href]')].map((one) => one.href)"
MISSING_PICTURES = """[...document.images].filter((one) => !one.complete || !one.naturalWidth)
    .map((one) => one.src)"""


@cache
def names_in(page: Path) -> frozenset[str]:
    """List the places of a page that a link can lead to."""
    return frozenset(Elements(page.read_text(encoding="utf-8")).names)


def broken(link: str) -> bool:
    """Whether a link of a page leads to a file, or a place in one, that is not there."""
    address, place = urldefrag(link)
    if not address.startswith("file:"):
        return not address.startswith(("https://", "mailto:"))
    target = Path(unquote(urlparse(address).path))
    return not target.is_file() or (bool(place) and unquote(place) not in names_in(target))


def test_a_page_of_the_site_opens_without_an_error_and_its_links_lead_somewhere(
    browser: Browser, site: Path
) -> None:
    # the scripts are the theme's, the same on each page: they run in the tests below
    page = browser.new_page(java_script_enabled=False)
    opened = Opened(page)
    followed = 0

    for name in sorted(set(PAGES.values())):
        opened.go(site / name)
        links = page.evaluate(LINKS)
        followed += len(links)
        assert [link for link in links if broken(link)] == [], name
        assert page.evaluate(MISSING_PICTURES) == [], name
        assert opened.complaints == [], name
    page.close()
    assert followed > 50 * len(PAGES)  # each has the navigation, at least


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pictures_of_the_home_page_follow_the_scheme(
    browser: Browser, site: Path, scheme: str
) -> None:
    page = browser.new_page(color_scheme=scheme)  # type: ignore[arg-type]
    Opened(page).go(site / "index.html")

    shown = page.evaluate(
        "[...document.querySelectorAll('picture img')].map((one) => one.currentSrc)"
    )
    page.close()

    assert len(shown) == 2
    assert all(f"-{scheme}." in address for address in shown)


def test_a_link_to_nowhere_is_found(site: Path) -> None:
    home = (site / "index.html").as_uri()

    assert broken(home.replace("index", "nowhere"))
    assert broken(f"{home}#nowhere")
    assert broken("http://example.com/")
    assert not broken(home)


# one each with code, with a table of links, with pictures, with a diff, with docstrings
@pytest.mark.parametrize(
    ("scheme", "width", "pages"),
    [
        ("light", 400, ("index", "howto", "why", "api")),
        ("dark", 1400, ("comparison", "tutorial")),
    ],
    ids=["light", "dark"],
)
def test_everybody_can_read_a_page_of_the_site(
    browser: Browser,
    site: Path,
    scheme: str,
    width: int,
    pages: tuple[str, ...],
) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
    opened = Opened(page)

    for name in pages:
        opened.go(site / f"{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate(AXE)
        found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa'], preload: false})")
        assert [one["id"] for one in found["violations"]] == [], name
    page.close()
    assert opened.complaints == []
