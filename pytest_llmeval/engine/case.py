"""A collected item that runs its trials and reports once for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pytest

from pytest_llmeval.engine.baton import Ready
from pytest_llmeval.engine.compat import xfailed_key
from pytest_llmeval.engine.ended import Ended
from pytest_llmeval.engine.marker import Eval
from pytest_llmeval.engine.reporting import Section, grouped, sections_by_trial, shows_each
from pytest_llmeval.engine.trial.clone import clone_item, parameters_of
from pytest_llmeval.engine.trial.other_plugins import PutOnItem, TrialHooks, put_on
from pytest_llmeval.engine.trial.outcome import (
    WITHOUT_KEY,
    DebuggedFailures,
    Fold,
    TrialFailures,
    fold,
    gated_means,
    is_skip,
    shown_score,
    tally,
)
from pytest_llmeval.engine.trial.setups import refused_if_made_once
from pytest_llmeval.engine.trial.trial import RunningTrial
from pytest_llmeval.engine.trial.wider import are_set_up, must_be_set_up, set_up
from pytest_llmeval.engine.trial_thread import TrialThread
from pytest_llmeval.errors import parts_of
from pytest_llmeval.models.http.masking import keys_of_environment, masked_keys
from pytest_llmeval.records import PASS_METRIC, Call, CaseOutcome, CaseResult, Outcome, Trial

MODELS = "_llm_models"
UNPATCHED = "a trial blocked without what it patched"
NOTHING_REPLAYED = (
    "--llm-cache=replay replayed nothing: no call of this eval was seen, so its outcome is none of "
    "a replay. If it asks no model, say so:  @llm_eval(intercept=False)"
)
RUNNER = pytest.StashKey["CaseRunner"]()
_HEADLINE = 400  # characters


class CaseTrials:
    """The trials of a case: those to come, those that run, and what became of the others.

    Args:
        spec: the case.
        serial, signature: see below.
        hooks: see below.

    Attributes:
        serial: why the trials must run alone, "" if they may overlap.
        signature: cases of one signature may overlap one another.
        hooks: those of its trials.
        parameters: of which each trial has its own.
        running: by index.
        unplanned: indices of the trials that are yet to be started.
        calls: how many were paid for and how many replayed, by the index of each trial that has
            ended. Kept when trials are forgotten: whoever runs again replays what this session
            bought.
        has_run_again: another plugin had the case run again after its report.
    """

    def __init__(
        self,
        spec: Eval,
        *,
        serial: str,
        signature: Hashable,
        hooks: TrialHooks,
    ) -> None:
        self.spec = spec
        self.item = spec.item
        self.repeats = spec.case.repeats
        self.serial = serial
        self.signature = signature
        self.hooks = hooks
        self.parameters = parameters_of(self.item)
        self.calls: dict[int, tuple[int, int]] = {}
        self._bought: dict[str, int] = {}  # draw, and index of the trial
        self._recorded: dict[int, Ended] = {}  # of attempts before this one
        self.has_run_again = False
        self._unrecorded = 0  # paid calls of attempts that are not recorded
        self._inherited: PutOnItem | None = None
        self._is_set_up = False
        self._shows_each = shows_each(self.item.config)
        self.forget()

    def forget(self) -> None:
        """Start afresh, for a rerun."""
        self.running: dict[int, RunningTrial] = {}
        self._ended: dict[int, Ended] = {}
        self.unplanned: Iterator[int] = iter(range(self.repeats))

    @property
    def inherited(self) -> PutOnItem:
        """What was put on the item, for each trial to find: when its protocol began, or so far."""
        if self._inherited is None:
            self._inherited = put_on(self.item, without=RUNNER)
        return self._inherited

    def begin_protocol(self) -> None:
        """Note what is on the item now, before its first phase."""
        self._inherited = put_on(self.item, without=RUNNER)

    @property
    def ended(self) -> list[Ended]:
        """The trials that have ended, by index."""
        return [self._ended[index] for index in sorted(self._ended)]

    @property
    def recorded(self) -> list[Ended]:
        """The trials as they are recorded, by index: each as it ended first.

        A plugin that has failed cases run again must not give misses another draw. A trial that
        was errored has no outcome yet, so it counts as it ended when it got its replies.
        """
        recorded = {**self._ended, **self._recorded}
        return [recorded[index] for index in sorted(recorded)]

    def let_go(self) -> None:
        """Forget the trials but for their records: another plugin may have them run again."""
        self._recorded = {ended.record.index: _without_test(ended) for ended in self.recorded}
        self.forget()

    def take_unrecorded(self) -> int:
        """Count the calls that were paid by attempts that are not recorded, since the last time."""
        count, self._unrecorded = self._unrecorded, 0
        return count

    def end_protocol(self) -> None:
        """Let go of what only another attempt would need."""
        self._recorded.clear()

    @property
    def first_failure(self) -> Any:
        """Pytest's rendering of the first failure by index, shown for all; None if all passed.

        Not of the first that happened: a report must not depend on which reply was faster.
        """
        rendered = (ended.longrepr for ended in self.ended)
        return next((shown for shown in rendered if hasattr(shown, "addsection")), None)

    def sections(self, report: pytest.TestReport) -> list[Section]:
        """Return the sections of the report, with the failures that are asked for."""
        if not self._shows_each:
            return report.sections
        shown = self.first_failure if report.failed else None
        return sections_by_trial(report.sections, self.ended, without=shown)

    def is_shown(self, index: int) -> bool:
        """Whether a failure of a trial is to be rendered in full: none is shown that is lower."""
        return self._shows_each or not any(
            ended.record.index < index and hasattr(ended.longrepr, "addsection")
            for ended in self._ended.values()
        )

    @property
    def has_news(self) -> bool:
        """Whether some trial has ended here."""
        return bool(self._ended)

    @property
    def all_ended(self) -> bool:
        """Whether nothing is left to run."""
        return len(self._ended) == self.repeats

    @property
    def first_is_set_up(self) -> bool:
        """Whether the first trial has its fixtures, or failed to get them."""
        return 0 in self._ended or (0 in self.running and self.running[0].thread.left_setup)

    def begin(self, index: int, *, overlaps: bool, ready: Ready[TrialThread]) -> RunningTrial:
        """Make a trial."""
        trial = self.running[index] = RunningTrial(
            self.spec,
            index,
            clone=self._clone(),
            is_shown=self.is_shown,
            overlaps=overlaps,
            ready=ready,
        )
        return trial

    def set_up_wider(self) -> None:
        """Set up the fixtures that outlive the trials."""
        if must_be_set_up(self.item):
            clone = self._clone()
            clone.stash[RUNNER] = self.item.stash[RUNNER]
            set_up(self.item, clone)

    @property
    def is_set_up(self) -> bool:
        """Whether these fixtures are there, or have failed."""
        self._is_set_up = self._is_set_up or are_set_up(self.item)
        return self._is_set_up

    def _clone(self) -> pytest.Function:
        return clone_item(
            self.item, inherited=self.inherited, hooks=self.hooks, parameters=self.parameters
        )

    def finished(self, trial: RunningTrial) -> None:
        """Take in a trial that has ended, and let go of it.

        Ctrl-C may come at any line, so this may be done again where it was broken off.
        """
        if trial.index not in self._ended:
            self._take_in(trial)
        if self.running.pop(trial.index, None) is not None:
            trial.release()

    def _take_in(self, trial: RunningTrial) -> None:
        ended = trial.ended()
        asked = ended.record.calls
        calls = tuple([self._as_bought(call, trial.index) for call in asked])
        if calls != asked:
            ended = replace(ended, record=replace(ended.record, calls=calls))
        made, replayed = [call.was_paid for call in calls], [call.replayed for call in calls]
        self.calls[trial.index] = sum(made), sum(replayed)
        self._ended[trial.index] = ended
        first = self._recorded.get(trial.index)
        if first is not None and first.record.outcome is Outcome.ERRORED:
            del self._recorded[trial.index]
        elif first is not None:
            self._unrecorded += sum(call.was_paid for call in asked)

    def refuse_made_once(self) -> None:
        """Take the trials as errored where a fixture can be made for one of them alone."""
        refused = refused_if_made_once(self.ended)
        self._ended = {one.record.index: one for one in refused}

    def stand_in(self, ended: list[Ended]) -> None:
        """Take in records that stand for trials that were never begun."""
        self._ended |= {one.record.index: one for one in ended}
        self.calls = dict.fromkeys(self._ended, (0, 0))

    def err_without_calls(self) -> None:
        """Take the outcomes of a replay for no result where no trial made a call that was seen."""
        if any(ended.record.calls for ended in self._ended.values()):
            return
        for index, ended in self._ended.items():
            if ended.record.outcome in (Outcome.PASSED, Outcome.MISSED):
                record = replace(
                    ended.record, outcome=Outcome.ERRORED, scores={}, message="nothing replayed"
                )
                self._ended[index] = replace(ended, record=record, headline=NOTHING_REPLAYED)

    def _as_bought(self, call: Call, index: int) -> Call:
        """Return a call as paid if an earlier run of this trial in this session paid for it."""
        if call.was_paid and call.draw:
            self._bought.setdefault(call.draw, index)
        is_rerun = call.replayed and self._bought.get(call.draw or "") == index
        return replace(call, replayed=False) if is_rerun else call


class RunsTrials(Protocol):
    """The scheduler, to a case.

    Attributes:
        evals: test functions of which trials differed, or did what nobody saw.
    """

    evals: set[str]

    def run(self, head: CaseTrials, *, until: Callable[[], bool]) -> None:
        """Let trials take turns until something holds, which those of a case bring about."""

    def hold_serial(self, function: str, reason: str) -> None:
        """Run the trials of a test function that are yet to begin one after the other."""


class CaseRunner:
    """Take over ``setup``, ``runtest``, ``teardown`` and ``repr_failure`` of one item.

    pytest's loop, xdist's worker, reruns, ``-x``, ``--lf`` and the JUnit file go on
    seeing one ordinary item with one setup, one call and one teardown.
    """

    def __init__(self, trials: CaseTrials, *, scheduler: RunsTrials) -> None:
        self.spec = trials.spec
        self.item = trials.item
        self.trials = trials
        self.outcome: CaseOutcome | None = None
        self._is_ordinary = False
        self._scheduler = scheduler
        for method in (self.setup, self.runtest, self.teardown, self.repr_failure):
            setattr(self.item, method.__name__, method)
        self.item.stash[RUNNER] = self
        if self.spec.intercept and self.item.fixturenames[:1] != [MODELS]:
            self.item.fixturenames.insert(0, MODELS)  # before any fixture that may ask

    def setup(self) -> None:
        """Set up the first trial; if its fixtures fail, run all trials to see if they always do."""
        if self.outcome is not None:
            self.trials.has_run_again = True
            self.trials.let_go()
            self.outcome = None
        self.trials.set_up_wider()
        self._scheduler.run(self.trials, until=lambda: self.trials.first_is_set_up)
        if not (self.trials.ended and self.trials.ended[0].in_setup):
            return
        ended = self._run_all()
        failures = [trial.exception for trial in ended if trial.in_setup and trial.exception]
        if len(failures) == len(ended):
            result = self._folded()
            self.outcome = result.outcome
            if result.is_keyless:
                raise pytest.skip.Exception(WITHOUT_KEY, _use_item_location=True)
            first = next((exc for exc in failures if not is_skip(exc)), failures[0])
            raise parts_of(first)[0] if is_skip(first) else first

    def runtest(self) -> None:
        """Run the other trials and fold them all."""
        if any(trial.saw_others for trial in self._run_all()):
            # Whatever they ended with: none of them may count, or all.
            self.trials.forget()
            self._scheduler.hold_serial(self.spec.case.function, UNPATCHED)
            self._run_all()
        self.trials.refuse_made_once()
        result = self._folded()
        self.outcome = result.outcome
        self._hand_over()
        if result.is_keyless:  # one line for all of them, at the end of the session
            raise pytest.skip.Exception(WITHOUT_KEY, _use_item_location=True)
        if result.outcome is CaseOutcome.SKIPPED:
            raise parts_of(next(t.exception for t in self.trials.ended if t.exception))[0]
        if result.outcome is not CaseOutcome.PASSED:
            is_debugged = self.item.config.getoption("usepdb", False)
            failures = DebuggedFailures if is_debugged else TrialFailures
            raise self._expected_by_xfail() or failures(result.reason)

    def teardown(self) -> None:
        """Raise what left the teardown of trials, and let go of what they left."""
        ended = self.trials.ended
        errors = [trial.teardown_error for trial in ended if trial.teardown_error is not None]
        if self.outcome is not None:  # else it is yet to be recorded what had ended
            self.trials.let_go()  # exceptions hold on to every frame they passed
        if len(errors) == 1:
            raise errors[0]
        if errors:
            message = f"{len(errors)} of {len(ended)} trials failed in teardown"
            raise BaseExceptionGroup(message, errors)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
        """Show the first trial that did not pass, and a table of all."""
        if not isinstance(excinfo.value, TrialFailures):
            return type(self.item).repr_failure(self.item, excinfo)
        shown, table = self.trials.first_failure, _failures(self.trials.ended)
        if shown is None:
            return f"{excinfo.value}\n{table}"
        shown.addsection(f"trials: {excinfo.value}", table)
        return shown

    def result(self, result_id: str) -> CaseResult:
        """Sum up the case with the trials that have ended, for its report."""
        case, ended = self.spec.case, self.trials.recorded
        records = [trial.record for trial in ended]
        means = gated_means(records, case)
        told = sorted(ended, key=lambda trial: not trial.record.outcome.is_scored)
        headline = next((trial.headline for trial in told if trial.headline), "")
        if len(headline) > _HEADLINE:
            headline = f"{headline[: _HEADLINE - 3]}..."
        held_for = next((trial.held_for for trial in ended if trial.held_for), "")
        return CaseResult(
            id=result_id,
            case=case.id,
            function=case.function,
            outcome=self.outcome,
            trials=tuple(records),
            means=means,
            score=shown_score(records, means),
            fell_short=any(r.outcome in (Outcome.MISSED, Outcome.CRASHED) for r in records),
            headline=headline,
            serial=self.trials.serial or held_for,
            is_ordinary=self._is_ordinary,
        )

    @property
    def detached_note(self) -> str:
        """Warn of trials that blocked without telling; "" if none did."""
        if not any(trial.was_detached for trial in self.trials.ended):
            return ""
        return (
            f"{self.item.nodeid}: a trial blocked outside a model call, so the trials of this "
            "function run in threads of their own, beside one another. If their code must not run "
            'twice at once, mark the test @llm_eval(concurrency="serial").'
        )

    @property
    def parameter_note(self) -> str:
        """Warn of parameters that a trial changed for all others; "" if none did."""
        changed = self.trials.parameters.changed if self.trials.repeats > 1 else ()
        if not changed:
            return ""
        return (
            f"{self.item.nodeid}: a trial changed its parameter {', '.join(changed)}, which the "
            "other trials share, as it cannot be copied (lists, dicts and sets are). Make it in "
            "the test or in a fixture, so that no trial begins where another one stopped"
        )

    def unrun(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Account for an item that ended before its first trial could begin.

        A skip mark, ``xfail(run=False)`` or a failing ``setup`` of a collector.
        """
        skipped = is_skip(excinfo.value) or isinstance(excinfo.value, pytest.xfail.Exception)
        outcome = Outcome.SKIPPED if skipped else Outcome.CRASHED
        self.outcome = CaseOutcome.SKIPPED if skipped else CaseOutcome.FAILED
        records = [
            Trial(
                case=self.spec.case.id,
                index=index,
                outcome=outcome,
                scores={} if skipped else {PASS_METRIC: 0.0},
                message=excinfo.typename,
                in_setup=not skipped,
            )
            for index in range(self.trials.repeats)
        ]
        self.trials.stand_in([Ended(record=record, in_setup=True) for record in records])

    def _run_all(self) -> list[Ended]:
        self._scheduler.run(self.trials, until=lambda: self.trials.all_ended)
        if self.spec.must_replay:
            self.trials.err_without_calls()
        return self.trials.ended

    def _folded(self) -> Fold:
        xfailed = self.item.stash.get(xfailed_key, None)
        expected = xfailed is not None and not self.item.config.option.runxfail
        self._is_ordinary = self._missed_as_a_test_does()
        records = [trial.record for trial in self.trials.ended]
        return fold(records, self.spec, xfail=expected, is_ordinary=self._is_ordinary)

    def _missed_as_a_test_does(self) -> bool:
        """Whether no trial asked anything, as far as was seen, and all missed alike.

        Connections may be those of an earlier case, and what a model inside the process answers
        differs sooner or later. So a function that showed either stays an eval.
        """
        ended, function = self.trials.ended, self.spec.case.function
        if any(trial.record.calls for trial in ended):
            return False
        ways = {(trial.record.outcome, trial.headline) for trial in ended}
        if len(ways) > 1 or any(trial.reached_out for trial in ended):
            self._scheduler.evals.add(function)
        has_missed = {end for end, _ in ways} == {Outcome.MISSED}
        return has_missed and function not in self._scheduler.evals

    def _expected_by_xfail(self) -> BaseException | None:
        """Return the exception of the trials where ``xfail(raises=...)`` must see it."""
        xfailed = self.item.stash.get(xfailed_key, None)
        failures = [t.exception for t in self.trials.ended if t.exception]
        failures = [failure for failure in failures if not is_skip(failure)]
        if xfailed is None or xfailed.raises is None or len(set(map(type, failures))) != 1:
            return None
        return failures[0]

    def _hand_over(self) -> None:
        """Give the item what its trials left: properties, warnings and output.

        The output is that of trials that did not pass, or of all if all passed.
        """
        not_passed = [t for t in self.trials.ended if t.record.outcome is not Outcome.PASSED]
        for trial in not_passed or self.trials.ended:
            for phase, kind, text in trial.sections:
                self.item.add_report_section(phase, f"{kind} [trial {trial.record.index}]", text)
        told = [entry for trial in self.trials.ended for entry in trial.properties]
        keys = keys_of_environment() if told else ()
        own = [(name, _masked(value, keys)) for name, value in told]
        properties = list(self.trials.inherited.properties)
        properties += {(name, _told(value)): (name, value) for name, value in own}.values()
        for message in (message for trial in self.trials.ended for message in trial.warned):
            warnings._showwarnmsg(message)  # type: ignore[attr-defined]  # as if given here
        counted = ("llm_eval", tally([trial.record for trial in self.trials.ended]))
        self.item.user_properties[:] = [*properties, counted]


def _without_test(ended: Ended) -> Ended:
    """Keep of a trial what is recorded, and nothing that holds on to its test."""
    return Ended(record=ended.record, headline=ended.headline, held_for=ended.held_for)


def _masked(value: object, keys: Sequence[str]) -> object:
    """Mask keys in a property, which reports write as text."""
    try:
        plain = str(value)
    except Exception:  # the text of an object is its own code
        return value
    text = masked_keys(plain, keys)
    return value if text == plain else text


def _told(value: object) -> object:
    """Return what tells a property from others: its text, or which object it is."""
    try:
        return repr(value)
    except Exception:  # likewise
        return id(value)


def _failures(ended: Sequence[Ended]) -> str:
    """List the distinct failures with the trials that had them."""
    found = grouped((one.record.index, one.headline) for one in ended if one.headline)
    return "\n".join(f"trial {', '.join(map(str, which))}: {line}" for which, line in found)
