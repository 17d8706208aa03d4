"""What is true of a result in each form in which it is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from html.parser import HTMLParser
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Run, distinct_names
from pytest_llmeval.reports.html.rendering import render_page
from pytest_llmeval.reports.json_report import dumped
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.markdown import render
from pytest_llmeval.reports.notation import decimals, in_form, limit, number, p_value, percent
from pytest_llmeval.reports.report_files import failures, github_annotations
from pytest_llmeval.reports.sentences import how_often_caught
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.settings import Settings
from tests.reports.judgements import (
    BRANCH,
    BROKEN,
    FORMS,
    LABEL,
    LABELLED,
    MAIN,
    POLICIES,
    REFUND,
    TICKETS,
    function_of,
    improved,
    improved_with_two_broken,
    judgement_of,
    section_of,
    suite,
    untouched,
)


def test_a_better_prompt_names_both_cases_that_it_broke() -> None:
    judgement = improved_with_two_broken()
    report = make_report(judgement)
    page, comment = render_page(report, judgement), render(report)
    section = "\n".join(line.text for line in section_of(judgement, Page(100)))

    assert section.startswith("improved: 1 of 3 functions vs main@4f1c20a, but 2 cases fell from 1")
    noisy = section_of(improved(), Page(100))  # of whose cases one fell by one trial
    assert next(iter(noisy)).text == "improved: 1 of 3 functions vs main@4f1c20a"
    assert section.index("rose most") < section.index("fell most") < section.index("fell too")
    for told in (page.partition("</header>")[0], comment.partition("<details>")[0], section):
        assert "of 12 cases 2 fell, 10 rose" in told
        assert all(f"[{case}]" in told for case in ("price-match", "vat-number"))


def better_and_open(cases: int) -> Judgement:
    """A function with so many cases got better, and of another nobody knows."""
    before, after = ("mmmmm",) * 6, ("ppppp",) * 6
    shaken = function_of(REFUND, POLICIES, ("ppppm", "pmmmp") * 3, prompt="v2", replayed=False)
    names = TICKETS[:cases]
    run = function_of(LABEL, names, after[:cases], prompt="v2", replayed=False)
    old = function_of(LABEL, names, before[:cases])
    return judgement_of(
        suite(BRANCH, shaken, label=run), baseline=suite(MAIN, untouched()[0], label=old)
    )


@pytest.mark.parametrize("form", ["terminal", "markdown", "page"])
def test_a_better_mean_hides_single_cases(form: str) -> None:
    told = "only the mean was tested: single cases may be worse"

    assert WRITERS[form](better_and_open(6)).count(told) == (2 if form == "terminal" else 1)
    assert told not in WRITERS[form](better_and_open(1))  # whose mean is that of its case
    assert told not in WRITERS[form](FORMS["regressed"]())


def test_what_cannot_be_seen_is_one_paragraph() -> None:
    lines = markdown(better_and_open(6)).splitlines()
    (told,) = (line for line in lines if "cannot see" in line)

    assert re.search(r"less often.*\. In `test_label` only the mean was tested", told)


TWINS = ("a/test_x.py::test_one", "b/test_x.py::test_one")
# a sign before nothing, "p = <0.001", what is no number, a row of digits
UNREADABLE = re.compile(
    r"(?<![\w.])[-+\N{MINUS SIGN}]0(\.0*)?(?![\w.])|= <|\bnan\b|\binf\b|\d{16}", re.IGNORECASE
)


class _Text(HTMLParser):
    """The text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.skips = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.skips = tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        if not self.skips:
            self.lines.append(data)


def terminal(judgement: Judgement) -> str:
    pages = Page(140), Page(140, verbose=True)
    return "\n".join(line.text for page in pages for line in section_of(judgement, page))


def markdown(judgement: Judgement) -> str:
    return render(make_report(judgement)).replace("\N{ZERO WIDTH SPACE}", "")


def page(judgement: Judgement) -> str:
    return "\n".join(_Text(render_page(make_report(judgement), judgement)).lines)


