"""The first 25 lines: did it fall, how much, how sure, which cases, what would have been missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.reports.formats import counted, figure
from pytest_llmeval.reports.markdown.cells import (
    CASE_COLUMNS,
    Entry,
    case_cells,
    cells,
    headings,
    is_tested,
    name,
    smallest_drop,
    table,
    told,
    verdict_words,
)
from pytest_llmeval.reports.sentences import VERDICTS

_MOST_FUNCTIONS = 4
_MOST_CASES = 5
_SHOWN_OF_HASH = 12
_ORDER = {str(verdict): at for at, verdict in enumerate(Verdict)}
_NEEDS_NO_ACT = ("inconclusive", "no_significant_change")


def worst_first(functions: Sequence[Entry]) -> list[Entry]:
    """Order functions: those that fail, then by verdict, then by what they lost."""
    return sorted(
        functions,
        key=lambda one: (
            not one.get("fails"),
            _ORDER[one["verdict"]],
            one.get("difference") or 0.0,
        ),
    )


def is_unchanged(report: Entry) -> bool:
    """Whether nothing new was measured, and nothing else is to be said."""
    sides = [report, *([report["anchor"]] if report["anchor"] else [])]
    functions = [one for side in sides for one in side["functions"]]
    return not report["fails"] and {one["verdict"] for one in functions} == {"unchanged"}


def unchanged_line(report: Entry) -> str:
    """Say in one line that nothing changed."""
    part = [line for line in report["scope"] if line.startswith("partial")]
    part += [f"not judged: {one['function']} ({one['why']})" for one in report["not_judged"][:5]]
    rest = f" · {told('; '.join(part))}" if part else ""
    return f"**LLM evals: unchanged** · {_counts(report)}{rest}"


def head(report: Entry) -> Iterator[str]:
    """Write the lines that answer the five questions."""
    side = _failing_side(report)
    functions = worst_first([one for one in side["functions"] if one["verdict"] != "unchanged"])
    yield f"## LLM evals: {_title(report, side)}"
    yield ""
    yield f"{_lead(report, functions)} {_consequence(report)}"
    yield ""
    yield _counts(side)
    if report["verdict"] == "not_gated" or not report["baseline"]:
        yield from _described(functions)
        return
    shown = functions[:_MOST_FUNCTIONS]
    yield ""
    reference = side["baseline"]["reference"]
    yield from table(headings(report, reference=reference), list(map(cells, shown)))
    if len(functions) > len(shown):
        yield f"\nand {counted(len(functions) - len(shown), 'function')} more, below."
    yield from _missed(functions)
    yield from _cases(shown, reference=reference)


def reference_of(side: Entry) -> str:
    """Name what is compared with, and the commit of its run if there is one."""
    baseline = side["baseline"]
    if baseline is None:
        return "nothing"
    commit = baseline["commit"]
    shown = name(baseline["reference"]) + (f" at {name(commit[:_SHOWN_OF_HASH])}" if commit else "")
    if baseline["substitute"] and baseline["wanted"]:
        shown += f", which stands in for {name(baseline['wanted'][:_SHOWN_OF_HASH])}"
    return shown


def _failing_side(report: Entry) -> Entry:
    """Return the comparison to be shown first: the anchor's where that alone fails."""
    anchor = report["anchor"]
    fails = any(one.get("fails") for one in report["functions"]) or report["why"]
    return anchor if anchor and anchor["fails"] and not fails else report


def _title(report: Entry, side: Entry) -> str:
    verdict = side["verdict"]
    accepted = verdict == "regressed" and not side["fails"]
    words = verdict_words(verdict, accepted=accepted)
    if side is not report:
        words += f" against the anchor {name(side['baseline']['reference'])}"
    return words


def _lead(report: Entry, functions: Sequence[Entry]) -> str:
    """Say the worst in a sentence."""
    texts = [report["why"]] if report["why"] else list(map(_sentence, functions[:1]))
    return " ".join(f"**{told(text)}.**" for text in texts)


