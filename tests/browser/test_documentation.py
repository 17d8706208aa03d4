"""Pages of the site in a real Chromium, opened from the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.test_page import AXE, Browser, Opened
from tests.docs.test_site import site

__all__ = ["site"]


# one each with code, with a table of links, with pictures, with a diff
@pytest.mark.parametrize(
    ("scheme", "width", "pages"),
    [("light", 400, ("howto", "why")), ("dark", 1400, ("comparison", "tutorial"))],
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
