"""The report as a page of HTML: what it holds, and that no text in it does harm."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.cli import main
from pytest_llmeval.gate.results import CaseDescription
from pytest_llmeval.gate.scoring import Scored
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.judging import judged
from pytest_llmeval.records import Better
from pytest_llmeval.reports import report_files
from pytest_llmeval.reports.html import rendering
from pytest_llmeval.reports.html.cases import shown_function
from pytest_llmeval.reports.html.facts import doubts
from pytest_llmeval.reports.html.plots import WIDTH, axis_of
from pytest_llmeval.reports.html.rendering import means_around
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.report import CaseEntry, ComparedFunction
from pytest_llmeval.reports.report_files import write_reports
from pytest_llmeval.settings import STEP_SUMMARY
from tests.reports import planted as planted_module
from tests.reports.judgements import BRANCH, FORMS, LABEL, TICKETS, function_of, judgement_of, suite
from tests.reports.planted import HOSTILE, MESSAGE, RULE, page_of, recorded


def compared_function(
    *cases: CaseEntry, metric: str = "pass", better: Better = "higher"
) -> ComparedFunction:
    """A function of a report with some cases."""
    one = make_report(FORMS["regressed"]()).side.compared[0]
    scored = [
        replace(
            one.of.compared[0],
            every_baseline=Scored(trials=(), values=case.baseline_scores),
            every_current=Scored(trials=(), values=case.scores),
        )
        for case in cases
    ]
    of = replace(
        one.of, function="f.py::test_a", metric=metric, better=better, compared=tuple(scored)
    )
    return replace(one, of=of, name="test_a", compared=cases)


class Tags(HTMLParser):
    """Every element of a page with its attributes, and the text of all but style and script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if not self.found or self.found[-1][0] not in ("style", "script"):
            self.text += f" {data}"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(recorded(tmp_path_factory.mktemp("planted") / ".llmeval"))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_its_verdict_and_a_row_for_each_function(form: str) -> None:
    judgement = FORMS[form]()
    report = make_report(judgement)
    tags = Tags(page_of(judgement))
    shown = " ".join(tags.text.split())

    for entry in report.side.functions:
        assert entry.label in shown
    assert [tag for tag, _ in tags.found].count("h1") == 1
    if report.side.why:
        assert f"{report.side.why}." in shown
    assert ("This fails the build." in shown) == report.side.fails


def test_the_page_loads_and_runs_nothing_but_its_own(planted: str) -> None:
    tags = Tags(planted).found

    policy = next(found["content"] for tag, found in tags if "http-equiv" in found)
    assert policy is not None
    assert re.fullmatch(
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        "style-src 'sha256-[^']+'; script-src 'sha256-[^']+'",
        policy,
    )
    assert sum(tag == "script" for tag, _ in tags) == 1
    for tag, found in tags:
        assert not {"src", "href", "style"} & found.keys(), (tag, found)
        assert not any(name.startswith("on") for name in found), (tag, found)


def test_texts_of_models_are_text(planted: str) -> None:
    assert HOSTILE not in planted
    assert "&lt;script&gt;window.ran = true" in planted
    assert "img" not in {tag for tag, _ in Tags(planted).found}


def test_half_of_a_character_in_a_reply_does_not_keep_the_page_from_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planted_module, "HOSTILE", "half \ud83d")

    page = page_of(recorded(tmp_path / ".llmeval"))

    assert "half ?" in page
    assert page.encode()


def test_a_damaged_run_of_earlier_is_passed_over(tmp_path: Path) -> None:
    judgement = recorded(tmp_path / ".llmeval", earlier=["ppppm", "pppmm"])
    first = min(tmp_path.glob(".llmeval/runs/*/*.gz"))
    first.write_bytes(first.read_bytes()[:-50])

    page = page_of(judgement)

    assert "0101010</td>" in page
    assert "0000000</td>" not in page


def test_a_page_that_cannot_be_made_takes_no_verdict_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgement = recorded(tmp_path / ".llmeval")
    monkeypatch.setattr(rendering, "render_page", lambda *_: 1 / 0)
    paths = [tmp_path / "x.html", tmp_path / "x.json"]

    problems = write_reports(make_report(judgement), paths, judgement)

    assert problems == [
        f"--llm-report={paths[0]}: not written: ZeroDivisionError: division by zero"
    ]
    assert not paths[0].exists()
    assert paths[1].exists()

    monkeypatch.setattr(report_files, "render", lambda *_: 1 / 0)
    summary = {STEP_SUMMARY: str(tmp_path / "summary")}
    assert report_files.append_summary(make_report(judgement), summary) == [
        f"{STEP_SUMMARY}={tmp_path / 'summary'}: not written: division by zero"
    ]


