"""The report as Markdown: golden files of every form, and what holds at any size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_llmeval.records import Run
from pytest_llmeval.reports.html.facts import facts
from pytest_llmeval.reports.json_report import dumped, indented, json_text
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.markdown import MOST, render
from pytest_llmeval.reports.report import Report
from tests.goldens import assert_golden
from tests.reports.judgements import (
    BRANCH,
    FORMS,
    LABEL,
    MAIN,
    SEARCH,
    TICKETS,
    Commit,
    function_of,
    judgement_of,
    suite,
)

HEAD = 25  # lines
SETTLED = ("ppppp",) * 12


def report_of(form: str) -> Report:
    return make_report(FORMS[form]())


def rounded(value: Any) -> Any:
    """A report with figures of so many digits as are the same on every machine."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_as_its_golden_files_have_it(form: str) -> None:
    report = report_of(form)
    assert_golden(f"json/{form}.json", indented(rounded(dumped(report))))
    assert_golden(f"markdown/{form}.md", render(report))


@pytest.mark.parametrize(
    ("form", "title", "consequence"),
    [
        ("regressed", "REGRESSED", "This fails the build."),
        ("accepted", "regressed, accepted", "It does not fail the build: the ini file"),
        ("no_significant_change", "no significant change", "It does not fail the build."),
        ("inconclusive", "inconclusive", "It does not fail the build."),
        ("not_comparable", "NOT COMPARABLE", "This fails the build."),
        ("could_not_judge", "could not judge", "This fails the build."),
        ("gone", "NOT COMPARABLE", "This fails the build."),
        ("anchor", "REGRESSED against the anchor `v1.4`", "This fails the build."),
    ],
)
def test_a_form_begins_with_its_verdict_and_what_that_does(
    form: str, title: str, consequence: str
) -> None:
    lines = render(report_of(form)).splitlines()
    assert lines[0] == f"## LLM evals: {title}"
    assert consequence in lines[2]


@pytest.mark.parametrize("form", ["unchanged", "partial"])
def test_unchanged_is_one_line(form: str) -> None:
    (line,) = render(report_of(form)).splitlines()
    assert line.startswith("**LLM evals: unchanged** · ")


def test_what_is_left_to_the_merge_queue_is_not_unchanged() -> None:
    report = report_of("unchanged")
    why = "deferred to the merge queue: 2 cases (they ask something new: OPENAI_API_KEY is not set)"
    side = replace(report.side, verdict="deferred", why=why)
    lines = render(replace(report, side=side)).splitlines()
    assert lines[0] == "## LLM evals: deferred to the merge queue"
    assert lines[2] == f"**{why}.** It does not fail the build."


def planted(commit: Commit, *, broken: str, replayed: bool) -> Run:
    """Nine functions; four of the hundred cases of one end as in ``broken``."""
    names = [f"parcel-{number}" for number in range(96)]
    names += [f"chargeback-{number}" for number in range(4)]
    outcomes = [*["ppppp"] * 96, *[broken] * 4]
    label = function_of(LABEL, names, outcomes, prompt=broken, replayed=False)
    tasks = ("summary", "tone", "language", "priority", "refund", "greeting", "escalate", "reply")
    others = [
        function_of(f"{SEARCH}::test_{task}", names[:6], ["ppppp"] * 6, replayed=replayed)
        for task in tasks
    ]
    return suite(commit, *others, label=label)


def test_the_first_lines_of_a_planted_regression_answer_the_five_questions() -> None:
    before = planted(MAIN, broken="ppppp", replayed=False)
    after = planted(BRANCH, broken="mmmmm", replayed=True)
    lines = render(make_report(judgement_of(after, baseline=before))).splitlines()[:HEAD]
    assert lines[0] == "## LLM evals: REGRESSED"
    assert lines[2].startswith("**test_label fell by 0.040 (1.000 → 0.960); chance alone would do")
    assert lines[2].endswith(" in 1 of 45 comparisons.** This fails the build.")
    assert "1 REGRESSED, 8 unchanged" in lines[4]
    text = "\n".join(lines)
    assert "**What this run cannot see:** in `test_label` some drops smaller than 0.0" in text
    assert "**Which cases:** of 100 cases 4 fell, 0 rose." in text
    for number in range(3):
        assert f"| `test_label[chargeback-{number}]` | 5/5 | 0/5 |" in text


