"""The models that documents, starters and examples name can be asked, for longer than today.

The table of docs/models.md is the one place for their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from genai_prices import Usage, calc_price

from tests.docs.pages import ROOT, chapter

# What vendors have switched off, or have said the day of (the last is 2027-01-14).
ENDED = re.compile(
    r"gpt-3|gpt-4|gpt-5(-mini|-nano)?$|o1|o3|o4-mini|claude-(v?[123]|instant|(opus|sonnet)-4-[01])"
    r"|gemini-[12]\."
)
NAME = re.compile(r"(?<![\w.-])(?:(?:gpt|claude|gemini)-[\w.-]*\w|o[1-9](?:-\w+)?\b)")
KNOWN_TO_PRICES = ("openai", "anthropic", "gemini")
# What was measured with a model stays measured with it.
MEASURED = {"gpt-35-turbo"}
# These pages are about leaving a model, or another tool.
LEAVING = ("docs/swap-model.md", "docs/coming-from")
WRITTEN = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "docs", "example_project", "demo")
SHIPPED = ("pytest_llmeval", "benchmarks")
TEXTS = {".md", ".txt", ".py", ".toml", ".yml", ".jsonl"}


def files(*places: str) -> Iterator[tuple[str, str]]:
    """Give the path of each file in these places, and its text."""
    for place in places:
        top = ROOT / place
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.suffix in TEXTS and not {".llmeval", "__pycache__"} & set(path.parts):
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def living() -> dict[str, list[str]]:
    """List the models of the table, by provider."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", chapter("docs/models.md", "Name a model"), re.M)
    return {
        provider: [name.partition("/")[2] for name in re.findall(r"`(.*?)`", examples)]
        for provider, examples in rows
    }


LIVING = living()
PAID_FOR = [(provider, name) for provider in KNOWN_TO_PRICES for name in LIVING[provider]]


def is_named_in_the_table(name: str) -> bool:
    """Tell if a name is one of the table, or a dated snapshot of one."""
    known = [one for names in LIVING.values() for one in names]
    return any(re.fullmatch(rf"(.*\.)?{re.escape(one)}(-20\d\d-\d\d-\d\d)?", name) for one in known)


@pytest.mark.parametrize("name", ["gpt-4o", "gpt-4.1-mini", "gpt-5-nano", "o3", "gemini-2.5-flash"])
def test_a_name_that_ends_is_seen(name: str) -> None:
    assert NAME.findall(f'model="openai/{name}", or {name}.') == [name, name]
    assert ENDED.match(name)
    assert not is_named_in_the_table(name)


@pytest.mark.parametrize(("provider", "name"), PAID_FOR)
def test_a_model_of_the_table_lives_and_has_a_price(provider: str, name: str) -> None:
    assert not ENDED.match(name)
    vendor = {"gemini": "google"}.get(provider, provider)

    price = calc_price(Usage(input_tokens=1000, output_tokens=1000), name, provider_id=vendor)

    assert price.total_price > 0


def test_what_the_readme_says_a_suite_costs_is_what_it_costs() -> None:
    said = chapter("README.md", "What it costs")
    cases, repeats, calls, tokens_in, tokens_out = map(int, re.findall(r"\b(\d+) ", said)[:5])
    prices = [(name, amount) for amount, name in re.findall(r"\$([\d.]+) on\s(\S+\w)", said)]

    assert cases * repeats == calls
    assert len(prices) == 2
    for name, amount in prices:
        used = Usage(input_tokens=calls * tokens_in, output_tokens=calls * tokens_out)
        cost = calc_price(used, name, provider_id="openai").total_price
        assert f"{cost:.2f}" == amount, name


def test_each_model_that_is_named_is_one_of_the_table() -> None:
    named = {
        (path, name)
        for path, text in files(*WRITTEN, *SHIPPED)
        if not path.startswith(LEAVING)
        for name in NAME.findall(text)
    }

    assert len({name for _, name in named}) >= len(PAID_FOR)
    assert {
        (path, name)
        for path, name in named
        if name not in MEASURED and not is_named_in_the_table(name)
    } == set()


def test_no_example_sets_a_temperature() -> None:
    """The newest models answer it with HTTP 400."""
    setting = re.compile(r"temperature[\"']?\s*[=:]\s*[\[\d]")
    found = {path for path, text in files(*WRITTEN, *SHIPPED) if setting.search(text)}
    found = {path for path in found if not path.startswith(LEAVING)}

    assert found == {"docs/why.md"}  # which says so
