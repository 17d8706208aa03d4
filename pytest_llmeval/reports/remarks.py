"""Remarks on each function of a comparison, and the scope of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_llmeval.errors import Lost, counted, listed_names
from pytest_llmeval.gate.accepted import accepting
from pytest_llmeval.gate.results import (
    Comparison,
    Evidence,
    FunctionComparison,
    FunctionDescription,
    Method,
    Verdict,
    Why,
    ratio_of,
)
from pytest_llmeval.gate.scoring import Counted
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.models.http.http_reply import UNPAID_NAME
from pytest_llmeval.records import MEASURED_METRICS, Outcome, Run, first_failed, stops_of
from pytest_llmeval.reports import edits, notation, provenance, sentences
from pytest_llmeval.reports.reasons import AGAIN
from pytest_llmeval.settings import CacheMode, GateRules, Settings
from pytest_llmeval.stats.t_tests import FEWEST_UNITS_FOR_T

_LISTED_CASES = 3
_MARGIN = 0.3  # twice what the jobs of a public report differ by in seconds
_WHY_REDRAWN: Mapping[CacheMode, str] = {
    "refresh": "--llm-cache=refresh makes every call again",
    "off": "--llm-cache=off replays nothing",
}
_NOT_HERE = "the baseline's cache is not here"
_MADE_FROM_FILES = "new on this branch, or made from files that are not in the commit?"
_HERE = "those of the baseline are here, too"
_LOST: Mapping[Counted, str] = {
    "without_value": "trials without a value{} for {}, not compared",
    "skipped": "skipped trials, not scored",
    "errored": "errored trials, not scored",
}
# the name of each chosen test's statistic
_STATISTICS: Mapping[Method, str] = {
    "sign-flip": "summed difference",
    "exact-within-case": "summed difference",
    "whole-repeats": "summed difference",
    "mcnemar": "chi-square",
    "mcnemar-exact": "trials that rose less those that fell",
    "mcnemar-mid-p": "trials that rose less those that fell",
    "welch": "t",
    "cmh": "chi-square",
    "chi-square": "chi-square",
    "chi-square-plain": "chi-square",
    "two-proportion-z": "z",
}


def scope(comparison: Comparison, settings: Settings) -> Iterator[str]:
    """Say the scope of the figures of a comparison; some sentences are ""."""
    functions, rules = comparison.functions, settings.gate
    yield family_words(comparison, rules)
    if lower := dict.fromkeys(one.metric for one in functions if one.better == "lower"):
        yield f"lower is better: {', '.join(lower)}"
    if rules.target == GateRules().target:
        typed = f"{settings.prefix}target"
        for one in functions:
            sides = [case.baseline_scores + case.scores for case in one.compared]
            if one.scale == "linear" and sides:
                yield note_on_scale(one.metric, sides, "target", rules.target, typed=typed)
    yield from claims(functions)
    yield from (sentences.partial_words(one) for one in comparison.judged_in_part)


def note_on_scale(
    metric: str, samples: Sequence[Sequence[float]], name: str, drop: float, *, typed: str
) -> str:
    """Say where nobody chose a drop for scores that are not on a scale from 0 to 1.

    Args:
        metric: of the scores.
        samples: the scores of each case, at least one.
        name: of the drop.
        drop: the default.
        typed: the option that chooses it.
    """
    low, high = min(map(min, samples)), max(map(max, samples))
    if low >= 0 and high <= 1 and not 0 < high - low < drop:
        return ""
    return (
        f"the {name} of {drop:g} is in units of {metric}, which goes from {low:g} to {high:g} "
        f"here: choose one by {typed}"
    )


def family_words(comparison: Comparison, rules: GateRules) -> str:
    """Say over how many comparisons the level is shared; "" if there is one."""
    family = max((one.evidence.family_size for one in comparison.functions), default=0)
    name = "Holm" if rules.multiplicity == "holm" else "Benjamini-Hochberg"
    return f"p: {name} over {family} functions and metrics" if family > 1 else ""


def _shared_level(judgement: Judgement, one: FunctionComparison) -> Iterator[str]:
    """Say what shares the level where the verdict would differ without sharing."""
    if one.confirmation is not None and one.confirmation.why is None:
        return  # the second look decided, at a level of its own
    evidence, alpha = one.evidence, judgement.settings.gate.alpha
    unrun = 0 if judgement.comparison is None else len(judgement.comparison.not_judged)
    for verdict, p, adjusted in (
        (Verdict.REGRESSED, evidence.p, evidence.p_adjusted),
        (Verdict.IMPROVED, evidence.p_improved, evidence.p_improved_adjusted),
    ):
        word = sentences.verdict_words(verdict)
        if p is None or adjusted is None:
            continue
        if p < alpha <= adjusted:
            cut = ", and so its interval reaches 0" if evidence.interval else ""
            shared = f"{evidence.family_size} comparisons share the level{cut}"
            yield f"by itself this would be {word} ({notation.p_value(p, after='p')}), but {shared}"
        elif one.verdict is verdict and unrun and p * (evidence.family_size + unrun) >= alpha:
            others = counted(unrun, "test function")
            shared = f"the level is shared with {others} that did not run"
            yield f"{shared}: with them this may not be {word}"


def claims(functions: Sequence[FunctionComparison], *, these_alone: bool = False) -> list[str]:
    """Say once the scope of the verdicts: these cases, and this wording or any.

    Args:
        functions: that were compared.
        these_alone: say nothing where there are several wordings.
    """
    by_function: dict[str, list[FunctionComparison]] = {}
    for one in functions:
        if one.effect.cases:
            by_function.setdefault(one.function, []).append(one)
    compared = [one for metrics in by_function.values() for one in metrics]
    if compared and not any(one.evidence.wordings for one in compared):
        # of a score table each metric is a function of the same cases
        counts = {
            one.function.removesuffix(f"::{one.metric}"): one.effect.cases
            for one in sorted(compared, key=lambda one: one.effect.cases)
        }
        cases = sum(counts.values())
        return [f"the verdict is about {sentences.these_cases(cases)} and this wording"]
    several = () if these_alone else by_function.values()
    return [f"{notation.short(one[0])}: the verdict is about {_wordings(one)}" for one in several]


def _wordings(metrics: Sequence[FunctionComparison]) -> str:
    wordings, these = metrics[0].evidence.wordings, sentences.these_cases(metrics[-1].effect.cases)
    if all(one.effect.method == "crossed" for one in metrics):
        return f"cases and wordings like these ({wordings} wordings)"
    if wordings <= 1:
        return f"{these} and this wording only"
    return f"{these} and these {wordings} wordings only"


def remarks(judgement: Judgement, function: FunctionComparison) -> Iterator[str]:
    """Say the remarks on one function; the cases that moved are listed elsewhere."""
    effect, rules = function.effect, judgement.settings.gate
    yield from _early_stop(judgement, function)
    yield from _changes_of_test(judgement, function)
    yield from edits.edited_remarks(judgement, function)
    if 0 < effect.changed < effect.cases:
        changed = [case for case in function.compared if case.kind is not None]
        sides = [case.baseline_mean for case in changed], [case.mean for case in changed]
        means = (notation.figure(sum(side) / len(side), function.metric) for side in sides)
        cases = "changed case" if len(changed) == 1 else f"{len(changed)} changed cases"
        yield f"the {cases}: {' -> '.join(means)}"
    if 0 < effect.units < effect.changed:
        also = notation.worth(effect.units, effect.effective_units)
        yield f"{effect.changed} changed cases, {effect.units} independent{also}"
    yield from _kinds_of_change(judgement, function)
    if place := provenance.first_new_call(judgement, function):
        same, model = place
        own = "call of each trial is" if same == 1 else f"{same} calls of each trial are"
        to = f", to {model}," if model else ""
        yield f"the first {own} the baseline's own; the request after that{to} is new"
    yield from _shared_level(judgement, function)
    if remark := _shift_of_day(function, judgement.settings):
        yield remark
    if function.evidence.identical_repeats:
        yield sentences.ONE_DRAW
    if effect.method == rules.test in _STATISTICS:
        yield _chosen_test(effect.method, function.evidence)
    if remark := sentences.within_case_remark(function, rules):
        yield remark
    yield from _left_out(judgement, function)


def _early_stop(judgement: Judgement, function: FunctionComparison) -> Iterator[str]:
    run, baseline = judgement.run, judgement.baseline
    if run is None or baseline is None or not function.looks:
        return
    repeats = max(case.repeats for case in run.cases if case.function == function.function)
    last = function.looks[-1].repeats
    if function.stopped_at is None:
        if last < repeats and not (run.complete or run.stopped):
            yield f"judged after {last} of {repeats} repeats: the session ended in the next round"
    elif run.compared_with == baseline.run.id:
        yield sentences.stopped_words(function, rules=judgement.settings.gate, repeats=repeats)
    else:
        after = f"after {function.stopped_at} of {repeats} repeats"
        yield f"stopped early, {after}, when it was compared with another baseline"


def trials_saved(run: Run) -> Iterator[str]:
    """Say how many trials ran where functions stopped early."""
    if stopped := stops_of(run):
        planned = sum(case.repeats for case in run.cases)
        functions = counted(len(stopped), "function")
        yield f"{len(run.trials)} of {planned} trials run, as {functions} stopped early"


def _shift_of_day(function: FunctionComparison, settings: Settings) -> str:
    """Say by how much two recordings differ for all cases at once, else offer a margin for it.

    Cases with equal requests and new draws show such a difference, if there are enough.
    """
    effect, metric = function.effect, function.metric
    if metric not in MEASURED_METRICS or effect.method == "none":
        return ""
    again = [case.difference for case in function.compared if case.is_asked_again]
    if FEWEST_UNITS_FOR_T <= len(again) < effect.changed:
        ratio = ratio_of(-sum(again) / len(again))  # for metrics of which less is better
        changed = f"and their {metric} changed by {notation.factor(ratio)}"
        why = "that much is not due to your change"
        return f"{len(again)} of its cases sent the same requests again, {changed}: {why}"
    if settings.gate.margin:
        return ""
    typed = settings.prefix
    target = f" {typed}target=0.60" if settings.gate.target <= _MARGIN else ""
    return (
        f"on another day all cases differ in {metric} (provider, machine), and no test can tell "
        "that from your change: set a margin of twice that difference, as in "
        f"{typed}margin={_MARGIN:.2f}{target}; it holds for all metrics"
    )


def _changes_of_test(judgement: Judgement, function: FunctionComparison) -> Iterator[str]:
    """Name causes besides the application: ``test_a: its test changed``."""
    name, changed = notation.short(function), function.inputs_changed
    if function.test_changed:
        yield f"{name}: its test changed"
    if function.fixtures_changed:
        several = "s" * (len(function.fixtures_changed) > 1)
        yield f"{name}: its fixture{several} {', '.join(function.fixtures_changed)} changed"
    if changed:
        named = [notation.case_name(case, function) for case in changed]
        yield edits.compared_remark(judgement, function, listed_names(named, _LISTED_CASES))


def _kinds_of_change(judgement: Judgement, function: FunctionComparison) -> Iterator[str]:
    effect = function.effect
    kinds = effect.changed_kinds
    if "redrawn" in kinds:
        calls = (call for case in function.compared for call in case.replaced_calls)
        gone = (call.draw in judgement.absent for call in calls)
        why = _WHY_REDRAWN.get(judgement.settings.cache, _NOT_HERE if any(gone) else _HERE)
        same = sum(case.is_asked_again for case in function.compared)
        if same:
            yield f"{counted(same, 'case')} sent the same requests but got new replies ({why})"
        if others := kinds["redrawn"] - same:
            first = f"{counted(others, 'case')} sent the same first requests but got new replies"
            yield f"{first} ({why}), and later requests differ"
    if "unseen" in kinds and not judgement.is_of_tables:
        unseen = [case.every_current for case in function.compared if case.kind == "unseen"]
        trials = [bool(trial.calls) for current in unseen for trial in current.trials]
        if any(trials):  # where no trial made a call, ``unseen`` says so
            cases = counted(len(unseen), "case")
            lost = f"{trials.count(False)} of {len(trials)} trials of {cases}"
            yield f"{lost} made no call that the cache saw"
    if 0 < kinds.get("score", 0) < effect.changed:
        cases = counted(kinds["score"], "case")
        yield f"{cases} with the same replies and other scores: there {sentences.NOT_THE_MODEL}"


def _chosen_test(method: Method, evidence: Evidence) -> str:
    """Write the statistic of a chosen test, as the interval beside it is the t-test's."""
    if evidence.statistic is None:
        return f"{method}: no {_STATISTICS[method]}, as nothing varies"
    text = f"{method}: {_STATISTICS[method]} = {evidence.statistic:.4g}"
    return text if evidence.dof is None else f"{text}, degrees of freedom = {evidence.dof:.4g}"


