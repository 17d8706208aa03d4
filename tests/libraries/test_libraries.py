"""Applications of other libraries under interception, each in an environment: docs/clients.md."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.libraries.libraries import LIBRARIES, ROADS, Library
from tests.libraries.matrix import Session, tried
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

    first, second, under_replay = outcome.sessions
    assert found[2:] == rows()[library.name][2:], f"{failed}\n{first.printed}"
    # Every cell holds, or says why it cannot.
    wanting = {road for road, cell in zip(ROADS, found[2:], strict=False) if cell != "yes"}
    assert wanting == set(library.reasons)
    assert not outcome.elsewhere
    assert not outcome.unknown
    assert set(first.besides) == set(library.besides)
    if not failed:  # then each request was counted, and nothing else was sent
        made = _figure(r"(\d+) calls made", first)
        # An attempt that failed, and was made again, may have come to the server or not.
        attempts = _figure(r"(\d+) attempts sent", first) or made
        assert made <= first.requests.total() <= attempts
        assert _figure(r" 0 calls made, (\d+) replayed", second) == made
        for replay in (second, under_replay):
            assert replay.connections <= replay.besides.total()


def _figure(pattern: str, session: Session) -> int:
    found = re.search(pattern, session.printed)
    return int(found[1]) if found else 0