def test_the_cases_that_are_shown_did_what_the_line_above_them_says() -> None:
    """Cases that rose are left out unless the function improved."""
    moved = function_of(LABEL, TICKETS, ("ppmpp", *SETTLED[:10], "ppppp"), prompt="v2")
    before = function_of(LABEL, TICKETS, (*SETTLED[:11], "mmmmm"))
    run, baseline = suite(BRANCH, label=moved), suite(MAIN, label=before)
    text = render(make_report(judgement_of(run, baseline=baseline)))
    assert "**Which cases:** of 12 cases 1 fell, 1 rose. Those that fell most:" in text
    assert "Those that rose most:" in render(report_of("improved"))


def test_a_drop_without_a_size_is_said_to_have_none() -> None:
    """Of 4 cases no drop can be found, so there is no drop "of that size"."""
    before = function_of(LABEL, TICKETS[:4], (*"pppp",))
    after = function_of(LABEL, TICKETS[:4], (*"pppm",), prompt="v2", replayed=False)
    run, baseline = suite(BRANCH, label=after), suite(MAIN, label=before)
    report = make_report(judgement_of(run, baseline=baseline))
    hidden = dict(facts(report, report.side))["What this run cannot see"]
    assert hidden == "in test_label any drop, as 4 cases are too few"
    assert "any drop, as 4 cases are too few" in render(report)
    assert "of that size" not in render(report)


@pytest.mark.parametrize("form", FORMS)
def test_the_last_case_that_is_named_stands_in_the_first_lines(form: str) -> None:
    report = report_of(form)
    side = report.side
    more = [one for one in side.compared if one.of.verdict != "unchanged"] or side.described
    side = replace(side, functions=(*side.functions, *more * 9))
    notes = ("not gated: no run of main is here",) * 9
    head = render(replace(report, side=side, notes=notes)).partition("<details>")[0]
    if side.baseline is None:  # main's own page goes on with a row for each function
        head, _, rows = head.partition("| function |")
        assert rows.count("\n") > len(side.functions)
    lines = head.splitlines()
    assert max(at for at, line in enumerate(lines) if line) < HEAD + 2
    assert max([0, *(at for at, line in enumerate(lines) if line.startswith("|"))]) < HEAD


def test_a_session_that_went_on_without_a_baseline_says_why() -> None:
    notes = ("no run of main is here", "a cache was damaged")
    report = replace(report_of("no_baseline"), notes=notes)
    assert "no run of main is here · a cache was damaged" in render(report).splitlines()[:HEAD]


def test_at_any_size_there_is_room_in_a_comment_and_what_is_left_out_is_said() -> None:
    report = report_of("regressed")
    first, *others = report.side.compared
    many = [replace(first, label=f"test_label_{number}") for number in range(1000)]
    side = replace(report.side, functions=(*many, *others))

    text = render(replace(report, side=side))

    assert 60_000 < len(text) <= MOST
    assert text.splitlines()[-1].startswith("Left out, as there is no more room: 9")
    assert text.splitlines()[-1].endswith(" blocks of details. The JSON report has all.")
    head = text.partition("<details>")[0].splitlines()
    assert "996 more comparisons below, the worst first." in head
    assert len(head) <= HEAD + 3  # no case is below


def test_the_json_report_of_five_thousand_cases_has_less_than_five_megabytes() -> None:
    report = report_of("regressed")
    first, *others = report.side.compared
    case = replace(first.compared[0], baseline_scores=(5 / 6,) * 10, scores=(2 / 3,) * 10)
    functions = (replace(first, compared=(case,) * 5000), *others)
    side = replace(report.side, functions=functions)
    assert len(json_text(replace(report, side=side))) < 5_000_000


def test_a_title_of_a_run_without_baseline_is_no_verdict() -> None:
    judgement = replace(FORMS["no_baseline"](), excerpts={})
    lines = render(make_report(judgement)).splitlines()
    assert lines[0] == "## LLM evals: not compared with a baseline"
    assert "reply" not in "\n".join(lines)
