"""Random pairs of runs, and rules to judge them by: every row of the decision table is reached.

What happens to a function is drawn once for all of its cases (how often a case is replayed, edited,
gone, ...), so that extremes are as frequent as mixtures.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from pytest_llmeval.errors import Lost
from pytest_llmeval.records import Call, Case, Outcome, Run, Slot, Trial, bare_run
from pytest_llmeval.settings import GateRules

FILE = "test_suite.py"


@dataclass(frozen=True)
class Pair:
    """A baseline, a run, and the rules."""

    baseline: Run
    run: Run
    rules: GateRules
    renamed: tuple[tuple[str, str], ...] = ()


@dataclass
class Habits:
    """What befalls the cases of one function, and how it scores."""

    repeats: tuple[int, int]
    unlike: float
    kinds: tuple[float, ...]
    steps: str
    cluster: int
    gone: float
    new: float
    edited: float
    positional: bool
    errored: tuple[float, float]
    skipped: float
    crashed: float
    lost: float
    soon: bool
    before: np.ndarray
    after: np.ndarray
    scale: str
    gates: tuple[tuple[str, ...], tuple[str, ...]]
    better: tuple[str, str]
    lower: tuple[tuple[str, ...], tuple[str, ...]]


KINDS = ("replayed", "request", "redrawn", "score", "unseen", "half")
GATES = ((), (), (), ("pass",), ("score",), ("pass", "score"), ("tone",), ("tone", "pass"))


def a_pair(seed: int) -> Pair:
    """The pair of a seed."""
    rng = np.random.default_rng(seed)
    functions = [f"test_{name}" for name in "abc"[: rng.choice([1, 1, 2, 3])]]
    sides: tuple[list, list] = ([], [])
    partial = []
    for name in functions:
        one, other = _function(rng, name)
        presence = rng.choice(["both", "before", "after"], p=[0.9, 0.06, 0.04])
        if presence != "after":
            sides[0].extend(one)
        if presence != "before":
            sides[1].extend(other)
            if rng.random() < 0.06:
                partial.append(f"{FILE}::{name}")
    rules = _rules(rng, functions)
    known = {"accept": rules.accept, "accept_gone": rules.accept_gone}
    known = {key: lines for key, lines in known.items() if rng.random() < 0.25}
    baseline, run = (_run(cases) for cases in sides)
    run = replace(run, partial=tuple(partial), selection=("-k x",) if partial else ())
    return Pair(replace(baseline, rules=known), run, rules)


def a_main(seed: int) -> Run:
    """A baseline proper between the two runs of a pair, where the older one is an anchor."""
    pair, rng = a_pair(seed), np.random.default_rng([seed, 1])
    sides = (pair.baseline, pair.run)
    trials = [{case.id: [] for case in run.cases} for run in sides]
    for run, of in zip(sides, trials, strict=True):
        for trial in run.trials:
            of[trial.case].append(trial)
    found, marks = [], {}
    lost = {case.function for run in sides for case in run.cases if rng.random() < 0.03}
    for id_ in dict.fromkeys(case.id for run in sides for case in run.cases):
        at = [at for at in (0, 1) if id_ in trials[at]]
        at = at[rng.integers(len(at))]
        case = next(case for case in sides[at].cases if case.id == id_)
        case = replace(case, gate=marks.setdefault(case.function, case).gate)
        if case.function not in lost and rng.random() < 0.95:
            found.append((case, trials[at][id_]))
    return replace(_run(found), rules=pair.baseline.rules if rng.random() < 0.5 else {})


# what is renamed here: each fits ids such as test_suite.py::test_a[c1]
RENAMES = (
    (FILE, "evals/suite.py"),
    (f"{FILE}::test_a", f"{FILE}::test_x"),
    (f"{FILE}::test_a", f"{FILE}::test_b"),
    (f"{FILE}::test_b", f"{FILE}::test_a"),
    (f"{FILE}::test_a[c", f"{FILE}::test_a[case-"),
    (f"{FILE}::test_a[c1", f"{FILE}::test_a[c1-"),
    (f"{FILE}::test_a[c0]", f"{FILE}::test_a[first]"),
    (f"{FILE}::test_a[c0]", f"{FILE}::test_a[c1]"),
    (f"{FILE}::test_a[c1]", f"{FILE}::test_b[c1]"),
    (f"{FILE}::test_*", f"{FILE}::check_*"),
    (f"{FILE}::test_b[c*]", f"{FILE}::test_b[*]"),
    ("test_*.py", "check_*.py"),
)


def a_renamed_pair(seed: int) -> Pair:
    """A pair of which the later run has other names, and lines that say so, or say too much."""
    pair, rng = a_pair(seed), np.random.default_rng([seed, 2])
    chosen = [RENAMES[at] for at in rng.permutation(len(RENAMES))[: rng.integers(1, 4)]]
    run = pair.run
    for old, new in chosen:
        if rng.random() < 0.7:
            run = _with_names(run, old, new)
    lines = tuple(line for line in chosen if rng.random() < 0.9)
    baseline = pair.baseline
    if rng.random() < 0.2:  # main has a line already
        baseline = _with_names(baseline, *chosen[0])
    return Pair(baseline, run, pair.rules, lines)


def _with_names(run: Run, old: str, new: str) -> Run:
    """Replace texts in the ids of a run's cases, where no two become one."""
    (head, _, tail), (new_head, _, new_tail) = old.partition("*"), new.partition("*")
    ids = {}
    for case in run.cases:
        name = case.id
        if name.startswith(head) and tail in name[len(head) :]:
            name = new_head + name.removeprefix(head).replace(tail, new_tail, 1)
        ids[case.id] = name
    if len({*ids.values()}) < len(ids):
        return run
    functions = {old.partition("[")[0]: new.partition("[")[0] for old, new in ids.items()}
    return replace(
        run,
        cases=tuple(
            replace(case, id=ids[case.id], function=ids[case.id].partition("[")[0])
            for case in run.cases
        ),
        trials=tuple(replace(trial, case=ids[trial.case]) for trial in run.trials),
        partial=tuple(functions.get(name, name) for name in run.partial),
    )


