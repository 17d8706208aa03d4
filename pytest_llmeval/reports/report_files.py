"""Report files, the summary of a job, and a failing gate as failed tests and annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from pytest_llmeval.gate.results import Fact, FunctionComparison, Interval, Verdict, Why
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.models.http.masking import masked_keys
from pytest_llmeval.records import GateFailure
from pytest_llmeval.reports import json_report, notation, reasons, sentences
from pytest_llmeval.reports.markdown import render
from pytest_llmeval.reports.report import ComparedFunction, Report
from pytest_llmeval.reports.terminal.headline import why_it_fails
from pytest_llmeval.safe_text import printable
from pytest_llmeval.settings import HTML, MARKDOWN, STEP_SUMMARY, Settings

_LONGEST_WHY = 300
_SUITE = "llmeval"
_LISTED_CASES = 5
# GitHub shows this many of one step.
_MOST_ANNOTATIONS = 10
_OF_VALUES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_OF_PROPERTIES = _OF_VALUES | str.maketrans({":": "%3A", ",": "%2C"})


def write_reports(
    report: Report, paths: Sequence[Path], judgement: Judgement, *, option: str = "--llm-report"
) -> list[str]:
    """Write the files that an option names; return a sentence for each failure.

    Args:
        report: on the judgement.
        paths: each ends in one of ``REPORT_ENDINGS``.
        judgement: a page of HTML has its replies and earlier runs, too.
        option: that named them.
    """
    problems = []
    for path in paths:
        try:
            text = report_text(report, path.suffix, judgement)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except Exception as exc:  # the verdict stands, whichever error a report raises
            kind = "" if isinstance(exc, OSError) else f"{type(exc).__name__}: "
            why = f"{kind}{exc}"[:_LONGEST_WHY]
            problems.append(printable(f"{option}={path}: not written: {why}"))
    return problems


def report_text(report: Report, ending: str, judgement: Judgement) -> str:
    """Write a report in the form of an ending of ``REPORT_ENDINGS``.

    Keys are masked here, too: an earlier version may have kept one, and a name may hold one.
    """
    if ending == HTML:
        from pytest_llmeval.reports.html.rendering import render_page  # numpy and scipy

        return masked_keys(render_page(report, judgement))
    return masked_keys(render(report) if ending == MARKDOWN else json_report.json_text(report))


def append_summary(report: Report, environ: Mapping[str, str]) -> list[str]:
    """Append the Markdown to the summary of a job on GitHub; return likewise.

    Args:
        report: on the session.
        environ: the variables of the session, among which GitHub names the file.
    """
    path = environ.get(STEP_SUMMARY)
    if not path:
        return []
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{masked_keys(render(report))}\n")
    except Exception as exc:  # likewise
        return [printable(f"{STEP_SUMMARY}={path}: not written: {exc}")]
    return []


def refused(settings: Settings, message: str) -> Judgement:
    """Make the judgement on a session that was refused before anything ran."""
    return Judgement(settings=settings, could_not_judge=Fact(Why.REFUSED, (message,)))


def write_junit(path: Path, found: Sequence[GateFailure]) -> list[str]:
    """Write JUnit's file as pytest would have; return a sentence on a failure."""
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", name="pytest", errors="0", skipped="0")
    suite.attrib |= {"failures": str(len(found)), "tests": str(len(found))}
    for one in found:
        _, name = one.name.split("::", 1)
        case = ElementTree.SubElement(suite, "testcase", classname=_SUITE, name=name)
        ElementTree.SubElement(case, "failure", message=one.title).text = "\n".join(one.lines)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as exc:
        return [printable(f"--junitxml={path}: not written: {exc}")]
    return []


def failures(report: Report, judgement: Judgement) -> list[GateFailure]:
    """List what fails the session: each function once, then reasons of the whole session."""
    if not judgement.fails:
        return []
    by_function: dict[str, list[tuple[str, ComparedFunction]]] = {}
    for against, side in (("", report.side), ("against the anchor: ", report.anchor)):
        for one in side.compared if side else ():
            if one.of.fails:
                by_function.setdefault(one.of.function, []).append((against, one))
    found = [_of_function(name, failed) for name, failed in by_function.items()]
    return [*found, *_of_session(judgement, has_others=bool(found))]


