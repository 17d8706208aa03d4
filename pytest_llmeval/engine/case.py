"""A collected item that runs its trials and reports once for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from pytest_llmeval.engine.case_reports import grouped
from pytest_llmeval.engine.case_trials import CaseTrials
from pytest_llmeval.engine.compat import xfailed_key
from pytest_llmeval.engine.ended import Ended
from pytest_llmeval.engine.schedule.rounds import SAW_OTHERS
from pytest_llmeval.engine.schedule.scheduler import Scheduler
from pytest_llmeval.engine.trial import outcome
from pytest_llmeval.engine.trial.setups import refused_if_made_once
from pytest_llmeval.errors import parts_of
from pytest_llmeval.gate.marks import gated_means
from pytest_llmeval.models.http.masking import keys_of_environment, masked_keys
from pytest_llmeval.records import PASS_METRIC, CaseOutcome, CaseResult, Outcome, Trial

MODELS = "_llm_models"
RUN_AGAIN = (
    "cases were run again by another plugin (--reruns, a flaky mark): recorded and judged is how "
    "each trial ended first, or once it got its replies; dots and reports show the last attempt"
)
NOTHING_REPLAYED = (
    "--llm-cache=replay replayed nothing: no call of this eval was seen, so its outcome is none of "
    "a replay. If it asks no model, say so:  @llm_eval(intercept=False)"
)
_HEADLINE = 400  # characters


class CaseRunner:
    """Take over ``setup``, ``runtest``, ``teardown`` and ``repr_failure`` of one item.

    pytest's loop, xdist's worker, reruns, ``-x``, ``--lf`` and the JUnit file go on
    seeing one ordinary item with one setup, one call and one teardown.

    Args:
        trials: those of the item.
        scheduler: runs them.
        proven: takes test functions that are evals for sure, as their trials differed, say.
    """

    def __init__(self, trials: CaseTrials, *, scheduler: Scheduler, proven: set[str]) -> None:
        self.trials, self.spec, self.item = trials, trials.spec, trials.item
        self.outcome: CaseOutcome | None = None
        self._is_ordinary = False
        self._scheduler, self._proven = scheduler, proven
        for method in (self.setup, self.runtest, self.teardown, self.repr_failure):
            setattr(self.item, method.__name__, method)
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
            self._raise_if_keyless(self._fold())
            first = next((exc for exc in failures if not outcome.is_skip(exc)), failures[0])
            raise parts_of(first)[0] if outcome.is_skip(first) else first

    def runtest(self) -> None:
        """Run the other trials and fold them all."""
        ended = self._run_all()
        if any(trial.saw_others for trial in ended):
            self._scheduler.hold_serial(self.spec.case.function, SAW_OTHERS)
            # Whatever they ended with: none of them may count, or all. With other draws it would be
            # a second chance; where none were seen, chance may come from elsewhere.
            were_seen = all(trial.record.calls and not trial.reached_out for trial in ended)
            if were_seen and self.spec.settings.cache != "off":
                self.trials.forget()
                self._run_all()
        self.trials.take(refused_if_made_once(self.trials.ended))
        result = self._fold()
        self._give_item()
        self._raise_if_keyless(result)
        if result.outcome is CaseOutcome.SKIPPED:
            raise parts_of(next(t.exception for t in self.trials.ended if t.exception))[0]
        if result.outcome is not CaseOutcome.PASSED:
            is_debugged = self.item.config.getoption("usepdb", False)
            failures = outcome.DebuggedFailures if is_debugged else outcome.TrialFailures
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
        if not isinstance(excinfo.value, outcome.TrialFailures):
            return type(self.item).repr_failure(self.item, excinfo)
        shown, ended = self.trials.first_failure, self.trials.ended
        found = grouped((one.record.index, one.headline) for one in ended if one.headline)
        table = "\n".join(f"trial {', '.join(map(str, which))}: {line}" for which, line in found)
        if shown is None:
            is_told = len(found) == 1 and found[0][1] in str(excinfo.value)
            return str(excinfo.value) if is_told else f"{excinfo.value}\n{table}"
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
            score=outcome.shown_score(records, means),
            fell_short=any(r.outcome in (Outcome.MISSED, Outcome.CRASHED) for r in records),
            headline=headline,
            serial=self.trials.serial or held_for,
            is_ordinary=self._is_ordinary,
            looks=self.trials.looks,
        )

    def notes(self) -> Iterator[tuple[str, str]]:
        """Give what is to be said of the code of the test, each with what it is said of once."""
        if any(trial.was_detached for trial in self.trials.ended):
            yield (
                "blocks",
                f"{self.item.nodeid}: a trial waited for something that is no model (a lock, a "
                "sleep, a program), so trials of this function ran at the same time, each in a "
                "thread of its own. If their code must not run twice at once, mark the test "
                '@llm_eval(concurrency="serial").',
            )
        changed = self.trials.parameters.changed if self.trials.repeats > 1 else ()
        if changed:
            yield (
                self.spec.case.function,
                f"{self.item.nodeid}: a trial changed its parameter {', '.join(changed)}, which "
                "the other trials share, as it cannot be copied (lists, dicts and sets are). Make "
                "it in the test or in a fixture, so that no trial begins where another one stopped",
            )
        if self.trials.has_run_again:
            yield RUN_AGAIN, RUN_AGAIN

    def unrun(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Account for an item that ended before its first trial could begin.

        A skip mark, ``xfail(run=False)`` or a failing ``setup`` of a collector.
        """
        error = excinfo.value
        skipped = outcome.is_skip(error) or isinstance(error, pytest.xfail.Exception)
        ended = Outcome.SKIPPED if skipped else Outcome.CRASHED
        self.outcome = CaseOutcome.SKIPPED if skipped else CaseOutcome.FAILED
        records = [
            Trial(
                case=self.spec.case.id,
                index=index,
                outcome=ended,
                scores={} if skipped else {PASS_METRIC: 0.0},
                message=excinfo.typename,
                in_setup=not skipped,
            )
            for index in range(self.trials.looks or self.trials.repeats)
        ]
        self.trials.take(Ended(record=record, in_setup=True) for record in records)

    def _run_all(self) -> list[Ended]:
        self._scheduler.run(self.trials, until=lambda: self.trials.all_ended)
        ended, only_replays = self.trials.ended, self.spec.settings.cache == "replay"
        if self.spec.intercept and only_replays and not any(one.record.calls for one in ended):
            ways = (Outcome.PASSED, Outcome.MISSED)
            told = (one for one in ended if one.record.outcome in ways)
            self.trials.take(one.errored(NOTHING_REPLAYED, "nothing replayed") for one in told)
        return self.trials.ended

    def _fold(self) -> outcome.Fold:
        xfailed = self.item.stash.get(xfailed_key, None)
        expected = xfailed is not None and not self.item.config.option.runxfail
        self._is_ordinary = self._missed_as_a_test_does()
        records = [trial.record for trial in self.trials.ended]
        found = outcome.fold(records, self.spec, xfail=expected, is_ordinary=self._is_ordinary)
        self.outcome = found.outcome
        cause = next((one.headline for one in self.trials.ended if one.headline), "")
        if cause and found.outcome is CaseOutcome.ERRORED:  # pytest's last lines have no more
            found = replace(found, reason=f"{found.reason}: {cause}")
        return found

    def _raise_if_keyless(self, found: outcome.Fold) -> None:
        if found.is_keyless:  # one line for all of them, at the end of the session
            raise pytest.skip.Exception(outcome.WITHOUT_KEY, _use_item_location=True)

    def _missed_as_a_test_does(self) -> bool:
        """Whether no trial asked anything, as far as was seen, and all missed alike.

        Connections may be those of an earlier case, and what a model inside the process answers
        differs sooner or later. So a function that showed either stays an eval.
        """
        ended, function = self.trials.ended, self.spec.case.function
        if any(trial.record.calls for trial in ended):
            return False
        ways = {(trial.record.outcome, trial.headline) for trial in ended}
        if len(ways) > 1 or any(trial.may_have_asked for trial in ended):
            self._proven.add(function)
        has_missed = {end for end, _ in ways} == {Outcome.MISSED}
        return has_missed and function not in self._proven

    def _expected_by_xfail(self) -> BaseException | None:
        """Return the exception of the trials where ``xfail(raises=...)`` must see it."""
        failures = [t.exception for t in self.trials.ended if t.exception]
        failures = [failure for failure in failures if not outcome.is_skip(failure)]
        is_raised = getattr(self.item.stash.get(xfailed_key, None), "raises", None) is not None
        return failures[0] if is_raised and len(set(map(type, failures))) == 1 else None

    def _give_item(self) -> None:
        """Give the item what its trials left: properties, warnings and output.

        The output is that of trials that did not pass, or of all if all passed.
        """
        ended = self.trials.ended
        not_passed = [one for one in ended if one.record.outcome is not Outcome.PASSED]
        for trial in not_passed or ended:
            for phase, kind, text in trial.sections:
                self.item.add_report_section(phase, f"{kind} [trial {trial.record.index}]", text)
        told = [entry for trial in ended for entry in trial.properties]
        keys = keys_of_environment() if told else ()
        own = [(name, _masked(value, keys)) for name, value in told]
        properties = list(self.trials.inherited.properties)
        properties += {(name, _told(value)): (name, value) for name, value in own}.values()
        for message in chain.from_iterable(trial.warned for trial in ended):
            warnings._showwarnmsg(message)  # type: ignore[attr-defined]  # as if given here
        counted = ("llm_eval", outcome.tally([trial.record for trial in ended]))
        self.item.user_properties[:] = [*properties, counted]


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
