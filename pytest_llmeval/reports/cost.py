"""Cost of the calls of a run, made or saved by a replay, and a forecast of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from pytest_llmeval.errors import CAP_REASON
from pytest_llmeval.models.prices import Prices
from pytest_llmeval.records import Call, Outcome, Run
from pytest_llmeval.reports.words import counted
from pytest_llmeval.settings import Settings

NO_PRICE = "no price for"
NO_TOKENS = "no token counts in the replies of"
CENT = Decimal("0.01")
_NONE = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Dollars of the calls whose cost is known, and how many are not.

    Attributes:
        spent: on calls made in the run; ``saved`` by those that were replayed.
        unknown_spent: how many calls were made whose cost is not known, by model and cause;
            ``unknown_saved`` likewise.
        is_local: no call was asked of a model that anybody charges for.
    """

    spent: Decimal
    saved: Decimal
    unknown_spent: Counter[tuple[str, str]]
    unknown_saved: Counter[tuple[str, str]]
    is_local: bool

    @property
    def unknown(self) -> Counter[tuple[str, str]]:
        """All calls whose cost is not known."""
        return self.unknown_spent + self.unknown_saved


def cost_of(run: Run, prices: Prices) -> Cost:
    """Add up what the calls of a run cost; failed ones brought no reply to be charged for."""
    sums = {False: Decimal(0), True: Decimal(0)}
    unknown: dict[bool, Counter[tuple[str, str]]] = {False: Counter(), True: Counter()}
    calls = [call for trial in run.trials for call in trial.calls if call.failure is None]
    for call in calls:
        cost, cause = cost_of_call(call, prices)
        if cost is None:
            unknown[call.replayed][call.model or "", cause] += 1
        else:
            sums[call.replayed] += cost
    return Cost(
        spent=sums[False],
        saved=sums[True],
        unknown_spent=unknown[False],
        unknown_saved=unknown[True],
        is_local=all(prices.is_local(call.model) for call in calls),
    )


def cost_of_call(call: Call, prices: Prices) -> tuple[Decimal | None, str]:
    """Price a call, or say what is not known."""
    tariff = prices.tariff(call.model)
    if tariff is None:
        return None, NO_PRICE
    cost = tariff.cost(input_tokens=call.input_tokens, output_tokens=call.output_tokens)
    return cost, NO_TOKENS


def cost_words(cost: Cost) -> str:
    """Write ``$0.04 (saved $0.17)``; "" where nobody charges for anything."""
    if cost.is_local:
        return ""
    spent = _sum(cost.spent, cost.unknown_spent)
    if not cost.saved and not cost.unknown_saved:
        return spent
    return f"{spent} (saved {_sum(cost.saved, cost.unknown_saved)})"


def unknown_lines(cost: Cost, prices: Prices) -> Iterator[str]:
    """Say whose calls could not be priced, and what to do about it."""
    for (model, cause), calls in sorted(cost.unknown.items()):
        whose = model or "requests that name no model"
        remedy = f". {prices.remedy(model or None)}" if cause == NO_PRICE else ""
        yield f"cost n/a: {cause} {whose} ({counted(calls, 'call')}){remedy}"


def capped_lines(run: Run) -> Iterator[str]:
    """Say at which cap the session stopped, and how many trials that left without a reply."""
    stopped: Counter[str] = Counter()
    for trial in run.trials:
        reasons = [call.reason for call in trial.calls if call.reason]
        caps = [reason for reason in reasons if reason.startswith(CAP_REASON)]
        if caps and trial.outcome is Outcome.ERRORED:
            stopped[caps[0].removeprefix(CAP_REASON)] += 1
    for cap, trials in stopped.items():
        yield f"stopped at {cap}: {counted(trials, 'trial')} got no reply"


def dollars(amount: Decimal) -> str:
    """Write a sum with cents, a smaller one with two digits that are not 0."""
    if not amount:
        return "$0"
    if amount >= CENT:
        return f"${amount:.2f}"
    return f"${amount.quantize(Decimal(1).scaleb(amount.adjusted() - 1)):f}"


def _sum(known: Decimal, unknown: Counter[tuple[str, str]]) -> str:
    if not unknown:
        return dollars(known)
    return f"{dollars(known)} and n/a" if known else "n/a"


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
