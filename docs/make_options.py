"""The page docs/options.md, made from the rows of ``settings.py``. Run: ``make docs``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

from pytest_llmeval.settings import CacheMode, Option, options_by_group

PAGE = Path(__file__).with_name("options.md")

HEAD = """# Options

<!-- Made by `make docs` from the rows of pytest_llmeval/settings.py. Do not edit it here. -->

After this page you know every option. The first table is enough for every day.

An option has one name on the command line (`--llm-alpha=0.01`) and one in the ini file
(`llm_alpha = 0.01`). A dash means that it has only the other name. The command line wins over the
mark of a test, and a mark wins over the ini file. An option without a default is off.

| exit code | means |
|---:|---|
| 0 | passed |
| 1 | a test failed, a function got worse than the baseline, or the gate could not judge |
| 4 | an option, a mark or the baseline is wrong. One line says what, before anything is paid for |
"""

# the pages to read on
PAGES = {
    "Everyday": ("gate.md", "models.md"),
    "Your application and its replies": ("clients.md", "cost.md", "debug.md"),
    "Changes of your suite": ("gate.md",),
    "CI and teams": ("ci.md", "sharing.md"),
    "Statistics": ("gate.md", "statistics.md"),
}
_DEFAULT = re.compile(r" \(default: ([^()]*)\)$")


def options_page() -> str:
    """Return the page."""
    parts = [HEAD]
    for heading, options in options_by_group().items():
        links = ", ".join(f"[{page}]({page})" for page in PAGES.get(heading, ()))
        parts.append(_table(heading, links and f"More: {links}.\n\n", map(_row, options)))
    return "\n".join(parts)


def _table(heading: str, remark: str, rows: Iterable[str]) -> str:
    head = "| command line | ini file | default | meaning |\n|---|---|---|---|\n"
    return f"## {heading}\n\n{remark}{head}" + "".join(rows)


def _row(option: Option) -> str:
    meaning = _DEFAULT.sub("", option.help)
    default = _DEFAULT.search(option.help)
    cells = (
        ", ".join(f"`{name}`" for name in _flags(option)) or "-",
        f"`{option.key}`" if option.ini else "-",
        default[1] if default else "",
        meaning,
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _flags(option: Option) -> Iterator[str]:
    """List what is typed for an option, with the modes of the cache written out."""
    if option.flag:
        yield option.usage.replace("=MODE", f"={'|'.join(get_args(CacheMode))}")
        if not option.metavar and option.ini:
            yield option.flag.replace("--", "--no-", 1)


if __name__ == "__main__":
    PAGE.write_text(options_page(), encoding="utf-8")
