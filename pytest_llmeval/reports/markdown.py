"""A report as one page of Markdown, for a pull request or the summary of a job.

Its first 25 lines say: did it fall, how much, how sure, which cases, what would have been missed.
Below them blocks are folded: what was compared, and each function that moved.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from pytest_llmeval.reports.document import (
    Entry,
    are_hits,
    consequence,
    failing_side,
    figures,
    has_moved,
    is_unchanged,
    lead,
    moved_counts,
    moved_functions,
    moved_ungated,
    not_seen,
    part_judged,
    telling_cases,
    title,
    undetected_drops,
    worst_first,
)
from pytest_llmeval.reports.formats import (
    case_name,
    counted,
    counted_comparisons,
    dollars,
    ends_of,
    figure,
    hits,
    is_own_hash,
    percent,
    recorded_by,
)
from pytest_llmeval.reports.sentences import (
    ALL_REPLAYED,
    BOTH_REPLAYED,
    CAUGHT,
    CAUGHT_IN_A_THIRD,
    MANY_CASES,
    verdict_words,
)
from pytest_llmeval.safe_text import code_span, html_code, prose

MOST = 64_000  # characters; a comment on GitHub has at most 65,536, and begins with more
_ROOM_FOR_NOTE = 300
_MOST_LINES = 20  # of one kind
_LONGEST_NAME = 120  # characters
_LONGEST_SENTENCE = 800
_SHOWN_OF_HASH = 12
_MOST_FUNCTIONS = 4  # of the head, where some moved
_MOST_ROWS = 100  # of the head, where nothing is compared
_MOST_CASES = 5
_MOST_NOTES = 3
_TYPED = ("llm_", "llmeval ", "pytest", "git ", "add --")


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
    left_out = 0
    for block in _functions(document):
        if len(block) < room:
            parts.append(block)
            room -= len(block) + 1
        else:
            left_out += 1
    if left_out:
        blocks = counted(left_out, "block of details", "blocks of details")
        parts.append(f"Left out, as there is no more room: {blocks}. The JSON report has all.\n")
    return "\n".join(parts)


def _head(report: Entry) -> Iterator[str]:
    """Write the lines that answer the five questions."""
    side = failing_side(report)
    functions = moved_functions(side)
    yield f"## LLM evals: {title(report, side, _name)}"
    yield ""
    yield f"{_lead(report, functions)} {consequence(report)}"
    if not side["functions"]:
        return
    yield ""
    yield _extent(report, side)
    if report["verdict"] == "not_gated" and report["notes"]:
        yield from ("", " · ".join(map(_told, report["notes"][:_MOST_NOTES])))
    yield ""
    if side["baseline"] is None:
        yield from _cases(side, functions)
        yield ""
        yield from _means_table(functions[:_MOST_ROWS])
        yield from _more(functions[_MOST_ROWS:])
        return
    shown = functions[:_MOST_FUNCTIONS]
    yield from _functions_table(report, side, shown)
    yield from _missed(side)
    yield from _cases(side, [one for one in shown if one["verdict"] == shown[0]["verdict"]])
    yield from _more(functions[_MOST_FUNCTIONS:], order=", the worst first")


def _more(functions: Sequence[Entry], *, order: str = "") -> Iterator[str]:
    """Count the functions that have no row in the head."""
    if functions:
        count = counted_comparisons([one["function"] for one in functions], more="more ")
        yield from ("", f"{count} below{order}.")


def _lead(report: Entry, functions: Sequence[Entry]) -> str:
    """Say the worst in a sentence."""
    told_first, *more = [*map(_told, lead(report, functions)), ""]
    return f"**{told_first}.**{''.join(f' {each}.' for each in more if each)}" if told_first else ""


def _extent(report: Entry, side: Entry) -> str:
    """Say how many functions were compared with what, and whether that is a part alone."""
    counts = Counter(
        verdict_words(one["verdict"], accepted=one.get("accepted", False))
        for one in worst_first(side["functions"])
    )
    shown = [f"{count} {word}" for word, count in counts.items() if word != "unchanged"]
    if counts["unchanged"]:
        unchanged = (one for one in side["functions"] if one["verdict"] == "unchanged")
        has_new = any(one["only_here"] for one in unchanged)
        shown.append(f"{counts['unchanged']} {BOTH_REPLAYED if has_new else ALL_REPLAYED}")
    names = [one["function"] for one in side["functions"]]
    keyless = report["keyless"]["cases"] if report["keyless"] else ()
    cases = report["run"]["cases"] - len(keyless) if report["run"] else 0
    text = f"{counted(len(set(names)), 'function')} with {counted(cases, 'case')}"
    if len(set(names)) < len(names):
        text += f" in {counted_comparisons(names)}"
    if side["baseline"] is None:
        text += ", compared with nothing."
    else:
        text += f" against {_reference_of(side)}: {', '.join(shown) or 'nothing was judged'}."
    parts = part_judged(report)
    return f"{text} Only a part was judged: {_told(parts)}." if parts else text


def _missed(side: Entry) -> Iterator[str]:
    """Say which drops could not have been seen."""
    missed = [f"in {_name(label)} {drop}" for label, drop in undetected_drops(side)]
    if missed:
        yield ""
        text = f"**What would have been missed:** {'; '.join(missed)}. "
        text += f"Drops of that size are found {CAUGHT}, smaller ones less often"
        few = any(0 < one["changed"] < MANY_CASES for one in side["functions"])
        text += f"; those of fewer than {MANY_CASES} cases {CAUGHT_IN_A_THIRD}." if few else "."
        same = [one["function"] for one in side["functions"] if one["verdict"] == "unchanged"]
        if same:
            text += (
                f" The {counted_comparisons(same, more='unchanged ')} asked what "
                f"{_name(side['baseline']['reference'])} had asked, so nothing new was measured."
            )
        yield text


def _cases(side: Entry, functions: Sequence[Entry]) -> Iterator[str]:
    """Name the cases that moved most, over some functions."""
    moved = telling_cases(functions)
    if not moved:
        return
    yield ""
    if side["baseline"] is None:
        yield "**Worst cases:**"
    else:
        counts = [_told(moved_counts(one)) for one in functions]
        if len(functions) > 1:
            names = [_name(one["label"]) for one in functions]
            counts = [f"in {label} {told}" for label, told in zip(names, counts, strict=True)]
        yield f"**Which cases:** {'; '.join(counts)}. Those that moved most:"
    yield ""
    yield from _cases_table(side, moved[:_MOST_CASES])


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
            rows = _functions_table(report, other, other["functions"][:_MOST_LINES])
            yield _folded(title, [f"{_reference_of(other)}:", "", *rows])
    moved = [one for one in report["ungated"] if one["changed"] and has_moved(one)]
    if moved:
        yield _folded("Not gated", map(_ungated, moved[:_MOST_LINES]))


def _folded(title: str, lines: Iterable[str]) -> str:
    body = "\n".join(lines)
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>\n"


def _function(report: Entry, side: Entry, one: Entry) -> tuple[str, list[str]]:
    """Return the title and the lines of the block of a function."""
    label = html_code(one["label"][:_LONGEST_NAME])
    place = f"{one['file']}:{one['line']}" if one["line"] else one["file"]
    where = [f"At {_name(place)}."] if place else []
    baseline, run = side["baseline"], report["run"]
    if one["moved"] and baseline and run and baseline["how"] != "table":
        typed = ["llmeval", "diff", one["moved"][0]["case"], baseline["id"], run["id"]]
        where.append(f"Read a case where its runs are: {code_span(shlex.join(typed))}")
    cases = [(one, case) for case in one["moved"]]
    if side["baseline"] is None:
        rows = [*_means_table([one]), "", *_cases_table(side, cases)]
        return f"{label}: {counted(len(one['worst']), 'case')} fell short", [*where, "", *rows]
    lines = [_told(one["sentence"]), "", *_functions_table(report, side, [one]), ""]
    lines += [f"- {_told(remark)}" for remark in one["remarks"][:_MOST_LINES]]
    if one["accepting_line"]:
        lines.append(f"- If this drop is meant, say in the ini file {_name(one['accepting_line'])}")
    lines += [f"- {each}" for each in where]
    lines += ["", *_cases_table(side, cases)] if cases else []
    moved = _told(moved_counts(one)) if one["compared"] else verdict_words(one["verdict"])
    return f"{label}: {moved}", lines


def _ungated(one: Entry) -> str:
    moved = moved_ungated(one).replace(" -> ", " → ")
    return f"- {_name(one['name'])} {_name(one['metric'])}: {moved}"


def _facts(report: Entry) -> Iterator[str]:
    baseline, run = report["baseline"], report["run"]
    for side, found in (("Baseline", baseline), ("Here", run)):
        if found is not None:
            yield f"{side}: {_run(found)}{not_seen(report) if found is run else ''}"
    if baseline is not None:
        yield from map(_told, baseline["notes"][:_MOST_LINES])
    for one in report["differences"][:_MOST_LINES]:
        of = f" (of {counted(len(one['functions']), 'function')})" if one["functions"] else ""
        before, now = (_name(", ".join(one[side])) for side in ("baseline", "here"))
        yield f"Differs from the baseline: {_name(one['fact'])} {before}, now {now}{of}"
    for one in report["not_judged"][:_MOST_LINES]:
        cases = counted(one["cases"], "case")
        yield f"Not judged: {_name(one['function'])} ({cases}, {one['why']})"
    yield from map(_told, report["scope"][:_MOST_LINES])
    yield from map(_told, report["notes"][:_MOST_LINES])


def _run(run: Entry) -> str:
    """Name a run: its commit, when it was recorded, what it asked, where it is."""
    parts = [f"run {_name(run['id'])} of {_name(run['created'][:16].replace('T', ' '))}"]
    if run["commit"]:
        parts.append(f"commit {_name(run['commit'])}{' with changes' * run['dirty']}")
    parts += [_name(model) for model in run["models"][:_MOST_LINES]]
    calls, cost = run["calls"], run["cost"]["spent"]
    parts.append(f"{calls['made']} calls made, {calls['replayed']} replayed")
    if cost:
        parts.append(dollars(Decimal(repr(cost))))
    if run["ci"] and run["ci"]["url"]:
        parts.append(f"recorded by {_name(run['ci']['url'])}")
    return ", ".join(parts)


def _cut(text: str, most: int = _LONGEST_NAME) -> str:
    """Cut a text that is too long for its place."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _name(text: str) -> str:
    """Write a name, or a text of a model or a test, as code in one line."""
    return code_span(_cut(text)) if text else ""


