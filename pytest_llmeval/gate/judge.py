"""Hold a run against a baseline: every function on every gated metric, one verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from pytest_llmeval.gate.calls import CallsOfBoth
from pytest_llmeval.gate.comparison import (
    Comparison,
    FunctionComparison,
    NotJudged,
    UngatedComparison,
    Verdict,
)
from pytest_llmeval.gate.conclusion import (
    conclude_gone,
    conclude_new,
    conclude_tested,
    conclude_untested,
)
from pytest_llmeval.gate.examination import Examination, examine
from pytest_llmeval.gate.family import stand_together, unknown_names
from pytest_llmeval.gate.figures import Significance
from pytest_llmeval.gate.gone import Absent, absent_here, form, left_out, why_gone
from pytest_llmeval.gate.measuring import CostOf, measured
from pytest_llmeval.gate.scoring import gated_metrics, records, ungated_metrics
from pytest_llmeval.gate.sides import Side, Subject, bare, sides_of
from pytest_llmeval.gate.ungated import describe_ungated
from pytest_llmeval.records import MEASURED_METRICS, Run, filters_of
from pytest_llmeval.settings import GateRules

# the rows of the decision table in which something was compared
COMPARED = range(6, 12)

Sides = Mapping[str, Side]
Entry = FunctionComparison | Examination


def judge(
    baseline: Run,
    run: Run,
    rules: GateRules,
    *,
    cost_of: CostOf | None = None,
    typed: Sequence[str] | None = None,
    lost: Collection[str] = (),
    main: Run | None = None,
) -> Comparison:
    """Compare a run with its baseline; see ``pytest_llmeval.gate.compare``."""
    there = sides_of(measured(baseline, cost_of=cost_of))
    here = sides_of(measured(run, cost_of=cost_of))
    calls = {
        function: CallsOfBoth(there[function].trials, here[function].trials)
        for function in here
        if function in there
    }
    not_judged = left_out(there, here, baseline=baseline, run=run, typed=typed, lost=lost)
    absent = absent_here(
        there, here, not_judged, entries=rules.accept_gone, baseline=baseline, main=main
    )
    partial = _in_part(baseline, run, typed=typed)
    entries = [
        *_collected_here(there, here, calls, partial=partial, absent=absent, rules=rules),
        *_gone(there, here, absent),
    ]
    functions = tuple(_concluded(entries, rules))
    gated = {(one.function, one.metric) for one in functions}
    why = _why_nothing_was_compared(functions)
    if not why and rules.strict:
        why = _why_not_strict(not_judged, functions)
    verdicts = {one.verdict for one in functions}
    return Comparison(
        verdict=next((v for v in Verdict if v in verdicts), Verdict.NOT_COMPARABLE),
        fails=bool(why) or any(one.fails for one in functions),
        why=why,
        functions=functions,
        ungated=tuple(_ungated(there, here, calls, gated=gated, rules=rules)),
        not_judged=not_judged,
        notes=(*_notes(there, here, absent), *_odd_names(functions, rules)),
    )


def _in_part(baseline: Run, run: Run, *, typed: Sequence[str] | None) -> Collection[str]:
    """Tell of which functions this run has less because the user asked for less."""
    further = filters_of(run.selection) - filters_of(baseline.selection)
    meant = further if typed is None else further & filters_of(typed)
    return () if run.complete and not meant else run.partial


def _collected_here(
    all_there: Sides,
    all_here: Sides,
    calls: Mapping[str, CallsOfBoth],
    *,
    partial: Collection[str],
    absent: Absent,
    rules: GateRules,
) -> Iterator[Entry]:
    for function, here in all_here.items():
        in_full = function not in partial
        if not here.every_trial():
            continue  # the session was stopped before it came to this one
        there = all_there.get(function)
        own, gated_there = gated_metrics(here), () if there is None else gated_metrics(there)
        for metric in dict.fromkeys((*own, *gated_there)):
            if (function, metric) in absent.given_up:
                continue
            if there is None or not (metric in gated_there or records(there, metric)):
                in_part = not (in_full and here.ran_in_full)
                yield conclude_new(function, metric, here=here, partial=in_part, rules=rules)
                continue
            subject = Subject(
                function=function,
                metric=metric,
                there=there,
                here=here,
                collected_in_full=in_full,
                calls=calls[function],
                better=(there if metric in gated_there else here).better(metric),
                test="log-ratio" if metric in MEASURED_METRICS else rules.test,
            )
            yield examine(subject, rules=rules)


def _gone(all_there: Sides, all_here: Sides, absent: Absent) -> Iterator[Entry]:
    for function in absent.functions:
        is_meant = (function, "") in absent.given_up
        why = (
            ""
            if is_meant
            else why_gone(function, baseline=all_there, current=all_here, known=absent.known)
        )
        for metric in gated_metrics(all_there[function]):
            yield conclude_gone(function, metric, there=all_there[function], why=why)


def _notes(all_there: Sides, all_here: Sides, absent: Absent) -> Iterator[str]:
    """Say where the markers of the two runs disagree, and which entries give nothing up."""
    for function, metric in absent.metrics:
        name = f"{function}:{metric}"
        entry = form(function, metric, known=absent.known)
        if (function, metric) in absent.given_up:
            yield f"{name} is gated no more, as llm_accept_gone says"
        else:
            yield (
                f"{name} is gated in the baseline and not here: it stays gated, unless the ini "
                f"file gives it up by  llm_accept_gone = {entry}"
            )
    for function, there in all_there.items():
        for metric in gated_metrics(there) if function in all_here else ():
            if there.better(metric) != all_here[function].better(metric):
                yield (
                    f"{function}:{metric} is judged as in the baseline, {there.better(metric)} is "
                    f'better; here the marker says better="{all_here[function].better(metric)}"'
                )
    for function, there in all_there.items():
        if function in all_here and _tied_otherwise(there, all_here[function]):
            yield (
                f"{function}: cases are tied as in the baseline; here the marker says another "
                "cluster= or wording=, which counts once a baseline has it"
            )
    for entry, why in absent.void:
        yield f"llm_accept_gone names {entry!r}, which gives nothing up: {why}"
    ids = [id_ for there in all_there.values() for id_ in there.cases]
    for entry in absent.idle:
        why = "nothing of that name is gone"
        if any(f"::{id_}".endswith(f"::{entry}") for id_ in ids):
            why = "cases within a function go by llm_max_gone"
        yield f"llm_accept_gone names {entry!r}, and {why}: remove the line"


def _tied_otherwise(there: Side, here: Side) -> bool:
    """Tell whether the markers of the two runs put common cases into unlike units."""
    return any(
        (one.cluster, one.wording, one.topic) != (other.cluster, other.wording, other.topic)
        for id_, one in there.cases.items()
        if (other := here.cases.get(id_)) is not None
    )


def _concluded(entries: Sequence[Entry], rules: GateRules) -> Iterator[FunctionComparison]:
    """Adjust the p-values of all tests together, then give each its verdict."""
    examined = [entry for entry in entries if isinstance(entry, Examination)]
    tests = [
        (one.pairing.subject, one.outcome)
        for one in examined
        if isinstance(one.outcome, Significance)
    ]
    standings = iter(stand_together(tests, rules=rules))
    for entry in entries:
        if isinstance(entry, FunctionComparison):
            yield entry
        elif isinstance(entry.outcome, Significance):
            yield conclude_tested(entry, entry.outcome, standing=next(standings), rules=rules)
        else:
            yield conclude_untested(entry, entry.outcome, rules=rules)


def _ungated(
    all_there: Sides,
    all_here: Sides,
    calls: Mapping[str, CallsOfBoth],
    *,
    gated: Collection[tuple[str, str]],
    rules: GateRules,
) -> Iterator[UngatedComparison]:
    """Describe whatever else the functions of both runs have."""
    for function, here in all_here.items():
        there = all_there.get(function)
        if there is None:
            continue
        of_function = [metric for name, metric in gated if name == function]
        for metric in ungated_metrics([there, here], of_function):
            subject = Subject(
                function=function,
                metric=metric,
                there=there,
                here=here,
                collected_in_full=True,
                calls=calls[function],
                better=here.better(metric),
                test="log-ratio" if metric in MEASURED_METRICS else "paired-t",
            )
            described = describe_ungated(subject, alpha=rules.alpha)
            if described is not None:
                yield described


def _odd_names(functions: Sequence[FunctionComparison], rules: GateRules) -> tuple[str, ...]:
    known = [(one.function, one.metric) for one in functions]
    return tuple(
        f"llm_gate_order names {name!r}, and no test function or gated metric is called so here"
        for name in unknown_names(known, rules.order)
    )


def _why_not_strict(
    not_judged: Sequence[NotJudged], functions: Sequence[FunctionComparison]
) -> str:
    """Say what of the baseline was left out; "" if nothing was."""
    count = len(not_judged)
    missing = [f"test functions of the baseline not judged: {count}"] if count else []
    partial = {
        one.function: f"{one.cases} of {one.baseline_cases} cases of {bare(one.function)}"
        for one in functions
        if one.partial and one.only_in_baseline
    }
    if partial:
        missing.append(f"partial: {', '.join(partial.values())}")
    return f"{'; '.join(missing)} (--llm-strict)" if missing else ""


def _why_nothing_was_compared(functions: Sequence[FunctionComparison]) -> str:
    """Say why the whole comparison fails, whatever its functions say; "" if it does not."""
    if any(one.row in COMPARED for one in functions):
        return ""
    verdicts = [one.verdict for one in functions]
    if verdicts and set(verdicts) == {Verdict.NEW}:
        return ""
    counts = ", ".join(
        f"{verdicts.count(verdict)} {verdict.replace('_', ' ')}"
        for verdict in (Verdict.NOT_COMPARABLE, Verdict.NEW, Verdict.GONE)
        if verdict in verdicts
    )
    return f"nothing was compared: {counts or 'no test function of the baseline was run'}"
