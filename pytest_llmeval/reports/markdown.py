"""A report as one page of Markdown, for a pull request or the summary of a job.

Its first 25 lines answer: did it fall, how much, how sure, which cases, what would have been
missed. Folded blocks follow: what was compared, and each function that moved.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from pytest_llmeval.errors import counted
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.reports import notation, telling
from pytest_llmeval.reports.common_causes import changed_words, other_differences, told_changes
from pytest_llmeval.reports.report import (
    BaselineEntry,
    CaseEntry,
    ComparedFunction,
    DescribedFunction,
    Report,
    RunEntry,
    Side,
    UngatedFunction,
)
from pytest_llmeval.reports.sentences import (
    CAUGHT,
    CAUGHT_IN_A_THIRD,
    MANY_CASES,
    MORE,
    scores_of_both,
    unchanged_words,
    verb,
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
_MOST_CASES = 3
_MOST_NOTES = 3
_TYPED = ("llm_", "llmeval ", "pytest", "git ", "add --")


def render(report: Report) -> str:
    """Write a report as Markdown.

    Returns:
        At most ``MOST`` characters, a newline at the end. The report names what it leaves out.
    """
    if telling.is_unchanged(report):
        return f"**LLM evals: unchanged** · {_extent(report, report.side)}\n"
    parts, left_out = ["\n".join([*_head(report), ""])], 0
    if facts := [f"- {line}" for line in _facts(report)]:
        parts.append(_folded("What was compared", facts))
    room = MOST - _ROOM_FOR_NOTE - sum(map(len, parts))
    for block in _functions(report):
        if len(block) < room:
            parts.append(block)
            room -= len(block) + 1
        else:
            left_out += 1
    if left_out:
        blocks = counted(left_out, "block of details", "blocks of details")
        parts.append(f"Left out, as there is no more room: {blocks}. The JSON report has all.\n")
    return "\n".join(parts)


def _head(report: Report) -> Iterator[str]:
    """Write the lines that answer the five questions."""
    side = telling.failing_side(report)
    functions = telling.moved_functions(side)
    yield from (f"## LLM evals: {telling.title(report, side, _name)}", "")
    yield f"{_lead(report, functions)} {telling.consequence(report)}"
    if report.to_decide:
        yield from ("", f"{_told(report.to_decide[0].upper() + report.to_decide[1:])}.")
    if not side.functions:
        return
    yield from ("", _extent(report, side))
    if report.side.verdict == Verdict.NOT_GATED and report.notes:
        yield from ("", " · ".join(map(_told, report.notes[:_MOST_NOTES])))
    yield ""
    if side.baseline is None:
        if worst := telling.worst_cases(side.described):
            yield from ("", "**Worst cases:**", "")
            yield from _cases_table("", worst[:_MOST_CASES])
        yield ""
        yield from _means_table(side.described[:_MOST_ROWS])
        yield from _more(side.described, _MOST_ROWS)
        return
    shown = functions[:_MOST_FUNCTIONS]
    yield from _functions_table(report, side.baseline, shown)
    for heading, change in told_changes(report):
        parts = [f"{_name(part.role)} {code_span(changed_words(part))}" for part in change.parts]
        yield from ("", f"**{_told(heading[0].upper() + heading[1:])}:** {' · '.join(parts)}")
    yield from _missed(side, side.baseline, target=report.settings.target)
    alike = [one for one in shown if one.of.verdict is shown[0].of.verdict]
    yield from _cases(side.baseline.reference, alike)
    yield from _more(functions, _MOST_FUNCTIONS, ", the worst first")


def _more(functions: Sequence[telling.AnyFunction], shown: int, order: str = "") -> Iterator[str]:
    """Count the functions that have no row in the head, behind so many that are shown."""
    names = [one.of.function for one in functions]
    if names[shown:]:
        count = notation.counted_comparisons(names[shown:], more="more ", besides=names[:shown])
        yield from ("", f"{count} below{order}.")


def _lead(report: Report, functions: Sequence[ComparedFunction]) -> str:
    """Say the worst in a sentence."""
    told_first, *more = [*map(_told, telling.lead(report, functions)), ""]
    return f"**{told_first}.**{''.join(f' {each}.' for each in more if each)}" if told_first else ""


def _extent(report: Report, side: Side) -> str:
    """Say how many functions were compared, with which baseline, and whether in part alone."""
    names = [one.of.function for one in side.functions]
    is_table, functions = notation.kind_of(names) == "metric", len(notation.functions_of(names))
    keyless = report.keyless.cases if report.keyless else ()
    cases = report.run.cases - len(keyless) if report.run else 0
    text = counted(cases, "case")
    if not is_table:
        text = f"{counted(functions, 'function')} with {text}"
    if is_table or functions < len(names):
        text += f" in {notation.counted_comparisons(names)}"
    if side.baseline is None:
        text += ", compared with nothing."
    else:
        verdicts = ", ".join(_verdicts(side)) or "nothing was judged"
        text += f" against {_reference_of(side.baseline)}: {verdicts}."
    parts = telling.part_judged(report)
    return f"{text} Only a part was judged: {_told(parts)}." if parts else text


def _verdicts(side: Side) -> Iterator[str]:
    """Count the functions by verdict, the worst first and the unchanged ones last."""
    functions = [one.of for one in telling.worst_first(side.compared)]
    counts = Counter(verdict_words(one.verdict, accepted=one.accepted) for one in functions)
    yield from (f"{count} {word}" for word, count in counts.items() if word != "unchanged")
    if counts["unchanged"]:
        same = [one for one in functions if one.verdict is Verdict.UNCHANGED]
        yield f"{len(same)} {unchanged_words(same)}"


def _missed(side: Side, baseline: BaselineEntry, *, target: float) -> Iterator[str]:
    """Say which drops, and which worse cases, could not have been seen."""
    drops, has_size = telling.undetected_drops(side, target=target)
    text = "**What this run cannot see:** "
    if missed := [f"in {_name(label)} {drop}" for label, drop in drops]:
        text += f"{'; '.join(missed)}."
        if has_size:
            text += f" A drop of that size is found {CAUGHT}, a smaller one less often"
            few = any(0 < one.of.effect.changed < MANY_CASES for one in side.compared)
            text += f"; with fewer than {MANY_CASES} cases {CAUGHT_IN_A_THIRD}." if few else "."
        verdicts = [(one.of.function, one.of.verdict) for one in side.compared]
        if same := [name for name, verdict in verdicts if verdict is Verdict.UNCHANGED]:
            asked = f"asked what {_name(baseline.reference)} had asked"
            count = notation.counted_comparisons(same, more="unchanged ")
            text += f" The {count} {asked}, so nothing new was measured."
    if better := ", ".join(map(_name, telling.better_means(side))):
        text += f"{' In' if missed else 'in'} {better} {telling.MEAN_ALONE}."
    yield from ("", text) if missed or better else ()


def _cases(reference: str, functions: Sequence[ComparedFunction]) -> Iterator[str]:
    """Name the cases that fell most, or rose most, over some functions."""
    moved = telling.telling_cases(functions)
    if not moved:
        return
    counts = [_told(telling.moved_counts(one)) for one in functions]
    if len(functions) > 1:
        names = [_name(one.label) for one in functions]
        counts = [f"in {label} {told}" for label, told in zip(names, counts, strict=True)]
    shown = moved[:_MOST_CASES]
    ways = {verb(one.of.better, improved=case.of.difference > 0) for one, case in shown}
    # where functions differ, some that moved as far may be left out
    is_most = len(ways) == 1 and len({one.of.verdict is Verdict.IMPROVED for one in functions}) == 1
    of_these = f"Those that {ways.pop()} most:" if is_most else "Some of them:"
    yield from ("", f"**Which cases:** {'; '.join(counts)}. {of_these}", "")
    yield from _cases_table(reference, shown)


def _functions(report: Report) -> Iterator[str]:
    """Write a block for each function that moved, worst first; then for the other side."""
    side = telling.failing_side(report)
    if side.baseline is None:
        yield from (_folded(*_described(one)) for one in side.described if one.moved)
    else:
        for one in telling.moved_functions(side):
            yield _folded(*_compared(report, side.baseline, one))
    for other in (report.side, report.anchor):
        if other is not None and other is not side and other.baseline is not None:
            title = f"Against {html_code(other.baseline.reference)}"
            rows = _functions_table(report, other.baseline, other.compared[:_MOST_LINES])
            yield _folded(title, [f"{_reference_of(other.baseline)}:", "", *rows])
    if moved := [one for one in report.ungated if one.changed and telling.has_moved(one)]:
        yield _folded("Not gated", map(_ungated, moved[:_MOST_LINES]))


def _folded(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"<details><summary>{title}</summary>\n", *lines, "\n</details>\n"])


def _where(one: telling.AnyFunction) -> list[str]:
    file, line = one.place
    return [f"At {_name(f'{file}:{line}' if line else file)}."] if file else []


def _described(one: DescribedFunction) -> tuple[str, list[str]]:
    """Return the title and the lines of the block of a function that is compared with nothing."""
    cases = _cases_table("", [(one, case) for case in one.moved])
    title = f"{html_code(one.label[:_LONGEST_NAME])}: {counted(len(one.of.worst), 'case')}"
    return f"{title} fell short", [*_where(one), "", *_means_table([one]), "", *cases]


def _compared(
    report: Report, baseline: BaselineEntry, one: ComparedFunction
) -> tuple[str, list[str]]:
    """Return the title and the lines of the block of a function that was compared."""
    where = _where(one)
    if one.moved and report.run and not baseline.is_table:
        ids = baseline.recorded.id, report.run.id
        typed = shlex.join(["llmeval", "diff", one.moved[0].of.case, *ids])
        where.append(f"To read a case, where both runs are: {code_span(typed)}")
    lines = [_told(one.sentence), "", *_functions_table(report, baseline, [one]), ""]
    remarks = [*telling.pass_hat_words(one), *one.remarks[:_MOST_LINES]]
    lines += [f"- {_told(remark)}" for remark in remarks]
    if one.accepting_line:
        line = _name(one.accepting_line)
        lines.append(f"- To accept this drop, add to the ini file {line}{MORE}")
    lines += [f"- {each}" for each in where]
    if one.moved:
        lines += ["", *_cases_table(baseline.reference, [(one, case) for case in one.moved])]
    moved = _told(telling.moved_counts(one)) if one.compared else verdict_words(one.of.verdict)
    return f"{html_code(one.label[:_LONGEST_NAME])}: {moved}", lines


def _ungated(one: UngatedFunction) -> str:
    moved = telling.moved_ungated(one).replace(" -> ", " → ")
    return f"- {_name(one.name)} {_name(one.metric)}: {moved}"


def _facts(report: Report) -> Iterator[str]:
    baseline, run = report.side.baseline, report.run
    told = _table_file if baseline is not None and baseline.is_table else _run
    if baseline is not None:
        yield f"Baseline: {told(baseline.recorded)}"
    if run is not None:
        yield f"Here: {told(run)}{telling.not_seen(report)}"
    if baseline is not None:
        yield from map(_told, baseline.notes[:_MOST_LINES])
    for one in other_differences(report)[:_MOST_LINES]:
        of = f" (of {counted(len(one.functions), 'function')})" if one.functions else ""
        before, now = (_name(", ".join(values)) for values in (one.baseline, one.here))
        yield f"Differs from the baseline: {_name(one.fact)} {before}, now {now}{of}"
    for missing in report.not_judged[:_MOST_LINES]:
        cases = counted(missing.cases, "case")
        yield f"Not judged: {_name(missing.function)} ({cases}, {missing.why})"
    yield from map(_told, report.scope[:_MOST_LINES])
    yield from map(_told, report.notes[:_MOST_LINES])


def _run(run: RunEntry) -> str:
    """Name a run: its commit, when it was recorded, what it asked, where it is."""
    parts = [f"run {_name(run.id)} of {_name(run.created[:16].replace('T', ' '))}"]
    if run.commit:
        parts.append(f"commit {_name(run.commit)}{' with changes' * run.dirty}")
    parts += [_name(model) for model in run.models[:_MOST_LINES]]
    parts.append(f"{run.calls.made} calls made, {run.calls.replayed} replayed")
    if run.cost.spent:
        parts.append(notation.dollars(Decimal(repr(run.cost.spent))))
    if run.ci and run.ci.url:
        parts.append(f"recorded by {_name(run.ci.url)}")
    return ", ".join(parts)


def _table_file(run: RunEntry) -> str:
    """Name a score table, which has no calls."""
    written = _name(run.created[:16].replace("T", " "))
    return f"score table {_name(run.id)}, written {written}, {counted(run.trials, 'trial')}"


def _cut(text: str, most: int = _LONGEST_NAME) -> str:
    """Cut a text that is too long for its place."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _name(text: str) -> str:
    """Write a name, or a text of a model or a test, as code in one line."""
    return code_span(_cut(text)) if text else ""


