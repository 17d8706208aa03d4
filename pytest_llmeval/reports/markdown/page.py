"""A report as one page of Markdown, for a pull request or the summary of a job.

Its first 25 lines say: did it fall, how much, how sure, which cases, what would have been missed.
Below them blocks are folded: what was compared, and each function that moved.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from pytest_llmeval.reports.document import (
    Entry,
    consequence,
    failing_side,
    is_unchanged,
    lead,
    moved_counts,
    moved_functions,
    part_judged,
    title,
    undetected_drops,
    worst_first,
)
from pytest_llmeval.reports.formats import counted, figure
from pytest_llmeval.reports.markdown.cells import (
    cases_table,
    functions_table,
    means_table,
    name,
    reference_of,
    told,
)
from pytest_llmeval.reports.sentences import ALL_REPLAYED, verdict_words
from pytest_llmeval.safe_text import code_span, html_code

MOST = 64_000  # characters; a comment on GitHub has at most 65,536, and begins with more
_ROOM_FOR_NOTE = 300
_MOST_LINES = 20  # of one kind
_LONGEST_LABEL = 120  # characters
_MOST_FUNCTIONS = 4  # of the head
_MOST_CASES = 5
_MOST_NOTES = 3


def render(document: Entry) -> str:
    """Write a report as Markdown.

    Args:
        document: a JSON report, of this process or read from a file that fits the schema.

    Returns:
        At most ``MOST`` characters, a newline at the end. What is left out for that is said.
    """
    if is_unchanged(document):
        return f"**LLM evals: unchanged** · {_extent(document, document)}\n"
    parts = ["\n".join([*_head(document), ""])]
    if facts := [f"- {line}" for line in _facts(document)]:
        parts.append(_folded("What was compared", facts))
    room = MOST - _ROOM_FOR_NOTE - sum(map(len, parts))
    cut = 0
    for block in _functions(document):
        if len(block) < room:
            parts.append(block)
            room -= len(block) + 1
        else:
            cut += 1
    if cut:
        blocks = counted(cut, "block of details", "blocks of details")
        parts.append(f"Left out, as there is no more room: {blocks}. The JSON report has all.\n")
    return "\n".join(parts)


def _head(report: Entry) -> Iterator[str]:
    """Write the lines that answer the five questions."""
    side = failing_side(report)
    functions = moved_functions(side)
    yield f"## LLM evals: {title(report, side, name)}"
    yield ""
    yield f"{_lead(report, functions)} {consequence(report)}"
    if not side["functions"]:
        return
    yield ""
    yield _extent(report, side)
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


def _extent(report: Entry, side: Entry) -> str:
    """Say what was compared with what, and whether that is a part alone."""
    parts = part_judged(report)
    return f"{_counts(side)} Only a part was judged: {told(parts)}." if parts else _counts(side)


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


def _functions(report: Entry) -> Iterator[str]:
    """Tell of each function that moved, a block each, worst first; then of the other side."""
    side = failing_side(report)
    for one in moved_functions(side):
        if side["baseline"] is None and not one["moved"]:
            continue  # the head has all there is
        yield _folded(*_function(report, side, one))
    for other in (report, report["anchor"]):
        if other is not None and other is not side and other["baseline"] is not None:
            title = f"Against {html_code(other['baseline']['reference'])}"
            rows = functions_table(report, other, other["functions"][:_MOST_LINES])
            yield _folded(title, [f"{reference_of(other)}:", "", *rows])
    moved = [one for one in report["ungated"] if one["changed"]]
    if moved:
        yield _folded("Not gated", map(_ungated, moved[:_MOST_LINES]))


def _folded(title: str, lines: Iterable[str]) -> str:
    body = "\n".join(lines)
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>\n"


def _function(report: Entry, side: Entry, one: Entry) -> tuple[str, list[str]]:
    """Return the title and the lines of the block of a function."""
    label = html_code(one["label"][:_LONGEST_LABEL])
    place = f"{one['file']}:{one['line']}" if one["line"] else one["file"]
    where = [f"At {name(place)}."] if place else []
    cases = [(one, case) for case in one["moved"]]
    if side["baseline"] is None:
        rows = [*means_table([one]), "", *cases_table(side, cases)]
        return f"{label}: {counted(len(one['worst']), 'case')} fell short", [*where, "", *rows]
    lines = [told(one["sentence"]), "", *functions_table(report, side, [one]), ""]
    lines += [f"- {told(remark)}" for remark in one["remarks"][:_MOST_LINES]]
    if one["accepting_line"]:
        lines.append(f"- If this drop is meant, say in the ini file {name(one['accepting_line'])}")
    lines += [f"- {each}" for each in [*where, *_command(report, side, one)]]
    lines += ["", *cases_table(side, cases)] if cases else []
    moved = told(moved_counts(one)) if one["compared"] else verdict_words(one["verdict"])
    return f"{label}: {moved}", lines


def _command(report: Entry, side: Entry, function: Entry) -> Iterator[str]:
    """Say what to type to read the case that moved most."""
    baseline, run = side["baseline"], report["run"]
    if function["moved"] and baseline and run and baseline["how"] != "table":
        words = map(shlex.quote, (function["moved"][0]["case"], baseline["id"], run["id"]))
        yield f"Read a case where its runs are: {code_span(' '.join(['llmeval diff', *words]))}"


def _ungated(one: Entry) -> str:
    before, after, difference = (
        "none" if value is None else figure(value, one["metric"])
        for value in (one["baseline_mean"], one["mean"], one["difference"])
    )
    return f"- {name(one['function'])} {name(one['metric'])}: {before}, now {after} ({difference})"


def _facts(report: Entry) -> Iterator[str]:
    baseline, run = report["baseline"], report["run"]
    for side, found in (("Baseline", baseline), ("Here", run)):
        if found is not None:
            yield f"{side}: {_run(found)}"
    if baseline is not None:
        yield from map(told, baseline["notes"][:_MOST_LINES])
    for one in islice(report["differences"], _MOST_LINES):
        of = f" (of {counted(len(one['functions']), 'function')})" if one["functions"] else ""
        before, now = (name(", ".join(one[side])) for side in ("baseline", "here"))
        yield f"Differs from the baseline: {name(one['fact'])} {before}, now {now}{of}"
    for one in islice(report["not_judged"], _MOST_LINES):
        cases = counted(one["cases"], "case")
        yield f"Not judged: {name(one['function'])} ({cases}, {one['why']})"
    yield from map(told, report["scope"][:_MOST_LINES])
    yield from map(told, report["notes"][:_MOST_LINES])


def _run(run: Entry) -> str:
    """Name a run: its commit, when it was recorded, what it asked, where it is."""
    parts = [f"run {name(run['id'])} of {name(run['created'][:16].replace('T', ' '))}"]
    if run["commit"]:
        parts.append(f"commit {name(run['commit'])}{' with changes' * run['dirty']}")
    parts += [name(model) for model in run["models"][:_MOST_LINES]]
    calls, cost = run["calls"], run["cost"]["spent"]
    parts.append(f"{calls['made']} calls made, {calls['replayed']} replayed")
    if cost:
        parts.append(f"${cost:.2g}")
    if run["ci"] and run["ci"]["url"]:
        parts.append(f"recorded by {name(run['ci']['url'])}")
    return ", ".join(parts)
