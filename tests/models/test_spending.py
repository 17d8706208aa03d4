from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.models.limits.journal import Spending

D = Decimal


def spending(
    *entries: list[str], max_calls: int | None = None, max_cost: str | None = None
) -> Spending:
    made = Spending(max_calls=max_calls, max_cost=None if max_cost is None else D(max_cost))
    for entry in entries:
        made.add(entry)
    return made


def test_calls_are_granted_up_to_their_number() -> None:
    counted = spending(
        ["take", "a:0", "0"], ["take", "a:1", "0"], ["take", "b:0", "0"], max_calls=2
    )

    assert counted.calls == 2
    assert not counted.has_calls_left
    assert (counted.holds("a:1"), counted.holds("b:0")) == (True, False)


def test_a_call_that_is_given_back_makes_room() -> None:
    counted = spending(["take", "a:0", "0"], ["end", "a:0", "0", "0"], max_calls=1)

    assert counted.room(D(0)) == "now"


def test_what_calls_under_way_may_cost_is_waited_for() -> None:
    counted = spending(["take", "a:0", "0.6"], max_cost="1")

    assert [counted.room(D(cost)) for cost in ("0.4", "0.5", "1.1")] == ["now", "later", "never"]


def test_what_was_not_used_is_given_back() -> None:
    counted = spending(["take", "a:0", "0.6"], ["end", "a:0", "1", "0.1"], max_cost="1")

    assert counted.spent == D("0.1")
    assert [counted.room(D(cost)) for cost in ("0.9", "0.91")] == ["now", "never"]


def test_a_call_ends_once() -> None:
    ended = ["end", "a:0", "1", "0.1"]

    assert spending(["take", "a:0", "0.6"], ended, ended, max_cost="1").spent == D("0.1")


def test_what_a_process_that_is_gone_had_reserved_is_spent() -> None:
    counted = spending(
        ["take", "gw1:0", "0.6"], ["take", "gw10:0", "0.1"], ["gone", "gw1"], max_cost="1"
    )

    assert counted.spent == D("0.6")
    assert counted.holds("gw10:0")


@pytest.mark.parametrize(
    "entry",
    [[], ["what"], ["take"], ["take", "a", "x"], ["end", "a:0", "one", "0"], ["end", "a:0", "1"]],
)
def test_what_is_no_entry_says_nothing(entry: list[str]) -> None:
    counted = spending(["take", "a:0", "0.6"], entry, max_cost="1")

    assert (counted.calls, counted.spent, counted.holds("a:0")) == (1, D(0), True)


CENTS = st.integers(min_value=0, max_value=60)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["take", "end", "back", "gone"]), CENTS, CENTS), max_size=40
    ),
    cap=st.integers(min_value=0, max_value=200),
    most=st.integers(min_value=0, max_value=12),
)
def test_no_sequence_of_calls_exceeds_a_cap(
    steps: list[tuple[str, int, int]], cap: int, most: int
) -> None:
    """As long as no call costs more than its most, whatever comes in whatever order."""
    counted = Spending(max_calls=most, max_cost=D(cap) / 100)
    under_way: dict[str, int] = {}
    paid = calls = 0
    for number, (kind, reserved, cost) in enumerate(steps):
        name = f"p{reserved % 2}:{number}"
        if kind == "take":
            counted.add(["take", name, str(D(reserved) / 100)])
            if counted.holds(name):
                under_way[name] = reserved
                calls += 1
        elif kind == "gone":
            lost = [one for one in under_way if one.startswith(f"p{reserved % 2}:")]
            counted.add(["gone", f"p{reserved % 2}"])
            paid += sum(under_way.pop(one) for one in lost)
        elif under_way:
            name, its_most = under_way.popitem()
            is_call = kind == "end"
            real = min(cost, its_most) if is_call else 0
            counted.add(["end", name, str(int(is_call)), str(D(real) / 100)])
            paid += real
            calls -= not is_call

        assert counted.spent == D(paid) / 100
        assert paid + sum(under_way.values()) <= cap
        assert counted.calls == calls <= most