def _left_out(judgement: Judgement, function: FunctionComparison) -> Iterator[str]:
    added, effect = len(function.only_here), function.effect
    others = function.only_in_baseline, function.deselected, function.edited, function.mismatched
    unscored = effect.baseline_cases - effect.cases - sum(map(len, others))
    if function.verdict is not Verdict.UNCHANGED and effect.cases:
        parts = [(added, f"new here{sentences.mean_of_new(function)}")]
        parts.append((len(function.only_in_baseline), "only in the baseline"))
        parts.append((unscored, "without a score here or in the baseline"))
        told = [f"{counted(count, 'case')} {what}" for count, what in parts if count > 0]
        yield from [f"not compared: {', '.join(told)}"] if told else []
    if judgement.baseline is not None and judgement.baseline.how == "rerun":
        known = {case.id for case in judgement.baseline.run.cases}  # if not by this metric
        if lacks := sum(case not in known for case in function.only_here):
            of = added + function.effect.cases
            yield f"the base, run now, lacks {lacks} of {of} cases: {_MADE_FROM_FILES}"
    if count := len(function.mismatched):
        unlike = f"{count} cases have the same position but other parameters"
        yield f"{unlike}: not compared; give ids= to parametrize"
    for outcome, what in _LOST.items():
        lost = function.trials[outcome], function.baseline_trials[outcome]
        if any(lost):
            named = what.format(" above 0" * (function.scale == "log"), function.metric)
            is_told = function.why and function.why.why in (Why.ERRORED, Why.ERRORED_ANEW)
            again = "" if is_told or outcome != "errored" or not lost[0] else run_again(judgement)
            yield f"{named}: {lost[0]} here, {lost[1]} in the baseline{again}"
    if function.trials["errored"] or function.baseline_trials["errored"]:
        yield from first_errored(judgement, function)


