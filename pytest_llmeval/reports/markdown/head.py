"""The first 25 lines: did it fall, how much, how sure, which cases, what would have been missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_llmeval.reports.document import (
    Entry,
    consequence,
    failing_side,
    lead,
    moved_counts,
    moved_functions,
    part_judged,
    title,
    undetected_drops,
    worst_first,
)
from pytest_llmeval.reports.formats import counted
from pytest_llmeval.reports.markdown.cells import (
    cases_table,
    functions_table,
    means_table,
    name,
    reference_of,
    told,
)
from pytest_llmeval.reports.sentences import ALL_REPLAYED, verdict_words

_MOST_FUNCTIONS = 4
_MOST_CASES = 5
_MOST_NOTES = 3


def unchanged_line(report: Entry) -> str:
    """Say in one line that nothing changed."""
    return f"**LLM evals: unchanged** · {_counts(report)} {_left_out(report)}".rstrip()


def _left_out(report: Entry) -> str:
    parts = part_judged(report)
    return f"Only a part was judged: {told(parts)}." if parts else ""


def head(report: Entry) -> Iterator[str]:
    """Write the lines that answer the five questions."""
    side = failing_side(report)
    functions = moved_functions(side)
    yield f"## LLM evals: {title(report, side, name)}"
    yield ""
    yield f"{_lead(report, functions)} {consequence(report)}"
    if not side["functions"]:
        return
    yield ""
    yield f"{_counts(side)} {_left_out(report)}".rstrip()
    if report["verdict"] == "not_gated" and report["notes"]:
        yield from ("", " · ".join(map(told, report["notes"][:_MOST_NOTES])))
    yield ""
    shown = functions[:_MOST_FUNCTIONS]
    if side["baseline"] is None:
        yield from means_table(shown)
    else:
        yield from functions_table(report, side, shown)
        yield from _missed(side)
    yield from _cases(side, [one for one in shown if one["verdict"] == shown[0]["verdict"]])
    if len(functions) > len(shown):
        more = counted(len(functions) - len(shown), "more function")
        yield from ("", f"{more} below, the worst first.")


def _lead(report: Entry, functions: Sequence[Entry]) -> str:
    """Say the worst in a sentence."""
    told_first, *more = [*map(told, lead(report, functions)), ""]
    return f"**{told_first}.**{''.join(f' {each}.' for each in more if each)}" if told_first else ""


def _counts(side: Entry) -> str:
    """Count the functions by verdict, and name what they are compared with."""
    counts = Counter(
        verdict_words(one["verdict"], accepted=one.get("accepted", False))
        for one in worst_first(side["functions"])
    )
    shown = [f"{count} {word}" for word, count in counts.items() if word != "unchanged"]
    if counts["unchanged"]:
        shown.append(f"{counts['unchanged']} {ALL_REPLAYED}")
    cases = sum(one["cases"] for one in side["functions"])
    functions = f"{counted(len(side['functions']), 'function')} with {counted(cases, 'case')}"
    if side["baseline"] is None:
        return f"{functions}, compared with nothing."
    return f"{functions} against {reference_of(side)}: {', '.join(shown) or 'nothing was judged'}."


def _missed(side: Entry) -> Iterator[str]:
    """Say which drops could not have been seen."""
    missed = [f"in {name(label)} {drop}" for label, drop in undetected_drops(side)]
    if missed:
        yield ""
        text = f"**What would have been missed:** {'; '.join(missed)}. "
        text += "Drops of that size are found in 4 of 5 such builds, smaller ones less often."
        unchanged = sum(one["verdict"] == "unchanged" for one in side["functions"])
        if unchanged:
            text += (
                f" The {counted(unchanged, 'unchanged function')} asked what "
                f"{name(side['baseline']['reference'])} had asked, so nothing new was measured."
            )
        yield text


def _cases(side: Entry, functions: Sequence[Entry]) -> Iterator[str]:
    """Name the cases that moved most, over some functions."""
    moved = [(one, case) for one in functions for case in one["moved"] if _is_telling(one, case)]
    moved.sort(key=lambda pair: (-abs(pair[1].get("difference") or 0), pair[1]["mean"] or 0))
    if not moved:
        return
    yield ""
    if side["baseline"] is None:
        yield "**Worst cases:**"
    else:
        yield f"**Which cases:** {_all_moved(functions)}. Those that moved most:"
    yield ""
    yield from cases_table(side, moved[:_MOST_CASES])


def _all_moved(functions: Sequence[Entry]) -> str:
    if len(functions) == 1:
        return told(moved_counts(functions[0]))
    return "; ".join(f"in {name(one['label'])} {told(moved_counts(one))}" for one in functions)


def _is_telling(function: Entry, case: Entry) -> bool:
    """Whether a case shows why its function has its verdict."""
    difference = case.get("difference", -1) or 0
    return bool(difference > 0 if function["verdict"] == "improved" else difference < 0)
