from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pytest_llmeval.records import Run
from pytest_llmeval.transcripts.common_change import RequestChange, request_changes
from pytest_llmeval.transcripts.transcript import StoredTexts
from pytest_llmeval.transcripts.word_diff import Piece
from tests.transcripts.recorded import FUNCTION, Recorder, run_of, said, system, user

OTHER = "evals/test_shop.py::test_tone"
RULE = " A refund that was promised goes to billing."
OLD = f"Name the team.{RULE} Be brief."
NEW = "Name the team. Be brief."


def asking(recorder: Recorder, prompt: Callable[[str], str], *names: str) -> Run:
    """Record a case of the first function for each name, and one of the other function."""

    def of(name: str, function: str) -> object:
        asked = [([system(prompt(name)), user(f"Ticket: {name}")], said("billing"))]
        return recorder.case(name, "p", lambda _: asked, function=function)

    cases = [of(name, FUNCTION) for name in names]
    return run_of(*cases, of("polite", OTHER))  # type: ignore[arg-type]


def changes(recorder: Recorder, baseline: Run, current: Run) -> tuple[RequestChange, ...]:
    cases = {case.id: case.function for case in current.cases}
    with StoredTexts(recorder.home) as stored:
        return request_changes(baseline, current, cases, stored)


def test_a_change_that_all_cases_have_is_told_once(recorder: Recorder) -> None:
    before = asking(recorder, lambda _: OLD, "a", "b")
    after = asking(recorder, lambda _: NEW, "a", "b")

    (found,) = changes(recorder, before, after)

    assert (found.cases, found.looked_at) == (3, 3)
    assert found.functions == (FUNCTION, OTHER)
    assert found.case == f"{FUNCTION}[a]"
    (part,) = found.parts
    assert part.role == "system"
    assert part.pieces == (
        Piece(" ", "Name the team."),
        Piece("-", RULE),
        Piece(" ", " Be brief."),
    )


def test_of_many_changes_the_two_that_most_cases_have_are_told(recorder: Recorder) -> None:
    kinds = dict(zip("abcdefg", ["one", "one", "one", "two", "two", "three", "three"], strict=True))
    before = asking(recorder, lambda _: "Be brief.", *kinds)
    after = asking(recorder, lambda name: f"Be brief {kinds.get(name, 'four')}.", *kinds)

    found = changes(recorder, before, after)

    assert [(one.cases, one.looked_at) for one in found] == [(3, 7), (2, 7)]
    assert [one.functions for one in found] == [(FUNCTION,), (FUNCTION,)]


def test_where_no_change_is_common_the_first_case_is_told(recorder: Recorder) -> None:
    before = asking(recorder, lambda _: "Be brief.", "a", "b")
    after = asking(recorder, lambda name: f"Be brief, {name}.", "a", "b")

    (found,) = changes(recorder, before, after)

    assert (found.cases, found.looked_at, found.case) == (1, 2, f"{FUNCTION}[a]")


def test_a_setting_is_told_by_its_name(recorder: Recorder) -> None:
    def run(temperature: float) -> Run:
        call = [recorder.call([user("?")], said("x"), trial=0, temperature=temperature)]
        case, (trial,) = recorder.case("a", "p", lambda _: [])
        return run_of((case, (replace(trial, calls=tuple(call)),)))

    (found,) = changes(recorder, run(0.1), run(0.7))
    assert [(part.role, part.edit) for part in found.parts] == [("temperature", ("-0.1", "+0.7"))]


def test_long_texts_are_cut_beside_and_within_a_change(recorder: Recorder) -> None:
    rest = " ".join(f"rule{number}" for number in range(100))
    before = asking(recorder, lambda _: f"{rest} end.", "a")
    after = asking(recorder, lambda _: f"{rest} end. {'x' * 1000}", "a")

    (found,) = changes(recorder, before, after)

    head, added = found.parts[0].pieces
    assert head.text.startswith("rule0 rule1")
    assert "... (" in head.text
    assert head.text.endswith("rule99 end.")
    assert added.text.endswith("... (601 more characters)")


def test_nothing_is_told_where_requests_are_not_here(recorder: Recorder, tmp_path: Path) -> None:
    before, after = asking(recorder, lambda _: OLD, "a"), asking(recorder, lambda _: NEW, "a")
    with StoredTexts(tmp_path / "elsewhere") as stored:
        cases = {case.id: case.function for case in after.cases}
        assert request_changes(before, after, cases, stored) == ()
        assert request_changes(before, run_of(), cases, stored) == ()
