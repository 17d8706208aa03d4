"""Hooks of mkdocs: pages from the files beside docs/, and Markdown read as GitHub reads it."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from markdown import Extension, Markdown
from markdown.blockprocessors import build_block_parser
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Files of the repository outside docs/, and the pages that they are.
BESIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "example_project/README.md": "example.md",
}
_PLACES = {page: path for path, page in BESIDE.items()}
_BAR_IN_CODE = re.compile(r"`[^`\n]*\\\|[^`\n]*`")
# A link within the repository, or a block of code, which has none.
_LINK = re.compile(
    r"^```.*?^```|(\]\(|\bsrc(?:set)?=\")(?![a-z]+:|#)([^)#\"]+)", re.DOTALL | re.MULTILINE
)
# Badges are loaded from elsewhere, so the site is without them.
BADGES = re.compile(r"^\[!\[.*\n\n", re.MULTILINE)


class _NestByTwoBlanks(Extension):
    """Let two blanks nest a list, where this Markdown asks for four."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name is Markdown's
        md.tab_length = 2
        md.parser = build_block_parser(md)  # its parts have read the length already


def on_config(config: MkDocsConfig) -> None:
    """Read lists as GitHub does."""
    config.markdown_extensions.insert(0, _NestByTwoBlanks())  # others add to the parser


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add a page for each file beside docs/."""
    for path, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text("utf-8")))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    r"""Turn links between files into links between pages, and `\|` in tables into `|`."""
    uri = page.file.src_uri
    folder = posixpath.dirname(_PLACES.get(uri, f"docs/{uri}"))

    def linked(found: re.Match[str]) -> str:
        if found[2] is None:
            return found[0]
        path = posixpath.normpath(posixpath.join(folder, found[2]))
        target = BESIDE.get(path, posixpath.relpath(path, "docs"))
        return f"{found[1]}{posixpath.relpath(target, posixpath.dirname(uri))}"

    shown = _LINK.sub(linked, BADGES.sub("", markdown))
    return _BAR_IN_CODE.sub(lambda row: row[0].replace("\\|", "|"), shown)
