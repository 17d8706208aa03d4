from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import MAX_HEADER, deflate, inflate
from pytest_llmeval.cache.timed_calls import Steps, TimedCall, decode_course, encode_course
from pytest_llmeval.errors import Lost, RowRefused
from tests.cache.calls import KEY, SLOT, answered, says

Make = Callable[..., Replies]
STEPS: Steps = {
    f"{KEY}/0/0": TimedCall("d1", 0.0, 2.0, 1),
    f"{KEY}/0/1": TimedCall("d2", 0.5, 1.0, 0, Lost.CANCELLED),
}


def test_a_course_is_read_as_it_was_written() -> None:
    value = encode_course(STEPS)

    assert value is not None
    assert decode_course(value) == STEPS


@pytest.mark.parametrize(
    ("given_up", "word"),
    [
        (None, ""),
        (Lost.OWN_TIMEOUT, "network: timeout of the client"),
        (Lost.CANCELLED, "CancelledError"),
    ],
)
def test_a_row_has_the_words_that_the_first_version_reads(given_up: Lost | None, word: str) -> None:
    value = encode_course({"place": TimedCall("d", 0.0, 1.0, 0, given_up)})

    assert value is not None
    line = json.loads(inflate(value, limit=MAX_HEADER))
    assert line == {"schema": 1, "steps": [["place", "d", 0.0, 1.0, 0, word]]}
    assert decode_course(value)["place"].given_up is given_up


def test_who_asked_is_kept_beside_what_the_first_version_reads() -> None:
    steps = {"one": TimedCall("d", 0.0, 1.0, worker="/2/1"), "two": TimedCall("e", 0.0, 1.0)}

    value = encode_course(steps)

    assert value is not None
    assert decode_course(value) == steps
    assert json.loads(inflate(value, limit=MAX_HEADER))["workers"] == {"one": "/2/1"}


def test_a_course_that_is_too_long_is_not_kept() -> None:
    assert encode_course({"p" * MAX_HEADER: TimedCall("d", 0.0, 1.0)}) is None


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"schema": 2, "steps": []},
        {"schema": 1, "steps": {}},
        {"schema": 1, "steps": [["p", "d", 0.0, 1.0, 0]]},
        {"schema": 1, "steps": [["p", "d", "x", 1.0, 0, ""]]},
        {"schema": 1, "steps": [["p", "d", 0.0, 1e999, 0, ""]]},
    ],
)
def test_what_is_no_course_is_refused(line: object) -> None:
    with pytest.raises(RowRefused):
        decode_course(deflate(json.dumps(line).replace("Infinity", "1e999").encode()))


def test_a_row_that_was_refused_stays_so() -> None:
    with pytest.raises(RowRefused, match="pickled"):
        decode_course(RowRefused("it is pickled"))


def test_courses_are_kept_when_their_trials_have_ended(make_replies: Make) -> None:
    replies = make_replies()
    replies.keep_course("trial 1", {})  # it needs none
    answered(replies, KEY, SLOT, says("yes"))
    assert replies.courses("trial 0") == []
    assert replies.courses("trial 1") == []  # where there are none nobody looks again

    replies.keep_course("trial 0", STEPS)
    assert replies.courses("trial 0") == [STEPS]
    replies.close()

    assert make_replies("replay").courses("trial 0") == [STEPS]
    assert make_replies().courses("trial 1") == []


def test_a_course_is_stored_beside_the_next_reply(make_replies: Make) -> None:
    replies = make_replies()
    replies.keep_course("trial 0", STEPS)
    answered(replies, KEY, SLOT, says("yes"))

    assert make_replies().courses("trial 0") == [STEPS]


def test_a_trial_has_a_course_for_each_version_of_it(make_replies: Make) -> None:
    other = {f"{KEY}/0/0": TimedCall("d3", 0.0, 1.0, 0, Lost.CANCELLED)}
    for mode, steps in (("auto", STEPS), ("refresh", other)):
        replies = make_replies(mode)
        answered(replies, KEY, SLOT, says("yes"))
        replies.keep_course("trial 0", steps)
        replies.close()

    assert make_replies().courses("trial 0") == [STEPS, other]


@pytest.mark.parametrize("mode", ["off", "refresh"])
def test_what_is_drawn_anew_follows_no_course(make_replies: Make, mode: str) -> None:
    replies = make_replies()
    answered(replies, KEY, SLOT, says("yes"))
    replies.keep_course("trial 0", STEPS)
    replies.close()

    assert make_replies(mode).courses("trial 0") == []


@pytest.mark.parametrize(("mode", "trial"), [("off", "t"), ("replay", "t"), ("auto", "")])
def test_no_course_is_kept_where_nothing_is_stored(
    make_replies: Make, mode: str, trial: str
) -> None:
    replies = make_replies(mode)
    replies.keep_course(trial, STEPS)
    replies.close()

    assert make_replies().courses(trial) == []


def test_a_worker_finds_the_occurrences_that_it_had(make_replies: Make) -> None:
    def steps(draws: str, *, first: str, second: str) -> Steps:
        workers = zip(draws, (first, second, first), strict=True)
        own = {
            f"{KEY}/0/{at}": TimedCall(draw, 0.0, 1.0, worker=worker)
            for at, (draw, worker) in enumerate(workers)
        }
        return own | {"another/0/7": TimedCall("x", 0.0, 1.0, worker=first)}

    older = steps("abc", first="one", second="two")
    newer = steps("def", first="two", second="one")
    replies = make_replies()

    assert replies.occurrences([older], KEY, "one") == [0, 2]
    assert replies.occurrences([older, newer], KEY, "one") == [1]
    assert replies.occurrences([older, newer], KEY, "three") == []
    replies.prefer({"a", "b", "c"})
    assert replies.occurrences([older, newer], KEY, "one") == [0, 2]


def test_a_course_that_is_too_long_leaves_no_row(make_replies: Make) -> None:
    replies = make_replies()
    replies.keep_course("trial 0", {"p" * MAX_HEADER: TimedCall("d", 0.0, 1.0)})
    answered(replies, KEY, SLOT, says("yes"))
    replies.close()

    assert make_replies().courses("trial 0") == []


def test_a_course_that_somebody_else_wrote_is_passed_over(
    make_replies: Make, sql: Callable[..., list[object]]
) -> None:
    replies = make_replies()
    answered(replies, KEY, SLOT, says("yes"))
    replies.keep_course("trial 0", STEPS)
    replies.close()
    sql("UPDATE Cache SET value = ? WHERE key LIKE 'course/%'", b"odd")

    assert make_replies().courses("trial 0") == [{}]


def test_a_cache_that_cannot_be_used_has_no_courses(
    make_replies: Make, home: Path, tmp_path: Path
) -> None:
    home.mkdir()
    (home / "cache").symlink_to(tmp_path)
    replies = make_replies()
    assert replies.courses("trial 0") == []

    replies.keep_course("trial 0", STEPS)
    replies.close()

    assert make_replies().courses("trial 0") == []
