"""Sentences for the reasons and notes of the gate and the session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from pytest_llmeval.errors import counted
from pytest_llmeval.gate.results import Comparison, Fact, Verdict, Why
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import COST_METRIC, MEASURED_METRICS, SECONDS_METRIC, TOKENS_METRIC
from pytest_llmeval.reports.notation import pasted
from pytest_llmeval.runs.keyless import ElsewhereAsked
from pytest_llmeval.settings import Settings

AGAIN = "run again; only calls without a reply are sent again"
_UNIT = (
    "the {} changed cases are a single independent unit (they share replies or a cluster): "
    "no test can tell chance from a drop"
)
_NOTHING_UP = "llm_accept_gone names {!r}, which has no effect: "
_SENTENCES: Mapping[Why, str] = {
    Why.GONE: "the baseline has it (cases: {}), and it was not collected here. Say in the ini file "
    " llm_renamed = {} -> {}  if it was renamed, or  llm_accept_gone = {}  if you removed it",
    Why.GONE_WITH: "its whole function is missing here; the line of {} says what to do",
    Why.MISMATCHED: "{} ids are made from positions and stand for other parameters than in the "
    "baseline: give ids=",
    Why.NO_COMMON_ID: "no id of the {} cases here is among the {} of the baseline: if they were "
    "renamed say so in the ini file, a line each, or one with * for what they share, as in  "
    "llm_renamed = {} -> {}",
    Why.NOT_MEASURED: "no case has {0} on both sides: {how}",
    Why.NOT_RECORDED: "{0} is gated in the baseline and no trial recorded it here: record it, or "
    "take it out of gate= and give it up by  llm_accept_gone = {1}:{0}  in the ini file",
    Why.NEVER_RECORDED: "{0} is gated, but the trials recorded only {1}: {how}",
    Why.NO_COMMON_SCORE: "no case has a scored trial on both sides: {} of {} trials have a score "
    "here, {} of {} in the baseline",
    Why.ERRORED: f"{{}} of {{}} trials errored here, more than 5 %: {AGAIN}",
    Why.ERRORED_ANEW: "{} of {} trials of the changed cases errored here, more than 5 %: " + AGAIN,
    Why.BASELINE_ERRORED: "{} of {} trials errored in the baseline, more than 5 %: record the "
    "baseline again",
    Why.BASELINE_ERRORED_ANEW: "{} of {} trials of the changed cases errored in the baseline, "
    "more than 5 %: record the baseline again",
    Why.BASELINE_CRASHED: "{} of {} trials in the baseline crashed, all of them or before they "
    "asked anything ({}): a bug, not a rate. Mend it there and record the baseline again",
    Why.WITHOUT_VALUE: "{1} of {2} scored trials here have no value for {0}, more than 5 %: {how}",
    Why.BASELINE_WITHOUT_VALUE: "{1} of {2} scored trials in the baseline have no value for {0}, "
    "more than 5 %: {how}",
    Why.ASKS_NOTHING: "{} of the {} cases that made calls in the baseline made none that was seen "
    "here: look for a stub or a mock that was left on, and for a client that the cache does not "
    "see. If they are to ask no model take the mark off, and say in the ini file  "
    "llm_accept_gone = {}",
    Why.TRIALS_SKIPPED: "{} of {} trials of the common cases are skipped here and {} in the "
    "baseline, over 5 % more: what is skipped is not judged, so let such trials fail, or skip the "
    "whole case",
    Why.ERRORED_AGAIN: "{} of {} trials that were asked again ({}) have no score, more than 5 %{}",
    Why.NOT_ASKED_AGAIN: "{}",
    Why.NOT_COMPARED_AGAIN: "what was asked again cannot be compared",
    Why.ANCHOR: "an anchor is never run again",
    Why.DOES_NOT_FIT: "the test {} does not fit: {}",
    Why.NOT_POSITIVE: "the test {} does not fit: it compares ratios, and {} scores of {} are not "
    "above 0: use paired-t",
    Why.CASES_GONE: "{} of the {} cases scored in the baseline are gone or skipped here, more than "
    "the {:g} % of llm_max_gone: where one has another id now, say so by llm_renamed, or keep it "
    "by ids=; if they are to go, type this once  --llm-max-gone={:g}",
    Why.CASES_EDITED: "{0} of the {1} cases scored in the baseline cannot be compared, more than "
    "the {2:g} % of llm_max_gone (edited, with other replies: {3}; gone or skipped here: {5}): if "
    "labels were edited, and a prompt too, merge the labels first; else, if that is right, type "
    "this once  --llm-max-gone={4:g}",
    Why.CASES_UNSCORED: "{} of the {} changed cases have no scored trial here, more than 10 %: "
    + AGAIN,
    Why.ONE_UNIT: _UNIT,
    Why.ONE_UNIT_FEW_REPEATS: _UNIT + " from fewer than {} repeats on both sides",
    Why.METRIC_GIVEN_UP: "{} is gated no more, as llm_accept_gone says",
    Why.METRIC_STILL_GATED: "{} is gated in the baseline and not here: it stays gated, unless the "
    "ini file gives it up by  llm_accept_gone = {}",
    Why.OTHER_DIRECTION: "{} is judged as in the baseline, {} is better; here the marker says "
    'better="{}"',
    Why.TIED_OTHERWISE: "{}: cases are tied as in the baseline; here the marker says another "
    "cluster= or wording=, which counts once a baseline has it",
    Why.KNOWN_ENTRY: _NOTHING_UP + "the baseline's ini file had that line already: remove it, or "
    "write what is given up now in another form",
    Why.FITS_EVERY_FUNCTION: _NOTHING_UP + "it fits every function of the baseline: name what is "
    "gone",
    Why.FITS_EVERY_METRIC: _NOTHING_UP + "it fits every gated metric of the baseline: name what "
    "is gone",
    Why.ENTRY_FOR_NOTHING: "llm_accept_gone names {!r}, and nothing of that name is gone: remove "
    "the line",
    Why.ENTRY_FOR_A_CASE: "llm_accept_gone names {!r}, and cases within a function go by "
    "llm_max_gone: remove the line",
    Why.ACCEPTED_LESS: "llm_accept says {!r}, and the mean here is {}: no such drop was accepted",
    Why.ACCEPTED_TURNED: "llm_accept says {!r}, and of {} {} is better: write {} and the worst "
    "mean that is accepted",
    Why.ACCEPTED_NOTHING: "llm_accept names {!r}, and no test function with that metric is called "
    "so here: correct the line",
    Why.ACCEPTED_SEVERAL: "llm_accept names {!r}, which fits {} test functions and so accepts "
    "none: name one, as in {}",
    Why.VARYING: "each request of {} differs from the baseline's only in a date, a time or a "
    "random id: if that changes in each build, each pays for all calls. Give it a fixed value",
    Why.GONE_UNJUDGED: "{} cases of the baseline are not here any more, of functions that nobody "
    "judges without a key: {}",
    Why.FIXTURE_REPLACED: "{}: {} is a fixture of this project here, and was the plugin's own in "
    "the baseline: look for a stub that was left on",
    Why.TURNS_NOTHING: '{}: better="lower" has no effect, as no score was recorded: pass '
    "is gated, and of pass higher is always better",
    Why.LOOSENED: "{} = {} was not followed: the baseline was recorded with {}, and only what is "
    "typed makes a rule laxer",
    Why.LOWER_MIN_SCORE: "{}: min_score={} was not followed: the baseline was recorded with {}, "
    "and a lower one counts from the first run of main that has it",
    Why.FEWER_REPEATS: "{0}: repeats={1} here, and {2} in the baseline: inconclusive fails the "
    "build, until main has a run with as few; to have as many now, type --llm-repeats={2}",
    Why.BELOW_MIN_SCORE: "below the min_score of the baseline: {}. To lower it, merge the new "
    "mark first, without what made them fall: it counts from the first run of main that has it",
    Why.MISSED_THROUGHOUT: "cases that missed in every trial: {} ({})",
    Why.ORDINARY_TESTS: "cases that made no call, opened no connection and missed in every trial "
    "alike: {} ({}). They fail as ordinary tests do: take their mark off, or see docs/clients.md "
    "for calls that are not seen",
    Why.POOLED: "{}: {} trials a case from {} runs",
    Why.DRIFTED: "{}: trials of other runs are left out of the baseline, as they differ from those "
    "of its own run by more than chance (p {:.1g})",
    Why.NOT_ANCHORED: "no anchor: {}",
    Why.NOT_SAVED: "this run could not be recorded: {}",
    Why.NOTHING_RAN: "no eval ran here, so nothing was compared with {}: if no error and no Ctrl-C "
    "stopped the session, name a test that has evals, or leave out --llm-baseline",
    Why.RAISED: "{}: {}",
    Why.REFUSED: "{}",
    Why.PART_IN_CI: "only {} of {} cases are judged here: parts that are judged alone raise false "
    "alarms, four of them in up to 19 of 100 builds. Record each without --llm-baseline, "
    "then gate once:  llmeval merge DIR... --baseline={}",
    Why.CASES_MISSING: "{} of {} cases are here: {}",
    Why.FILES_MISSING: "no shard was given {}",
}


def _errored(where: str) -> str:
    told = f"{{}} of {{}} trials have no score {where}, more than 5 %"
    return f"{told}: complete it, or type --max-errored=SHARE"


def _no_ratio(where: str) -> str:
    return (
        f"{{1}} of {{2}} trials {where} have no {{0}} above 0, more than 5 %, and {{0}} is "
        "compared by its ratio: give the metric another name to have differences compared"
    )


# of two score tables, in words for somebody without a test suite
_OF_TABLES: Mapping[Why, str] = {
    Why.ERRORED: _errored("here"),
    Why.ERRORED_ANEW: _errored("here"),
    Why.BASELINE_ERRORED: _errored("in the baseline"),
    Why.BASELINE_ERRORED_ANEW: _errored("in the baseline"),
    Why.CASES_GONE: "{} of the {} cases scored in the baseline are not scored here, more than "
    "{:g} %: complete the table, or type --max-gone=SHARE",
    Why.CASES_UNSCORED: "{} of the {} cases have no score here, more than 10 %: complete the "
    "table, or type --max-errored=SHARE",
    Why.GONE: "the baseline has it (cases: {}), and there is nothing of it here: complete the "
    "table, write its name as there, or compare another metric by --metric=NAME",
    Why.WITHOUT_VALUE: _no_ratio("here"),
    Why.BASELINE_WITHOUT_VALUE: _no_ratio("in the baseline"),
    Why.NOT_MEASURED: "no case has {} above 0 on both sides: give the metric another name to "
    "have differences compared",
    Why.ONE_UNIT: "the {} cases are a single cluster: no test can tell chance from a drop",
    Why.NO_COMMON_ID: "no case_id of the {} cases here is among the {} of the baseline: write the "
    "same ids in both; the baseline has {!r}, and here is {!r}",
}
# of two recorded runs, where no ini file is read
_BY_HAND: Mapping[Why, str] = {
    Why.CASES_GONE: "{} of the {} cases scored in the baseline are gone or skipped here, more than "
    "{:g} %: if that is right, type  --max-gone={:g}",
    Why.CASES_EDITED: "{0} of the {1} cases scored in the baseline cannot be compared, more than "
    "{2:g} % (edited, with other replies: {3}; gone or skipped here: {5}): if that is right, type  "
    "--max-gone={4:g}",
}
_NEEDS = {
    SECONDS_METRIC: "it is that of calls which the plugin sees",
    TOKENS_METRIC: "it takes replies that count their tokens",
    COST_METRIC: "it takes replies that count their tokens, and a price above 0 for their model, "
    "as a line of llm_prices",
}


def worded(fact: Fact | str | None) -> str:
    """Write a reason or a note of the gate or the session; a finished text stays as it is."""
    if fact is None or isinstance(fact, str):
        return fact or ""
    if fact.why is Why.TOO_FEW_TRIALS:
        return _too_few_trials(*map(int, fact.figures))
    text = _SENTENCES[fact.why]
    return text.format(*fact.figures, how=_how_to_have(fact) if "{how}" in text else "")


def _too_few_trials(made: int, repeats: int, cases: int, ways: int, comparisons: int) -> str:
    text = f"{counted(made, 'repeat')} of {counted(cases, 'case')} can show no drop"
    if repeats < made:
        text += ", as equal replies count once"
    if ways == 1:
        return f"{text}{' and' if repeats < made else ','} as too little was right in the baseline"
    text += f": chance alone makes even the largest in 1 of {ways}"
    return f"{text}, too often among {comparisons} comparisons" if comparisons > 1 else text


def unjudgeable(reason: Fact | None) -> str:
    """Write why nothing can be judged, with the function whose metric was never recorded."""
    if reason and reason.why is Why.NEVER_RECORDED:
        return f"{reason.figures[2]}: {worded(reason)}"
    return worded(reason)


def _how_to_have(fact: Fact) -> str:
    """Say what every trial needs to have a value of a metric."""
    metric = str(fact.figures[0])
    if metric in MEASURED_METRICS:
        return f"{_NEEDS[metric]}, and trials that did not crash"
    how = f'record it in every trial, by llm_score(value, "{metric}"), or gate on another'
    if fact.why is Why.NEVER_RECORDED:
        return how
    return f"{how}; where lower is better or a value is below 0, trials that crashed have none"


def why_failed(comparison: Comparison, settings: Settings) -> str:
    """Say why a whole comparison fails for a reason of its own; "" if it does not."""
    if comparison.compared_nothing:
        counts = Counter(one.verdict for one in comparison.functions)
        kinds = [one for one in (Verdict.NOT_COMPARABLE, Verdict.NEW, Verdict.GONE) if counts[one]]
        told = ", ".join(f"{counts[one]} {one.replace('_', ' ')}" for one in kinds)
        return f"nothing was judged: {told or 'no test function of the baseline was run'}"
    count = len(comparison.not_judged)
    missing = [f"test functions of the baseline not judged: {count}"] if count else []
    partial = {
        one.function: f"{one.effect.cases} of {one.effect.baseline_cases} cases of "
        f"{comparison.names[one.function]}"
        for one in comparison.judged_in_part
    }
    if partial:
        missing.append(f"partial: {', '.join(partial.values())}")
    if missing and settings.gate.strict:
        return f"{'; '.join(missing)} ({settings.prefix}strict)"
    if not comparison.not_run:
        return worded(comparison.below)
    names, not_run = comparison.names, comparison.not_run.items()
    unrun = ", ".join(f"{counted(cases, 'case')} of {names[name]}" for name, cases in not_run)
    return f"not run: {unrun}: a conftest or a plugin passed over them, or ended the session"


def without_key(judgement: Judgement) -> str:
    """Say in one line how the cases without a key ended; "" if there are none."""
    keyless = judgement.keyless
    if keyless is None:
        return ""
    count = len(keyless.cases)
    unset = f"{' and '.join(keyless.variables)} {'is' if len(keyless.variables) == 1 else 'are'}"
    causes = [f"{unset} not set"] if keyless.variables else []
    causes += [
        f"the key that is set is refused ({one}): set another one" for one in keyless.refused
    ]
    causes += [_asked_elsewhere(one, judgement) for one in keyless.elsewhere]
    why = "; ".join(causes)
    if judgement.is_deferred:
        cases = counted(count, "case")
        return f"deferred to the merge queue: {cases} (they ask something new: {why})"
    cases = "1 case asks" if count == 1 else f"{count} cases ask"
    lack = "there is no key: " if keyless.variables else ""
    return f"{cases} something new and {lack}{why}{_not_deferred(judgement)}"


def _asked_elsewhere(asked: ElsewhereAsked, judgement: Judgement) -> str:
    alias, baseline = f"{asked.here} = {asked.baseline}", judgement.baseline
    line = pasted("llm_origin_alias", alias, toml=judgement.settings.toml)
    todo = f"say in the ini file  {line}"
    if baseline is not None and baseline.how == "rerun":  # which reads the ini file of its commit
        todo = f"type  -o 'llm_origin_alias={alias}'"
    why = "the host is part of what is asked"
    before = f"before, it was {asked.baseline}. Set it, or {todo}"
    return f"{asked.variable} is not set either, and {why}: {before}"


def _not_deferred(judgement: Judgement) -> str:
    """Say why the merge queue is not waited for where the ini file wants that."""
    if judgement.settings.gate.keyless != "defer" or judgement.keyless is None:
        return ""
    if not judgement.may_defer or judgement.keyless.refused:
        why = "this is no pull request of a fork, or a key is set"
    elif judgement.keyless.lost_more:
        why = "some of them lost calls for another reason too"
    elif judgement.baseline is None:
        why = "there is no baseline"
    else:
        why = "the ini file of the baseline does not say so"
    return f" (not deferred: {why})"


def in_words_of_compare(judgement: Judgement) -> Judgement:
    """Return a judgement with reasons that name what ``llmeval compare`` takes, of tables no test.

    The command has no ini file, and its options have other names than those of a session.
    """
    sentences = _OF_TABLES if judgement.is_of_tables else _BY_HAND

    def worded_anew(fact: Fact | None) -> Fact | None:
        if fact is None or fact.why not in sentences:
            return fact
        return Fact(Why.REFUSED, (sentences[fact.why].format(*fact.figures),))

    comparison = judgement.comparison
    if comparison is None:
        return judgement
    functions = tuple(replace(one, why=worded_anew(one.why)) for one in comparison.functions)
    return replace(judgement, comparison=replace(comparison, functions=functions))
