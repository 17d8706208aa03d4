from __future__ import annotations

import os
import time
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.models.limits.spending import DAY, Journal, Tally

D = Decimal


def tally(*entries: list[str], max_calls: int | None = None, max_cost: str | None = None) -> Tally:
    made = Tally(max_calls=max_calls, max_cost=None if max_cost is None else D(max_cost))
    for entry in entries:
        made.add(entry)
    return made


def test_calls_are_granted_up_to_their_number() -> None:
    counted = tally(["take", "a:0", "0"], ["take", "a:1", "0"], ["take", "b:0", "0"], max_calls=2)

    assert counted.calls == 2
    assert not counted.has_calls_left
    assert (counted.holds("a:1"), counted.holds("b:0")) == (True, False)


def test_a_call_that_is_given_back_makes_room() -> None:
    counted = tally(["take", "a:0", "0"], ["end", "a:0", "0", "0"], max_calls=1)

    assert counted.room(D(0)) == "now"


def test_what_calls_under_way_may_cost_is_waited_for() -> None:
    counted = tally(["take", "a:0", "0.6"], max_cost="1")

    assert [counted.room(D(cost)) for cost in ("0.4", "0.5", "1.1")] == ["now", "later", "never"]


def test_what_was_not_used_is_given_back() -> None:
    counted = tally(["take", "a:0", "0.6"], ["end", "a:0", "1", "0.1"], max_cost="1")

    assert counted.spent == D("0.1")
    assert [counted.room(D(cost)) for cost in ("0.9", "0.91")] == ["now", "never"]


def test_a_call_ends_once() -> None:
    ended = ["end", "a:0", "1", "0.1"]

    assert tally(["take", "a:0", "0.6"], ended, ended, max_cost="1").spent == D("0.1")


def test_what_a_process_that_is_gone_had_reserved_is_spent() -> None:
    counted = tally(
        ["take", "gw1:0", "0.6"], ["take", "gw10:0", "0.1"], ["gone", "gw1"], max_cost="1"
    )

    assert counted.spent == D("0.6")
    assert counted.holds("gw10:0")


@pytest.mark.parametrize(
    "entry",
    [[], ["what"], ["take"], ["take", "a", "x"], ["end", "a:0", "one", "0"], ["end", "a:0", "1"]],
)
def test_what_is_no_entry_says_nothing(entry: list[str]) -> None:
    counted = tally(["take", "a:0", "0.6"], entry, max_cost="1")

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
    counted = Tally(max_calls=most, max_cost=D(cap) / 100)
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


def test_the_processes_of_a_session_read_the_same(tmp_path: Path) -> None:
    one, other = (Journal.of_session(tmp_path, "session") for _ in range(2))
    one.append("take", "a:0", "1")
    assert other.unread() == [["take", "a:0", "1"]]
    other.append("take", "b:0", "2")
    one.append("end", "a:0", "1", "1")

    assert other.unread() == [["take", "b:0", "2"], ["end", "a:0", "1", "1"]]
    assert one.unread() == [["take", "a:0", "1"], ["take", "b:0", "2"], ["end", "a:0", "1", "1"]]
    assert one.unread() == []


def test_a_line_that_a_killed_process_left_unfinished_spoils_no_other(tmp_path: Path) -> None:
    journal = Journal.of_session(tmp_path, "session")
    journal.append("take", "a:0", "1")
    with (tmp_path / "caps" / "session.jsonl").open("ab") as file:
        file.write(b'\n["take", "b:')
    journal.append("take", "c:0", "1")

    assert journal.unread() == [["take", "a:0", "1"], ["take", "c:0", "1"]]


def test_the_file_is_there_from_the_first_entry_to_the_end(tmp_path: Path) -> None:
    directory = tmp_path / ".llmeval"
    journal = Journal.of_session(directory, "session")
    assert journal.unread() == []
    journal.note_end("gw0")
    assert not directory.exists()

    journal.append("take", "gw0:0", "1")
    journal.note_end("gw0")
    assert (directory / ".gitignore").exists()
    assert journal.unread()[-1] == ["gone", "gw0"]

    journal.remove()
    assert not (directory / "caps").exists()
    journal.remove()


def test_what_killed_sessions_left_goes_after_a_day(tmp_path: Path) -> None:
    ages = {"living": DAY / 2, "killed": DAY + 60}
    for session, age in ages.items():
        Journal.of_session(tmp_path, session).append("take", "a:0", "1")
        then = time.time() - age
        os.utime(tmp_path / "caps" / f"{session}.jsonl", (then, then))
    journal = Journal.of_session(tmp_path, "this")
    journal.append("take", "a:0", "1")

    assert {file.stem for file in (tmp_path / "caps").iterdir()} == {"living", "this"}
    assert journal.unread() == [["take", "a:0", "1"]]


def test_a_folder_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "caps").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="caps is a symbolic link"):
        Journal.of_session(tmp_path, "session").append("take", "a:0", "1")

    assert list((tmp_path / "theirs").iterdir()) == []


def test_a_journal_of_one_process_needs_no_file() -> None:
    journal = Journal()
    journal.append("take", "a:0", "1")
    journal.note_end("a")

    assert journal.unread() == [["take", "a:0", "1"]]
    journal.remove()