def test_where_lower_is_better_the_highest_come_first() -> None:
    judgement = FORMS["no_baseline"]()
    (one, *_), means = make_report(judgement).side.described, (1.0, 3.0)
    cases = tuple(
        replace(
            one.moved[0],
            of=CaseDescription(
                case=f"f.py::test_a[{mean}]", mean=mean, scores=(mean,), interval=None
            ),
        )
        for mean in means
    )
    described = replace(one.of, function="f.py::test_a", metric="score", better="lower")
    function = replace(one, of=described, moved=cases)

    assert [case.case[-4] for case in shown_function(function, ()).cases] == ["3", "1"]


def test_a_broken_case_shows_both_replies_and_what_changed_in_the_request(planted: str) -> None:
    assert f"<del> {RULE}</del>" in planted
    assert "What changed in the prompt of test_label, the same in all 12 cases" in planted
    assert "<del>billing</del>" in planted
    assert re.search(r"<ins>orders[^<]", planted)
    assert MESSAGE.replace("'", "&#39;") in planted
    assert re.search(
        r"In test_label, of 12 cases 4 fell, 0 rose: \[[\w-]+\] 5/5 -&gt; 0/5, \[", planted
    )
    assert "</span> Ticket: late-refund</p>" in planted


def test_each_case_has_its_own_question_and_replies(tmp_path: Path) -> None:
    """Also where cases rose, which stand before those that stayed as they were."""
    fell = recorded(tmp_path / ".llmeval")
    assert fell.baseline is not None
    assert fell.run is not None
    planned = Judgement(settings=fell.settings, baseline=replace(fell.baseline, run=fell.run))
    rose = judged(planned, fell.baseline.run)

    for judgement in (fell, rose):
        page = page_of(judgement)
        shown = re.findall(
            r'<summary id="[^"]*test_label\[(.*?)\]">(.*?)</details>', page, re.DOTALL
        )
        assert len(shown) == 12
        for name, text in shown:
            assert re.findall(r"</span> Ticket: (.*?)</p>", text) == [name]


def test_equal_draws_are_shown_once(planted: str) -> None:
    assert "trials 1, 2, 3, 4" in planted  # of gift-refund and the one that passed first


def test_a_case_with_no_room_says_what_to_type(tmp_path: Path) -> None:
    page = page_of(recorded(tmp_path / ".llmeval", html_mb=0.0))

    assert "llmeval diff &#39;test_label[late-refund]&#39; 20261121T084150-1a2b3c 2026" in page
    assert "billing</" not in page


def test_without_texts_there_is_no_reply(tmp_path: Path) -> None:
    page = page_of(recorded(tmp_path / ".llmeval", show_texts=False))

    assert "billing" not in Tags(page).text.replace(MESSAGE, "")
    assert "llm_show_texts = false" in page
    assert "Not embedded" not in page


@pytest.mark.parametrize(
    ("before", "after", "metric", "better", "move"),
    [
        ((1, 1, 1), (0, 0, 1), "pass", "higher", "fell"),
        ((0, 0, 1), (1, 1, 1), "pass", "higher", "rose"),
        ((1, 1, 1), (1, 1, 0), "pass", "higher", "fell"),
        ((1, 0), (0, 1), "pass", "higher", "same"),
        ((0.8, 0.9), (0.6, 0.7), "score", "higher", "fell"),
        ((0.6, 0.7), (0.8, 0.9), "score", "higher", "rose"),
        ((0.6, 0.9), (0.5, 0.7), "score", "higher", "fell"),
        ((0.6, 0.7), (0.8, 0.9), "score", "lower", "fell"),
    ],
)
def test_a_case_is_called_by_how_it_moved(
    before: tuple[float, ...], after: tuple[float, ...], metric: str, better: Better, move: str
) -> None:
    means = [sum(side) / len(side) for side in (before, after)]
    case = CaseEntry(
        case="f.py::test_a[x-y]",
        kind="request",
        unchanged=False,
        baseline_scores=before,
        scores=after,
        baseline_mean=means[0],
        mean=means[1],
        difference=(means[1] - means[0]) * (1 if better == "higher" else -1),
    )
    function = compared_function(case, metric=metric, better=better)

    (shown,) = shown_function(function, ()).cases

    assert shown.move == move
    assert shown.values == ("x", "y")


def test_an_errored_case_is_shown_though_it_was_not_compared() -> None:
    function = compared_function()

    (shown,) = shown_function(function, {"f.py::test_a[x]"}).cases

    assert (shown.move, shown.is_errored, shown.plot) == ("errored", True, None)


@given(
    st.lists(st.floats(-1e6, 1e6), max_size=20),
    st.lists(st.floats(-1e3, 1e3), max_size=2),
)
def test_whatever_is_plotted_stands_within_the_plot(values: list[float], more: list[float]) -> None:
    axis = axis_of(values, around=more)

    assert axis.low < axis.high
    assert all(0 <= axis.at(value) <= WIDTH for value in (*values, *more))
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 6
    assert ticks == sorted(set(ticks))


def test_cases_that_tell_nothing_are_counted(planted: str) -> None:
    assert (
        "test_label: 8 of 12 cases passed in every trial of both runs, and 0 in no trial" in planted
    )


