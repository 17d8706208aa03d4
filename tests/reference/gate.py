"""The gate once more: written from ``docs/`` alone, small and slow, to compare the other one with.

The rules are those of docs/design.md, sections 6 and 7; the intervals those of docs/statistics.md.
Nothing is imported from the package but its records and settings. It knows no wording,
measured metric, chosen test or typed selection.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from pytest_llmeval.records import (
    Case,
    Outcome,
    Run,
    Trial,
    crashed_too_soon,
    too_many_errored,
)
from pytest_llmeval.settings import GateRules
from tests.reference.chance import (
    FEW_UNITS,
    MOST_DEALS,
    TINY,
    Compared,
    consent,
    jackknife,
    least_of_deals,
    lower_end,
    mean,
    most_lost,
    sign_flip,
    smallest_drop,
    t_test,
    tail,
    units_of,
    whole_repeats,
    within_cases,
)


@dataclass
class Judged:
    """One function and metric: the verdict, its row, and how likely chance alone is."""

    verdict: str
    row: int
    p: float | None = None
    p_improved: float | None = None
    method: str = "none"
    ruled_out: bool = False
    below: bool = False  # the suite fell by more than the margin
    few: bool = False
    mean: float | None = None
    better: int = 1
    least: float = 1.0  # the smallest p it could have had, if the target would have shown
    fails: bool = False


@dataclass
class Side:
    """The cases and trials of one function in one run."""

    cases: dict[str, Case]
    trials: dict[str, dict[int, Trial]]

    def all(self, ids=None):
        ids = self.cases if ids is None else ids
        return [one for id_ in ids for one in self.trials[id_].values()]

    def scored(self, id_):
        return {i: one for i, one in self.trials[id_].items() if one.outcome.is_scored}


def judge(
    baseline: Run, run: Run, rules: GateRules, main: Run | None = None
) -> tuple[dict[tuple[str, str], Judged], bool]:
    """Judge each function and gated metric; tell whether the session fails.

    Against an anchor, ``main`` is the baseline proper.
    """
    found: dict[tuple[str, str], Judged] = {}
    in_part = False
    for function in dict.fromkeys(case.function for case in (*run.cases, *baseline.cases)):
        before, after = side(baseline, function), side(run, function)
        of_main = None if main is None else side(main, function)
        partial = function in run.partial
        if partial and not after.cases:
            in_part = True
            continue
        here = after.cases.keys() | edits(before, after, rules).replayed.keys()
        in_part |= partial and not before.cases.keys() <= here
        for metric, better, gates in gated(function, before, after, baseline, rules, of_main):
            changes = edits(before, after, rules, of_main)
            one = row_1_to_7(before, after, metric, better, gates, rules, changes, partial=partial)
            if not after.cases:
                gone = given_up(function, rules.accept_gone, baseline)
                gone |= of_main is not None and not of_main.cases
                one = Judged("gone", 2) if gone else Judged("not_comparable", 2)
            one.better = better
            found[function, metric] = one
    tested = [one for one in found.values() if one.row == 0]
    fell = adjusted([one.p for one in tested], rules.multiplicity)
    rose = adjusted([one.p_improved for one in tested], rules.multiplicity)
    for one, low, high in zip(tested, fell, rose, strict=True):
        row_8_to_11(one, low, high, len(tested), rules)
    fails = not any(6 <= one.row <= 11 for one in found.values())
    fails &= not found or any(one.row != 1 for one in found.values())
    for (function, metric), one in found.items():
        accepted = one.verdict == "regressed" and is_accepted(
            function,
            metric,
            one.better,
            one.mean,
            rules,
            baseline,
            [name for name, of in found if of == metric],
        )
        one.fails = one.verdict == "not_comparable" or (one.verdict == "regressed" and not accepted)
        one.fails |= rules.strict and one.verdict == "inconclusive"
        fails |= one.fails
    return found, fails or (rules.strict and in_part)


# --- which metrics, which cases


def side(run: Run, function: str) -> Side:
    cases = {case.id: case for case in run.cases if case.function == function}
    trials = {id_: {} for id_ in cases}
    for trial in run.trials:
        if trial.case in cases:
            trials[trial.case][trial.index] = trial
    return Side(cases, trials)


def recorded(one: Side) -> set[str]:
    return {metric for trial in one.all() for metric in trial.scores}


def gates_of(one: Side) -> list[str]:
    if not one.cases:
        return []
    default = ["score"] if "score" in recorded(one) else ["pass"]
    named = [metric for case in one.cases.values() for metric in case.gate or default]
    return list(dict.fromkeys(named))


def direction(one: Side, metric: str) -> int:
    better = one.cases[min(one.cases)].direction(metric)
    return 1 if better == "higher" else -1


def gated(function, before, after, baseline, rules, of_main):
    """Each gated metric, its direction, and whether it is compared.

    What this run alone gates is compared in the place of a metric that is given up.
    """
    theirs, ours = gates_of(before), gates_of(after)

    def is_dropped(metric):
        if metric in ours or not after.cases:
            return False
        dropped = given_up(f"{function}:{metric}", rules.accept_gone, baseline)
        return dropped or (of_main is not None and metric not in gates_of(of_main))

    room = sum(is_dropped(metric) for metric in theirs)
    for metric in dict.fromkeys((*ours, *theirs)):
        if is_dropped(metric):
            continue
        known = metric in theirs
        if not known and metric in recorded(before):
            since = of_main is not None and metric in gates_of(of_main)
            known = since or room > 0
            room -= known and not since
        yield metric, direction(before if metric in theirs else after, metric), known


def given_up(name: str, lines, baseline: Run) -> bool:
    """Whether a line without wildcards names it, which the baseline's ini file had not."""
    known = baseline.rules.get("accept_gone", ())
    return any(line not in known and named(name, line) for line in lines)


