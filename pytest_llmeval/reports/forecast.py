"""What a session may cost, said before its first paid call."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.records import Call, Outcome, Run
from pytest_llmeval.reports.cost import NO_PRICE, cost_of_call, dollars
from pytest_llmeval.reports.words import counted
from pytest_llmeval.settings import Settings

_NONE = Decimal(0)


def forecast(
    opening: Run, source: Run | None, *, settings: Settings, is_baseline: bool
) -> list[str]:
    """Say how much a session may ask and spend, going by what an earlier run did.

    Args:
        opening: the run that begins.
        source: the earlier run, None if there is none.
        settings: of the session.
        is_baseline: ``source`` is what the session will be compared with.
    """
    lines: list[str] = []
    if settings.cache != "replay":  # that asks for nothing
        lines += [_calls_line(opening, source, settings)]
        lines += _cost_lines(opening, source, settings)
    if source is not None and is_baseline:
        lines += _note_on_repeats(opening, source)
    return [f"llm evals: {line}" for line in lines]


def _calls_line(opening: Run, source: Run | None, settings: Settings) -> str:
    asked = settings.model or "models"
    if source is None:
        trials = sum(case.repeats for case in opening.cases)
        return f"{counted(trials, 'trial')} of {counted(len(opening.cases), 'case')} ask {asked}"
    most: dict[str, int] = {}
    for trial in source.trials:
        most[trial.case] = max(most.get(trial.case, 0), len(trial.calls))
    calls = sum(case.repeats * most.get(case.id, 1) for case in opening.cases)
    return f"up to {counted(calls, 'call')} to {asked}"


def _note_on_repeats(opening: Run, baseline: Run) -> Iterator[str]:
    repeats = {case.id: case.repeats for case in opening.cases}
    fewer = sum(case.repeats < repeats.get(case.id, 0) for case in baseline.cases)
    if fewer:
        yield (
            f"note: the baseline has fewer repeats of {counted(fewer, 'case')} "
            "than this session asks for; the others here are not compared"
        )


def _cost_lines(opening: Run, source: Run | None, settings: Settings) -> Iterator[str]:
    """Say the most that a session should cost, in one line; none where all models are local."""
    prices = Prices(settings.prices)
    calls = [] if source is None else [call for trial in source.trials for call in trial.calls]
    asked = {call.model for call in calls} or {settings.model}
    if settings.model is not None and settings.model not in asked:
        asked, calls = {settings.model}, []
    if all(prices.is_local(model) for model in asked):
        return
    if source is None or not calls:
        earlier = "no run is recorded" if source is None else f"run {source.id} did not ask it"
        yield f"at most: n/a, {earlier}, so what a call takes is not known yet"
        return
    missing = _missing(calls, prices)
    if missing:
        yield f"at most: n/a, {missing}"
        return
    dearest = _dearest(source, prices)
    most = sum((case.repeats * dearest.get(case.id, _NONE) for case in opening.cases), _NONE)
    new = sum(case.id not in dearest for case in opening.cases)
    more = f", and n/a for {counted(new, 'case')} that it did not run" if new else ""
    yield (
        f"at most about {dollars(most)} if every request is asked anew and no trial takes more "
        f"than the dearest of its case in run {source.id}{more}"
    )


def _missing(calls: list[Call], prices: Prices) -> str:
    """Say what is not known of the cost of calls, "" if all of it is."""
    for call in calls:
        cost, cause = cost_of_call(call, prices)
        if cost is None and call.failure is None:
            remedy = f". {prices.remedy(call.model)}" if cause == NO_PRICE else ""
            return f"{cause} {call.model or 'requests that name no model'}{remedy}"
    return ""


def _dearest(source: Run, prices: Prices) -> dict[str, Decimal]:
    """Find what the dearest trial of each case would cost if all of it were paid for."""
    dearest: dict[str, Decimal] = {}
    for trial in source.trials:
        if trial.outcome is not Outcome.ERRORED:
            costs = [cost_of_call(call, prices)[0] for call in trial.calls if call.failure is None]
            whole = sum((cost for cost in costs if cost is not None), _NONE)
            dearest[trial.case] = max(dearest.get(trial.case, _NONE), whole)
    return dearest
