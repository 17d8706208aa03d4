"""Does the application sort tickets as people do?"""

from __future__ import annotations

import pytest
from triage.app import topic_of, urgency_of
from triage.labels import URGENCIES
from triage.tickets import labelled_tickets

from pytest_llmeval import llm_eval

TICKETS = labelled_tickets()
WITH_URGENCY = [ticket for ticket in TICKETS if ticket.urgency]


@llm_eval
@pytest.mark.parametrize(
    ("text", "label"),
    [(ticket.text, ticket.label) for ticket in TICKETS],
    ids=[ticket.id for ticket in TICKETS],
)
def test_topic(llm, text, label):
    assert topic_of(text, llm) == label


@llm_eval
@pytest.mark.parametrize(
    ("text", "urgency"),
    [(ticket.text, ticket.urgency) for ticket in WITH_URGENCY],
    ids=[ticket.id for ticket in WITH_URGENCY],
)
def test_urgency(llm, llm_score, text, urgency):
    """One level off is half right."""
    levels_off = abs(URGENCIES.index(urgency_of(text, llm)) - URGENCIES.index(urgency))
    llm_score(1 - levels_off / 2)
