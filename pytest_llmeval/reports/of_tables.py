"""Reasons of the gate about score tables, in words for somebody without a test suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_llmeval.gate.results import Fact, Why
from pytest_llmeval.judgement import Judgement

_ERRORED = (
    "{} of {} trials have no score %s, more than 5 %%: complete it, or type --max-errored=SHARE"
)
_NO_RATIO = (
    "{1} of {2} trials %s have no {0} above 0, more than 5 %%, and {0} is compared by its ratio: "
    "give the metric another name to have differences compared"
)
_SENTENCES: Mapping[Why, str] = {
    Why.ERRORED: _ERRORED % "here",
    Why.ERRORED_ANEW: _ERRORED % "here",
    Why.BASELINE_ERRORED: _ERRORED % "in the baseline",
    Why.BASELINE_ERRORED_ANEW: _ERRORED % "in the baseline",
    Why.CASES_GONE: "{} of the {} cases scored in the baseline are not scored here, more than "
    "{:g} %: complete the table, or type --max-gone=SHARE",
    Why.CASES_UNSCORED: "{} of the {} cases have no score here, more than 10 %: complete the "
    "table, or type --max-errored=SHARE",
    Why.GONE: "the baseline has it (cases: {}), and there is nothing of it here: complete the "
    "table, write its name as there, or compare one metric by --metric=NAME",
    Why.WITHOUT_VALUE: _NO_RATIO % "here",
    Why.BASELINE_WITHOUT_VALUE: _NO_RATIO % "in the baseline",
    Why.NOT_MEASURED: "no case has {} above 0 on both sides: give the metric another name to "
    "have differences compared",
    Why.ONE_UNIT: "the {} cases are a single cluster: no test can tell chance from a drop",
    Why.NO_COMMON_ID: "no case_id of the {} cases here is among the {} of the baseline: write the "
    "same ids in both; the baseline has {!r}, and here is {!r}",
}


def in_words_of_tables(judgement: Judgement) -> Judgement:
    """Return the judgement of two tables with reasons that name no ini file and no test."""
    comparison = judgement.comparison
    if comparison is None:
        return judgement
    functions = tuple(replace(one, why=_worded(one.why)) for one in comparison.functions)
    return replace(judgement, comparison=replace(comparison, functions=functions))


def _worded(fact: Fact | None) -> Fact | None:
    if fact is None or fact.why not in _SENTENCES:
        return fact
    return Fact(Why.REFUSED, (_SENTENCES[fact.why].format(*fact.figures),))
