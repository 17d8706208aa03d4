"""The hooks that turn marked items into cases, registered only where there are any.

A session, in the order of time; the hooks below stand in the same order.

1. ``plugin.py`` reads the options and finds the baseline, or has its run made. It looks for marked
   items after all other plugins have chosen among the items.
2. ``install.py`` reads the marks, opens the run, and makes a ``CaseRunner`` of each marked item.
3. ``pytest_runtestloop`` puts in place what is there as long as tests run.
4. For each item pytest calls the protocol, and in it ``CaseRunner``'s setup, call and teardown.
   The setup sets up wider fixtures and the first trial; the call runs the other trials and folds
   them. Both ask the ``Scheduler`` for turns, which also starts trials of the cases that follow.
5. Each trial goes through pytest's own setup, call and teardown (``RunningTrial.run``), in its own
   thread if it overlaps others: its fixtures, its body, the reports of its phases.
6. The report of the item's last phase but teardown carries the result of the case (``CaseResults``)
   to the process that judges.
7. ``controller.py`` takes in what no report carried, records the run and judges it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from inspect import iscoroutinefunction
from typing import Any

import pytest

from pytest_llmeval.engine.baton import check_in
from pytest_llmeval.engine.case import CaseRunner
from pytest_llmeval.engine.case_results import CaseResults
from pytest_llmeval.engine.case_trials import SET_UP_FOR
from pytest_llmeval.engine.schedule.scheduler import Scheduler
from pytest_llmeval.engine.trial import other_loops
from pytest_llmeval.engine.trial.clone import is_own
from pytest_llmeval.engine.trial.ledger import Ledger, SharedCalls
from pytest_llmeval.engine.trial.put_on_item import PutOnItem
from pytest_llmeval.engine.trial.subtests import SUBTESTS, take_over_subtests
from pytest_llmeval.engine.trial.trial import TRIAL
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models import attribution
from pytest_llmeval.models.model_session import ModelSession
from pytest_llmeval.models.waits import watching_waits
from pytest_llmeval.records import Run

Wrapper = Generator[None, Any, Any]  # a hook around those of others
_PHASES = ("setup", "call", "teardown")
_ALLOCATIONS = 10_000  # before the collector looks at new objects; Python's own number is 700


def _captured(phase: str) -> Callable[..., Wrapper]:
    """Make the hook that keeps what a trial prints in a phase: pytest's own does not see trials."""

    @pytest.hookimpl(specname=f"pytest_runtest_{phase}", wrapper=True, trylast=True)
    def capture(self: EngineHooks, item: pytest.Item) -> Wrapper:
        __tracebackhide__ = True
        if TRIAL not in item.stash:
            return (yield)
        of_trial = self._scheduler.turns.process.capture
        of_trial.begin_phase()
        try:
            return (yield)
        finally:
            of_trial.end_phase(phase, item)

    return capture


