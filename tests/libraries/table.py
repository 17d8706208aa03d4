"""The table of libraries in docs/clients.md, a row and its reasons for each."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill

from tests.libraries.libraries import LIBRARIES, ROADS, ROOT, Library

PAGE = ROOT / "docs" / "clients.md"
BEGIN = "<!-- Made by `REWRITE_TABLE=1 make test-libraries`. Do not edit it here. -->"
END = "<!-- The end of what is made. -->"
HEAD = ("library", "tried", *ROADS, "what was asked")


def row(library: Library, version: str, outcomes: Mapping[tuple[str, str], str]) -> list[str]:
    """Word the outcomes of one library."""
    cells = []
    for road in ROADS:
        of_road = {form: outcome for (on, form), outcome in outcomes.items() if on == road}
        cells.append(_cell(of_road) if of_road else "-")
    asked = dict.fromkeys(form for _, form in outcomes)
    return [library.name, version, *cells, ", ".join(asked)]


def _cell(outcomes: Mapping[str, str]) -> str:
    failed = [form for form, outcome in outcomes.items() if outcome]
    if len(failed) == len(outcomes):
        return "no"
    return f"all but {', '.join(failed)}" if failed else "yes"


def rows() -> dict[str, list[str]]:
    """Read the rows that stand in the page, by library."""
    lines = _parts()[1].splitlines()
    split = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {cells[0]: cells for cells in split[1:]}


def with_row(new: list[str]) -> str:
    """Return the page with a row put in its place, and what is below the table written anew."""
    before, _, after = _parts()
    return before + BEGIN + made({**rows(), new[0]: new}) + END + after


def made(known: Mapping[str, list[str]]) -> str:
    """Word all that stands between the two marks."""
    standing = [known[library.name] for library in LIBRARIES if library.name in known]
    table = [f"| {' | '.join(cells)} |" for cells in (HEAD, *standing)]
    table.insert(1, "|---" * len(HEAD) + "|")
    return "\n".join(["", "", *table, "", *_notes(), *_switches(), ""])


def _notes() -> list[str]:
    roads: dict[tuple[str, str], list[str]] = {}
    for library in LIBRARIES:
        for road, reason in library.reasons.items():
            roads.setdefault((library.name, reason), []).append(road)
    notes = [f"{name}, {', '.join(on)}: {reason}." for (name, reason), on in roads.items()]
    return ["Why a cell is no `yes`:", "", *map(_item, notes), ""] if notes else []


def _switches() -> list[str]:
    libraries: dict[tuple[str, str], list[str]] = {}
    for library in LIBRARIES:
        for switch, what in library.switches.items():
            libraries.setdefault((switch, what), []).append(library.name)
    switches = [
        f"{', '.join(names)}: `{switch}` switches off {what}."
        for (switch, what), names in libraries.items()
    ]
    besides = [
        f"{library.name}: `{path}` ({what})."
        for library in LIBRARIES
        for path, what in library.besides.items()
    ]
    return [
        *("What is set there:", "", *map(_item, switches), ""),
        *("What is asked besides, is no question to a model, and is sent anew each time:", ""),
        *(*map(_item, besides), ""),
    ]


def _item(text: str) -> str:
    return fill(f"- {text}", 100, subsequent_indent="  ", break_on_hyphens=False)


def _parts() -> tuple[str, str, str]:
    """Cut the page at the two marks."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    inside, _, after = rest.partition(END)
    return before, inside, after
