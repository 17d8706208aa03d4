"""Differences of two runs beside the application: models, parameters, hosts, versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from pytest_llmeval.errors import listed_names
from pytest_llmeval.gate.changes import firsts_of, unmatched
from pytest_llmeval.gate.results import FunctionComparison
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Call, Run, Setting

_FACTS = ("model", "served", "fingerprint", "host")
PARAMETERS = ("temperature", "seed", "top_p")
_LISTED = 4
_ABSENT = "not installed"


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact that is not the same in both runs.

    Attributes:
        fact: ``model``, ``served``, ``fingerprint``, ``host``, a sampling parameter, or
            ``version of openai`` and the like, or an option such as ``llm_alpha``.
        baseline: its values in the baseline, sorted; ``here`` those in this run.
        functions: the functions with this difference, in the order of the baseline; empty if every
            function that both runs have differs.
    """

    fact: str
    baseline: tuple[str, ...]
    here: tuple[str, ...]
    functions: tuple[str, ...] = ()

    def line(self, names: Mapping[str, str]) -> str:
        """Write the difference in a line: ``model: openai/a -> openai/b (test_a)``.

        Args:
            names: what to call each function.
        """
        texts = (self.baseline, self.here, [names[one] for one in self.functions])
        old, new, functions = (listed_names(each, _LISTED) for each in texts)
        return f"{self.fact}: {old} -> {new}" + (f" ({functions})" if functions else "")


def differences(judgement: Judgement) -> list[Difference]:
    """Find what differs from the baseline, so that no change is blamed on the application alone.

    The rules of the gate are compared with the rules of the baseline's own session.
    """
    baseline, run = judgement.runs
    if run is None or baseline is None or not baseline.cases:  # of a commit without evals
        return []
    found = [*_of_calls(baseline, run)]
    for name in sorted({*baseline.versions, *run.versions}):
        old, new = (one.versions.get(name, _ABSENT) for one in (baseline, run))
        if old != new:
            found.append(Difference(f"version of {name}", (old,), (new,)))
    for name, rule in asdict(judgement.settings.gate).items():
        was = baseline.rules.get(name, rule)  # an older version did not have this rule
        # a command looks once
        if was != rule and (judgement.settings.session or name != "sequential"):
            found.append(Difference(f"llm_{name}", _setting(was), _setting(rule)))
    return found


def first_new_call(judgement: Judgement, function: FunctionComparison) -> tuple[int, str] | None:
    """Find where the trials of a function begin to send another request than in the baseline.

    Returns:
        How many calls each trial of a changed case makes before that request, and the model of the
        request. There is one such call at least, and all are the baseline's own draws. None where
        trials differ in this number, or begin with other calls.
    """
    changed = {case.case for case in function.compared if case.kind == "request"}
    sides = [
        {(one.case, one.index): one.calls for one in run.trials if one.case in changed}
        for run in filter(None, judgement.runs)
    ]
    found = {_first_new(sides[0][trial], sides[1][trial]) for trial in sides[0].keys() & sides[1]}
    place = found.pop() if len(found) == 1 else None
    return place if place is not None and place[0] else None


def _first_new(baseline: Sequence[Call], current: Sequence[Call]) -> tuple[int, str] | None:
    new, known = unmatched(current, baseline), {call.key for call in baseline}
    firsts = firsts_of(new)
    models = {call.model or "" for call in firsts}
    if len(models) != 1 or not known.isdisjoint(call.key for call in firsts):
        return None
    before = current[: current.index(new[0])]
    return sum(not any(map(call.is_beside, new)) for call in before), models.pop()


def _of_calls(baseline: Run, run: Run) -> Iterator[Difference]:
    """Compare the calls of the trials that both runs have, by function."""
    baseline_calls, current_calls = _calls_in_common(baseline, run), _calls_in_common(run, baseline)
    for fact in (*_FACTS, *PARAMETERS):
        found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
        for function, calls in baseline_calls.items():
            values = _values(calls, fact), _values(current_calls[function], fact)
            if values[0] != values[1] and all(values):
                found.setdefault(values, []).append(function)
        for values, functions in found.items():
            true_of_all = len(functions) == len(baseline_calls)
            yield Difference(fact, *values, () if true_of_all else tuple(functions))


def _calls_in_common(one: Run, other: Run) -> dict[str, list[Call]]:
    """Return calls of a run, by function, of the trials that the other run has too.

    Calls with equal facts count once: a run may have 50,000 calls with few different facts.
    """
    common = {(trial.case, trial.index) for trial in other.trials}
    functions = {case.id: case.function for case in one.cases}
    calls: dict[str, dict[tuple[str | None, ...], Call]] = {}
    for trial in one.trials:
        if (trial.case, trial.index) in common:
            unlike = calls.setdefault(functions[trial.case], {})
            for call in trial.calls:
                facts = call.model, call.served, call.fingerprint, call.host
                unlike.setdefault((*facts, str(call.parameters)), call)
    return {function: list(unlike.values()) for function, unlike in calls.items()}


def _values(calls: Iterable[Call], fact: str) -> tuple[str, ...]:
    if fact in PARAMETERS:  # a parameter that is not sent differs from any value
        found = {str(call.parameters.get(fact, "provider's default")) for call in calls}
    else:
        found = {getattr(call, fact) or "" for call in calls}
    return tuple(sorted(found - {""}))


def _setting(value: Setting) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value or ("none",)
    return (f"{value:g}" if isinstance(value, float) else str(value).lower(),)