def json_words(judgement: Judgement) -> str:
    """The texts of the JSON report; its numbers are for programs."""
    report = dumped(make_report(judgement))
    of_functions = [
        [one["label"], one.get("sentence", ""), *one.get("remarks", ())]
        for one in report["functions"]
    ]
    return "\n".join(
        [report["why"], *chain.from_iterable(of_functions), *report["scope"], *report["notes"]]
    )


def lists_of_tests(judgement: Judgement) -> str:
    found = failures(make_report(judgement), judgement)
    values = [f"{name}: {value}" for one in found for name, value in one.properties]
    return "\n".join([*github_annotations(found), *values])


WRITERS: Mapping[str, Callable[[Judgement], str]] = {
    one.__name__: one for one in (terminal, markdown, page, json_words, lists_of_tests)
}
each_form = pytest.mark.parametrize("form", WRITERS)


def twins(outcomes: Sequence[str] = BROKEN) -> Judgement:
    """A function that fell, and one of the same name in another file that did not."""
    fell, same = TWINS
    before = [function_of(name, TICKETS, LABELLED) for name in TWINS]
    after = function_of(fell, TICKETS, outcomes, prompt="v2", replayed=False)
    return judgement_of(
        suite(BRANCH, function_of(same, TICKETS, LABELLED), label=after),
        baseline=suite(MAIN, before[1], label=before[0]),
    )


def slower(run: Run, *, by: float) -> Run:
    """The same run, in which each call took longer."""
    trials = [
        replace(
            trial,
            calls=tuple(replace(call, seconds=(call.seconds or 0) * by) for call in trial.calls),
        )
        for trial in run.trials
    ]
    return replace(run, trials=tuple(trials))


# names


@each_form
def test_functions_of_one_name_are_told_apart(form: str) -> None:
    text = WRITERS[form](twins()).replace("%3A", ":")
    assert not re.findall(r"(?<!::)test_one", text)
    assert TWINS[0] in text


@each_form
def test_functions_of_one_name_are_told_apart_without_a_baseline(form: str) -> None:
    judgement = judgement_of(
        suite(BRANCH, function_of(TWINS[1], TICKETS, BROKEN), label=function_of(TWINS[0], "x", "p"))
    )
    assert not re.findall(r"(?<!::)test_one", WRITERS[form](judgement))


@pytest.mark.parametrize(
    ("functions", "names"),
    [
        (["a.py::test_a", "b.py::test_b"], ["test_a", "test_b"]),
        (["a.py::test_a", "b.py::test_a"], ["a.py::test_a", "b.py::test_a"]),
        (["a/x.py::test_a", "b/x.py::test_a"], ["a/x.py::test_a", "b/x.py::test_a"]),
        (["x.py::A::test_a", "x.py::B::test_a"], ["A::test_a", "B::test_a"]),
        (["x.py::test_a", "y/x.py::test_a"], ["x.py::test_a", "y/x.py::test_a"]),
        (
            ["a/x.py::A::t", "b/x.py::A::t", "b/x.py::t"],
            ["a/x.py::A::t", "b/x.py::A::t", "x.py::t"],
        ),
        (["en/fluency", "de/fluency"], ["en/fluency", "de/fluency"]),
        (["x.py::test_a", "x.py::test_a"], ["test_a"]),
    ],
)
def test_as_much_of_a_name_is_told_as_no_other_has(functions: list[str], names: list[str]) -> None:
    assert list(distinct_names(functions).values()) == names


@given(st.lists(st.from_regex(r"\A([ab]/){0,2}[ab]\.py::([AB]::){0,1}[ab]\Z"), max_size=8))
def test_no_two_functions_have_one_name(functions: list[str]) -> None:
    names = distinct_names(functions)
    assert len(set(names.values())) == len(set(functions))
    assert all(function.endswith(name) for function, name in names.items())


# counts


def test_functions_and_cases_are_counted_once() -> None:
    gate = ("pass", "score")
    known = {"scores": {"score": 0.5}, "gate": gate}
    before = function_of(TWINS[0], TICKETS, LABELLED, **known)  # type: ignore[arg-type]
    after = function_of(TWINS[0], TICKETS, BROKEN, prompt="v2", **known)  # type: ignore[arg-type]
    judgement = judgement_of(suite(BRANCH, label=after), baseline=suite(label=before))

    assert "3 functions with 22 cases in 4 comparisons against `main`" in markdown(judgement)
    assert "4 comparisons vs main@" in terminal(judgement)


