"""Confirm a fall before the build turns red: both sides are asked again, and compared without luck.

The rule, its simulation and what it costs: docs/confirm.md. A baseline may have been recorded on a
lucky day, and a provider moves under the same name. So what seems to have fallen is compared a
second time: all trials of this run with fresh trials of the base alone. The stored baseline is not
in this second look, so however lucky it was, it cannot turn a build red.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_llmeval.gate.accepted import accept
from pytest_llmeval.gate.both_runs import BothRuns
from pytest_llmeval.gate.compare import summed_up
from pytest_llmeval.gate.conclusion import effect_of
from pytest_llmeval.gate.decision_table import turns_red
from pytest_llmeval.gate.results import (
    Comparison,
    Confirmation,
    ConfirmationOutcome,
    Fact,
    FunctionComparison,
    Name,
    Row,
    Verdict,
    Why,
)
from pytest_llmeval.gate.scoring import CostOf, measured
from pytest_llmeval.gate.significance import Examined
from pytest_llmeval.records import CONFIRMED, Run, Trial, only_functions, too_many_errored
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.multiplicity import holm

FIRST, MORE = 3, 5  # fresh repeats of each side; more where the first leave it open
_WIDER = 2  # times alpha is the level of the first look
_LEVEL, _LEVEL_IF_BASE_FELL = 0.10, 0.01  # of the second look
_BASE_FELL = 0.05  # p of the base, below which it is seen to have fallen
_EARLY_RED, _EARLY_BASE = 0.02, 0.20  # p, and p of the base, of a fall that three repeats confirm
_EARLY_NOT = 0.5  # p above which three repeats show that there is none

Suspects = Mapping[Name, Sequence[str]]  # the cases of each that are asked again
# Fresh trials of the base and of this run, for these cases, so many repeats of each.
Draw = Callable[[Sequence[str], int], tuple[Sequence[Trial], Sequence[Trial]]]


class CannotConfirm(Exception):
    """Nothing can be asked again; ``why`` is the reason."""

    def __init__(self, why: Fact) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondLook:
    """A comparison of all trials of a run with fresh ones of its base.

    Attributes:
        p: for a fall of this run below the fresh base.
        p_base: for a fall of the fresh base below the stored baseline, without the fresh trials of
            other times; None where that cannot be tested.
        is_beyond_margin: the difference is more than the drop that is allowed.
        highest: the most that the level of this look may be.
        baseline_mean: of the fresh base, over all common cases; ``mean`` of this run.
    """

    p: float
    p_base: float | None
    is_beyond_margin: bool = True
    highest: float = _LEVEL
    baseline_mean: float | None = None
    mean: float | None = None

    @property
    def base_fell(self) -> bool:
        """Whether the base is seen to have fallen too."""
        return self.p_base is not None and self.p_base < _BASE_FELL

    @property
    def level(self) -> float:
        """The level of this look."""
        return min(self.highest, _LEVEL_IF_BASE_FELL if self.base_fell else _LEVEL)

    def early(self, family: int) -> bool | None:
        """Tell after the first fresh repeats whether it is confirmed; None if that is open.

        Args:
            family: how many comparisons are looked at a second time.
        """
        if self.p > _EARLY_NOT:
            return False
        is_sure = (
            self.p < min(_EARLY_RED, self.level) / family and (self.p_base or 0.0) > _EARLY_BASE
        )
        return True if is_sure and self.is_beyond_margin else None


def confirmed_at_last(looks: Mapping[Name, SecondLook], *, family: int) -> frozenset[Name]:
    """Return the comparisons whose fall is confirmed after all fresh repeats, by Holm.

    Args:
        looks: the last one at each comparison.
        family: how many comparisons are looked at a second time, at least as many.
    """
    shares = [look.p / look.level for look in looks.values()]
    adjusted = holm([*shares, *[math.inf] * (family - len(shares))])
    pairs = zip(looks.items(), adjusted, strict=False)
    return frozenset(name for (name, look), p in pairs if p < 1 and look.is_beyond_margin)


def suspects(
    comparison: Comparison, rules: GateRules, *, baseline: Run
) -> dict[Name, tuple[str, ...]]:
    """Find what may have fallen, at twice the level, unless the branch accepts the drop.

    Args:
        comparison: of this run with the baseline, by these rules.
        rules: of the gate.
        baseline: the lines of ``llm_accept`` that its session had are void.

    Returns:
        The changed cases of each function and metric: they are asked again. Where only a score
        differs no reply was asked for.
    """
    may_fall = [_regressed(one, rules) for one in comparison.functions if _is_below(one, rules)]
    found = (one for one in accept(may_fall, rules.accept, baseline=baseline) if not one.accepted)
    asked = {
        (one.function, one.metric): tuple(
            case.case for case in one.compared if case.kind not in (None, "score")
        )
        for one in found
    }
    return {name: cases for name, cases in asked.items() if cases}


def _is_below(one: FunctionComparison, rules: GateRules) -> bool:
    p, difference = one.evidence.p_adjusted, one.effect.difference
    if p is None or difference is None:
        return False
    return p < _WIDER * rules.alpha and difference + _margin(one, rules) < 0


def confirm(
    baseline: Run,
    run: Run,
    comparison: Comparison,
    rules: GateRules,
    draw: Draw,
    *,
    reference: str = "main",
    cost_of: CostOf | None = None,
) -> Comparison:
    """Let a comparison turn red only where a second look confirms it.

    Args:
        baseline: that the run was compared with.
        run: that is judged.
        comparison: of both, by these rules.
        rules: of the gate.
        draw: asks both sides again; raises ``CannotConfirm``. It is called once or twice, if at
            all.
        reference: what the user calls the baseline.
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.

    Returns:
        The comparison with what was confirmed, and what was not.
    """
    chosen = suspects(comparison, rules, baseline=baseline)
    if not chosen:
        return comparison
    of_name = {(one.function, one.metric): one for one in comparison.functions}
    highest = {name: _highest(of_name[name], rules) for name in chosen}
    found = _Looking(baseline, run, rules, cost_of, highest).outcomes(chosen, draw)
    functions = [
        _concluded(one, replace(found[one.function, one.metric], reference=reference), rules)
        if (one.function, one.metric) in found
        else one
        for one in comparison.functions
    ]
    return summed_up(replace(comparison, functions=tuple(functions)), rules)


def _highest(one: FunctionComparison, rules: GateRules) -> float:
    """Return the most that the level of the second look at a suspect may be.

    Cases that truly rose or fell differ alike in both looks. So one of the two must reach alpha,
    and where the first did not, all functions share the alpha of the second as they shared it.
    """
    p, adjusted = one.evidence.p, one.evidence.p_adjusted
    share = p / adjusted if p and adjusted else 1.0
    return _LEVEL if one.verdict is Verdict.REGRESSED else rules.alpha * share


def without_asking(comparison: Comparison, why: Fact) -> Comparison:
    """Give each fall of a comparison the reason for which nothing is asked again."""
    functions = (
        replace(one, confirmation=_impossible(why)) if one.verdict is Verdict.REGRESSED else one
        for one in comparison.functions
    )
    return replace(comparison, functions=tuple(functions))


class _Looking:
    """Second looks at a run, with the fresh trials so far.

    Attributes:
        looks: the last one at each suspect.
        impossible: why others could not be looked at.
    """

    def __init__(
        self,
        baseline: Run,
        run: Run,
        rules: GateRules,
        cost_of: CostOf | None,
        highest: Mapping[Name, float],
    ) -> None:
        self._baseline, self._run, self._rules, self._cost_of = baseline, run, rules, cost_of
        self._highest = highest  # level of each suspect
        # whoever judges the same once more has these very fresh trials in the baseline, too
        stored = (one for one in baseline.trials if one.index < CONFIRMED)
        self._stored = replace(baseline, trials=tuple(stored))
        self._fresh: tuple[list[Trial], list[Trial]] = [], []
        self._repeats = 0  # fresh ones of a case
        self.looks: dict[Name, SecondLook] = {}
        self.impossible: dict[Name, Confirmation] = {}

    def outcomes(self, chosen: Suspects, draw: Draw) -> Mapping[Name, Confirmation]:
        """Ask again, once or twice, and tell what came of each suspect."""
        found = {}
        still = self._after(FIRST, chosen, draw)
        for name in still:
            is_red = self.looks[name].early(len(chosen))
            if is_red is not None:
                found[name] = self._told(name, is_red=is_red)
        rest = {name: cases for name, cases in still.items() if name not in found}
        still = self._after(MORE, rest, draw)
        red = confirmed_at_last(self.looks, family=len(chosen))
        found |= {name: self._told(name, is_red=name in red) for name in still}
        return found | self.impossible

    def _after(self, count: int, chosen: Suspects, draw: Draw) -> Suspects:
        """Ask so many repeats more and look; return whom it was possible to look at."""
        if not chosen:
            return {}
        cases = dict.fromkeys(case for cases in chosen.values() for case in cases)
        try:
            for trials, more in zip(self._fresh, draw([*cases], count), strict=True):
                trials.extend(more)
        except CannotConfirm as exc:
            self.impossible |= dict.fromkeys(chosen, _impossible(exc.why))
            return {}
        self._repeats += count
        for name, asked in chosen.items():
            why = self._lacking(asked)
            look = None if why else self._look(name)
            if look is None:
                self.impossible[name] = _impossible(why or Fact(Why.NOT_COMPARED_AGAIN))
            else:
                self.looks[name] = look
        return {name: asked for name, asked in chosen.items() if name not in self.impossible}

    def _lacking(self, cases: Sequence[str]) -> Fact | None:
        """Tell whether too many fresh trials of some cases have no score."""
        for side, fresh in zip(("baseline", "here"), self._fresh, strict=True):
            trials = [trial for trial in fresh if trial.case in cases]
            expected = self._repeats * len(cases)
            lost = expected - sum(trial.outcome.is_scored for trial in trials)
            if too_many_errored(lost, ran=expected):
                reasons = Counter(call.reason for trial in trials for call in trial.calls)
                reason = next((one for one, _ in reasons.most_common() if one), "")
                return Fact(Why.ERRORED_AGAIN, (lost, expected, side, reason and f": {reason}"))
        return None

    def _look(self, name: Name) -> SecondLook | None:
        """Compare all trials here with the fresh base; None where nothing can be tested."""
        base, here = self._fresh
        fresh_base = _with(self._baseline, base, instead=True)
        tested = self._tested(fresh_base, _with(self._run, here, instead=False), name)
        of_base = self._tested(self._stored, fresh_base, name)
        if tested is None:
            return None
        pairing, _, found = tested
        effect, margin = effect_of(pairing), pairing.rules.margin
        return SecondLook(
            p=found.tails.worse,
            p_base=None if of_base is None else of_base.found.tails.worse,
            is_beyond_margin=pairing.difference + margin < -pairing.zero,
            highest=self._highest[name],
            baseline_mean=effect.baseline_mean,
            mean=effect.mean,
        )

    def _tested(self, baseline: Run, run: Run, name: Name) -> Examined | None:
        sides = (only_functions(side, {name[0]}) for side in (baseline, run))
        before, after = (measured(side, cost_of=self._cost_of) for side in sides)
        both = BothRuns(before, after, self._rules, main=None)
        # which cases a run may lack was decided at the first look
        tested = (one for one in both.collected(in_part={name[0]}) if isinstance(one, Examined))
        return next((one for one in tested if one.name == name), None)

    def _told(self, name: Name, *, is_red: bool) -> Confirmation:
        look = self.looks[name]
        not_red: ConfirmationOutcome = "base_fell" if look.base_fell else "chance"
        return Confirmation(
            outcome="confirmed" if is_red else not_red,
            repeats=self._repeats,
            p=look.p,
            p_base=look.p_base,
            level=look.level,
            baseline_mean=look.baseline_mean,
            mean=look.mean,
        )


def _impossible(why: Fact) -> Confirmation:
    return Confirmation(outcome="impossible", why=why)


def _with(run: Run, fresh: Sequence[Trial], *, instead: bool) -> Run:
    """Return a run with further trials of some cases, or with these in their place."""
    asked = {trial.case for trial in fresh} if instead else ()
    kept = [trial for trial in run.trials if trial.case not in asked]
    at = {case.id: place for place, case in enumerate(run.cases)}
    trials = sorted((*kept, *fresh), key=lambda trial: (at[trial.case], trial.index))
    return replace(run, trials=tuple(trials))


def _margin(one: FunctionComparison, rules: GateRules) -> float:
    return math.log1p(rules.margin) if one.scale == "log" else rules.margin


def _regressed(one: FunctionComparison, rules: GateRules) -> FunctionComparison:
    """Return a comparison as one that fell, with an interval that says so too."""
    fallen = replace(one, verdict=Verdict.REGRESSED, row=Row.REGRESSED, why=None, fails=True)
    return _up_to(fallen, lambda upper: min(upper, 0.0 - _margin(one, rules)))


def _up_to(one: FunctionComparison, end: Callable[[float], float]) -> FunctionComparison:
    """Let the interval, if there is one, end where the verdict says that it does."""
    interval = one.evidence.interval
    if interval is None:
        return one
    return replace(one, evidence=replace(one.evidence, interval=(interval[0], end(interval[1]))))


def _concluded(
    one: FunctionComparison, found: Confirmation, rules: GateRules
) -> FunctionComparison:
    """Give a suspect the verdict of its second look; where there was none the first one stands."""
    if found.outcome == "confirmed":
        one = _regressed(one, rules)
    elif found.outcome != "impossible" and one.verdict is not Verdict.NO_SIGNIFICANT_CHANGE:
        word = Verdict.NOT_CONFIRMED
        one = replace(one, verdict=word, row=Row.OPEN, why=None, fails=turns_red(word, rules))
        one = _up_to(one, lambda upper: max(upper, 0.0))
    return replace(one, confirmation=found)
