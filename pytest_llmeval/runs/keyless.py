"""Cases that ask something new without a valid key, as in a pull request from a fork.

Cases that were paid for before are replayed and judged. Keyless cases are judged by whoever has a
key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_llmeval.errors import Lost
from pytest_llmeval.records import Call, Outcome, Run, Trial, only_cases

Aliases = Sequence[tuple[str, str]]
Origins = Iterable[tuple[str, str]]  # providers, each with the origin that was asked


@dataclass(frozen=True, slots=True, kw_only=True)
class ElsewhereAsked:
    """A provider that the baseline asked at another host, as a variable is not set here.

    Attributes:
        variable: that names the host, such as ``OPENAI_BASE_URL``.
        here: the origin that this session would have asked.
        baseline: the origin that the baseline asked.
    """

    variable: str
    here: str
    baseline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyless:
    """The cases of a run that asked something new without a key.

    Attributes:
        cases: their ids, in the order of the run.
        variables: of the keys that are not set.
        lost_more: some of these cases lost calls for another reason too.
        refused: providers that do not take the key that is set, with what they said.
        elsewhere: why their requests may be new: hosts are part of what is asked.
    """

    cases: tuple[str, ...]
    variables: tuple[str, ...]
    lost_more: bool
    refused: tuple[str, ...] = ()
    elsewhere: tuple[ElsewhereAsked, ...] = ()


def lacks_only_a_key(trials: Iterable[Trial]) -> bool:
    """Tell whether some trials have no outcome, and the lack of a key is the only cause."""
    errored = [trial for trial in trials if trial.outcome is Outcome.ERRORED]
    return bool(errored) and all(map(_lacked_only_a_key, errored))


def find_keyless(
    run: Run, baseline: Run | None, *, aliases: Aliases, stored: Callable[[], Origins] | None = None
) -> Keyless | None:
    """Find the cases that asked something new without a key.

    Args:
        run: whose trials are looked at.
        baseline: the run that it is compared with, None for none.
        aliases: pairs of origins; a request to the first is one to the second.
        stored: for a baseline that was run in this very job, which has no key for it either:
            tells provider and origin of the requests that are kept.

    Returns:
        None where no call was refused for want of a key.
    """
    trials: dict[str, list[Trial]] = {case.id: [] for case in run.cases}
    for side in (run, baseline) if stored and baseline is not None else (run,):
        for trial in side.trials:
            trials.get(trial.case, []).append(trial)
    refused = {name: list(_refused(of_case)) for name, of_case in trials.items()}
    cases = tuple(case.id for case in run.cases if refused[case.id])
    if not cases:
        return None
    calls = [call for name in cases for call in refused[name]]
    keyless = [call for call in calls if call.lost is Lost.NO_KEY]
    others = (call for call in calls if call.lost is not Lost.NO_KEY)
    before = stored or partial(_origins_of, baseline)
    return Keyless(
        cases=cases,
        variables=tuple(dict.fromkeys(name for call in keyless for name in call.lost_for[:1])),
        lost_more=not all(lacks_only_a_key(trials[name]) for name in cases),
        refused=tuple(dict.fromkeys(map(_refusal, others))),
        elsewhere=tuple(_asked_elsewhere(keyless, before, aliases=aliases)),
    )


def without_keyless(side: Run, run: Run, keyless: Keyless | None) -> Run:
    """Leave cases out of a side of a comparison, and functions of which no other case was run.

    Args:
        side: the baseline, the anchor, or the run itself.
        run: the run itself.
        keyless: its cases that are left out; None for none.
    """
    if keyless is None:
        return side
    functions = _unjudged(run, keyless)
    left_out = {case.id for case in side.cases if case.function in functions} | {*keyless.cases}
    return only_cases(side, {case.id for case in side.cases} - left_out)


def gone_unjudged(baseline: Run, run: Run, keyless: Keyless) -> tuple[str, ...]:
    """List the cases of the baseline that a run lacks, of functions that are left out altogether.

    No comparison names these cases. A function of which the user asked for a part has none here.
    """
    functions = _unjudged(run, keyless) - {*run.partial}
    here = {case.id for case in run.cases}
    return tuple(
        case.id for case in baseline.cases if case.function in functions and case.id not in here
    )


def _unjudged(run: Run, keyless: Keyless) -> set[str]:
    """Name the functions of which no case but those without a key was run."""
    left_out = set(keyless.cases)
    functions = {case.function for case in run.cases}
    return functions - {case.function for case in run.cases if case.id not in left_out}


def _refused(trials: Iterable[Trial]) -> Iterator[Call]:
    return (call for trial in trials for call in trial.calls if _lacked_key(call))


def _lacked_only_a_key(trial: Trial) -> bool:
    """Look at all calls that a trial lost; a call may have been cancelled for want of that key."""
    lost = [call for call in trial.calls if call.failure == "infrastructure"]
    further = [call for call in lost if not (_lacked_key(call) or call.lost is Lost.CANCELLED)]
    return any(map(_lacked_key, lost)) and not further


def _lacked_key(call: Call) -> bool:
    return call.lost in (Lost.NO_KEY, Lost.KEY_REFUSED)


def _refusal(call: Call) -> str:
    return f"{_provider(call)}: {Lost.STATUS.told(call.lost_for)}"


def _provider(call: Call) -> str:
    return (call.model or "").partition("/")[0]


def _origins_of(run: Run | None) -> Iterator[tuple[str, str]]:
    for trial in () if run is None else run.trials:
        yield from ((_provider(call), call.host or "") for call in trial.calls)


def _asked_elsewhere(
    calls: Sequence[Call], before: Callable[[], Origins], *, aliases: Aliases
) -> Iterator[ElsewhereAsked]:
    """Find providers all of whose requests are new, as each would go to another host."""
    by_variable = {call.lost_for[1]: call for call in calls if len(call.lost_for) > 1}
    for variable, first in by_variable.items():
        provider = _provider(first)
        here = {call.host for call in calls if _provider(call) == provider and call.host}
        there = {host for name, host in before() if name == provider and host}
        same = {origin for alias, origin in aliases if alias in here} | here
        if here and there and not same & there:
            yield ElsewhereAsked(variable=variable, here=min(here), baseline=min(there))
