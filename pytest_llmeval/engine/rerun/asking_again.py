"""Ask some cases again, in a worktree of the base and here, to see whether a fall is there again.

Two sessions run at the same time, so that a change of the provider meets both. Each is told which
cases to run, and at which number its draws begin: behind the existing ones. The replies are paid
for, except those that were paid for in the same check before. So a session that was interrupted,
or that judges the same draws once more, goes on with the replies that it has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from pytest_llmeval.engine.rerun.base_run import Rerun
from pytest_llmeval.engine.rerun.child import run_children
from pytest_llmeval.engine.rerun.relocation import Relocation
from pytest_llmeval.engine.rerun.scratch import scratch_folder
from pytest_llmeval.errors import BaselineError, GitFailed
from pytest_llmeval.gate.confirmation import CannotConfirm
from pytest_llmeval.gate.results import Fact, Why
from pytest_llmeval.records import Run, Trial, trials_by_case
from pytest_llmeval.runs.pooled import own_trials
from pytest_llmeval.settings import AskedRun, Settings

_NAME = 32  # hex digits


class AskingAgain:
    """Makes fresh trials of the baseline and of the branch.

    Args:
        settings: of the session.
        baseline: that the run was compared with; ``run`` is that one.
        run: see ``baseline``.
        names: the name that each case has in the base's commit, by its name here.
        rerun: makes what runs the evals of a commit.
        tell: gets the number of cases and of repeats before they are asked.
        has_ended: the session came to its end; after Ctrl-C nobody is asked.
        undoing: takes the worktree away at the end.

    Attributes:
        was_interrupted: somebody wanted an end.
        asked: the run with the trials that were made for it, of both sides.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        baseline: Run,
        run: Run,
        names: Mapping[str, str],
        rerun: Callable[[], Rerun],
        tell: Callable[[int, int], None],
        has_ended: bool,
        undoing: ExitStack,
    ) -> None:
        self.was_interrupted = False
        self.asked = replace(run, trials=())
        # trials of older runs join and leave a baseline: no number and no name hangs on them
        self._settings, self._sides, self._names = settings, (own_trials(baseline), run), names
        self._make, self._tell, self._has_ended = rerun, tell, has_ended
        self._undoing = undoing
        self._rerun: Rerun | None = None
        self._trees: tuple[Relocation, ...] = ()
        self._name = ""
        indices = ([one.index for one in side.trials] for side in self._sides)
        self._first = [1 + max(of_side, default=-1) for of_side in indices]

    def __call__(self, cases: Sequence[str], count: int) -> tuple[Sequence[Trial], Sequence[Trial]]:
        """Ask so many repeats of some cases on both sides.

        Raises:
            CannotConfirm: nobody can be asked, or what was asked is not what was compared.
        """
        try:
            return self._asked(cases, count)
        except KeyboardInterrupt:
            self.was_interrupted = True
            raise _refusal("it was interrupted") from None
        except (BaselineError, GitFailed, OSError) as exc:
            raise _refusal(str(exc)) from None

    def _asked(self, cases: Sequence[str], count: int) -> tuple[Sequence[Trial], Sequence[Trial]]:
        baseline, run = self._sides
        rerun = self._ready(cases)
        mode = "off" if self._settings.cache == "off" else "refresh"
        old = tuple(self._names.get(case, case) for case in cases)
        of_run = AskedRun(
            selection=tuple(cases),
            first=self._first[1],
            confirmation=f"{self._name}-here",
            asked_by=run.id,
            options=(f"--llm-repeats={count}", f"--llm-cache={mode}"),
        )
        of_base = replace(
            of_run,
            selection=old,
            first=self._first[0],
            confirmation=f"{self._name}-base",
            options=(*of_run.options, *self._model_of_base()),
        )
        self._tell(len(cases), count)
        asked = zip(self._trees, (of_base, of_run), strict=True)
        children = [rerun.child(*each) for each in asked]
        ended = zip(children, run_children(*children), (baseline, run), strict=True)
        found = [rerun.found(child, code, side.commit or "") for child, code, side in ended]
        self._first = [first + count for first in self._first]
        base, here = (one.run if one else replace(run, trials=()) for one in found)
        new = dict(zip(old, cases, strict=True))
        base = replace(base, trials=tuple(replace(t, case=new[t.case]) for t in base.trials))
        made = *base.trials, *here.trials
        self.asked = replace(self.asked, trials=(*self.asked.trials, *made))
        self._check(base, here, cases)
        return base.trials, here.trials

    def _ready(self, cases: Sequence[str]) -> Rerun:
        """Make the worktree, once; name what is confirmed by the draws that raised the question."""
        baseline, _ = self._sides
        if self._rerun is not None:
            return self._rerun
        if not self._has_ended:
            raise _refusal("the session did not come to its end")
        if self._settings.cache == "replay":
            raise _refusal("a session that only replays asks nobody")
        if baseline.commit is None or baseline.dirty:
            raise _refusal(f"run {baseline.id} is of no commit that can be checked out")
        rerun = self._make()
        worktree = self._undoing.enter_context(rerun.worktree(baseline.commit))
        apart = self._undoing.enter_context(scratch_folder())
        self._trees = worktree, replace(rerun.here, apart=apart)
        draws = repr([_draws(side, cases) for side in self._sides])
        self._name = hashlib.sha256(draws.encode()).hexdigest()[:_NAME]
        self._rerun = rerun
        return rerun

    def _model_of_base(self) -> Sequence[str]:
        """Type the model of the base where another one is typed here."""
        baseline, typed = self._sides[0], self._settings.typed_model
        if typed is None or typed == baseline.typed_model:
            return ()
        models = {baseline.typed_model} - {None} or _models(baseline.trials)
        if len(models) != 1:
            raise _refusal(f"nobody can tell what {typed}, which was typed, replaces in the base")
        return (f"--llm-model={models.pop()}",)

    def _check(self, base: Run, here: Run, cases: Collection[str]) -> None:
        """See that both sides are still what was compared."""
        baseline, run = self._sides
        asked = [trial for trial in baseline.trials if trial.case in cases]
        then, now = _models(asked), _models(base.trials)
        if then and now and then != now:
            told = " and ".join(sorted(map(str, now)))
            raise _refusal(f"the base asked {told} now, and {' and '.join(sorted(then))} before")
        if here.commit != run.commit or any(
            digest != run.tests.get(name) for name, digest in here.tests.items()
        ):
            raise _refusal("the files here were changed while the tests ran")


def _refusal(why: str) -> CannotConfirm:
    return CannotConfirm(Fact(Why.NOT_ASKED_AGAIN, (why.partition("\n")[0],)))


def _models(trials: Sequence[Trial]) -> set[str]:
    return {call.model for trial in trials for call in trial.calls if call.model}


def _draws(run: Run, cases: Collection[str]) -> list[str]:
    trials = (trial for of_case in trials_by_case(run, cases).values() for trial in of_case)
    return sorted(call.draw for trial in trials for call in trial.calls if call.draw)
