"""Cost of the calls of a run, made or saved by a replay, and a forecast of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from pytest_llmeval.errors import Lost, counted, listed_names
from pytest_llmeval.gate.confirmation import FIRST, MORE
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.records import Call, Case, Outcome, Run, Usage, bare
from pytest_llmeval.reports.notation import dollars
from pytest_llmeval.safe_text import printable
from pytest_llmeval.settings import Settings
from pytest_llmeval.stats.exact import fewest_repeats, least_p_of_repeats
from pytest_llmeval.stats.t_tests import FEWEST_UNITS_FOR_T

# by the lacking figure
_UNKNOWN = {"price": "no price for", "tokens": "no token counts in the replies of"}
_MOST_NAMED = 3  # functions in a note
_NONE = Decimal(0)
_NO_PARAMETERS = "[NOTSET]"  # pytest's id where the list of parameters is empty
_LISTED_MODELS = 3


@dataclass(slots=True)
class Sum:
    """Dollars of some calls.

    Attributes:
        known: of the calls whose cost is known.
        unknown: how many other calls there are, by model and lacking figure.
    """

    known: Decimal = _NONE
    unknown: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __str__(self) -> str:
        """Write ``$0.04``, or the known part and that more is unknown."""
        known = dollars(self.known)
        return known if not self.unknown else f"{known} and n/a" if self.known else "n/a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a run.

    Attributes:
        spent: on calls made in the run; ``saved`` by those that were replayed.
        is_local: no call was asked of a model that anybody charges for.
    """

    spent: Sum
    saved: Sum
    is_local: bool

    @property
    def unknown(self) -> list[tuple[tuple[str, str], int]]:
        """How many calls have no known cost, by model and cause."""
        return sorted((self.spent.unknown + self.saved.unknown).items())

    def __str__(self) -> str:
        """Write ``$0.04 (saved $0.17)``; "" where nobody charges for anything."""
        saved = f" (saved {self.saved})" if self.saved.known or self.saved.unknown else ""
        return "" if self.is_local else f"{self.spent}{saved}"


def cost_of_run(run: Run, prices: Prices) -> Cost:
    """Add up what the calls of a run cost; failed ones brought no reply to be charged for."""
    sums = {False: Sum(), True: Sum()}
    alike: dict[tuple[str | None, Usage, bool], list[Call]] = {}
    for trial in run.trials:
        for call in trial.calls:
            if call.failure is None:
                alike.setdefault((call.model, call.usage, call.replayed), []).append(call)
    for call, *others in alike.values():
        cost, count = prices.cost(call), 1 + len(others)
        if cost is None:
            sums[call.replayed].unknown[call.model or "", _cause(call, prices)] += count
        else:
            sums[call.replayed].known += cost * count
    is_local = all(prices.is_local(call.model) for call, *_ in alike.values())
    return Cost(spent=sums[False], saved=sums[True], is_local=is_local)


def _cause(call: Call, prices: Prices) -> str:
    return "price" if prices.tariff(call.model) is None else "tokens"


def unknown_lines(cost: Cost, prices: Prices) -> Iterator[str]:
    """Say whose calls could not be priced, and what to do about it."""
    for (model, cause), calls in cost.unknown:
        yield f"cost n/a: {_unknown(model, cause, prices, calls)}"


def _unknown(model: str, cause: str, prices: Prices, calls: int = 0) -> str:
    number = f" ({counted(calls, 'call')})" if calls else ""
    remedy = f". {prices.remedy(model or None)}" if cause == "price" else ""
    return f"{_UNKNOWN[cause]} {model or 'requests that name no model'}{number}{remedy}"


def capped_lines(run: Run) -> Iterator[str]:
    """Say at which cap the session stopped, and how many trials got no reply for it."""
    stopped: Counter[str] = Counter()
    for trial in run.trials:
        caps = [call for call in trial.calls if call.lost is Lost.CAP]
        if caps and trial.outcome is Outcome.ERRORED:
            stopped[", ".join(caps[0].lost_for)] += 1
    for cap, trials in stopped.items():
        yield f"stopped at {cap}: {counted(trials, 'trial')} got no reply"


def forecast(
    opening: Run, source: Run | None, *, settings: Settings, is_baseline: bool
) -> list[str]:
    """Forecast how much a session may ask and spend, from an earlier run.

    Args:
        opening: the run that begins.
        source: the earlier run, None if there is none.
        settings: of the session.
        is_baseline: the session will be compared with ``source``.
    """
    filled = tuple(case for case in opening.cases if not case.id.endswith(_NO_PARAMETERS))
    if settings.cache == "replay" or not filled:  # that asks for nothing
        return []
    opening = replace(opening, cases=filled)
    lines = [_calls_line(opening, source, settings), _cost_line(opening, source, settings)]
    baseline = source if is_baseline else None
    lines.append(_note_on_confirming(opening, baseline, settings))
    lines.append(_note_on_few_trials(opening, baseline, alpha=settings.gate.alpha))
    return [printable(f"llm evals: {line}") for line in lines if line]


def _calls_line(opening: Run, source: Run | None, settings: Settings) -> str:
    if source is None:
        trials = sum(case.repeats for case in opening.cases)
        begin = f"{counted(trials, 'trial')} of {counted(len(opening.cases), 'case')}"
        return f"{begin} ask {settings.model}" if settings.model else f"{begin} begin"
    asked, most = _asked(opening, source, settings), _most_calls(source)
    calls = sum(case.repeats * most.get(case.id, 0) for case in opening.cases)
    if not calls:
        return f"calls{asked}: not known: run {source.id} saw no call of these cases"
    unseen = sum(not most.get(case.id) for case in opening.cases)
    more = f", and more for {counted(unseen, 'case')} that made none in run {source.id}"
    return f"up to {counted(calls, 'call')}{asked}{more if unseen else ''}"


