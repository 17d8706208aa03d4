"""Functions that run in rounds, of bodies without a pytest session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmeval.engine.schedule.rounds import rounds_of
from pytest_llmeval.engine.schedule.scheduler import Scheduler
from pytest_llmeval.engine.trial_thread import TrialThread
from pytest_llmeval.records import Case as RecordedCase
from pytest_llmeval.records import Run, bare_run
from tests.engine.schedule.bench import Case, Node, bench, run

PATIENCE = 300.0  # seconds
Log = list[tuple[str, int]]
Judge = Callable[[Run, Sequence[int]], bool]


class Looks:
    """A judge that settles a function after some repeats, and notes how often it was asked."""

    def __init__(self, settled: Judge, functions: Sequence[str] = ("test_a", "test_b")) -> None:
        self.functions = functions
        self.seen: list[tuple[str, tuple[int, ...], list[int]]] = []
        self._settled = settled

    def is_settled(self, run: Run, *, repeats: Sequence[int]) -> bool:
        indices = sorted({trial.index for trial in run.trials})
        self.seen.append((run.cases[0].function, tuple(repeats), indices))
        return self._settled(run, repeats)


def cases_of(function: str, log: Log, *, cases: int = 6, repeats: int = 5) -> list[Case]:
    def body_of(name: str, index: int) -> Callable[[TrialThread], object]:
        return lambda thread: thread.wait(lambda: log.append((name, index)))

    names = [f"{function}[{number}]" for number in range(cases)]
    return [
        Case(name, *[body_of(name, index) for index in range(repeats)], function=function)
        for name in names
    ]


def opening_of(cases: Sequence[Case]) -> Run:
    recorded = (
        RecordedCase(id=c.item.name, function=c.spec.case.function, repeats=c.repeats)
        for c in cases
    )
    run = bare_run("run", created="")
    return Run(**{name: getattr(run, name) for name in run.__slots__} | {"cases": tuple(recorded)})


def in_rounds(
    cases: Sequence[Any], looks: Looks, *, items: Sequence[Node] = (), **options: Any
) -> tuple[Scheduler, list[str]]:
    scheduler, notes = bench(*cases, **options), list[str]()
    session: Any = SimpleNamespace(
        items=[*(items or (case.item for case in cases))],
        config=SimpleNamespace(getoption=options.get),
    )
    opening = opening_of(cases)
    rounds = rounds_of(cases, session, opening, judge=looks, notes=notes)
    scheduler.run_in_rounds([*rounds])
    return scheduler, notes


def trials(cases: Sequence[Case]) -> list[int]:
    return [len(case.calls) for case in cases]


@pytest.mark.parametrize(
    ("stop", "made", "looked"), [(2, 2, 1), (3, 3, 2), (0, 5, 2)], ids=["at 2", "at 3", "never"]
)
def test_a_function_stops_at_the_look_at_which_it_is_settled(
    stop: int, made: int, looked: int
) -> None:
    log: Log = []
    cases = cases_of("test_a", log)
    looks = Looks(lambda _, repeats: repeats[-1] == stop)
    scheduler, notes = in_rounds(cases, looks)
    run(scheduler, *cases)

    assert trials(cases) == [made] * 6
    assert [case.looks for case in cases] == [made] * 6
    wanted = [("test_a", (2,), [0, 1]), ("test_a", (2, 3), [0, 1, 2])]
    assert looks.seen == wanted[:looked]
    assert notes == []
    progress = scheduler.progress()
    assert (progress.done, progress.total, progress.may_stop) == (6 * made, 6 * made, False)


def test_no_trial_of_a_round_begins_before_the_last_round_was_looked_at() -> None:
    log: Log = []
    cases = cases_of("test_a", log)
    ended_at_look = []

    def settled(_: Run, __: Sequence[int]) -> bool:
        ended_at_look.append(sorted(index for _, index in log))
        return False

    scheduler, _ = in_rounds(cases, Looks(settled), limit=4)
    run(scheduler, *cases)

    assert ended_at_look == [[0] * 6 + [1] * 6, [0] * 6 + [1] * 6 + [2] * 6]
    assert len(set(log)) == len(log) == 30


def test_other_functions_fill_the_places_while_a_round_ends() -> None:
    log: Log = []
    cases = [*cases_of("test_a", log), *cases_of("test_b", log)]
    looks = Looks(lambda run, _: run.cases[0].function == "test_a")
    scheduler, _ = in_rounds(cases, looks)
    other_begun = threading.Event()
    cases[0].bodies = (
        lambda thread: thread.wait(lambda: other_begun.wait(PATIENCE)),
        *cases[0].bodies[1:],
    )
    cases[11].bodies = (lambda _: other_begun.set(), *cases[11].bodies[1:])
    run(scheduler, *cases)

    assert trials(cases) == [2] * 6 + [5] * 6
    assert {function for function, *_ in looks.seen} == {"test_a", "test_b"}


def test_progress_tells_that_fewer_trials_may_run() -> None:
    log: Log = []
    cases = cases_of("test_a", log)
    scheduler, _ = in_rounds(cases, Looks(lambda *_: False))
    progress = scheduler.progress()

    assert (progress.total, progress.may_stop) == (30, True)


@pytest.mark.parametrize("looks_before", [0, 1])
def test_a_function_found_to_be_serial_runs_all_its_trials(looks_before: int) -> None:
    log: Log = []
    cases = cases_of("test_a", log)
    scheduler, notes = in_rounds(cases, Looks(lambda *_: False))
    held = 1 + looks_before

    def holds(thread: TrialThread) -> None:
        scheduler.hold_serial("test_a", "a reason")

    cases[2].bodies = tuple(
        holds if index == held else body for index, body in enumerate(cases[2].bodies)
    )
    run(scheduler, *cases)

    assert trials(cases) == [5] * 6
    assert {case.looks for case in cases} == {5 if looks_before else None}
    which = "no further early looks" if looks_before else "no early looks"
    assert notes == [f"{which} at test_a: its trials run one after the other"]


def test_a_case_that_may_not_start_early_ends_the_looks_and_blocks_nobody() -> None:
    log: Log = []
    cases = cases_of("test_a", log)
    cases[3].is_set_up = False
    scheduler, notes = in_rounds(cases, Looks(lambda *_: True))
    run(scheduler, *cases)

    assert trials(cases) == [5] * 6
    assert notes == ["no early looks at test_a: a case could not run beside the others"]


def test_a_case_that_was_passed_over_is_not_waited_for() -> None:
    log: Log = []
    cases = cases_of("test_a", log)
    scheduler, notes = in_rounds(cases, Looks(lambda *_: True))
    scheduler.pass_over(cases[0].item)  # type: ignore[arg-type]
    run(scheduler, *cases[1:])

    assert trials(cases) == [0, *[5] * 5]
    assert notes == ["no early looks at test_a: a plugin passed a case over"]


@pytest.mark.parametrize(
    ("at", "which"), [(2, "no early looks"), (3, "no further early looks")], ids=["first", "second"]
)
def test_a_look_that_fails_costs_the_looks_and_no_trial(at: int, which: str) -> None:
    def fails(_: Run, repeats: Sequence[int]) -> bool:
        if repeats[-1] == at:
            raise ZeroDivisionError("odd")
        return False

    log: Log = []
    cases = cases_of("test_a", log)
    scheduler, notes = in_rounds(cases, Looks(fails))
    run(scheduler, *cases)

    assert trials(cases) == [5] * 6
    assert notes == [f"{which} at test_a: ZeroDivisionError: odd"]


def test_trials_that_saw_others_are_not_looked_at() -> None:
    log: Log = []
    cases = cases_of("test_a", log)
    cases[1].saw_others = True
    looks = Looks(lambda *_: True)
    scheduler, notes = in_rounds(cases, looks)
    run(scheduler, *cases)

    assert (trials(cases), looks.seen) == ([5] * 6, [])
    assert notes == ["no early looks at test_a: a trial blocked without what it patched"]


def altered(what: str) -> tuple[list[Case], dict[str, Any]]:
    """Cases of a function that cannot run in rounds."""
    cases, options = cases_of("test_a", []), dict[str, Any]()
    if what == "serial":
        cases[5].serial = "a reason"
    elif what == "signature":
        cases[5].signature = "another"
    elif what == "repeats":
        cases[5].repeats = 4
    elif what == "apart":
        options["items"] = [*(case.item for case in cases[:5]), Node("between"), cases[5].item]
    else:
        options["maxfail"] = 1
    return cases, options


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("serial", "its trials run one after the other"),
        ("signature", "its cases do not all overlap"),
        ("repeats", "its cases have unlike repeats"),
        ("apart", "other tests stand between its cases"),
        ("-x", "-x may end the session at its first failure"),
    ],
)
def test_a_function_that_cannot_run_in_rounds_is_named(what: str, why: str) -> None:
    cases, options = altered(what)
    _, notes = in_rounds(cases, Looks(lambda *_: True), **options)

    assert notes == [f"no early looks at test_a: {why}"]
    assert {case.awaits_look for case in cases} == {False}


@pytest.mark.parametrize(
    ("cases", "function"),
    [
        (cases_of("test_a", [], cases=5), "test_a"),
        (cases_of("test_a", [], repeats=2), "test_a"),
        (cases_of("test_new", []), "test_new"),
    ],
    ids=["5 cases", "2 repeats", "not in the baseline"],
)
def test_a_function_without_an_early_look_is_left_as_it_is(
    cases: list[Case], function: str
) -> None:
    _, notes = in_rounds(cases, Looks(lambda *_: True))

    assert (notes, {case.awaits_look for case in cases}) == ([], {False})


def test_starts_cost_the_same_however_many_cases_wait() -> None:
    log: Log = []
    cases = cases_of("test_a", log, cases=300, repeats=3)
    looked_at = 0

    class Counting(dict[Any, Any]):
        def get(self, *arguments: Any) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().get(*arguments)

    scheduler, _ = in_rounds(cases, Looks(lambda *_: False), limit=8)
    scheduler._case_of = Counting(scheduler._case_of)
    run(scheduler, *cases)

    assert trials(cases) == [3] * 300
    assert looked_at < 10 * 900


def test_libraries_are_loaded_before_the_first_look_though_all_places_are_filled() -> None:
    log: Log = []
    cases = cases_of("test_a", log)
    loaded = threading.Event()
    for case in cases:
        case.bodies = tuple(
            lambda thread: thread.wait(lambda: loaded.wait(PATIENCE)) for _ in "12345"
        )
    looks = Looks(lambda *_: loaded.is_set())
    scheduler, _ = in_rounds(cases, looks, limit=12)
    scheduler.meanwhile = [loaded.set]
    run(scheduler, *cases)

    assert trials(cases) == [2] * 6


def test_a_function_gives_its_looks_up_once() -> None:
    log: Log = []
    cases = cases_of("test_a", log)
    scheduler, notes = in_rounds(cases, Looks(lambda run, repeats: False))
    for _ in range(2):
        scheduler.hold_serial("test_a", "a reason")

    assert len(notes) == 1


def test_without_a_judge_there_are_no_rounds() -> None:
    cases: Any = cases_of("test_a", [])
    session: Any = SimpleNamespace(items=[])

    assert [*rounds_of(cases, session, opening_of(cases), judge=None, notes=[])] == []
