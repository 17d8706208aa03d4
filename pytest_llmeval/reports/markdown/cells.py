"""Pieces of Markdown: figures of a report's entries, tables, and texts that cannot do harm."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmeval.reports.document import Entry, figures
from pytest_llmeval.reports.formats import ends, figure, hits
from pytest_llmeval.safe_text import code_span, prose

_LONGEST_NAME = 120  # characters
_LONGEST_SENTENCE = 800
_SHOWN_OF_HASH = 12
_TYPED = ("llm_", "llmeval ", "pytest", "git ", "add --")


def cut(text: str, most: int = _LONGEST_NAME) -> str:
    """Cut a text that is too long for its place."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def name(text: str) -> str:
    """Write a name, or a text of a model or a test, as code in one line."""
    return code_span(cut(text)) if text else ""


def told(sentence: str) -> str:
    """Write a sentence; what is to be typed stands between two blanks in it, and is code here."""
    lines = [line.split("  ") for line in cut(sentence, _LONGEST_SENTENCE).split("\n")]
    return " · ".join(" ".join(map(_part, filter(None, line))) for line in lines)


def _part(text: str) -> str:
    part = text.strip()
    return code_span(part) if part.startswith(_TYPED) else prose(part.replace(" -> ", " → "))


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Put cells in a table, without the columns that are empty in every row."""
    columns = zip(heading, *rows, strict=True)
    kept = [(title, "---", *cells) for title, *cells in columns if any(cells)]
    return [f"| {' | '.join(line)} |" for line in zip(*kept, strict=True)]


def _cells(function: Entry) -> list[str]:
    """Write the row of a compared function."""
    shown = figures(function)
    return [f"**{shown.verdict}**", name(function["label"]), *shown[1:]]


def functions_table(report: Entry, side: Entry, functions: Sequence[Entry]) -> list[str]:
    """Put compared functions in a table.

    Args:
        report: with the level of the intervals.
        side: the comparison that they are of: the report itself, or its anchor.
        functions: a row each.
    """
    interval = f"{1 - 2 * report['settings']['alpha']:.0%} interval"
    sides = _short_reference(side), "here"
    heading = ("", "function", "changed", *sides, "difference", interval, "p")
    return _table(heading, list(map(_cells, functions)))


def means_table(functions: Sequence[Entry]) -> list[str]:
    """Put functions that are compared with nothing in a table."""
    rows = [
        [
            name(one["label"]),
            str(one["cases"]),
            "" if one["mean"] is None else figure(one["mean"], one["metric"]),
            "" if one["interval"] is None else ends(one["interval"], ".3g"),
        ]
        for one in functions
    ]
    return _table(["function", "cases", "mean", "interval"], rows)


def cases_table(side: Entry, cases: Sequence[tuple[Entry, Entry]]) -> list[str]:
    """Put cases that moved in a table: pairs of a function, and a case of it."""
    reference = _short_reference(side)
    replies = f"reply on {reference}", "reply here"
    heading = ("case", reference, "here", *replies, "first failure here")
    return _table(heading, [_case_cells(case, one["metric"]) for one, case in cases])


def _short_reference(side: Entry) -> str:
    return name(side["baseline"]["reference"]) if side["baseline"] else "baseline"


def reference_of(side: Entry) -> str:
    """Name the baseline, and the commit of its run if there is one."""
    baseline = side["baseline"]
    commit = baseline["commit"]
    shown = name(baseline["reference"]) + (f" at {name(commit[:_SHOWN_OF_HASH])}" if commit else "")
    if baseline["substitute"] and baseline["wanted"]:
        shown += f", which stands in for {name(baseline['wanted'][:_SHOWN_OF_HASH])}"
    return shown


def _case_cells(case: Entry, metric: str) -> list[str]:
    """Write the row of a case that moved."""
    excerpt = case.get("excerpt") or {"baseline": None, "here": None}
    sides = [case.get("baseline_scores", ()), case["scores"]]
    return [
        name(case["case"].partition("::")[2] or case["case"]),
        *(hits(scores, metric) if scores else "" for scores in sides),
        *(name(excerpt[side] or "") for side in ("baseline", "here")),
        name(case["failure"]),
    ]
