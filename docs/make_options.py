"""The page docs/options.md, made from the rows of ``settings.py``. Run: ``make docs``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from pytest_llmeval.settings import CacheMode, Option, every_option

PAGE = Path(__file__).with_name("options.md")

HEAD = """# Options

<!-- Made by `make docs` from the rows of pytest_llmeval/settings.py. Do not edit it here. -->

An option has one name on the command line (`--llm-alpha=0.01`) and one in the ini file
(`llm_alpha = 0.01`). Some have only one of the two; a dash stands where a name is missing.
What you type on the command line wins over a marker in the test, and a marker over the ini file.
Without a default an option is off.

Exit codes are those of pytest: 0 passed; 1 a test failed, the gate found a regression, or it could
not judge; 4 a mistake in an option, a marker or a baseline, told in one line before anything is
paid for.
"""

# A heading, the page to read on, and the keys below it. What stands nowhere comes last.
GROUPS = (
    ("Compare with a baseline", "gate.md", (
        "llm_baseline", "llm_anchor", "llm_on_missing", "llm_baseline_reach", "llm_baseline_age",
        "llm_fetch",
    )),
    ("Judge", "gate.md", (
        "llm_alpha", "llm_margin", "llm_target", "llm_test", "llm_multiplicity",
        "llm_strict", "llm_accept", "llm_accept_gone", "llm_renamed", "llm_edited", "llm_max_gone",
    )),
    ("Ask models", "models.md", (
        "llm_model", "llm_repeats", "llm_concurrency", "llm_timeout", "llm_serial_fixtures",
        "llm_max_reply_mb",
    )),
    ("Debug a case", "debug.md", ("llm_fail_on_miss",)),
    ("Keep replies, and pay for few", "cost.md", (
        "llm_cache", "llm_max_calls", "llm_max_cost", "llm_prices", "llm_origin_alias",
    )),
    ("Clients of the application", "clients.md", (
        "llm_intercept", "llm_intercept_hosts", "llm_replay_allow",
    )),
    ("Work in a team and in CI", "ci.md", ("llm_store", "llm_keyless", "llm_dir")),
    ("Report", "report-format.md", ("llm_report", "llm_show_texts")),
)  # fmt: skip
OTHERS = "More"
_DEFAULT = re.compile(r" \(default: ([^()]*)\)$")


def options_page() -> str:
    """Return the page."""
    options = {option.key: option for option in every_option()}
    parts = [HEAD]
    for heading, page, keys in GROUPS:
        rows = [_row(options.pop(key)) for key in keys]
        parts.append(_table(heading, f"Read on in [{page}]({page}).\n\n", rows))
    if options:
        parts.append(_table(OTHERS, "", [_row(option) for option in options.values()]))
    return "\n".join(parts)


def _table(heading: str, remark: str, rows: list[str]) -> str:
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