def _rules(rng, functions) -> GateRules:
    lines = []
    for name in functions:
        for metric in ("pass", "score", "tone"):
            if rng.random() < 0.5:
                low = metric != "pass" and rng.random() < 0.4
                bound = rng.integers(-100, 101) / 100
                lines.append(f"{name}:{metric} {'<=' if low else '>='} {bound}")
    gone = [name for name in functions if rng.random() < 0.3]
    gone += [f"{name}:{rng.choice(['pass', 'score'])}" for name in functions if rng.random() < 0.3]
    return GateRules(
        alpha=float(rng.choice([0.05, 0.05, 0.1, 0.01])),
        margin=float(rng.choice([0, 0, 0.02])),
        target=float(rng.choice([0.1, 0.1, 0.05, 0.2])),
        max_gone=float(rng.choice([0.1, 0.1, 0.3, 0])),
        strict=bool(rng.random() < 0.3),
        multiplicity=rng.choice(["holm", "holm", "bh"]),
        edited=rng.choice(["leave_out", "leave_out", "leave_out", "compare"]),
        accept=tuple(lines),
        accept_gone=tuple(gone),
    )


def _habits(rng) -> tuple[int, Habits]:
    cases = int(rng.choice([1, 2, 3, 5, 7, 10, 16, 30]))
    few, many = int(rng.choice([1, 2, 3, 5])), int(rng.choice([1, 2, 3, 4, 5]))
    repeats = (few, few) if rng.random() < 0.6 else (few, many)
    mostly = rng.choice(
        ["request", "redrawn", "replayed", "mixed", "only", "score", "half"],
        p=[0.3, 0.15, 0.15, 0.2, 0.06, 0.06, 0.08],
    )
    kinds = {
        "mixed": (0.4, 0.2, 0.2, 0.06, 0.02, 0.12),
        "only": (1, 0, 0, 0, 0, 0),
    }.get(mostly) or tuple(0.94 * (kind == mostly) + 0.01 for kind in KINDS)
    rate = rng.choice(["alike", "spread", "fixed", "top", "bottom"])
    before = {
        "alike": np.full(cases, rng.choice([0.5, 0.8, 0.97])),
        "spread": rng.choice([0.15, 0.5, 0.9], cases),
        "fixed": (rng.random(cases) < 0.6).astype(float),
        "top": np.ones(cases),
        "bottom": np.zeros(cases),
    }[rate]
    change = rng.choice(
        ["none", "some", "fall", "rise", "all fall", "all rise", "unlike"],
        p=[0.3, 0.15, 0.2, 0.15, 0.08, 0.07, 0.05],
    )
    after = {
        "none": before,
        "some": before * rng.choice([1.0, 0.6], cases),
        "fall": before * 0.5,
        "rise": 1 - (1 - before) * 0.4,
        "all fall": before * 0,
        "all rise": before * 0 + 1,
        "unlike": np.clip(before + rng.choice([-0.3, 0.3], cases), 0, 1),
    }[change]

    def often(low, high, share):
        return float(rng.choice([0, low, high], p=[1 - share, share * 0.7, share * 0.3]))

    gates = GATES[rng.integers(len(GATES))]
    theirs = gates if rng.random() < 0.8 else GATES[rng.integers(len(GATES))]
    better = str(rng.choice(["higher", "higher", "lower"]))
    scale = str(rng.choice(["none", "none", "quarters", "hits", "negative", "one"]))
    if {"score", "tone"} & {*gates, *theirs} and rng.random() < 0.95:
        scale = str(rng.choice(["quarters", "quarters", "hits", "hits", "negative", "one"]))
    return cases, Habits(
        repeats=repeats,
        unlike=often(0.1, 0.5, 0.15),
        kinds=kinds,
        steps=str(rng.choice(["one", "shared", "fixture", "groups"], p=[0.75, 0.08, 0.03, 0.14])),
        cluster=int(rng.choice([0, 0, 0, 0, 1, 2, 3, 5, 30])),
        gone=often(0.03, 0.3, 0.2),
        new=often(0.1, 0.5, 0.2),
        edited=often(0.08, 0.7, 0.3),
        positional=bool(rng.random() < 0.25),
        errored=(often(0.02, 0.2, 0.2), often(0.02, 0.2, 0.2)),
        skipped=often(0.02, 0.3, 0.15),
        crashed=often(0.05, 0.5, 0.15),
        lost=often(0.03, 0.3, 0.1),
        soon=bool(rng.random() < 0.2),
        before=before,
        after=after,
        scale=scale,
        gates=(gates, theirs),
        better=(better, better if rng.random() < 0.9 else "lower"),
        lower=(("tone",) * (rng.random() < 0.2), ("tone",) * (rng.random() < 0.2)),
    )


