"""What differs from the baseline besides the application is named."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Fact, Why
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Call, Case, Outcome, Run, Slot, Trial
from pytest_llmeval.reports.json_report import dumped
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.markdown import render
from pytest_llmeval.reports.provenance import Difference, differences, first_new_call
from pytest_llmeval.reports.telling import lead
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import GateRules, Settings
from tests.report_schema import check_report
from tests.reports.judgements import FORMS, section_of

FACTS: dict[str, Any] = {
    "model": "openai/gpt",
    "served": "gpt-2026-01-01",
    "fingerprint": "fp_1",
    "host": "https://api.openai.com",
    "parameters": {"temperature": 0.5},
}


def a_run(*, versions: dict[str, str] | None = None, calls: int = 1, **changes: Any) -> Run:
    facts = {**FACTS, **changes}
    made = [Call(key="k", slot=Slot(0, n), draw=f"{n:032x}", **facts) for n in range(calls)]
    return Run(
        id="20261121T084100-1a2b3c",
        created="2026-11-21T08:41:00+00:00",
        commit=None,
        tree=None,
        dirty=False,
        ref=None,
        root=".",
        versions={"openai": "3.1"} if versions is None else versions,
        selection=(),
        complete=True,
        partial=(),
        cases=(Case(id="a", function="a", repeats=1),),
        trials=(Trial(case="a", index=0, outcome=Outcome.PASSED, calls=tuple(made)),),
        outside_calls=0,
    )


def told(
    baseline: Run, run: Run, rules: GateRules | None = None, *, session: str = "s"
) -> list[str]:
    settings = Settings(directory=Path(), session=session, gate=rules or GateRules())
    against = Baseline(run=baseline, path=Path(), reference="main", how="last")
    judgement = Judgement(settings=settings, run=run, baseline=against)
    return [one.line(judgement.names) for one in differences(judgement)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": "openai/new"}, "model: openai/gpt -> openai/new"),
        ({"served": "gpt-2026-02-02"}, "served: gpt-2026-01-01 -> gpt-2026-02-02"),
        ({"fingerprint": "fp_2"}, "fingerprint: fp_1 -> fp_2"),
        (
            {"host": "http://localhost:8000"},
            "host: https://api.openai.com -> http://localhost:8000",
        ),
        ({"parameters": {"temperature": 0}}, "temperature: 0.5 -> 0"),
        ({"parameters": {}}, "temperature: 0.5 -> provider's default"),
        (
            {"parameters": {"temperature": 0.5, "seed": 7}},
            "seed: provider's default -> 7",
        ),
        (
            {"parameters": {"temperature": 0.5, "top_p": 0.9}},
            "top_p: provider's default -> 0.9",
        ),
        ({"versions": {"openai": "3.2"}}, "version of openai: 3.1 -> 3.2"),
        ({"versions": {}}, "version of openai: 3.1 -> not installed"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_each_fact_that_differs_is_named(changes: dict[str, Any], expected: str) -> None:
    assert told(a_run(), a_run(**changes)) == [expected]


def test_nothing_is_said_where_all_agree() -> None:
    assert told(a_run(), a_run(calls=3)) == []


def test_settings_of_the_gate_that_differ_are_named() -> None:
    baseline = replace(a_run(), rules={**asdict(GateRules()), "gone": 1.0})
    rules = GateRules(alpha=0.2, strict=True, accept_gone=("test_a", "test_b"))

    assert told(baseline, a_run(), rules) == [
        "llm_alpha: 0.05 -> 0.2",
        "llm_strict: false -> true",
        "llm_accept_gone: none -> test_a, test_b",
    ]
    assert told(baseline, a_run()) == []


def test_settings_that_an_earlier_version_did_not_record_are_no_difference() -> None:
    assert told(replace(a_run(), rules={"alpha": 0.05}), a_run(), GateRules(target=0.3)) == []


def test_what_one_run_does_not_know_is_no_difference() -> None:
    assert told(a_run(), a_run(served=None, fingerprint=None)) == []
    assert told(a_run(), a_run(calls=0)) == []


def of_functions(models: dict[str, str], *, trials: int = 1) -> Run:
    """A run of functions with one case each, which ask one model each."""
    return replace(
        a_run(),
        cases=tuple(Case(id=name, function=f"t.py::{name}", repeats=1) for name in models),
        trials=tuple(
            Trial(
                case=name,
                index=at,
                outcome=Outcome.PASSED,
                calls=(
                    Call(key="k", slot=Slot(at, 0), draw="d", **{**FACTS, "model": f"{model}{at}"}),
                ),
            )
            for name, model in models.items()
            for at in range(trials)
        ),
    )


def test_what_did_not_run_here_is_no_difference() -> None:
    # three false lines in every partial session of a project with two models
    baseline = of_functions({"test_a": "openai/a", "test_b": "openai/b"}, trials=3)
    assert told(baseline, of_functions({"test_a": "openai/a"}, trials=2)) == []
    assert told(of_functions({"test_a": "openai/a"}), baseline) == []


def test_a_difference_of_some_functions_names_them() -> None:
    baseline = of_functions({"test_a": "openai/a", "test_b": "openai/a", "test_c": "openai/c"})
    run = of_functions({"test_a": "openai/b", "test_b": "openai/b", "test_c": "openai/c"})
    assert told(baseline, run) == ["model: openai/a0 -> openai/b0 (test_a, test_b)"]


def test_models_that_two_functions_exchange_are_a_difference() -> None:
    baseline = of_functions({"test_a": "openai/a", "test_b": "openai/b"})
    run = of_functions({"test_a": "openai/b", "test_b": "openai/a"})
    assert told(baseline, run) == [
        "model: openai/a0 -> openai/b0 (test_a)",
        "model: openai/b0 -> openai/a0 (test_b)",
    ]


def test_many_values_are_counted() -> None:
    many = a_run()
    calls = [
        Call(key="k", slot=Slot(0, n), draw="d", **{**FACTS, "fingerprint": f"fp_{n}"})
        for n in range(6)
    ]
    trial = Trial(case="a", index=0, outcome=Outcome.PASSED, calls=tuple(calls))

    (one,) = told(many, Run(**{**_fields(many), "trials": (trial,)}))

    assert one == "fingerprint: fp_1 -> fp_0, fp_1, fp_2, fp_3 and 2 more"


def _fields(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in run.__slots__}


@pytest.fixture
def judgement(tmp_path: Path) -> Judgement:
    run = a_run(served="gpt-2026-02-02", versions={"openai": "3.2"})
    baseline = Baseline(run=a_run(), path=tmp_path / "run", reference="main", how="last")
    settings = Settings(directory=tmp_path, session="s")
    why = Fact(Why.NOTHING_RAN, ("main",))
    return Judgement(settings=settings, run=run, baseline=baseline, could_not_judge=why)


def test_the_section_names_them(judgement: Judgement) -> None:
    lines = [line.text for line in section_of(judgement, Page(500))]

    assert "differs from the baseline: served: gpt-2026-01-01 -> gpt-2026-02-02" in lines
    assert "differs from the baseline: version of openai: 3.1 -> 3.2" in lines


def test_the_report_names_them(judgement: Judgement) -> None:
    report = dumped(make_report(judgement))

    assert report["differences"] == [
        {
            "fact": "served",
            "baseline": ["gpt-2026-01-01"],
            "here": ["gpt-2026-02-02"],
            "functions": [],
        },
        {"fact": "version of openai", "baseline": ["3.1"], "here": ["3.2"], "functions": []},
    ]
    assert report["run"]["served"] == ["gpt-2026-02-02"]
    assert report["run"]["fingerprints"] == ["fp_1"]
    assert report["run"]["hosts"] == ["https://api.openai.com"]


def test_a_report_that_names_them_fits_the_schema(judgement: Judgement) -> None:
    trials = [trial for day in (2, 3) for trial in a_run(served=f"gpt-2026-0{day}-0{day}").trials]
    report = make_report(replace(judgement, run=replace(a_run(), trials=tuple(trials))))

    check_report(dumped(report))
    assert (
        "Differs from the baseline: `served` `gpt-2026-01-01`, "
        "now `gpt-2026-02-02, gpt-2026-03-03`\n"
    ) in render(report)


def test_without_a_baseline_nothing_differs(judgement: Judgement, tmp_path: Path) -> None:
    alone = Judgement(settings=judgement.settings, run=judgement.run)

    assert make_report(alone).differences == ()


def asking(*trials: str) -> Run:
    """Make a run in whose trials each letter is a request; a capital one has got another reply."""
    made = tuple(
        Trial(
            case="a",
            index=index,
            outcome=Outcome.PASSED,
            scores={"pass": 1.0},
            calls=tuple(
                Call(key=letter.lower(), slot=Slot(index, place), draw=f"{letter}{index}", **FACTS)
                for place, letter in enumerate(letters)
            ),
        )
        for index, letters in enumerate(trials)
    )
    return replace(a_run(), cases=(Case(id="a", function="a", repeats=len(trials)),), trials=made)


@pytest.mark.parametrize(
    ("baseline", "here", "found"),
    [
        (("xy", "xy"), ("xz", "xz"), (1, "openai/gpt")),
        (("xyz", "xyz"), ("xyw", "xyw"), (2, "openai/gpt")),
        (("xy", "xy"), ("zy", "zy"), None),  # from the first call on
        (("xy", "xyz"), ("xz", "xyx"), None),  # each trial in a place of its own
        (("xy", "xy"), ("xY", "xz"), None),  # one asked the same, and got another reply
        (("xy", "xy"), ("x", "x"), None),
    ],
)
def test_where_requests_part_is_told_if_it_is_the_same_place_in_each_trial(
    baseline: tuple[str, ...], here: tuple[str, ...], found: tuple[int, str] | None
) -> None:
    before, run = asking(*baseline), asking(*here)
    against = Baseline(run=before, path=Path(), reference="main", how="last")
    judgement = Judgement(settings=Settings(session="s"), run=run, baseline=against)
    (function,) = compare(before, run, GateRules()).functions

    assert first_new_call(judgement, function) == found


def test_a_new_request_beside_the_others_is_not_said_to_follow_them() -> None:
    def gathered(*calls: str) -> Run:
        (case,), (trial,) = asking(*calls).cases, asking(*calls).trials
        made = tuple(replace(call, strand=(0, at)) for at, call in enumerate(trial.calls))
        return replace(a_run(), cases=(case,), trials=(replace(trial, calls=made),))

    for words in ("xz", "zx"):
        run, before = gathered(words), gathered("xy")
        against = Baseline(run=before, path=Path(), reference="main", how="last")
        judgement = Judgement(settings=Settings(session="s"), run=run, baseline=against)
        (function,) = compare(before, run, GateRules()).functions

        assert first_new_call(judgement, function) is None


def test_another_model_is_told_before_any_figure() -> None:
    judgement = FORMS["inconclusive"]()
    changed = Difference("model", ("a/old",), ("a/new",), ("x", "y"))
    report = replace(make_report(judgement), differences=(changed,))

    first, *_ = lead(report, report.side.compared)

    assert first == "Another model is asked: a/new, not a/old in 2 functions"
    assert lead(report, [])[0] == first
    assert "**Another model is asked: a/new, not a/old in 2 functions.** " in render(report)


def test_a_command_that_looks_once_calls_early_looks_no_difference() -> None:
    early = replace(a_run(), rules={"sequential": True, "target": 0.1})
    assert told(early, early, session="") == []
    assert told(early, early) == ["llm_sequential: true -> false"]
    assert told(early, early, GateRules(target=0.2), session="") == ["llm_target: 0.1 -> 0.2"]