def _of_function(function: str, failed: list[tuple[str, ComparedFunction]]) -> GateFailure:
    worst = min((one.of.verdict for _, one in failed), key=list(Verdict).index)
    lines, properties = list[str](), list[tuple[str, str]]()
    for against, one in failed:
        lines += _lines(one, against=against)
        properties += _properties(one.of, "llm_anchor" if against else "llm")
    first = failed[0][1]
    return GateFailure(
        name=f"{_SUITE}::{printable(function)}",
        word=worst.replace("_", " "),
        title=f"llm evals: {first.label}: {sentences.verdict_words(worst)}",
        lines=tuple(map(printable, lines)),
        properties=tuple(properties),
        file=first.place.file,
        line=first.place.line,
    )


def _lines(one: ComparedFunction, *, against: str) -> Iterator[str]:
    yield f"{against}{one.sentence}"
    if against:
        return
    yield from one.remarks
    fell = [case.of for case in one.moved if case.of.difference < 0]
    yield from (sentences.moved_case(case, one.of) for case in fell[:_LISTED_CASES])
    if one.accepting_line:
        yield f"to accept this drop, add to the ini file  {one.accepting_line}"


def _properties(one: FunctionComparison, prefix: str) -> Iterator[tuple[str, str]]:
    """Give the figures by which the gate decided: ``llm_pass_difference``, ``-0.248``.

    Where ratios are compared, the figure is ``llm_seconds_ratio``, with its interval.
    """
    effect, evidence, name = one.effect, one.evidence, f"{prefix}_{one.metric}"
    is_log = one.scale == "log"
    figures: dict[str, float | Interval | None] = {
        "baseline_mean": effect.baseline_mean,
        "mean": effect.mean,
        "ratio" if is_log else "difference": evidence.ratio if is_log else effect.difference,
        "interval": evidence.ratio_interval if is_log else evidence.interval,
        "p": evidence.p_adjusted,
    }
    yield f"{name}_verdict", str(one.verdict)
    for figure, value in figures.items():
        if value is not None:
            text = notation.ends(value) if isinstance(value, tuple) else notation.digits(value, 4)
            yield f"{name}_{figure}", text


def _of_session(judgement: Judgement, *, has_others: bool) -> Iterator[GateFailure]:
    """Describe a session that could not judge, or fails for another reason than one function."""
    comparison = judgement.comparison
    kept_from = bool(judgement.could_not_judge or judgement.unsaved)
    kept_from |= judgement.keyless is not None and not judgement.is_deferred
    why = "" if comparison is None else reasons.why_failed(comparison, judgement.settings)
    if has_others and not (kept_from or why):
        return
    line = why if has_others and why else why_it_fails(judgement)
    yield GateFailure(
        name=f"{_SUITE}::gate",
        word="not judged" if kept_from else "gate failed",
        title="llm evals: could not judge" if kept_from else "llm evals: the gate failed",
        lines=(printable(line),),
    )


def github_annotations(found: list[GateFailure]) -> list[str]:
    """Write failures as commands by which GitHub shows them at their lines."""
    if len(found) > _MOST_ANNOTATIONS:
        found, others = found[: _MOST_ANNOTATIONS - 1], found[_MOST_ANNOTATIONS - 1 :]
        names = ", ".join(one.name.removeprefix(f"{_SUITE}::") for one in others)
        title = f"llm evals: {len(others)} more"
        found = [*found, GateFailure(name="", word="", title=title, lines=(names,))]
    return [_annotation(one) for one in found]


def _annotation(failure: GateFailure) -> str:
    values = {"file": failure.file, "line": failure.line, "title": printable(failure.title)}
    given = {name: str(value) for name, value in values.items() if value is not None}
    told = ",".join(f"{name}={text.translate(_OF_PROPERTIES)}" for name, text in given.items())
    message = "\n".join(map(printable, failure.lines))
    return f"::error {told}::{message.translate(_OF_VALUES)}"