def _told(sentence: str) -> str:
    """Write a sentence; what is to be typed stands between two blanks in it, and is code here."""
    lines = [line.split("  ") for line in _cut(sentence, _LONGEST_SENTENCE).split("\n")]
    return " · ".join(" ".join(map(_part, filter(None, line))) for line in lines)


def _part(text: str) -> str:
    part = text.strip()
    return code_span(part) if part.startswith(_TYPED) else prose(part.replace(" -> ", " → "))


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Put cells in a table, without the columns that are empty in every row."""
    columns = zip(heading, *rows, strict=True)
    kept = [(title, "---", *cells) for title, *cells in columns if any(cells)]
    return [f"| {' | '.join(line)} |" for line in zip(*kept, strict=True)]


def _functions_table(report: Entry, side: Entry, functions: Sequence[Entry]) -> list[str]:
    """Put functions of a comparison in a table; the report has the level of their intervals."""
    interval = f"{percent(1 - 2 * report['settings']['alpha'])} interval"
    sides = _short_reference(side), "here"
    heading = ("", "function", "changed", *sides, "difference", interval, "p")
    target = report["settings"]["target"]
    shown = [(one, figures(one, target=target)) for one in functions]
    rows = [[f"**{found.verdict}**", _name(one["label"]), *found[1:]] for one, found in shown]
    return _table(heading, rows)


def _means_table(functions: Sequence[Entry]) -> list[str]:
    """Put functions that are compared with nothing in a table."""
    rows = [
        [
            _name(one["label"]),
            str(one["cases"]),
            "" if one["mean"] is None else figure(one["mean"], one["metric"]),
            ends_of(one["interval"], one["metric"]),
        ]
        for one in functions
    ]
    return _table(["function", "cases", "mean", "interval"], rows)


def _cases_table(side: Entry, cases: Sequence[tuple[Entry, Entry]]) -> list[str]:
    """Put cases that moved in a table: pairs of a function, and a case of it."""
    reference = _short_reference(side)
    replies = f"reply on {reference}", "reply here"
    heading = ("case", reference, "here", *replies, "first failure here")
    return _table(heading, [_case_cells(case, one) for one, case in cases])


def _short_reference(side: Entry) -> str:
    return _name(side["baseline"]["reference"]) if side["baseline"] else "baseline"


def _reference_of(side: Entry) -> str:
    """Name the baseline, and the commit of its run if there is one."""
    baseline = side["baseline"]
    shown = _name(baseline["reference"])
    if baseline["commit"] and not is_own_hash(baseline["reference"], baseline["commit"]):
        shown += f" at {_name(baseline['commit'][:_SHOWN_OF_HASH])}"
    if baseline["substitute"] and baseline["wanted"]:
        shown += f", which stands in for {_name(baseline['wanted'][:_SHOWN_OF_HASH])}"
    by = recorded_by(baseline["how"], baseline["ci"])
    return f"{shown}, recorded {_told(by)}" if by else shown


def _case_cells(case: Entry, function: Entry) -> list[str]:
    """Write the row of a case of a function that moved."""
    excerpt = case.get("excerpt") or {"baseline": None, "here": None}
    sides, shown = [case.get("baseline_scores", ()), case["scores"]], are_hits(function)
    return [
        _name(case_name(case["case"], function["function"], function["name"])),
        *(hits(each, function["metric"], are_hits=shown) if each else "" for each in sides),
        *(_name(excerpt[side] or "") for side in ("baseline", "here")),
        _name(case["failure"]),
    ]