def _told(sentence: str) -> str:
    """Write a sentence; a command, which stands between double blanks, becomes code."""
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


def _functions_table(
    report: Report, baseline: BaselineEntry, functions: Sequence[ComparedFunction]
) -> list[str]:
    """Put functions of a comparison in a table; the report has the level of their intervals."""
    interval = f"{notation.percent(1 - 2 * report.settings.alpha)} interval"
    sides = _name(baseline.reference), "here"
    noun = notation.kind_of(one.of.function for one in functions).removeprefix("test ")
    heading = ("", noun, "changed", *sides, "difference", interval, "p")
    shown = [(one, telling.figures(one.of, target=report.settings.target)) for one in functions]
    rows = [[f"**{found.verdict}**", _name(one.label), *found[1:]] for one, found in shown]
    return _table(heading, rows)


def _means_table(functions: Sequence[DescribedFunction]) -> list[str]:
    """Put functions that are compared with nothing in a table."""
    rows = [
        [
            _name(one.label),
            str(one.of.cases),
            "" if one.of.mean is None else notation.figure(one.of.mean, one.of.metric),
            notation.ends_of(one.of.interval, one.of.metric),
        ]
        for one in functions
    ]
    noun = notation.kind_of(one.of.function for one in functions).removeprefix("test ")
    return _table([noun, "cases", "mean", "interval"], rows)


