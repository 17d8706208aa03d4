from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.errors import BudgetExceeded
from pytest_llmeval.models.limits.budget import Budget, Reservation
from pytest_llmeval.models.limits.journal import Journal, note_end
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.records import Usage
from pytest_llmeval.settings import TokenPrice

D = Decimal
MODEL = "openai/foo"
# A call that may write 1000 tokens costs a cent at most, and 0.1 cents for every 100.
PRICES = Prices({MODEL: TokenPrice(input=D(0), output=D(10))})
BODY = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1000}


def budget(
    *, calls: int | None = None, cost: str | None = None, journal: Journal | None = None
) -> Budget:
    return Budget(
        max_calls=calls,
        max_cost=None if cost is None else D(cost),
        prices=PRICES,
        journal=journal,
    )


Bill = dict[str, Any]  # what settles a reservation


def wrote(tokens: int | None) -> Callable[[object], Bill]:
    return lambda _reply: {"usage": Usage(input_tokens=1, output_tokens=tokens)}


def attempt(
    asked: Budget, send: Callable[[], str], bill: Callable[[str], Bill], *, model: str = MODEL
) -> str:
    reservation = Reservation(asked, asked.most(model, BODY))
    try:
        reservation.take()
        reply = send()
        reservation.settle(**bill(reply))
        return reply
    finally:
        reservation.close()


def ask(asked: Budget, tokens: int | None = 100, *, model: str = MODEL) -> str:
    return attempt(asked, lambda: "reply", wrote(tokens), model=model)


def asked_until_refused(asked: Budget, tokens: int | None = 100) -> tuple[int, str]:
    for number in range(1000):
        try:
            ask(asked, tokens)
        except BudgetExceeded as exc:
            return number, exc.lost_for[0]
    raise AssertionError("the cap does not hold")


def test_without_a_cap_every_call_is_let_through() -> None:
    free = Budget()

    assert free.most("openai/unknown", BODY) is None
    assert [ask(free, model="openai/unknown") for _ in range(3)] == ["reply"] * 3


def test_calls_are_let_through_up_to_their_number() -> None:
    assert asked_until_refused(budget(calls=7)) == (7, "--llm-max-calls=7")


def test_a_cap_of_no_call_lets_none_through() -> None:
    with pytest.raises(BudgetExceeded, match="--llm-max-calls=0 is reached"):
        ask(budget(calls=0))


def test_a_call_is_let_through_only_if_the_most_that_it_can_cost_fits() -> None:
    # 0.1 cents each: after 20 of them 1 cent is left, after 21 less than a call may cost.
    assert asked_until_refused(budget(cost="0.03")) == (21, "--llm-max-cost=0.03")


def test_a_reply_that_does_not_say_what_it_took_counts_at_its_most() -> None:
    assert asked_until_refused(budget(cost="0.03"), None)[0] == 3


def test_the_refusal_says_what_is_spent_and_what_the_call_may_cost() -> None:
    capped = budget(cost="0.015")
    ask(capped, 1000)

    with pytest.raises(BudgetExceeded) as caught:
        ask(capped)
    assert "it may cost up to $0.0100, and $0.0100 is spent" in str(caught.value)
    assert "--llm-max-cost=0.015" in str(caught.value)


def test_a_model_without_a_price_is_not_asked_under_a_cap_of_cost() -> None:
    with pytest.raises(BudgetExceeded, match=r"its price is not known\. Say .*llm_prices"):
        ask(budget(cost="1"), model="openai/no-such-model")


def test_a_model_without_a_price_is_asked_under_a_cap_of_calls() -> None:
    assert ask(budget(calls=1), model="openai/no-such-model") == "reply"


def test_a_call_whose_most_is_not_known_is_not_made() -> None:
    with pytest.raises(BudgetExceeded, match="names no limit of the reply"):
        budget(cost="1").most(MODEL, {"messages": []})


def test_a_local_model_is_asked_under_a_cap_of_nothing() -> None:
    assert ask(budget(cost="0"), model="ollama/llama") == "reply"


def test_every_attempt_is_a_call_but_those_turned_away() -> None:
    capped = budget(calls=3)
    bills = [{"counts": False, "is_free": True}] * 5 + [{"is_free": True}] * 2 + [{}]
    for bill in bills:
        attempt(capped, lambda: "reply", lambda _reply, bill=bill: bill)

    with pytest.raises(BudgetExceeded):
        ask(capped)


@pytest.mark.parametrize("asked", [Budget(), budget(calls=4)], ids=["free", "capped"])
def test_what_was_sent_is_counted_whatever_came_of_it(asked: Budget) -> None:
    def lose() -> str:
        raise ConnectionError

    for bill in ({"counts": False, "is_free": True}, {"is_free": True}, {}):
        attempt(asked, lambda: "reply", lambda _reply, bill=bill: bill)
    with pytest.raises(ConnectionError):
        attempt(asked, lose, wrote(0))

    assert (asked.take_sent(), asked.take_sent()) == (4, 0)