def named(name: str, line: str) -> bool:
    return name == line or name.endswith("::" + line)


def is_accepted(function, metric, better, here, rules, baseline, functions) -> bool:
    for line in rules.accept:
        if line in baseline.rules.get("accept", ()):
            continue
        what, sign, bound = line.split()
        name, _, of = what.rpartition(":")
        fits = {one for one in functions if named(one, name)}
        is_named = of == metric and fits == {function} and sign == (">=" if better > 0 else "<=")
        if is_named and better * here >= better * float(bound) - TINY:
            return True
    return False


def calls_of(trial: Trial):
    return sorted((call.key, str(call.slot), call.draw or "") for call in trial.calls)


def same_draws(one: Trial, other: Trial) -> bool:
    drawn = all(call.draw is not None for call in (*one.calls, *other.calls))
    return bool(one.calls) and drawn and calls_of(one) == calls_of(other)


def is_replay(before: Side, was: str, after: Side, now: str) -> bool:
    """Whether in every trial scored on both sides, one at least, all draws are equal."""
    one, other = before.scored(was), after.scored(now)
    both = one.keys() & other.keys()
    return bool(both) and all(same_draws(one[at], other[at]) for at in both)


@dataclass
class Edits:
    """What becomes of the edited cases: replayed ones by their ids, lost ones by that in main."""

    replayed: dict[str, str]
    lost: set[str]
    settled: set[str] = field(default_factory=set)  # edited alike in the baseline proper


def edits(before: Side, after: Side, rules: GateRules, of_main: Side | None = None) -> Edits:
    both = [id_ for id_ in before.cases if id_ in after.cases]
    digest_was = {id_: before.cases[id_].parameters for id_ in before.cases}
    digest_now = {id_: after.cases[id_].parameters for id_ in after.cases}
    edited = [
        id_
        for id_ in both
        if None not in (digest_was[id_], digest_now[id_]) and digest_was[id_] != digest_now[id_]
    ]
    replayed = {id_: id_ for id_ in edited if is_replay(before, id_, after, id_)}
    if rules.edited == "compare":
        replayed = {}
    else:
        for was in (id_ for id_ in before.cases if id_ not in after.cases):
            for now in (id_ for id_ in after.cases if id_ not in before.cases):
                other = None not in (digest_was[was], digest_now[now])
                other = other and digest_was[was] != digest_now[now]
                if other and now not in replayed.values() and is_replay(before, was, after, now):
                    replayed[was] = now
                    break
    most = len(edited) * 2 > len(both)
    lost, settled = set(), set()
    for id_ in (id_ for id_ in edited if id_ not in replayed):
        positional = before.cases[id_].positional or after.cases[id_].positional
        moved = positional and (
            any(digest_was[id_] == digest for at, digest in digest_now.items() if at != id_)
            or any(digest_now[id_] == digest for at, digest in digest_was.items() if at != id_)
        )
        compares = most or rules.edited == "compare"
        in_main = None if of_main is None else of_main.cases.get(id_)
        if not (moved or compares) and in_main and in_main.parameters == digest_now[id_]:
            settled.add(id_)
        elif moved or not compares or positional:
            lost.add(id_)
    return Edits(replayed, lost, settled)


