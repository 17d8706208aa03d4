"""The hooks that turn marked items into cases, registered only where there are any."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from uuid import uuid4

import pytest

from pytest_llmeval.engine.case.case import CaseRunner
from pytest_llmeval.engine.isolation.logs import adopt_caplog
from pytest_llmeval.engine.schedule.overlap import EXCLUSIVE_FIXTURES, Lookahead
from pytest_llmeval.engine.schedule.scheduler import Scheduler
from pytest_llmeval.engine.trial.async_plugins import (
    TRIAL_RUNNER,
    find_loop,
    may_have_async_fixtures,
    own_loop,
)
from pytest_llmeval.engine.trial.clone import is_own
from pytest_llmeval.engine.trial.ledger import Ledger
from pytest_llmeval.engine.trial.replaced_parts import (
    capturing_throughout,
    shared_fixtures_in_session,
)
from pytest_llmeval.engine.trial.shared_calls import SharedCalls
from pytest_llmeval.engine.trial.trial import TRIAL, RunningTrial
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.attribution import current_asker
from pytest_llmeval.models.base import CurrentTrial
from pytest_llmeval.models.model_session import ModelSession
from pytest_llmeval.records import Run

RUNNER = pytest.StashKey[CaseRunner]()
_ALLOCATIONS = 10_000  # until the collector looks at what is new; Python's own number is 700


class EngineHooks:
    """Watches the reports of trials and writes those of cases.

    Attributes:
        notes: sentences for the section; each rides on the next report.
        imported: how many calls were answered since the last time while modules were imported.
        exclusive: fixtures that no trial may ask for while others are in flight.
    """

    def __init__(
        self,
        opening: Run,
        *,
        runners: Sequence[CaseRunner],
        scheduler: Scheduler,
        lookahead: Lookahead,
        models: ModelSession,
    ) -> None:
        self.notes = models.notes
        self._models = models
        self.imported: Callable[[], int] = int
        self.exclusive = EXCLUSIVE_FIXTURES
        self._runners = runners
        self._told: set[pytest.Item] = set()  # cases that the session or controller knows of
        self._in_report: tuple[pytest.Item, dict[str, Any]] | None = None
        self._payloads = 0
        self._process = uuid4().hex  # workers may run on several machines
        self._has_warned = False
        self._opening = opening  # rides on the first report
        self._scheduler = scheduler
        self._lookahead = lookahead
        self._shared = SharedCalls()

    def asker(self) -> CurrentTrial | None:
        """Tell on whose behalf is asked; None where that is nobody's business.

        A plugin may run all its coroutines in a context of long ago (anyio does); but a
        trial that such a plugin runs is alone.
        """
        found, alone = current_asker(), self._scheduler.alone
        if alone is not None and isinstance(found, Ledger) and found.has_ended:
            return alone.ledger if alone.intercepts else None
        return found

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Leave no trial in flight, however the session ends."""
        switch = self._scheduler.turns.switch
        with (
            _rare_garbage_collections(),
            capturing_throughout(session.config),
            switch.watching(),
            shared_fixtures_in_session(),
        ):
            try:
                return (yield)
            finally:
                try:
                    self._scheduler.cancel()
                except KeyboardInterrupt:  # the second: nobody wants to wait for teardowns
                    self._scheduler.abandon()
                    raise

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Learn what comes next; know for whom it is asked meanwhile."""
        self._lookahead.arrive(nextitem)
        runner = item.stash.get(RUNNER, None)
        with self._shared.around(intercepts=runner is not None and runner.spec.intercept):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Hand the session the collectors that a trial of the item set up ahead of time."""
        if RUNNER in item.stash:
            self._scheduler.turns.restore(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Cancel what must not outlive an item, before wider fixtures are torn down."""
        if TRIAL not in item.stash:
            self._scheduler.cancel(item if nextitem is not None else None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Take the baton again after a body that blocked without telling."""
        trial = pyfuncitem.stash.get(TRIAL, None)
        try:
            return (yield)
        finally:
            if trial is not None:
                trial.thread.check_in()

    @pytest.hookimpl(specname="pytest_pyfunc_call", tryfirst=True)
    def pytest_pyfunc_call_async(self, pyfuncitem: pytest.Function) -> object:
        """Run the body of an async trial, unless a plugin that has a loop of its own is to."""
        body = pyfuncitem.obj
        if TRIAL not in pyfuncitem.stash or not inspect.iscoroutinefunction(body):
            return None
        if own_loop(pyfuncitem):
            return None
        names = pyfuncitem._fixtureinfo.argnames
        arguments = {name: pyfuncitem.funcargs[name] for name in names}
        if may_have_async_fixtures(pyfuncitem):  # they run on it as well, to the last
            runner = pyfuncitem._request.getfixturevalue(TRIAL_RUNNER)
            runner.run(body(**arguments))
            return True
        # Else no fixture of its own, which would cost a trial 0.1 ms.
        loop = self._scheduler.loop or find_loop(pyfuncitem._request)
        with closing(pyfuncitem.stash[TRIAL].runner_on(loop)) as runner:
            runner.run(body(**arguments))
        return True

    def pytest_fixture_post_finalizer(self, request: pytest.FixtureRequest) -> None:
        """Take the baton again after a fixture whose end blocked."""
        stash = getattr(request._pyfuncitem, "stash", None)  # None: of a trial that has ended
        trial = None if stash is None else stash.get(TRIAL, None)
        if trial is not None:
            trial.thread.check_in()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: Any, request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Keep the baton while a fixture that trials share is set up."""
        trial = request._pyfuncitem.stash.get(TRIAL, None)
        if trial is None:
            return (yield)
        if fixturedef.argname in self.exclusive:
            _refuse_beside_others(fixturedef, trial)
        if is_own(fixturedef, trial.item):
            try:
                value = yield
            finally:
                trial.thread.check_in()
            if isinstance(value, pytest.LogCaptureFixture) and trial.patches is not None:
                adopt_caplog(value, trial.patches)
            return value
        with self._shared.setting_up(fixturedef, trial), self._scheduler.turns.widening(trial):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note what left a phase of a trial; give a case's report its data."""
        trial = item.stash.get(TRIAL, None)
        if trial is not None:
            trial.note(call.when, call.excinfo)
            if call.when == "teardown" and trial.intercepts:
                self._shared.hand_out(trial)
            return (yield)
        report = yield
        runner = item.stash.get(RUNNER, None)
        if runner is not None and _tells_the_end(runner, call):
            self._complete(report, runner)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(
        self, report: pytest.TestReport
    ) -> Generator[None, object, object]:
        """Note that a case is known to the session, or on its way to the controller."""
        result = yield
        if self._in_report is not None and hasattr(report, "llm_eval"):
            self._told.add(self._in_report[0])
            self._in_report = None
        return result

    def unreported(self) -> list[dict[str, Any]]:
        """Put what no report has told: cases of which some trials had ended, and the rest.

        Ctrl-C may come while a report is on its way: its payload is put again, with the same id.
        """
        payloads = []
        if self._in_report is not None:
            item, payload = self._in_report
            payloads.append(payload)
            self._told.add(item)
            self._in_report = None
        for runner in self._runners:
            if runner.item not in self._told and runner.trials.has_news:
                payloads.append(self._payload(runner))
                self._told.add(runner.item)
        if self._told:  # without a trial that ended there is no run
            rest = self._rest()
            payloads += [{"id": self._new_id(), **rest}] if any(rest.values()) else []
        return payloads

    def _complete(self, report: pytest.TestReport, runner: CaseRunner) -> None:
        """Attach the trials to the one report that tells how the case ended."""
        self._in_report = runner.item, self._payload(runner)
        report.duration = sum(trial.record.seconds for trial in runner.trials.ended)
        report.llm_eval = self._in_report[1]  # type: ignore[attr-defined]  # rides along

    def _new_id(self) -> str:
        """Number what is told, so that nothing is taken in twice."""
        self._payloads += 1
        return f"{self._process}-{self._payloads}"

    def _payload(self, runner: CaseRunner) -> dict[str, Any]:
        note = runner.detached_note
        if note and not self._has_warned:
            self._has_warned = True
            self.notes.append(note)
        payload = {"id": self._new_id(), **runner.payload(), **self._rest()}
        if not self._told:
            # Not at the end, in workeroutput: a worker that is killed never sends that.
            payload["opening"] = self._opening
            payload["total"] = sum(runner.trials.repeats for runner in self._runners)
        return payload

    def _rest(self) -> dict[str, Any]:
        """Put what belongs to no case and was not told before."""
        notes, self.notes[:] = list(self.notes), []
        return {
            "notes": notes,
            "outside_calls": self._shared.untold() + self.imported(),
            "attempts": self._models.take_sent(),
            "slowdowns": self._models.take_slowdowns(),
        }


@contextmanager
def _rare_garbage_collections() -> Iterator[None]:
    """Spare most of the looks at what outlives the trials; a trial leaves hardly any circles.

    With 64 trials in flight they took 6 % of the time.
    """
    before = gc.get_threshold()
    gc.freeze()
    if gc.isenabled() and 0 < before[0] < _ALLOCATIONS:
        gc.set_threshold(_ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _refuse_beside_others(definition: Any, trial: RunningTrial) -> None:
    """Stop a trial that asks for an exclusive fixture only while others are in flight."""
    if trial.thread.overlaps:
        # It is not set up, and pytest 9.2 asserts at the next request that it has none.
        definition._finalizers.clear()
        raise SettingsError(
            f"{definition.argname} was asked for by getfixturevalue while trials overlap. Name it "
            'as an argument of the test, or mark the test with @llm_eval(concurrency="serial").'
        )


def _tells_the_end(runner: CaseRunner, call: pytest.CallInfo[None]) -> bool:
    """Whether this phase ended the case: its call, or a setup that did not get there."""
    if call.when == "setup" and call.excinfo is not None:
        if runner.outcome is None:  # it was not a trial that ended the setup
            runner.unrun(call.excinfo)
        return True
    return call.when == "call" and runner.outcome is not None
