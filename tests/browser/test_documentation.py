"""Pages of the site in a real Chromium, opened from the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.test_page import AXE, Browser, Opened, browser
from tests.docs.test_site import site

__all__ = ["browser", "site"]
# one each with code, with a table of links, with pictures, with a diff
PAGES = ("howto", "comparison", "why", "tutorial")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_everybody_can_read_a_page_of_the_site(
    browser: Browser,
    site: Path,
    scheme: str,
    width: int,
) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
    opened = Opened(page)

    for name in PAGES:
        opened.go(site / f"{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate(AXE)
        found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa'], preload: false})")
        assert [one["id"] for one in found["violations"]] == [], name
    page.close()
    assert opened.complaints == []