# --- rows 1 to 7


def values_of(one: Side, id_: str, metric: str, *, zero: bool) -> dict[int, float | None]:
    """The value of each scored trial; None where it has none."""
    found = {}
    scored = [trial for trial in one.all() if trial.outcome.is_scored]
    knows = any(metric in trial.scores for trial in scored)
    knows |= not any(trial.outcome is Outcome.PASSED for trial in scored)
    for at, trial in one.scored(id_).items():
        value = trial.scores.get(metric)
        if metric == "pass":
            value = 1.0 if trial.outcome is Outcome.PASSED else 0.0
        elif trial.outcome is Outcome.CRASHED or (
            trial.outcome is Outcome.MISSED and value is None
        ):
            value = 0.0 if zero and (knows or trial.outcome is Outcome.CRASHED) else None
        found[at] = value
    return found


def too_many(count: int, of: int, share: float) -> bool:
    return count > share * of + TINY


def row_1_to_7(before, after, metric, better, known, rules, changes, *, partial) -> Judged:
    trials = [*after.all(), *(before.all() if known else ())]
    scored = any(trial.outcome.is_scored for trial in trials)
    if scored and metric != "pass" and not any(metric in trial.scores for trial in trials):
        return Judged("not_comparable", 3)
    if not known:
        return Judged("new", 1)
    scores = [
        trial.scores.get(metric, 0.0)
        for one in (before, after)
        for trial in one.all()
        if trial.outcome is not Outcome.CRASHED
    ]
    zero = better == 1 and min(scores, default=0.0) >= 0
    was = {id_: values_of(before, id_, metric, zero=zero) for id_ in before.cases}
    now = {id_: values_of(after, id_, metric, zero=zero) for id_ in after.cases}
    out = {*changes.replayed, *changes.lost, *changes.settled}
    both = [id_ for id_ in before.cases if id_ in after.cases and id_ not in out]
    common = [id_ for id_ in both if has_value(was[id_]) and has_value(now[id_])]
    in_step = sharing(before, after, common)
    pairs = [compared(before, after, id_, was[id_], now[id_], id_ in in_step) for id_ in common]
    changed = [one for one in pairs if one.changed]
    scored = [id_ for id_ in before.cases if has_value(was[id_])]
    skipped = [
        id_
        for id_ in scored
        if id_ in both and all(t.outcome is Outcome.SKIPPED for t in after.trials[id_].values())
    ]
    bare = [id_ for id_ in scored if id_ in both and id_ not in (*common, *skipped)]
    touched = [*(one.id for one in changed), *bare]
    if not common and not (changes.replayed and not touched):
        return Judged("not_comparable", 3)
    if row_4(before, after, common, touched, was, now, partial=partial):
        return Judged("not_comparable", 4)
    gone = [id_ for id_ in scored if id_ not in after.cases and id_ not in changes.replayed]
    lost = {*changes.lost} & {*scored} if partial else {*gone, *skipped, *changes.lost} & {*scored}
    if too_many(len(lost), len(scored), rules.max_gone) or too_many(len(bare), len(touched), 0.1):
        return Judged("not_comparable", 5)
    if not touched:
        return Judged("unchanged", 6)
    every, theirs = (
        [value for of in some for id_ in of for value in values(of[id_])]
        for some in ((was, now), (was,))
    )
    return tested(pairs, {*every} <= {0.0, 1.0}, theirs, better, rules)