def accepting_line(judgement: Judgement, function: FunctionComparison) -> str:
    """Write the ini line that accepts a drop; "" if there is nothing to accept."""
    baseline, comparison = judgement.baseline, judgement.comparison
    # the mean of a part is no bound for the mean of the whole
    is_failing = function.fails and function.verdict is Verdict.REGRESSED and not function.partial
    if not is_failing or baseline is None or comparison is None or judgement.is_of_tables:
        return ""
    line = accepting(notation.short(function), function, baseline=baseline.run)
    return notation.pasted("llm_accept", line, toml=judgement.settings.toml)


def run_again(judgement: Judgement) -> str:
    """Write the remedy for errored trials, the end of a sentence; "" if nothing may be asked."""
    if judgement.settings.cache == "replay" or judgement.is_of_tables or judgement.run is None:
        return ""
    errored = (trial for trial in judgement.run.trials if trial.outcome is Outcome.ERRORED)
    lost = [call for trial in errored for call in trial.calls if call.failure is not None]
    if not lost or all(call.lost is Lost.NO_KEY for call in lost):
        return ""  # what to type is told with the first of them
    if all(call.lost is Lost.KEY_REFUSED for call in lost):
        return ": the provider refuses the key: set another one"
    if all(call.lost is Lost.STATUS and call.lost_for[:1] == ("404",) for call in lost):
        return ": the provider has no such model or address: correct the name of the model"
    if all(any(map(UNPAID_NAME.fullmatch, call.lost_for)) for call in lost):
        return ": the account has no money left: pay the provider, then run again"
    return f": {AGAIN}"


def first_errored(
    judgement: Judgement, one: FunctionComparison | FunctionDescription
) -> Iterator[str]:
    """Say why the first errored trial of a function got no reply."""
    assert judgement.run is not None  # noqa: S101 - whatever is worded ran
    functions = {case.id: case.function for case in judgement.run.cases}
    for trial in judgement.run.trials:
        if functions[trial.case] == one.function and trial.outcome is Outcome.ERRORED:
            reasons = ", ".join(call.reason for call in trial.calls if call.reason)
            of_case = (one for one in judgement.run.trials if one.case == trial.case)
            # of a case that missed, too, the headline is that of a miss
            missed = first_failed(of_case) not in (None, trial)
            headline = "" if missed else judgement.headlines.get(trial.case)
            name = notation.case_name(trial.case, one)
            yield f"first of them  {name}  {headline or reasons or trial.message}"
            return
