"""The table of docs/clients.md, whose cells `make test-libraries` finds out."""

from __future__ import annotations

import re

from tests.libraries.libraries import LIBRARIES, ROADS, ROOT
from tests.libraries.table import PAGE, made, rows


def test_it_is_written_as_its_test_would_write_it() -> None:
    assert list(rows()) == [library.name for library in LIBRARIES]
    assert made(rows()) in PAGE.read_text(encoding="utf-8")


def test_a_cell_that_is_no_yes_has_a_reason_below() -> None:
    wanting = {
        library.name: {
            road
            for road, cell in zip(ROADS, rows()[library.name][2:], strict=False)
            if cell != "yes"
        }
        for library in LIBRARIES
    }
    assert wanting == {library.name: set(library.reasons) for library in LIBRARIES}


def test_each_has_an_environment_of_its_own() -> None:
    lines = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = re.search(r"^LIBRARIES := ((?:.*\\\n)*.*)$", lines, re.MULTILINE)
    assert listed is not None
    names = listed[1].replace("\\\n", " ").split()
    assert names == [library.environment for library in LIBRARIES]