def test_functions_that_are_new_have_their_cases() -> None:
    fresh = function_of("new.py::test_new", TICKETS, LABELLED)
    judgement = judgement_of(suite(BRANCH, fresh), baseline=suite())
    assert "with 24 cases against" in markdown(judgement)


# the worst


def test_the_page_of_main_has_a_row_for_each_function() -> None:
    many = [function_of(f"t.py::test_{at}", TICKETS, LABELLED) for at in range(12)]
    judgement = judgement_of(suite(MAIN, *many))
    rows = markdown(judgement).partition("<details>")[0].partition("| function |")[2]
    assert len(re.findall(r"^\| `test_", rows, re.MULTILINE)) == 13
    assert "below" not in rows


def test_three_cases_in_all_are_called_the_worst() -> None:
    names = ("a", "b")
    judgement = judgement_of(
        suite(
            MAIN,
            function_of("t.py::test_good", names, ("ppppm", "ppppm")),
            function_of("t.py::test_bad", names, ("mmmmm", "mmmmp")),
            label=function_of("t.py::test_half", names, ("ppmmm", "ppppp")),
        )
    )
    listed = [line for line in section_of(judgement, Page(80)) if line.text.startswith("worst")]
    assert [line.text.split()[1:3] for line in listed] == [
        ["test_bad[a]", "0/5"],
        ["test_bad[b]", "1/5"],
        ["test_half[a]", "2/5"],
    ]


def test_the_longest_of_what_should_be_short_is_the_worst() -> None:
    run = judgement_of(suite(MAIN)).run
    assert run is not None
    cases = tuple(replace(case, gate=("errors",), better="lower") for case in run.cases)
    worth = {case.id: float(at) for at, case in enumerate(cases)}
    trials = tuple(replace(one, scores={"errors": worth[one.case]}) for one in run.trials)
    report = markdown(judgement_of(replace(run, cases=cases, trials=trials)))
    told = report.partition("**Worst cases:**")[2]
    assert told.index(cases[-1].id.partition("::")[2]) < told.index(cases[-2].id.partition("::")[2])


# ratios


@pytest.mark.parametrize(("by", "shown"), [(2.6, "x2.6"), (0.4, "x0.4")])
def test_what_is_not_gated_is_told_as_a_ratio(by: float, shown: str) -> None:
    label = function_of(TWINS[0], TICKETS, LABELLED, prompt="v2", replayed=False)
    run = slower(suite(BRANCH, *untouched(), label=label), by=by)
    judgement = judgement_of(run, baseline=suite(label=function_of(TWINS[0], TICKETS, LABELLED)))

    for form in ("terminal", "markdown"):
        lines = [line for line in WRITERS[form](judgement).splitlines() if "seconds" in line]
        assert lines
        told = f"0.495 -> {0.494938559 * by:.3g} ({shown})"
        assert all(told in line.replace("→", "->") for line in lines)


@pytest.mark.parametrize("by", [2.6, 0.4])
@each_form
def test_a_gated_ratio_is_told_as_one(form: str, by: float) -> None:
    gate = ("pass", "seconds")
    label = function_of(TWINS[0], TICKETS, LABELLED, prompt="v2", replayed=False, gate=gate)
    before = suite(label=function_of(TWINS[0], TICKETS, LABELLED, gate=gate))
    judgement = judgement_of(slower(suite(BRANCH, label=label), by=by), baseline=before)

    text = WRITERS[form](judgement)

    assert not re.search(r"0\.95[56]|0\.916", text)
    if form == "lists_of_tests":
        assert ("llm_seconds_ratio: 2.6" in text) is judgement.fails
    else:
        assert f"{by:.3g}" in text


