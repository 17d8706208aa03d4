"""Every form that a result can take is among the fixed judgements, under its own name."""

from __future__ import annotations

import pytest

from pytest_llmeval.gate.results import Verdict
from tests.reports.judgements import FORMS, LABEL

VERDICTS = {
    "unchanged": Verdict.UNCHANGED,
    "regressed": Verdict.REGRESSED,
    "accepted": Verdict.REGRESSED,
    "improved": Verdict.IMPROVED,
    "no_significant_change": Verdict.NO_SIGNIFICANT_CHANGE,
    "inconclusive": Verdict.INCONCLUSIVE,
    "not_comparable": Verdict.NOT_COMPARABLE,
    "partial": Verdict.UNCHANGED,
    "new": Verdict.UNCHANGED,
    "gone": Verdict.NOT_COMPARABLE,
    "anchor": Verdict.UNCHANGED,
    "another_model": Verdict.INCONCLUSIVE,
    "stopped": Verdict.REGRESSED,
}
FAILING = {"regressed", "stopped", "not_comparable", "could_not_judge", "gone", "anchor"}


@pytest.mark.parametrize("form", FORMS)
def test_the_gate_gives_each_fixed_judgement_its_verdict(form: str) -> None:
    judgement = FORMS[form]()
    comparison = judgement.comparison

    assert (comparison and comparison.verdict) == VERDICTS.get(form)
    assert judgement.fails == (form in FAILING)


def test_an_accepted_drop_passes_and_an_anchor_fails_alone() -> None:
    accepted, anchor = FORMS["accepted"]().comparison, FORMS["anchor"]().anchored

    assert accepted
    assert [one.function for one in accepted.functions if one.accepted] == [LABEL]
    assert anchor
    assert anchor.verdict is Verdict.REGRESSED