def _cases_table(
    reference: str, cases: Sequence[tuple[telling.AnyFunction, telling.AnyMoved]]
) -> list[str]:
    """Put cases that moved in a table: pairs of a function, and a case of it."""
    reference = _name(reference) or "baseline"
    replies = f"reply on {reference}", "reply here"
    heading = ("case", reference, "here", *replies, "first failure here")
    rows = []
    for function, case in cases:
        metric, of, shown = function.of.metric, case.of, telling.are_hits(function)
        sides: tuple[str, ...] = ("", notation.hits(of.scores, metric, are_hits=shown))
        if isinstance(of, CaseEntry):
            sides = scores_of_both(of, metric, are_hits=shown)
        texts = *(reply or "" for reply in case.excerpt or (None, None)), case.failure
        name = notation.case_name(of.case, function.of)
        rows.append([_name(name), *sides, *map(_name, texts)])
    return _table(heading, rows)


def _reference_of(baseline: BaselineEntry) -> str:
    """Name the baseline, and the commit of its run if there is one."""
    commit, shown = baseline.recorded.commit, _name(baseline.reference)
    if commit and not notation.is_own_hash(baseline.reference, commit):
        shown += f" at {_name(commit[:_SHOWN_OF_HASH])}"
    if baseline.substitute and baseline.wanted:
        shown += f", used instead of {_name(baseline.wanted[:_SHOWN_OF_HASH])}"
    by = notation.recorded_by(baseline.how, baseline.recorded.ci)
    return f"{shown}, recorded {_told(by)}" if by else shown