@pytest.mark.parametrize("by", [0.5, 2.0])
def test_the_axis_of_ratios_has_each_ratio_once(by: float) -> None:
    gate = ("pass", "seconds")
    label = function_of(TWINS[0], TICKETS, LABELLED, prompt="v2", replayed=False, gate=gate)
    before = suite(label=function_of(TWINS[0], TICKETS, LABELLED, gate=gate))
    judgement = judgement_of(slower(suite(BRANCH, label=label), by=by), baseline=before)
    ticks = [float(one) for one in re.findall(r"^×([\d.]+)$", page(judgement), re.MULTILINE)]
    assert ticks == sorted(ticks, reverse=True)  # worse to the left, and longer is worse
    assert len(set(ticks)) == len(ticks) > 1


# figures


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (number(-0.0), "0"),
        (number(-1e-17, signed=True), "0"),
        (number(-0.00033, signed=True), "-0.00033"),
        (number(0.0, signed=True), "0"),
        (number(0.25, signed=True), "+0.250"),
        (number(-1e100), "-1e+100"),
        (number(2e-10), "2e-10"),
        (number(-2.1e-11, signed=True), "-2.1e-11"),
        (decimals(4e-10), "4e-10"),
        (number(123456.0), "123456.000"),
        (decimals(-0.0), "0.000"),
        (decimals(0.00249, 2), "0.0025"),
        (decimals(-1e-12, 2, signed=True), "0.00"),
        (p_value(0.0002), "<0.001"),
        (p_value(0.0002, after="p"), "p < 0.001"),
        (p_value(0.0123, after="p"), "p = 0.012"),
        (percent(1 - 2 * 0.05), "90%"),
        (percent(1 - 2 * 0.0125), "97.5%"),
        (percent(1 - 0.001), "99.9%"),
        (limit(0.1), "0.10"),
        (limit(0.015), "0.015"),
        (limit(2.0), "2"),
    ],
)
def test_a_figure_is_one_that_people_read(shown: str, expected: str) -> None:
    assert shown == expected


@given(st.floats(-1e308, 1e308), st.integers(1, 4), st.booleans())
def test_no_figure_has_a_sign_before_nothing_or_a_row_of_digits(
    value: float, places: int, signed: bool
) -> None:
    texts = {places: decimals(value, places, signed=signed), 3: number(value, signed=signed)}
    for digits, text in texts.items():
        assert len(text) <= 14
        assert float(text) == pytest.approx(value, rel=0.06, abs=0.51 * 10**-digits)
        assert float(text) or text[0] == "0"


SCORES = st.sampled_from([0.0, 1e-12, -1e-12, 3e-4, -3e-4, 0.5, 1.0, 40.0, 1e7, -1e9, 1e60, -1e60])
SIDE = st.lists(
    st.tuples(st.text("ppmc", min_size=2, max_size=3), SCORES, SCORES), min_size=1, max_size=8
)


def _side(trials: list[tuple[str, float, float]], prompt: str, by: float) -> Run:
    gate = ("pass", "score", "seconds")
    names = [f"c{at}" for at in range(len(trials))]
    letters = [letters for letters, _, _ in trials]
    found = function_of(TWINS[0], names, letters, prompt=prompt, gate=gate)
    scores = {f"{TWINS[0]}[{name}]": pair for name, (_, *pair) in zip(names, trials, strict=True)}
    own = [
        replace(one, scores={**one.scores, "score": scores[one.case][one.index % 2]})
        for one in found[1]
    ]
    return slower(suite(MAIN if prompt == "v1" else BRANCH, label=(found[0], own)), by=by)


@settings(max_examples=25, deadline=None)
@given(SIDE, SIDE, st.sampled_from([1.0, 1.0001, 1e-9, 1e12]))
def test_no_form_has_a_figure_that_nobody_can_read(
    before: list[tuple[str, float, float]], after: list[tuple[str, float, float]], by: float
) -> None:
    judgement = judgement_of(_side(after, "v2", by), baseline=_side(before, "v1", 1.0))
    for writer in WRITERS.values():
        for line in writer(judgement).splitlines():
            assert not UNREADABLE.search(line), line


@each_form
@pytest.mark.parametrize("name", FORMS)
def test_no_form_of_a_usual_result_has_one_either(name: str, form: str) -> None:
    for line in WRITERS[form](FORMS[name]()).splitlines():
        assert not UNREADABLE.search(line), line