def test_a_baseline_above_what_the_run_before_it_predicts_may_be_lucky(tmp_path: Path) -> None:
    usual = page_of(recorded(tmp_path / "usual", earlier=["ppppp"]))
    lucky = page_of(recorded(tmp_path / "lucky", earlier=["mmpmm", "mpmmm"]))

    assert "a lucky baseline" not in usual
    assert "test_label: the baseline&#39;s mean of 1.000 lies outside" in lucky


def test_a_baseline_is_held_against_no_other_trials_and_no_other_branch(tmp_path: Path) -> None:
    low = ["mmpmm", "mpmmm"]
    fewer = recorded(tmp_path / "fewer", earlier=["mmp", "mpm"])
    assert "a lucky baseline" not in page_of(fewer)

    elsewhere = recorded(tmp_path / "elsewhere", earlier=low)
    assert elsewhere.baseline is not None
    detached = replace(elsewhere.baseline, run=replace(elsewhere.baseline.run, ref=None))
    page = page_of(replace(elsewhere, baseline=detached))
    assert "a lucky baseline" not in page
    assert "0101010</td>" not in page


def test_a_baseline_is_not_called_lucky_where_nothing_fell(tmp_path: Path) -> None:
    lucky = recorded(tmp_path / ".llmeval", earlier=["mmpmm", "mpmmm"])
    side = make_report(lucky).side
    effects = [replace(one.of.effect, difference=0.1) for one in side.compared]
    risen = replace(
        side,
        functions=tuple(
            replace(one, of=replace(one.of, effect=effect))
            for one, effect in zip(side.compared, effects, strict=True)
        ),
    )

    assert any("lucky" in text for text in doubts(lucky, side, means_around(lucky)))
    assert not any("lucky" in text for text in doubts(lucky, risen, means_around(lucky)))


def test_what_was_not_judged_is_told_at_the_top() -> None:
    strip = page_of(FORMS["partial"]()).partition("</header>")[0]

    assert "<dt>Only a part was judged</dt><dd>partial: 2 of 12 cases of test_label;" in strip
    assert "not judged: test_finds_order" in strip
    assert "Only a part" not in page_of(FORMS["regressed"]())


def test_score_tables_are_called_by_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{side},c{case},0,{case % 2}" for side in "ab" for case in range(6)]
    (tmp_path / "scores.csv").write_text("\n".join(["condition,case_id,repeat,score", *rows]))
    monkeypatch.chdir(tmp_path)

    command = ["compare", "scores.csv::a", "scores.csv::b", "--html"]
    page = CliRunner().invoke(main, command).stdout

    assert "<dd>scores.csv::a, recorded " in page
    assert "<dd>scores.csv::b</dd>" in page
    for nothing in ("no branch", "Calls", "None"):
        assert nothing not in Tags(page).text


def test_a_drift_of_the_repeats_is_told() -> None:
    drifting = function_of(LABEL, TICKETS, ("pppmm",) * len(TICKETS), prompt="v2")
    judgement = judgement_of(suite(BRANCH, label=drifting), baseline=suite())

    found = doubts(judgement, make_report(judgement).side, means_around(judgement))

    assert any(text.startswith("test_label: the repeats drift here") for text in found)


def test_means_are_shown_over_the_commits_of_the_baselines_branch(tmp_path: Path) -> None:
    page = page_of(recorded(tmp_path / ".llmeval", earlier=["ppppm", "pppmm"]))

    rows = re.findall(r"<tr><td>([0-9a-f]{7})</td><td>(\w+)</td>", page)
    assert rows[:4] == [
        ("0000000", "main"),
        ("0101010", "main"),
        ("5050505", "main"),
        ("5151515", "shorter"),
    ]
    assert page.count('class="line"') == 2  # of test_label and test_tone


def test_compare_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judgement = recorded(tmp_path / ".llmeval")
    monkeypatch.chdir(tmp_path)
    assert judgement.baseline is not None
    assert judgement.run is not None

    command = ["compare", judgement.baseline.run.id, judgement.run.id, "--html"]

    result = CliRunner().invoke(main, command)

    assert result.exit_code == 1, result.output
    assert result.stdout.startswith("<!DOCTYPE html>")
    assert f"<del> {RULE}</del>" in result.stdout

    (tmp_path / "pytest.ini").write_text("[pytest]\nllm_html_mb = 0\n")
    smaller = CliRunner().invoke(main, command)
    assert "Not embedded" in smaller.stdout


def test_parameters_that_several_cases_have_can_be_chosen(planted: str) -> None:
    options = re.findall(r"<option>([^<]*)</option>", planted)

    assert options == ["parcel", "refund"]
    values = re.search(r'data-move="fell" data-values="([^"]*)"', planted)
    assert values is not None
    assert json.loads(values[1].replace("&#34;", '"'))[1] == "refund"


def test_a_run_without_a_baseline_shows_one_side() -> None:
    judgement = FORMS["no_baseline"]()
    page = page_of(replace(judgement, settings=judgement.settings))

    assert "<h4>here" in page
    assert "<h4>baseline" not in page
