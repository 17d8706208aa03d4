"""Which cases are compared, which are touched, and by how much they differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from pytest_llmeval.gate.changes import CallsOfBoth
from pytest_llmeval.gate.edited import find_edits
from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.scoring import sides_of
from pytest_llmeval.records import Call, Run
from pytest_llmeval.settings import GateRules
from tests.gate.builders import CallsOfTrial, a_call, a_case, a_run, compared, one_call


def paired(baseline: Run, run: Run, *, metric: str = "pass") -> Pairing:
    (before,), (after,) = sides_of(baseline).values(), sides_of(run).values()
    calls = CallsOfBoth(before.trials, after.trials)
    edits = find_edits(before, after, rule="leave_out")
    return Pairing(
        before,
        after,
        metric,
        calls=calls,
        better=after.better(metric),
        rules=GateRules(),
        edits=edits,
    )


def difference(baseline: Run, run: Run, **given: str) -> float:
    (pair,) = paired(baseline, run, **given).pairs
    return pair.difference


def indices(baseline: Run, run: Run) -> tuple[list[int], list[int]]:
    """The trials of the first case that enter its difference."""
    pair = paired(baseline, run).pairs[0]
    return pair.baseline.indices, pair.current.indices


def named(ids: Iterable[str]) -> list[str]:
    return sorted(id_.partition("[")[2].rstrip("]") for id_ in ids)


# common cases


def test_common_cases_have_one_id_and_a_scored_trial_on_both_sides() -> None:
    baseline = a_run(*(a_case(name, outcome) for name, outcome in zip("abcd", "ppee", strict=True)))
    run = a_run(*(a_case(name, outcome) for name, outcome in zip("bcde", "mpep", strict=True)))
    assert named(pair.case for pair in paired(baseline, run).pairs) == ["b"]


def test_trials_without_a_value_do_not_make_a_case_common() -> None:
    baseline = a_run(a_case("a", "pp", scores=[0.5, 0.6]), a_case("b", "pp", scores=[0.5, 0.6]))
    run = a_run(a_case("a", "pp"), a_case("b", "pp", scores=[0.5, None]))
    assert named(pair.case for pair in paired(baseline, run, metric="score").pairs) == ["b"]


@pytest.mark.parametrize(
    ("before", "after", "is_paired"),
    [("d1", "d1", True), ("d1", "d2", False), ("d1", None, True), (None, None, True)],
)
def test_ids_made_from_positions_are_paired_unless_the_parameters_are_known_to_differ(
    before: str | None, after: str | None, is_paired: bool
) -> None:
    baseline = a_run(a_case("ticket0", "pp", positional=True, parameters=before))
    run = a_run(a_case("ticket0", "pp", positional=True, parameters=after, request="v2"))
    found = paired(baseline, run)
    assert bool(found.pairs) is is_paired
    assert bool(found.edits.mismatched) is not is_paired


@pytest.mark.parametrize("positional", [(True, False), (False, True)])
def test_one_side_suffices_to_make_an_id_positional(positional: tuple[bool, bool]) -> None:
    baseline = a_run(a_case("ticket0", "pp", positional=positional[0], parameters="d1"))
    other = a_case("ticket0", "pp", positional=positional[1], parameters="d2", request="v2")
    assert named(paired(baseline, a_run(other)).edits.mismatched) == ["ticket0"]


def test_parameters_of_given_ids_may_differ() -> None:
    baseline = a_run(a_case("Peru", "pp", parameters="d1"))
    run = a_run(a_case("Peru", "pp", parameters="d2", request="v2"))
    assert len(paired(baseline, run).pairs) == 1


def test_mismatched_case_is_lost_and_not_touched() -> None:
    baseline = a_run(a_case("t0", "pp", positional=True, parameters="d1"))
    run = a_run(a_case("t0", "pp", positional=True, parameters="d2", request="v2"))
    found = paired(baseline, run)
    assert named(found.lost) == ["t0"]
    assert found.touched == frozenset()


# touched and lost cases


def test_changed_cases_are_touched_and_unchanged_ones_are_not() -> None:
    baseline = a_run(a_case("a", "pp"), a_case("b", "pp"))
    run = a_run(a_case("a", "pp"), a_case("b", "pp", request="v2"))
    assert named(paired(baseline, run).touched) == ["b"]


@pytest.mark.parametrize("outcomes", ["ee", "es"])
def test_case_without_a_scored_trial_here_is_touched(outcomes: str) -> None:
    found = paired(a_run(a_case("a", "pp")), a_run(a_case("a", outcomes)))
    assert named(found.touched) == ["a"]
    assert found.lost == frozenset()


def test_case_whose_trials_have_no_value_here_is_touched() -> None:
    baseline = a_run(a_case("a", scores=[0.5, 0.6]))
    assert named(paired(baseline, a_run(a_case("a", "pp")), metric="score").touched) == ["a"]


def test_case_skipped_in_all_its_trials_is_lost_and_not_touched() -> None:
    found = paired(a_run(a_case("a", "pp")), a_run(a_case("a", "ss")))
    assert named(found.lost) == ["a"]
    assert found.touched == frozenset()


def test_case_that_is_gone_is_lost_and_not_touched() -> None:
    found = paired(a_run(a_case("a", "pp"), a_case("b", "pp")), a_run(a_case("b", "pp")))
    assert named(found.lost) == ["a"]
    assert found.touched == frozenset()


def test_case_without_a_score_in_the_baseline_is_neither_touched_nor_lost() -> None:
    baseline = a_run(a_case("a", "ee"), a_case("b", "ee"), a_case("c", "pp"))
    found = paired(baseline, a_run(a_case("a", "ee"), a_case("c", "pp")))
    assert (found.touched, found.lost) == (frozenset(), frozenset())


def test_case_that_a_stopped_session_never_came_to_is_left_out() -> None:
    baseline = a_run(a_case("a", "pp"), a_case("b", "pp"))
    found = paired(baseline, a_run(a_case("a", ""), a_case("b", "pp")))
    assert (found.touched, found.lost) == (frozenset(), frozenset())
    assert named(found.current.side.cases) == ["b"]


# the difference of a case


def test_difference_is_the_mean_here_minus_the_mean_there() -> None:
    baseline, run = a_run(a_case("a", "pppm")), a_run(a_case("a", "pm", request="v2"))
    assert difference(baseline, run) == -0.25


def test_difference_turns_its_sign_where_lower_is_better() -> None:
    baseline = a_run(a_case("a", scores=[0.2, 0.4]))
    run = a_run(a_case("a", scores=[0.6, 0.6], request="v2", better="lower"))
    assert difference(baseline, run, metric="score") == pytest.approx(-0.3)


def test_errors_of_rounding_of_large_scores_are_no_difference() -> None:
    baseline = a_run(a_case("a", scores=[1e6 + 0.1, 1e6 + 0.2]))
    run = a_run(a_case("a", scores=[1e6 + 0.15, 1e6 + 0.15], request="v2"))
    assert difference(baseline, run, metric="score") == 0.0


def test_errored_trials_do_not_enter() -> None:
    baseline, run = a_run(a_case("a", "ppm")), a_run(a_case("a", "pep", request="v2"))
    assert difference(baseline, run) == pytest.approx(1 / 3)


def test_unchanged_case_differs_by_exactly_zero_whatever_else_the_baseline_has() -> None:
    baseline, run = a_run(a_case("a", "ppppmmmmmm")), a_run(a_case("a", "pppp"))
    assert difference(baseline, run) == 0.0
    assert indices(baseline, run) == ([0, 1, 2, 3], [0, 1, 2, 3])


def test_equal_means_where_lower_is_better_differ_by_plain_zero() -> None:
    baseline = a_run(a_case("a", scores=[0.5]))
    run = a_run(a_case("a", scores=[0.5], request="v2", better="lower"))
    assert str(difference(baseline, run, metric="score")) == "0.0"


def test_all_trials_of_this_run_enter_also_where_the_baseline_has_fewer() -> None:
    baseline, run = a_run(a_case("a", "pp")), a_run(a_case("a", "pmmmm", request="v2"))
    assert indices(baseline, run) == ([0, 1], [0, 1, 2, 3, 4])
    assert difference(baseline, run) == pytest.approx(-0.8)


def test_no_other_than_scored_trials_enter() -> None:
    baseline, run = a_run(a_case("a", "esp")), a_run(a_case("a", "eepps", request="v2"))
    assert indices(baseline, run) == ([2], [2, 3])


def test_baseline_is_not_trimmed() -> None:
    baseline, run = a_run(a_case("a", "pppppp")), a_run(a_case("a", "pp", request="v2"))
    assert indices(baseline, run) == ([0, 1, 2, 3, 4, 5], [0, 1])


def test_changed_score_is_compared_over_the_common_trials_only() -> None:
    baseline, run = a_run(a_case("a", "ppmmmm")), a_run(a_case("a", "pm"))
    assert indices(baseline, run) == ([0, 1], [0, 1])
    assert difference(baseline, run) == -0.5


def first_call_shared(own: str, draws: str = "main") -> CallsOfTrial:
    """Each trial makes a call that other cases make too, and one of its own."""

    def calls(index: int) -> tuple[Call, ...]:
        shared = a_call("shared", f"{draws}/{index}", trial=index)
        return (shared, a_call(own, f"{own}/{index}", trial=index))

    return calls


def test_case_with_a_replayed_draw_of_another_is_compared_over_common_trials() -> None:
    baseline = a_run(
        a_case("a", "ppmmmm", calls=first_call_shared("a1")),
        a_case("b", "pppppp", calls=first_call_shared("b1")),
    )
    run = a_run(
        a_case("a", "pm", calls=first_call_shared("a2")),
        a_case("b", "pp", calls=first_call_shared("b1")),
    )
    assert indices(baseline, run) == ([0, 1], [0, 1])


def test_replayed_draw_of_one_case_alone_does_not_limit_it_to_common_trials() -> None:
    baseline = a_run(a_case("a", "ppmmmm", calls=first_call_shared("a1")), a_case("b", "pp"))
    run = a_run(a_case("a", "pm", calls=first_call_shared("a2")), a_case("b", "pp"))
    assert indices(baseline, run) == ([0, 1, 2, 3, 4, 5], [0, 1])


def test_shared_draw_of_one_run_alone_does_not_limit_to_common_trials() -> None:
    baseline = a_run(
        a_case("a", "ppmmmm", calls=first_call_shared("a1")),
        a_case("b", "pppppp", calls=first_call_shared("b1")),
    )
    run = a_run(
        a_case("a", "pm", calls=first_call_shared("a1", draws="here")),
        a_case("b", "pp", calls=first_call_shared("b1", draws="here")),
    )
    assert indices(baseline, run) == ([0, 1, 2, 3, 4, 5], [0, 1])


def test_without_a_common_trial_all_scored_trials_enter() -> None:
    baseline = a_run(
        a_case("a", "ppe", calls=first_call_shared("a1")),
        a_case("b", "ppp", calls=first_call_shared("b1")),
    )
    run = a_run(
        a_case("a", "eep", calls=first_call_shared("a1")),
        a_case("b", "ppp", calls=first_call_shared("b1")),
    )
    assert indices(baseline, run) == ([0, 1], [2])


def test_draw_counts_as_shared_wherever_the_other_case_has_it() -> None:
    # b has a's draw in the baseline only, but the draw itself is in both runs, through a
    baseline = a_run(
        a_case("a", "ppmm", calls=first_call_shared("a1")),
        a_case("b", "pppp", calls=first_call_shared("b1")),
    )
    run = a_run(
        a_case("a", "pm", calls=first_call_shared("a2")),
        a_case("b", "pp", calls=one_call("b2", "here")),
    )
    assert indices(baseline, run) == ([0, 1], [0, 1])


def test_case_shows_all_its_scores_and_the_means_that_enter() -> None:
    (one,) = compared(a_run(a_case("a", "ppmm")), a_run(a_case("a", "pm"))).compared
    assert (one.baseline_scores, one.scores) == ((1.0, 1.0, 0.0, 0.0), (1.0, 0.0))
    assert (one.baseline_mean, one.mean, one.difference) == (1.0, 0.5, -0.5)


def test_cases_are_listed_in_the_order_of_the_baseline() -> None:
    baseline = a_run(*(a_case(name, "p") for name in "cab"))
    run = a_run(*(a_case(name, "p") for name in "abc"))
    assert "".join(named([one.case])[0] for one in compared(baseline, run).compared) == "cab"


# what changed beside the application


def test_a_test_that_changed_is_noted_where_both_runs_tell() -> None:
    old, new = a_run(a_case("Peru", "pp")), a_run(a_case("Peru", "mm"))
    function = old.cases[0].function
    tests = [{}, {function: "d1"}, {function: "d2"}]
    found = {
        (at, to): compared(
            replace(old, tests=tests[at]), replace(new, tests=tests[to])
        ).test_changed
        for at in range(3)
        for to in range(3)
    }
    assert {pair for pair, changed in found.items() if changed} == {(1, 2), (2, 1)}