def _most_calls(source: Run) -> dict[str, int]:
    """Count the calls of a trial of each case, at most."""
    most: dict[str, int] = {}
    for trial in source.trials:
        most[trial.case] = max(most.get(trial.case, 0), len(trial.calls))
    return most


def _note_on_confirming(opening: Run, baseline: Run | None, settings: Settings) -> str:
    """Say how many calls it may take to look at falls again."""
    if baseline is None or not settings.confirm:
        return ""
    most = _most_calls(baseline)
    calls = 2 * (FIRST + MORE) * sum(most.get(case.id, 0) for case in opening.cases)
    return f"up to {counted(calls, 'call')} more, to confirm a fall of all cases"


def _asked(opening: Run, source: Run, settings: Settings) -> str:
    """Name the models that these cases asked, with the one that is asked now in its place."""
    models, earlier = {call.model for call in _calls_of(opening, source) if call.model}, ""
    if settings.model and settings.model not in models:
        replaced = models if len(models) == 1 else models & {source.typed_model}
        if models and not replaced:  # nobody can tell which of them it replaces
            earlier = f"; the last run asked {listed_names(sorted(models), _LISTED_MODELS)}"
        models = {settings.model} if earlier else models - replaced | {settings.model}
    elif settings.intercept or (settings.intercept is None and not settings.model):
        # the application decides whom it asks
        earlier = ", as in an earlier run"
    return f" to {listed_names(sorted(models), _LISTED_MODELS)}{earlier}" if models else ""


def _calls_of(opening: Run, source: Run) -> list[Call]:
    """List the calls of an earlier run that are those of cases which begin."""
    cases = {case.id for case in opening.cases}
    return [call for trial in source.trials if trial.case in cases for call in trial.calls]


def _note_on_few_trials(opening: Run, baseline: Run | None, *, alpha: float) -> str:
    """Name functions of which not even the worst outcome could read as a drop."""
    known = {} if baseline is None else {case.id: case.repeats for case in baseline.cases}
    functions: dict[str, list[Case]] = {}
    for case in opening.cases:
        functions.setdefault(case.function, []).append(case)
    level, named = alpha / max(1, len(functions)), []
    for function, cases in functions.items():
        repeats = [case.repeats for case in cases]
        before = [known.get(case.id) for case in cases]
        if len(cases) < FEWEST_UNITS_FOR_T and least_p_of_repeats(before, repeats) >= level:
            has = f"{counted(len(cases), 'case')} x {max(repeats)}"
            needed = fewest_repeats(level, before)
            named.append(f"{bare(function)} ({has}; at best {needed} repeats show one)")
    if not named:
        return ""
    return f"note: too few trials to show any drop: {listed_names(named, _MOST_NAMED)}"


def _cost_line(opening: Run, source: Run | None, settings: Settings) -> str:
    """Say the most that a session should cost; "" where all is local or no call was seen."""
    prices = Prices(settings.prices)
    calls = [] if source is None else _calls_of(opening, source)
    asked = {call.model for call in calls}
    is_another = settings.model not in {None, *asked}
    to_ask = {settings.model} if is_another else asked
    if source is None or not asked or all(map(prices.is_local, to_ask)):
        return ""
    if is_another:
        return f"cost not known: run {source.id} did not ask {settings.model}"
    for call in calls:
        if prices.cost(call) is None and call.failure is None:
            return f"cost not known: {_unknown(call.model or '', _cause(call, prices), prices)}"
    dearest = _dearest(source, prices)
    if not dearest:
        return f"cost not known: each trial of run {source.id} was errored"
    most = sum((case.repeats * dearest.get(case.id, _NONE) for case in opening.cases), _NONE)
    bound = f"no trial costs more than the dearest one of its case in run {source.id}"
    text = f"at most about {dollars(most)}, if nothing comes from the cache and {bound}"
    return f"{text}{_not_known(opening, source, dearest)}" if most else ""  # a price of 0, say


def _not_known(opening: Run, source: Run, dearest: Mapping[str, Decimal]) -> str:
    """Say for how many cases an earlier run has no figures of a trial, and why."""
    ran = {trial.case for trial in source.trials}
    seen = {trial.case for trial in source.trials if trial.calls}
    causes: Counter[str] = Counter()
    for case in opening.cases:
        if case.id not in ran:
            causes["that it did not run"] += 1
        elif case.id not in dearest:
            causes["of which each trial was errored"] += 1
        elif case.id not in seen:
            causes["of which it saw no call"] += 1
    told = ((counted(count, "case"), why) for why, count in causes.items())
    return "".join(f", and not known for {cases} {why}" for cases, why in told)


def _dearest(source: Run, prices: Prices) -> dict[str, Decimal]:
    """Find the cost of each case's dearest trial if all its calls were paid for."""
    dearest: dict[str, Decimal] = {}
    for trial in source.trials:
        if trial.outcome is not Outcome.ERRORED:
            costs = (prices.cost(call) for call in trial.calls if call.failure is None)
            whole = sum(filter(None, costs), _NONE)
            dearest[trial.case] = max(dearest.get(trial.case, _NONE), whole)
    return dearest
