"""The site of the pages: it builds, reads as the pages do on GitHub, and loads nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from docs.make_site import BADGES
from tests.docs.pages import ROOT
from tests.platforms import needs

fcntl = needs("fcntl", "files are locked in another way")

BESIDE = {
    "README.md": "index.html",
    "CHANGELOG.md": "changelog.html",
    "SECURITY.md": "security.html",
    "CONTRIBUTING.md": "contributing.html",
    "example_project/README.md": "example.html",
}
IN_DOCS = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
PAGES = BESIDE | {
    f"docs/{name}": name.replace("README.md", "index.md").replace(".md", ".html")
    for name in sorted(IN_DOCS)
}
# what has no docstrings on GitHub: test_api.py
READ_ON_THE_SITE = "docs/api.md"
COUNTED = {"a", "blockquote", "code", "em", "h1", "h2", "h3", "img", "li", "ol", "pre", "strong"}
COUNTED |= {"table", "td", "ul"}


def build(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as ``make docs`` does, where a warning is an error."""
    # not --quiet: mkdocs would count no warnings then
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, which all workers of a session build once."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, made = shared / "site", shared / "site.made"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            done = build(ROOT, folder)
            assert done.returncode == 0, done.stdout
            made.touch()
    return folder


def test_a_bad_link_a_bad_anchor_and_a_page_left_out_are_errors(tmp_path: Path) -> None:
    for path in ("mkdocs.yml", *BESIDE):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / path, tmp_path / path)
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=unwanted)
    (tmp_path / "pytest_llmeval").symlink_to(ROOT / "pytest_llmeval")
    (tmp_path / "docs" / "alone.md").write_text("[a](nowhere.md) [b](gate.md#nowhere)\n")

    done = build(tmp_path, tmp_path / "site")

    assert done.returncode == 1
    assert "'nowhere.md'" in done.stdout
    assert "'#nowhere'" in done.stdout
    assert "  - alone.md" in done.stdout
    commands = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "mkdocs build --strict\n" in commands


class Elements(HTMLParser):
    """What a page of HTML is made of, counted, what it loads, and the names of its places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.loaded: list[str] = []
        self.names: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names += [given[name] or "" for name in ("id", "name") if name in given]
        if tag in COUNTED and given.get("class") != "headerlink":
            self.counts[tag] += 1
        if tag != "a":
            loading = ("src", "srcset", "href")
            self.loaded += [given[name] or "" for name in loading if name in given]


@pytest.mark.parametrize("page", [page for page in PAGES if page != READ_ON_THE_SITE])
def test_a_page_of_the_site_reads_as_it_does_on_github(site: Path, page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    built = (site / PAGES[page]).read_text(encoding="utf-8")
    article = re.search(r"<article.*?</article>", built, re.DOTALL)
    assert article is not None

    on_github = Elements(MarkdownIt().enable("table").render(BADGES.sub("", text))).counts

    assert Elements(article[0]).counts == on_github


def test_a_page_of_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    loaded = re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")]+)", styles)
    for path in site.rglob("*.html"):
        loaded += Elements(path.read_text(encoding="utf-8")).loaded

    assert len(loaded) > len(PAGES)
    assert {address for address in loaded if re.match(r"(https?:)?//", address)} == set()


def test_every_page_can_be_reached_from_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    navigation = re.search(
        r"<nav class=\"md-nav md-nav--primary.*?</nav>\s*</div>", home, re.DOTALL
    )
    assert navigation is not None

    assert set(PAGES.values()) <= set(re.findall(r'href="([^"#]+)"', navigation[0]))