def test_what_a_cap_kept_back_was_not_sent() -> None:
    capped = budget(calls=2)

    asked_until_refused(capped)

    assert capped.take_sent() == 2


def test_an_attempt_that_was_refused_costs_nothing() -> None:
    capped = budget(cost="0.01")
    for _ in range(3):
        attempt(capped, lambda: "500", lambda _reply: {"is_free": True})

    assert ask(capped) == "reply"


def test_an_attempt_that_got_lost_may_have_been_charged_for() -> None:
    capped = budget(cost="0.015")

    def lose() -> str:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        attempt(capped, lose, wrote(0))

    with pytest.raises(BudgetExceeded):
        ask(capped)


def test_who_does_not_fit_now_waits_for_those_under_way() -> None:
    capped = budget(cost="0.01")
    under_way, go_on = threading.Event(), threading.Event()

    def slowly() -> str:
        under_way.set()
        assert go_on.wait(300)
        return "slow"

    def ask_slowly() -> str:
        return attempt(capped, slowly, wrote(0))

    with ThreadPoolExecutor() as threads:
        slow = threads.submit(ask_slowly)
        assert under_way.wait(300)
        waiting = threads.submit(ask, capped)
        assert not waiting.done()
        go_on.set()
        assert (slow.result(30), waiting.result(30)) == ("slow", "reply")


def test_who_waits_is_sent_away_at_the_end_of_the_session() -> None:
    capped = budget(cost="0.01")
    capped.take(MODEL, D("0.01"))
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(ask, capped)
        capped.closed.set()

        with pytest.raises(BudgetExceeded):
            waiting.result(30)


def test_an_attempt_that_nobody_waits_for_any_more_counts_at_its_most() -> None:
    capped = budget(cost="0.015")
    reservation = Reservation(capped, capped.most(MODEL, BODY))
    reservation.take()
    reservation.close()  # by whoever waited for it
    with pytest.raises(BudgetExceeded):
        ask(capped)

    reservation.settle(wrote(0)("too late"))
    with pytest.raises(BudgetExceeded):
        ask(capped)


def test_who_was_given_up_before_there_was_room_sends_nothing() -> None:
    capped = budget(calls=1)
    reservation = Reservation(capped, capped.most(MODEL, BODY))
    reservation.close()

    with pytest.raises(BudgetExceeded, match="given up"):
        reservation.take()
    assert ask(capped) == "reply"


def test_sixteen_threads_make_not_one_call_more() -> None:
    capped = budget(calls=100)
    made: list[str] = []

    def ask_often() -> None:
        for _ in range(20):
            try:
                made.append(ask(capped))
            except BudgetExceeded:
                return

    with ThreadPoolExecutor(16) as threads:
        for asking in [threads.submit(ask_often) for _ in range(16)]:
            asking.result(30)

    assert len(made) == 100


def ask_in_a_process(directory: str, process: str, results: multiprocessing.Queue[int]) -> None:
    capped = Budget(
        max_calls=100,
        max_cost=D("0.5"),
        prices=PRICES,
        journal=Journal(Path(directory), "session"),
        process=process,
    )
    results.put(asked_until_refused(capped)[0])


def test_processes_make_not_one_call_more(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=ask_in_a_process, args=(str(tmp_path), f"gw{number}", results))
        for number in range(3)
    ]
    for process in processes:
        process.start()
    made = [results.get(timeout=300) for _ in processes]
    for process in processes:
        process.join(60)

    assert sum(made) == 100


def test_what_a_killed_process_had_reserved_stays_spent(tmp_path: Path) -> None:
    killed, left = (Journal(tmp_path, "session") for _ in range(2))
    killed.append("take", "gw0:0", "0.01")
    capped = budget(cost="0.015", journal=left)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(ask, capped)
        note_end(killed, "gw0")

        with pytest.raises(BudgetExceeded):
            waiting.result(30)


def test_a_cap_that_cannot_be_shared_lets_nothing_through(tmp_path: Path) -> None:
    (tmp_path / "caps").write_text("in the way")

    with pytest.raises(BudgetExceeded, match="Make --llm-dir writable"):
        ask(budget(calls=5, journal=Journal(tmp_path, "session")))


def test_what_cannot_be_noted_stays_reserved(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "session")
    capped = budget(calls=5, journal=journal)
    name = capped.take(MODEL, D(0))
    journal.append = lambda *_entry: (_ for _ in ()).throw(OSError())  # type: ignore[method-assign]

    capped.end(name, calls=0, cost=D(0))

    assert [entry[0] for entry in Journal(tmp_path, "session").unread()] == ["take"]