def _function(rng, name: str):
    count, habits = _habits(rng)
    sides: tuple[list, list] = ([], [])
    shift = habits.positional and rng.random() < 0.3
    for at in range(count):
        kind = KINDS[rng.choice(len(KINDS), p=np.array(habits.kinds) / sum(habits.kinds))]
        repeats = [
            max(1, n + int(rng.integers(-1, 2)) * (rng.random() < habits.unlike))
            for n in habits.repeats
        ]
        scores: dict[int, tuple] = {}
        one, other = (
            _case(
                rng,
                name,
                at,
                side=side,
                kind=kind,
                habits=habits,
                repeats=repeats[side],
                scores=scores,
            )
            for side in (0, 1)
        )
        if rng.random() < habits.edited:
            other = _edited(rng, other, at, habits, shift=shift)
        if rng.random() >= habits.new:
            sides[0].append(one)
        if rng.random() >= habits.gone:
            sides[1].append(other)
    return sides


def _edited(rng, case_and_trials, at: int, habits: Habits, *, shift: bool):
    case, trials = case_and_trials
    digest = _digest(f"row {at + 1}" if shift else f"row {at} edited")
    case = replace(case, parameters=digest)
    if not habits.positional and rng.random() < 0.3:
        case = replace(case, id=case.id[:-1] + "-edited]")
        trials = tuple(replace(trial, case=case.id) for trial in trials)
    return case, trials


