"""What differs between the runs besides the application: models, parameters, hosts."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_llmeval.records import Call, Run

_FACTS = ("model", "served", "fingerprint", "host")
_PARAMETERS = ("temperature", "seed", "top_p")
_LISTED = 4


def differences(baseline: Run, run: Run) -> list[str]:
    """Say which facts of the calls differ between two runs.

    Returns:
        One line for each fact, ``model: openai/a -> openai/b``; empty if all agree.
    """
    return [f"differs from the baseline: {line}" for line in _differing(baseline, run)]


def _differing(baseline: Run, run: Run) -> Iterator[str]:
    for fact in (*_FACTS, *_PARAMETERS):
        before, here = _values(baseline, fact), _values(run, fact)
        if before != here and before and here:
            yield f"{fact}: {_listed(before)} -> {_listed(here)}"


def _values(run: Run, fact: str) -> list[str]:
    values = {_value(call, fact) for trial in run.trials for call in trial.calls}
    return sorted(values - {""})


def _value(call: Call, fact: str) -> str:
    if fact in _PARAMETERS:
        # A parameter that is not sent differs from one that is.
        return str(call.parameters.get(fact, "provider's default"))
    value = getattr(call, fact)
    return "" if value is None else str(value)


def _listed(values: list[str]) -> str:
    more = f" and {len(values) - _LISTED} more" if len(values) > _LISTED else ""
    return ", ".join(values[:_LISTED]) + more
