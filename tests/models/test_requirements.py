"""The SDKs that messages and pages name are those that an installation asks for."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from pytest_llmeval.models.http.sender import library_of, newest
from pytest_llmeval.models.vendors.vendor import (
    vendor_named,
    with_known_platform,
    without_blank_keys,
)

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("name", ["openai", "anthropic", "ollama"])
def test_one_range_of_an_sdk_is_named_everywhere(name: str) -> None:
    requirement = vendor_named(name).requirement

    assert requirement in PROJECT["dependencies"]
    assert f"`{requirement}`" in (ROOT / "docs" / "models.md").read_text()


@pytest.mark.parametrize("library", [httpx, newest()])
def test_a_request_tells_its_library_also_one_of_a_derived_class(library: Any) -> None:
    derived = type("Derived", (library.Request,), {})

    for kind in (library.Request, derived):
        assert library_of(kind) is library


def test_a_blank_key_that_an_sdk_took_is_forgotten() -> None:
    client = SimpleNamespace(api_key=" \n", auth_token=None)

    assert without_blank_keys(client) is client
    assert client.api_key is None


@pytest.mark.parametrize("sdk", ["openai", "anthropic", "ollama"])
def test_a_client_that_asks_for_no_platform_is_told_none(sdk: str) -> None:
    client = SimpleNamespace()

    assert vars(with_known_platform(client, sdk)) == {}
