"""Which cases are changed, and of what kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from pytest_llmeval.gate import changes
from pytest_llmeval.gate.changes import (
    CallsOfBoth,
    ChangeKind,
    all_repeats_identical,
)
from pytest_llmeval.gate.scoring import Scored
from pytest_llmeval.records import Call, Outcome, Run, Trial
from tests.gate.builders import CallsOfTrial, a_call, a_case, a_run, compared

OneTrial = tuple[Trial, float]

A, B, C, D = (a_call(key, f"{key.lower()}0") for key in "ABCD")
NEW_A, NEW_B = a_call("A", "a1"), a_call("B", "b1")
FAILED = a_call("A", None)


def scored(index: int, *calls: Call, value: float = 1.0) -> OneTrial:
    trial = Trial(case="c", index=index, outcome=Outcome.PASSED, calls=calls)
    return trial, value


def of(trials: Sequence[OneTrial]) -> Scored:
    return Scored(tuple(trial for trial, _ in trials), tuple(value for _, value in trials))


def kind_of_change(baseline: Sequence[OneTrial], current: Sequence[OneTrial]) -> ChangeKind | None:
    return changes.kind_of_change(of(baseline), of(current), CallsOfBoth({}, {}))


def kind(baseline: Sequence[Call], current: Sequence[Call]) -> str | None:
    return kind_of_change([scored(0, *baseline)], [scored(0, *current)])


def test_same_draws_and_scores_are_an_unchanged_case() -> None:
    assert kind([A, B], [A, B]) is None


def test_order_of_the_calls_does_not_change_a_case() -> None:
    assert kind([A, B], [B, A]) is None


def test_another_key_is_a_changed_request() -> None:
    assert kind([A], [B]) == "request"


def test_a_call_too_many_is_a_changed_request() -> None:
    assert kind([A], [A, B]) == "request"


def test_a_missing_call_is_a_changed_request() -> None:
    assert kind([A, B], [A]) == "request"
    assert kind_of_change([scored(0, A), scored(1, A)], [scored(0, A), scored(1)]) == "request"


def test_where_no_trial_makes_a_call_here_a_case_is_unseen() -> None:
    assert kind([A], []) == "unseen"
    assert kind_of_change([scored(0, A), scored(1, B)], [scored(0), scored(1)]) == "unseen"


def test_a_call_made_once_less_is_a_changed_request() -> None:
    assert kind([A, A], [A]) == "request"


def test_same_key_with_another_draw_is_redrawn() -> None:
    assert kind([A, B], [A, NEW_B]) == "redrawn"


def test_redrawn_calls_in_another_order_are_redrawn() -> None:
    assert kind([A, B], [NEW_B, NEW_A]) == "redrawn"


def test_same_draw_of_another_key_is_no_replay() -> None:
    assert kind([A], [a_call("B", "a0")]) == "request"


def test_same_draw_in_another_slot_is_no_replay() -> None:
    assert kind([A], [a_call("A", "a0", occurrence=1)]) == "redrawn"


def test_the_first_call_that_differs_gives_the_kind() -> None:
    assert kind([A, B], [NEW_A, C]) == "redrawn"
    assert kind([A, B], [C, NEW_B]) == "request"
    assert kind([A, B], [NEW_B, C]) == "request"
    assert kind([B], [A, NEW_B]) == "request"


def at_once(*calls: Call) -> list[Call]:
    """Let calls be open at once; they are listed as they were answered."""
    return [dataclasses.replace(call, strand=(0, place)) for place, call in enumerate(calls)]


def test_no_race_gives_the_kind() -> None:
    for baseline in (at_once(A, B), at_once(B, A)):
        for turned in (False, True):
            redrawn, edited = ([NEW_A, NEW_B], [NEW_A, C])
            assert kind(baseline, at_once(*redrawn[:: -1 if turned else 1])) == "redrawn"
            assert kind(baseline, at_once(*edited[:: -1 if turned else 1])) == "request"


def test_what_follows_a_redrawn_call_is_no_changed_request() -> None:
    chain = [dataclasses.replace(call, strand=(0, 0)) for call in (NEW_A, C)]
    beside = dataclasses.replace(B, strand=(0, 1))

    assert kind([*at_once(A, B), D], [*chain, beside]) == "redrawn"
    assert kind([*at_once(A, B), D], [beside, *chain]) == "redrawn"


def test_the_first_trial_that_differs_gives_the_kind() -> None:
    baseline = [scored(0, A), scored(1, A), scored(2, A)]
    assert kind_of_change(baseline, [scored(0, A), scored(1, NEW_A), scored(2, B)]) == "redrawn"
    assert kind_of_change(baseline, [scored(0, A), scored(1, B), scored(2, NEW_A)]) == "request"


def test_trials_that_one_metric_lacks_do_not_count_for_it_though_they_do_for_another() -> None:
    calls = CallsOfBoth({}, {})
    baseline, current = of([scored(0, A), scored(1, A)]), of([scored(0, A), scored(1, NEW_A)])
    assert changes.kind_of_change(baseline, current, calls) == "redrawn"
    assert changes.kind_of_change(baseline.only([0]), current.only([0]), calls) is None


def test_an_equal_reply_of_another_draw_is_redrawn_all_the_same() -> None:
    old, new = a_call("A", "a0", reply="Lima"), a_call("A", "a1", reply="Lima")
    assert kind([old], [new]) == "redrawn"


def test_another_score_of_the_same_draws_is_a_changed_score() -> None:
    assert kind_of_change([scored(0, A)], [scored(0, A, value=0.5)]) == "score"


def test_a_call_that_differs_goes_before_a_score_that_does() -> None:
    baseline = [scored(0, A), scored(1, A)]
    assert kind_of_change(baseline, [scored(0, A, value=0.0), scored(1, NEW_A)]) == "redrawn"


def test_trials_without_calls_are_unseen_even_with_equal_scores() -> None:
    assert kind([], []) == "unseen"
    assert kind_of_change([scored(0)], [scored(0, value=0.0)]) == "unseen"


def test_one_trial_without_calls_makes_a_case_unseen() -> None:
    assert kind_of_change([scored(0, A), scored(1)], [scored(0, A), scored(1)]) == "unseen"


def test_trials_that_crashed_alike_before_they_asked_change_nothing() -> None:
    def stopped(message: str, *calls: Call, value: float = 0.0) -> OneTrial:
        outcome = Outcome.CRASHED
        return Trial(case="c", index=1, outcome=outcome, message=message, calls=calls), value

    full, disk = stopped("OSError app.py:3"), stopped("KeyError app.py:4")
    assert kind_of_change([scored(0, A), full], [scored(0, A), full]) is None
    assert kind_of_change([scored(0, A), full], [scored(0, A), disk]) == "unseen"
    assert kind_of_change([scored(0, A), full], [scored(0, A), scored(1)]) == "unseen"
    assert kind_of_change([scored(0, A), full], [scored(0, NEW_A), full]) == "redrawn"
    assert kind_of_change([full], [full]) == "unseen"


def test_score_must_differ_in_a_trial_with_calls_to_be_the_kind() -> None:
    baseline = [scored(0, A), scored(1)]
    assert kind_of_change(baseline, [scored(0, A), scored(1, value=0.0)]) == "unseen"
    assert kind_of_change(baseline, [scored(0, A, value=0.0), scored(1)]) == "score"


def test_only_trials_scored_on_both_sides_are_looked_at() -> None:
    baseline = [scored(0, A), scored(1, A), scored(2, A)]
    assert kind_of_change(baseline, [scored(1, A)]) is None
    assert kind_of_change([scored(1, A)], baseline) is None


@pytest.mark.parametrize(
    ("baseline", "current", "expected"),
    [([], [], "unseen"), ([A], [B], "request"), ([A], [], "unseen"), ([A], [A], "redrawn")],
)
def test_without_common_trials_the_keys_give_the_kind(
    baseline: list[Call], current: list[Call], expected: str
) -> None:
    assert kind_of_change([scored(0, *baseline)], [scored(1, *current)]) == expected


def test_keys_of_all_scored_trials_count_without_common_ones() -> None:
    assert kind_of_change([scored(0, A), scored(1, B)], [scored(2, B), scored(3, A)]) == "redrawn"


def test_request_without_a_reply_is_never_a_replay() -> None:
    assert kind([FAILED], [FAILED]) == "redrawn"
    assert kind([A], [FAILED]) == "redrawn"
    assert kind([FAILED], [A]) == "redrawn"


def test_request_without_a_reply_follows_the_usual_rules_otherwise() -> None:
    assert kind([FAILED, B], [FAILED, C]) == "redrawn"
    assert kind([B, FAILED], [C, FAILED]) == "request"
    assert kind([FAILED], [FAILED, B]) == "redrawn"
    assert kind([B], [B, FAILED]) == "request"


def test_shared_calls_stand_in_the_lists_like_others() -> None:
    old, new = (a_call("S", draw, trial=None) for draw in ("s0", "s1"))
    assert kind([old, A], [old, A]) is None
    assert kind([old, A], [new, A]) == "redrawn"


def test_kinds_are_counted() -> None:
    baseline = a_run(*(a_case(name, "pp") for name in "abcd"))
    run = a_run(
        a_case("a", "pp", request="v2"),
        a_case("b", "pp", draws="here"),
        a_case("c", "pm"),
        a_case("d", "pp"),
    )
    assert compared(baseline, run).effect.changed_kinds == {"request": 1, "redrawn": 1, "score": 1}


def test_replies_of_redrawn_cases_that_are_not_here_were_replaced() -> None:
    def calls(*draws: str | None) -> CallsOfTrial:
        return lambda _: tuple(a_call(key, draw) for key, draw in zip("KLM", draws, strict=True))

    baseline = a_run(
        a_case("redrawn", "p", calls=calls("k0", "l0", None)),
        a_case("asked otherwise", "p"),
        a_case("same", "p"),
    )
    run = a_run(
        a_case("redrawn", "p", calls=calls("k0", "l1", "m1")),
        a_case("asked otherwise", "p", request="v2"),
        a_case("same", "p"),
    )

    found = [call for case in compared(baseline, run).compared for call in case.replaced_calls]

    assert [call.draw for call in found] == ["l0"]


@pytest.mark.parametrize(("later", "again"), [("M", True), ("N", False)])
def test_a_case_that_sent_others_later_was_not_asked_the_same(*, later: str, again: bool) -> None:
    def asking(world: str, *keys: str) -> Run:
        calls = [a_call(key, f"{world} {key}") for key in keys]
        return a_run(a_case("a", "p", calls=lambda _: calls))

    (case,) = compared(asking("main", "K", "M"), asking("here", "K", later)).compared

    assert (case.kind, case.is_asked_again) == ("redrawn", again)


def test_case_says_its_kind() -> None:
    found = compared(
        a_run(a_case("a", "pp"), a_case("b", "pp")), a_run(a_case("a", "pp"), a_case("b", "pm"))
    )
    assert [one.kind for one in found.compared] == [None, "score"]


def test_extra_trials_on_one_side_do_not_make_a_case_changed() -> None:
    assert compared(a_run(a_case("a", "pppp")), a_run(a_case("a", "pp"))).effect.changed == 0
    assert compared(a_run(a_case("a", "pp")), a_run(a_case("a", "pppp"))).effect.changed == 0


def test_errored_trials_on_one_side_do_not_make_a_case_changed() -> None:
    assert compared(a_run(a_case("a", "ppp")), a_run(a_case("a", "pep"))).effect.changed == 0
    assert compared(a_run(a_case("a", "epp")), a_run(a_case("a", "ppp"))).effect.changed == 0


def sample(*replies: str | None) -> Scored:
    calls = (a_call("A", None if r is None else f"d{at}", reply=r) for at, r in enumerate(replies))
    return of([scored(at, call) for at, call in enumerate(calls)])


def test_equal_replies_in_every_repeated_sample_are_one_draw() -> None:
    assert all_repeats_identical([sample("x", "x"), sample("y", "y", "y"), sample("z")])


def test_repeats_are_one_draw_in_whatever_order_their_calls_were_answered() -> None:
    assert all_repeats_identical([of([scored(0, A, B), scored(1, B, A)])])


def test_one_sample_of_unlike_replies_shows_that_repeats_differ() -> None:
    assert not all_repeats_identical([sample("x", "x"), sample("y", "z")])


def test_without_a_repeat_nothing_shows_that_repeats_are_one_draw() -> None:
    assert not all_repeats_identical([sample("x"), sample("y")])


def test_trials_without_calls_do_not_show_that_repeats_are_one_draw() -> None:
    assert not all_repeats_identical([of([scored(0), scored(1)])])


def test_requests_without_a_reply_do_not_show_that_repeats_are_one_draw() -> None:
    assert not all_repeats_identical([sample(None, None)])


def test_all_replies_of_a_trial_must_be_repeated() -> None:
    one = scored(0, a_call("A", "a0", reply="x"), a_call("B", "b0", reply="y"))
    other = scored(1, a_call("A", "a1", reply="x"), a_call("B", "b1", reply="z"))
    assert not all_repeats_identical([of([one, other])])