def _case(rng, name: str, at: int, *, side: int, kind: str, habits: Habits, repeats: int, scores):
    function = f"{FILE}::{name}"
    id_ = f"{function}[c{at}]"
    cluster = f"group {at // habits.cluster}" if habits.cluster else None
    case = Case(
        id=id_,
        function=function,
        repeats=repeats,
        parameters=_digest(f"row {at}"),
        positional=habits.positional,
        gate=habits.gates[side],
        better=habits.better[side],
        lower=habits.lower[side],
        cluster=cluster,
    )
    skips, errs = rng.random() < habits.skipped, rng.random() < habits.errored[side]
    trials = []
    for index in range(repeats):
        if side == 0 or kind not in ("replayed", "half") or index not in scores:
            rate = (habits.before if side == 0 else habits.after)[at]
            drawn = _outcome(rng, rate, habits), _score(rng, rate, habits)
            if side == 0:
                scores[index] = drawn
        else:
            drawn = scores[index]
            if kind == "half" and index % 2:
                drawn = (
                    _outcome(rng, habits.after[at], habits),
                    _score(rng, habits.after[at], habits),
                )
        outcome, score = drawn
        whole = rng.random() < 0.3
        if errs and (whole or rng.random() < 0.4):
            outcome = Outcome.ERRORED
        if side == 1 and skips and (whole or rng.random() < 0.4):
            outcome = Outcome.SKIPPED
        trials.append(
            Trial(
                case=id_,
                index=index,
                outcome=outcome,
                scores=_recorded(rng, outcome, score, habits),
                calls=_calls(
                    name,
                    at,
                    index,
                    side=side,
                    kind=kind,
                    habits=habits,
                    outcome=outcome,
                    rate=score,
                ),
            )
        )
    return case, tuple(trials)


def _outcome(rng, rate: float, habits: Habits) -> Outcome:
    if rng.random() < habits.crashed:
        return Outcome.CRASHED
    return Outcome.PASSED if rng.random() < rate else Outcome.MISSED


def _score(rng, rate: float, habits: Habits) -> float:
    steps = {"quarters": 4, "hits": 1, "negative": 4, "one": 1, "none": 1}[habits.scale]
    score = float(rng.binomial(steps, rate)) / steps
    return {"negative": score - 1, "one": 0.5}.get(habits.scale, score)


def _recorded(rng, outcome: Outcome, score: float, habits: Habits) -> dict[str, float]:
    if not outcome.is_scored:
        return {}
    scores = {"pass": 1.0 if outcome is Outcome.PASSED else 0.0}
    if habits.scale != "none" and outcome is not Outcome.CRASHED and rng.random() >= habits.lost:
        scores["tone" if any("tone" in gate for gate in habits.gates) else "score"] = score
    return scores


def _calls(name, at, index, *, side, kind, habits: Habits, outcome, rate) -> tuple[Call, ...]:
    if (kind == "unseen" and side == 1) or (outcome is Outcome.CRASHED and habits.soon):
        return ()
    own = {"request": f"v{side}", "half": f"v{side * (index % 2)}"}.get(kind, "v0")
    world = {"redrawn": side, "request": side, "half": side * (index % 2)}.get(kind, 0)
    calls = [_call(f"{name} c{at} {own}", world, index)]
    if habits.steps == "groups" and kind in ("request", "redrawn"):
        calls.insert(0, _call(f"{name} group {at // 3}", side, index))
    if habits.steps == "shared":
        calls.insert(0, _call(f"{name} first", 0, index))
    if habits.steps == "fixture" and kind in ("request", "redrawn"):
        calls.insert(0, _call(f"{name} fixture {at // 4}", side, None))
    if outcome is Outcome.ERRORED:
        calls[-1] = replace(calls[-1], draw=None, reply_sha256=None, lost=Lost.STATUS)
    return tuple(calls)


def _call(request: str, world: int, index: int | None) -> Call:
    slot = Slot(index, 0)
    draw = _digest(f"{request} {world} {slot}")[:32]
    return Call(key=_digest(request), slot=slot, draw=draw, reply_sha256=_digest(draw))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _run(cases) -> Run:
    run = bare_run("20261121T084100-1a2b3c", created="2026-11-21T08:41:00+00:00", commit="c" * 40)
    return replace(
        run,
        cases=tuple(case for case, _ in cases),
        trials=tuple(trial for _, trials in cases for trial in trials),
    )