def _sentence(function: Entry) -> str:
    text: str = function.get("sentence") or "it is compared with nothing"
    is_named = text.startswith(function["label"])
    return text if is_named else f"{function['label']}: {text}"


def _consequence(report: Entry) -> str:
    if report["fails"]:
        return "This fails the build."
    if any(one.get("accepted") for one in report["functions"]):
        return "It does not fail the build: the ini file says that it is meant."
    return "It does not fail the build."


def _counts(side: Entry) -> str:
    """Count the functions by verdict, and name what they are compared with."""
    counts = Counter(
        verdict_words(one["verdict"], accepted=one.get("accepted", False))
        for one in worst_first(side["functions"])
    )
    shown = [f"{count} {word}" for word, count in counts.items() if word != "unchanged"]
    if counts["unchanged"]:
        shown.append(f"{counts['unchanged']} {VERDICTS[Verdict.UNCHANGED]}")
    cases = sum(one["cases"] for one in side["functions"])
    functions = counted(len(side["functions"]), "function")
    counted_all = f"{functions} of {counted(cases, 'case')} against {reference_of(side)}"
    return f"{counted_all}: {', '.join(shown) or 'nothing was judged'}."


def _missed(functions: Sequence[Entry]) -> Iterator[str]:
    """Say which drops could not have been seen."""
    tested = [one for one in functions if is_tested(one)]
    missed = [
        f"in {name(one['label'])} {smallest_drop(one) or 'any drop, as too few cases moved'}"
        for one in tested[:_MOST_FUNCTIONS]
    ]
    if missed:
        yield ""
        yield (
            f"**What could have been missed:** {'; '.join(missed)}. "
            "Of drops of that size 4 of 5 are found. "
            "Where nothing was asked anew, nothing new was measured."
        )


def _cases(functions: Sequence[Entry], *, reference: str) -> Iterator[str]:
    """Name the cases that moved most, over all functions that are shown."""
    moved = [(one, case) for one in functions for case in one["moved"] if _is_telling(one, case)]
    moved.sort(key=lambda pair: -abs(pair[1]["difference"]))
    if not moved:
        return
    compared = [case for one in functions for case in one["compared"]]
    fell = sum((case["difference"] or 0) < 0 for case in compared)
    rose = sum((case["difference"] or 0) > 0 for case in compared)
    yield ""
    yield f"**Which cases:** {fell} of {len(compared)} fell, {rose} rose. Those that moved most:"
    yield ""
    titles = [name(reference) if title == "baseline" else title for title in CASE_COLUMNS]
    rows = [case_cells(case, one["metric"]) for one, case in moved[:_MOST_CASES]]
    yield from table(titles, rows)


def _is_telling(function: Entry, case: Entry) -> bool:
    """Whether a case shows why its function has its verdict."""
    if function["verdict"] == "improved":
        return bool(case["difference"] > 0)
    return bool(case["difference"] < 0)


def _described(functions: Sequence[Entry]) -> Iterator[str]:
    """Write means of a run that is compared with nothing, and its worst cases."""
    rows = [
        [
            name(one["label"]),
            str(one["cases"]),
            "" if one["mean"] is None else figure(one["mean"], one["metric"]),
            "" if one["interval"] is None else "[{:.3g}, {:.3g}]".format(*one["interval"]),
        ]
        for one in functions[:_MOST_FUNCTIONS]
    ]
    yield ""
    yield from table(["function", "cases", "mean", "interval"], rows)
    worst = [(one, case) for one in functions for case in one["moved"]]
    worst.sort(key=lambda pair: pair[1]["mean"])
    if worst:
        yield ""
        yield "**Worst cases:**"
        yield ""
        rows = [case_cells(case, one["metric"]) for one, case in worst[:_MOST_CASES]]
        yield from table(CASE_COLUMNS, rows)