def has_value(of: dict) -> bool:
    return any(value is not None for value in of.values())


def values(of: dict) -> list[float]:
    return [value for value in of.values() if value is not None]


def row_4(before, after, common, touched, was, now, *, partial) -> bool:
    theirs = [id_ for id_ in before.cases if not partial or id_ in after.cases]
    for one, ids, of in ((before, theirs, was), (after, after.cases, now)):
        for trials in (one.all(ids), one.all(touched)):
            ran = [t for t in trials if t.outcome is not Outcome.SKIPPED]
            if too_many_errored(sum(t.outcome is Outcome.ERRORED for t in ran), ran=len(ran)):
                return True
        all_values = [value for id_ in ids for value in of[id_].values()]
        if too_many(all_values.count(None), len(all_values), 0.05):
            return True
    ends = [
        (before.trials[id_][at].outcome, after.trials[id_][at].outcome)
        for id_ in common
        for at in before.trials[id_].keys() & after.trials[id_].keys()
    ]
    beyond = sum(b is Outcome.SKIPPED for _, b in ends) - sum(a is Outcome.SKIPPED for a, _ in ends)
    if beyond > max(1, 0.05 * len(ends) + TINY):
        return True
    asked = [id_ for id_ in common if any(t.calls for t in before.trials[id_].values())]
    silent = [id_ for id_ in asked if is_answered_unasked(after.all([id_]))]
    if silent and len(silent) * 2 >= len(asked):
        return True
    return bool(crashed_too_soon(before.all()))


def is_answered_unasked(trials) -> bool:
    if any(t.calls or t.outcome is Outcome.ERRORED for t in trials):
        return False
    return not all(t.outcome is Outcome.CRASHED for t in trials if t.outcome.is_scored)


def draws_of(trials) -> dict[str, set]:
    """The draws of some trials, each with the indices of the trials that have it."""
    found = defaultdict(set)
    for trial in trials:
        for call in trial.calls:
            if call.draw is not None:
                found[call.draw].add(trial.index)
    return found


def sharing(before, after, common) -> set[str]:
    """The cases with a draw that another one has too, and that both runs have."""
    sides = [{id_: draws_of(one.scored(id_).values()) for id_ in common} for one in (before, after)]
    both = {draw for of in sides[0].values() for draw in of}
    both &= {draw for of in sides[1].values() for draw in of}
    owners = Counter(d for id_ in common for d in {*sides[0][id_], *sides[1][id_]} & both)
    return {
        id_ for id_ in common if any(owners[draw] > 1 for draw in {*sides[0][id_], *sides[1][id_]})
    }


def compared(before, after, id_, was, now, in_step) -> Compared:
    """A common case with what enters its difference. Here a trial is scored if it has a value."""
    one = {at: t for at, t in before.scored(id_).items() if was[at] is not None}
    other = {at: t for at, t in after.scored(id_).items() if now[at] is not None}
    both = sorted(one.keys() & other.keys())
    asked = any(one[at].calls and other[at].calls for at in both)
    replays = asked and all(
        same_draws(one[at], other[at]) or crashed_alike(one[at], other[at]) for at in both
    )
    changed = not replays or any(was[at] != now[at] for at in both)
    theirs = [was[at] for at in one]
    if both and (in_step or replays):
        one, other = ({at: of[at] for at in both} for of in (one, other))
    draws = draws_of(one.values()), draws_of(other.values())
    sided = {
        d: draws[0].get(d, set()) | draws[1].get(d, set())
        for d in draws[0].keys() ^ draws[1].keys()
    }
    return Compared(
        id_,
        {at: was[at] for at in one},
        {at: now[at] for at in other},
        before.cases[id_].cluster,
        sided,
        changed,
        mean(now[at] for at in other) if changed else mean(theirs),
    )


def crashed_alike(one: Trial, other: Trial) -> bool:
    ends = (one.outcome, one.message), (other.outcome, other.message)
    return (
        not one.calls and not other.calls and ends[0] == ends[1] and one.outcome is Outcome.CRASHED
    )


# --- rows 7 to 11