@pytest.mark.parametrize(
    ("reference", "shown"), [(MAIN.hash[:7], MAIN.hash[:7]), (MAIN.hash, MAIN.hash[:7])]
)
@pytest.mark.parametrize("form", ["terminal", "markdown", "page"])
def test_a_commit_that_was_named_by_its_hash_is_named_once(
    form: str, reference: str, shown: str
) -> None:
    judgement = FORMS["inconclusive"]()
    assert judgement.baseline is not None
    named = replace(judgement.baseline, reference=reference)
    text = WRITERS[form](replace(judgement, baseline=named))
    assert shown in text
    assert not re.search(rf"{shown}\w*`?(@| at )`?{shown}", text)


# lines to paste


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "say in the ini file  llm_renamed = a.py::x -> b.py::y  if it was renamed",
            'say in the ini file  llm_renamed = ["a.py::x -> b.py::y"]  if it was renamed',
        ),
        (
            "add it in the ini file:  llm_intercept_hosts = a b:8080",
            'add it in the ini file:  llm_intercept_hosts = ["a", "b:8080"]',
        ),
        (
            'the ini file:  llm_accept_gone = t.py::x["q"]',
            'the ini file:  llm_accept_gone = ["t.py::x[\\"q\\"]"]',
        ),
        ("it says  llm_renamed = a -> b", "it says  llm_renamed = a -> b"),
        ("more than llm_max_gone: type  --llm-max-gone=SHARE  for this once", None),
    ],
)
def test_a_line_to_paste_has_the_form_of_the_file(text: str, expected: str | None) -> None:
    assert in_form(text, toml=False) == text
    assert in_form(text, toml=True) == (expected or text)
    assert in_form(in_form(text, toml=True), toml=True) == in_form(text, toml=True)


@each_form
@pytest.mark.parametrize("name", ["regressed", "gone"])
def test_each_line_that_is_told_can_be_pasted(name: str, form: str) -> None:
    judgement = FORMS[name]()
    judgement = replace(judgement, settings=_with_toml(judgement))
    text = WRITERS[form](judgement)
    told = re.findall(r"(llm_(?:accept|accept_gone|renamed)) = (\S[^\n]*)", text)
    assert told or form == "json_words"
    assert all(value.startswith("[") for _, value in told)


def _with_toml(judgement: Judgement) -> Settings:
    known = {each.name: getattr(judgement.settings, each.name) for each in fields(Settings)}
    return Settings(**{**known, "toml": True})


# what the words promise


@pytest.mark.parametrize("form", ["terminal", "markdown", "page"])
def test_what_would_be_caught_holds_where_all_cases_fall_alike(form: str) -> None:
    text = " ".join(WRITERS[form](FORMS["inconclusive"]()).split())
    assert "4 of 5 builds if all cases fall alike" in text
    assert ("in 2 to 3 of 5 if only a third of them falls" in text) is (form != "page")


@pytest.mark.parametrize("form", ["terminal", "markdown", "page"])
def test_beside_a_drop_that_is_ruled_out_none_is_told_that_would_be_missed(form: str) -> None:
    text = " ".join(WRITERS[form](FORMS["no_significant_change"]()).split())
    assert "a drop of 0.10 or more is ruled out" in text
    assert "4 of 5 builds" not in text
    assert "0.170" not in text


def test_with_many_cases_a_third_of_them_is_no_matter() -> None:
    assert "third" in how_often_caught(29)
    assert "third" not in how_often_caught(30)


@pytest.mark.parametrize("form", ["terminal", "page"])
def test_a_recorded_run_whose_repeats_are_one_draw_says_so(form: str) -> None:
    run = suite(MAIN)
    trials = [
        replace(one, calls=tuple(replace(call, reply_sha256="0" * 64) for call in one.calls))
        for one in run.trials
    ]
    same = judgement_of(replace(run, trials=tuple(trials)))
    told = "test_label: all repeats got equal replies: as long as they do, repeating adds nothing"
    assert told in WRITERS[form](same)
    assert told not in WRITERS[form](judgement_of(run))
