"""Applications of other libraries under interception, each in an environment: docs/clients.md."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.libraries.libraries import LIBRARIES, ROADS, Library
from tests.libraries.matrix import tried
from tests.libraries.table import PAGE, row, rows, with_row

CHOSEN = os.environ.get("LIBRARY") or ""


@pytest.mark.parametrize(
    "library",
    [pytest.param(one, id=one.environment) for one in LIBRARIES if CHOSEN in ("", one.environment)],
)
def test_a_library_does_what_the_table_says(library: Library, tmp_path: Path) -> None:
    if not library.python.exists():
        pytest.skip(f"needs make test-libraries LIBRARY={library.environment}")
    outcome = tried(library, tmp_path)
    found = row(library, outcome.version, outcome.outcomes)
    failed = {way: why for way, why in outcome.outcomes.items() if why}
    if os.environ.get("REWRITE_TABLE"):
        PAGE.write_text(with_row(found), encoding="utf-8")

    first, second, changed = outcome.sessions
    assert found[2:] == rows()[library.name][2:], f"{failed}\n{first.printed}"
    # Every cell holds, or says why it cannot.
    wanting = {road for road, cell in zip(ROADS, found[2:], strict=False) if cell != "yes"}
    assert wanting == set(library.reasons)
    assert not outcome.elsewhere
    assert not outcome.unknown
    if not failed:  # then each request was counted once, and nothing else was sent
        asked = first.requests.total()
        assert f" {asked} calls made" in first.printed
        assert f" 0 calls made, {asked} replayed" in second.printed
        assert (second.connections, changed.connections) == (0, 0)
