from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.truth.sessions import RatedServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RatedServer]:
    with RatedServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield server