class EngineHooks:
    """Run the trials of cases: note what left them, and give each case its one report.

    Args:
        opening: the run that begins; it rides on the first report.
        runners: of every case.
        scheduler: runs their trials.
        models: all that the session holds of models.
        exclusive: fixtures that no trial may ask for while others are in flight.
    """

    def __init__(
        self,
        opening: Run,
        runners: Sequence[CaseRunner],
        scheduler: Scheduler,
        *,
        models: ModelSession,
        exclusive: Collection[str],
    ) -> None:
        models.current_trial = self.current_trial
        self._scheduler, self._models, self._exclusive = scheduler, models, exclusive
        self._runners: dict[pytest.Item, CaseRunner] = {one.item: one for one in runners}
        self._shared = SharedCalls()
        self._results = CaseResults(opening, runners, models, self._shared)
        self.unreported = self._results.unreported

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Wrapper:
        """Leave no trial in flight, however the session ends."""
        intercepts = any(runner.spec.intercept for runner in self._runners.values())
        with (
            _rare_garbage_collections(),
            self._scheduler.turns.process.watching(),
            attribution.inherited_by_threads(),
            self._models.intercepting(self.trial_to_charge) if intercepts else nullcontext(),
            watching_waits(),
            self._models.unseen.watching(self.current_trial),
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
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Wrapper:
        """Learn which item comes next, and whom to charge for calls meanwhile."""
        self._scheduler.lookahead.next_item = nextitem
        runner = self._runners.get(item)
        intercepts = runner is not None and runner.spec.intercept
        with attribution.charging(self._shared.elsewhere if intercepts else None):
            result = yield
        if runner is not None and runner.outcome is None:
            # A plugin passed the case over: what ran ahead of it is no result.
            self._scheduler.pass_over(item)
        if runner is not None:
            runner.trials.end_protocol()
        return result

    @pytest.hookimpl(specname="pytest_runtest_protocol", tryfirst=True)
    def pytest_runtest_protocol_begun(self, item: pytest.Item) -> None:
        """Note what wrappers of the protocol have put on a case, before whoever runs it."""
        if item in self._runners:
            self._runners[item].trials.inherited = PutOnItem(item)

    pytest_setup_captured, pytest_call_captured, pytest_teardown_captured = map(_captured, _PHASES)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: pytest.FixtureRequest) -> Wrapper:
        """Keep the baton while a shared fixture is set up; give each trial fixtures of its own."""
        stash = request._pyfuncitem.stash
        trial = stash.get(TRIAL, None)
        if trial is None:  # an ordinary test, or the session for a case
            if SET_UP_FOR not in stash:
                return (yield)
            with self._shared.setting_up(fixturedef, stash[SET_UP_FOR]):
                return (yield)
        thread = trial.thread
        if thread.overlaps and fixturedef.argname in self._exclusive:
            # It is not set up, and pytest 9.2 asserts at the next request that it has none.
            fixturedef._finalizers.clear()
            raise SettingsError(
                f"{fixturedef.argname} was asked for by getfixturevalue while trials overlap. Name "
                "it as an argument of the test, or mark the test with "
                '@llm_eval(concurrency="serial").'
            )
        if is_own(fixturedef, trial.item):
            with thread.in_test():
                value = yield
            if fixturedef.argname == SUBTESTS:
                is_debugged = trial.item.config.getoption("usepdb", False)
                take_over_subtests(value, trial.note_subtest, is_debugged=is_debugged)
            return value
        charged = self._shared.setting_up(fixturedef, trial.spec)
        with charged, self._scheduler.turns.setting_up_shared(thread):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Wrapper:
        """Run a body without the baton where it is known to block without telling."""
        trial = pyfuncitem.stash.get(TRIAL, None)
        if trial is None or iscoroutinefunction(pyfuncitem.obj):
            return (yield)
        with trial.thread.in_test():
            return (yield)

    @pytest.hookimpl(specname="pytest_pyfunc_call", tryfirst=True)
    def pytest_pyfunc_call_async(self, pyfuncitem: pytest.Function) -> object:
        """Run the body of an async trial, unless a plugin that has a loop of its own is to."""
        body, is_trial = pyfuncitem.obj, TRIAL in pyfuncitem.stash
        if not is_trial or not iscoroutinefunction(body) or other_loops.own_loop(pyfuncitem):
            return None
        names = pyfuncitem._fixtureinfo.argnames
        arguments = {name: pyfuncitem.funcargs[name] for name in names}
        if other_loops.may_have_async_fixtures(pyfuncitem):  # they run on it as well, to the last
            pyfuncitem._request.getfixturevalue(other_loops.TRIAL_RUNNER).run(body(**arguments))
            return True
        # Else no fixture of its own, which would cost a trial 0.1 ms.
        loop = self._scheduler.loop or other_loops.find_loop(pyfuncitem._request)
        from pytest_llmeval.engine.trial.event_loop import TrialRunner  # it imports asyncio

        with closing(TrialRunner(pyfuncitem.stash[TRIAL].thread, loop)) as runner:
            runner.run(body(**arguments))
        return True

    def pytest_fixture_post_finalizer(self) -> None:
        """Take the baton again after a fixture whose end blocked."""
        check_in()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Wrapper:
        """Note the exception of a trial's phase; attach the trials to the report of a case."""
        trial = item.stash.get(TRIAL, None)
        if trial is not None:
            trial.note(call.when, call.excinfo)
            if call.when == "teardown" and trial.ledger.intercepts:
                self._shared.hand_out(trial.ledger, trial.clone)
            report = yield
            trial.note_report(report, call.excinfo)
            return report
        report = yield
        runner = self._runners.get(item)
        if runner is None or call.when == "teardown":
            return report
        if call.when == "setup" and call.excinfo is not None and runner.outcome is None:
            runner.unrun(call.excinfo)  # it was not a trial that ended the setup
        if runner.outcome is not None:
            self._results.put_on(report, runner)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Wrapper:
        """Note that a case is known to the session, or on its way to the controller."""
        result = yield
        if hasattr(report, "llm_eval"):
            self._results.note_arrival()
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Cancel trials that must not outlive an item, before shared fixtures are torn down."""
        if TRIAL not in item.stash:
            self._scheduler.cancel(item if nextitem is not None else None)

    def current_trial(self) -> Ledger | None:
        """Return the trial that this thread or task belongs to; None while a model answers it.

        A plugin may run all its coroutines in a context of long ago (anyio does); but a
        trial that such a plugin runs is alone.
        """
        found, inline = attribution.trial_to_charge(), self._scheduler.inline
        if not isinstance(found, Ledger):
            return None
        return inline.ledger if inline is not None and found.has_ended else found

    def trial_to_charge(self) -> attribution.CurrentTrial | None:
        """Return the trial to charge for the current call of the application, or None."""
        found = self.current_trial()
        return found if found is not None and found.intercepts else None


@contextmanager
def _rare_garbage_collections() -> Iterator[None]:
    """Run the garbage collector seldom while trials run: a trial leaves hardly any cycles.

    Without this the collector takes 5 % of the CPU of a session with 64 trials in flight.
    """
    before = gc.get_threshold()
    if 0 < before[0] < _ALLOCATIONS:  # 0 turns it off
        gc.set_threshold(_ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
