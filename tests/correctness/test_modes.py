"""One suite, every way to run it, the same reports."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.correctness.outcomes import Outcomes, run_suite

# Of the suite, these check what happened to the tests before them in the same process.
FOLLOWERS = "test_after"

MODES = {
    "overlapping": ("--llm-concurrency=32",),
    "two-at-a-time": ("--llm-concurrency=2",),
    "workers-by-file": ("-n", "2", "--dist=loadfile"),
    "workers-by-load": ("-n", "2", "--dist=load", "-k", f"not {FOLLOWERS}"),
    "workers-that-steal": ("-n", "2", "--dist=worksteal", "-k", f"not {FOLLOWERS}"),
    "capture-of-sys": ("--llm-concurrency=32", "--capture=sys"),
}


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """One trial after the other, which is what pytest itself would do."""
    folder = tmp_path_factory.mktemp("inline") / "suite"
    return run_suite(folder, "--llm-concurrency=1", overlaps=False)


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    folder = tmp_path_factory.mktemp("mode") / "suite"
    return run_suite(folder, *MODES[request.param], overlaps=True)


def without_followers(found: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in found.items() if FOLLOWERS not in str(key)}


def test_inline_every_item_ends_as_it_should(inline: Outcomes) -> None:
    summary = re.search(r"\d+ failed, .*", inline.output)

    assert inline.status == 1
    assert summary is not None
    assert summary[0].partition(", 1")[0] == "7 failed, 64 passed, 4 skipped, 4 xfailed"


def test_reports_are_those_of_the_inline_mode(inline: Outcomes, mode: Outcomes) -> None:
    expected, got = without_followers(inline.reports), without_followers(mode.reports)

    assert mode.status == inline.status, mode.output
    assert sorted(got) == sorted(expected)
    differing = {
        key: {
            name: (report[name], got[key][name])
            for name in report
            if report[name] != got[key][name]
        }
        for key, report in expected.items()
    }
    assert {key: fields for key, fields in differing.items() if fields} == {}


def test_followers_see_what_they_would_inline(inline: Outcomes, mode: Outcomes) -> None:
    followers = [key for key in mode.reports if FOLLOWERS in key[0]]

    assert [key for key in followers if mode.reports[key] != inline.reports[key]] == []


def test_the_junit_file_is_that_of_the_inline_mode(inline: Outcomes, mode: Outcomes) -> None:
    assert without_followers(mode.junit) == without_followers(inline.junit)


def test_warnings_are_those_of_the_inline_mode(inline: Outcomes, mode: Outcomes) -> None:
    assert mode.warnings == inline.warnings


def test_trials_waited_side_by_side_at_every_place(mode: Outcomes) -> None:
    assert mode.met["missed"] == set()
    assert len(mode.met["met"]) > 60


def test_the_suite_holds_ordinary_tests_and_evals(inline: Outcomes) -> None:
    evals = {name for (name, _), report in inline.reports.items() if "llm_eval" in report}

    assert len({name.partition("[")[0] for name in evals}) >= 50
    assert len({name for name, _ in inline.reports} - evals) >= 15