def tested(pairs: list[Compared], hits: bool, theirs: list[float], better: int, rules) -> Judged:
    m = len(pairs)
    result = Judged("", 0, mean=mean(one.here for one in pairs))
    cases = [one for one in pairs if one.changed]
    k = len(cases)
    # from here on higher is better, and a hit is 1
    for case in cases:
        for of in (case.before, case.after):
            of.update({at: better * x + (hits and better < 0) for at, x in of.items()})
    rate = (sum(x + (better < 0) * (1 - 2 * x) for x in theirs) + 0.5) / (len(theirs) + 1)
    units, tied = units_of(cases), units_of(cases, labels=False)
    d = [case.d for case in cases]
    effective = k**2 / sum(len(unit) ** 2 for unit in units)
    result.few = effective < FEW_UNITS - TINY
    result.below = math.fsum(d) / m < -rules.margin - TINY
    whole = whole_repeats(cases)
    enough = whole is not None and least_of_deals(whole) < rules.alpha
    matters = not hits or k / m >= rules.target
    if len(units) == 1 and k > 1 and not enough:
        verdict = ("inconclusive", 7) if matters else ("no_significant_change", 10)
        return Judged(*verdict)
    least = 0.0  # the smallest p that this test could have given; 1 for signs of few units
    if not result.few:
        shift = rules.margin * m / k
        result.p, result.p_improved = t_test(d, units, shift), t_test([-x for x in d], units, 0)
        result.method = "paired-t" if jackknife(d, units)[1] > 1e-12 else "same-shift"
    elif len(units) == k:
        result.method = "exact-within-case"
        result.p, result.p_improved = (within_cases(cases, sign) for sign in (1, -1))
        broken = [replace(case, after=dict.fromkeys(case.after, 0.0)) for case in cases]
        deals = math.prod(math.comb(len(c.values), len(c.after)) for c in cases)
        least = within_cases(broken, 1) if hits else 1 / deals if deals <= MOST_DEALS else 1e-4
    elif enough:
        result.method, least = "whole-repeats", least_of_deals(whole)
        result.p, result.p_improved = (tail(*whole, sign) for sign in (1, -1))
    else:
        result.method, least = "sign-flip", 1.0
        result.p, result.p_improved = (sign_flip(d, units, sign) for sign in (1, -1))
    moved = sum(abs(x) > TINY for x in d)
    unlike = any(len(case.before) != len(case.after) for case in cases)
    is_exact = result.method in ("exact-within-case", "whole-repeats")
    if not is_exact and (unlike or (not result.few and moved < FEW_UNITS)):
        consent(result, cases, tied)
    if result.few:
        whole = whole if result.method == "whole-repeats" else None
        drop = smallest_drop(cases, m, hits, rate, whole, rules)
        shows = drop is not None and rules.margin + drop <= rules.target
        shows = shows and math.fsum(d) / m > -rules.target + TINY and result.p >= rules.alpha
        result.least = least if shows else 1.0
        result.ruled_out = not matters
        if hits:
            result.ruled_out |= k / m * most_lost(cases, units, rules.alpha) < rules.target
    else:
        lower = lower_end(cases, units, hits, rules.alpha)
        result.ruled_out = not matters if lower is None else k / m * lower > -rules.target
    return result


def adjusted(ps: list[float | None], how: str) -> list[float]:
    known = sorted((p, at) for at, p in enumerate(ps) if p is not None)
    found = [math.inf] * len(ps)
    if how == "holm":
        worst = 0.0
        for rank, (p, at) in enumerate(known):
            worst = max(worst, min(1.0, p * (len(known) - rank)))
            found[at] = worst
    else:
        best = 1.0
        for rank, (p, at) in reversed(list(enumerate(known, start=1))):
            best = min(best, p * len(known) / rank)
            found[at] = best
    return found


def row_8_to_11(one: Judged, fell: float, rose: float, family: int, rules: GateRules) -> None:
    if fell < rules.alpha and (one.below or not one.few):
        one.verdict, one.row = "regressed", 8
    elif rose < rules.alpha:
        one.verdict, one.row = "improved", 9
    elif one.ruled_out or family * one.least < rules.alpha:
        one.verdict, one.row = "no_significant_change", 10
    else:
        one.verdict, one.row = "inconclusive", 11
