from __future__ import annotations

from types import SimpleNamespace

import pytest


class Parrot:
    """A model that always says the same."""

    def __init__(self, says: str) -> None:
        self.says = says
        self.heard: list[dict[str, str]] = []

    def chat(self, messages):
        self.heard = messages
        return SimpleNamespace(text=self.says)


def test_the_model_is_sent_the_prompt_file_and_the_ticket(triage, example):
    parrot = Parrot("bug")

    triage.app.topic_of("It is broken.", parrot)

    prompt = (example / "triage" / "prompt.txt").read_text(encoding="utf-8").strip()
    assert parrot.heard == [
        {"role": "system", "content": prompt},
        {"role": "user", "content": "Ticket: It is broken."},
    ]


@pytest.mark.parametrize("says", ["bug", "Bug.", " BUG\n", "**bug**", '"bug"'])
def test_a_label_is_read_through_decoration(triage, says):
    assert triage.app.topic_of("It is broken.", Parrot(says)) == "bug"


@pytest.mark.parametrize("says", ["", "insect", "bug or billing", "That is a bug"])
def test_an_answer_that_is_no_topic_goes_to_other(triage, says):
    assert triage.app.topic_of("It is broken.", Parrot(says)) == "other"


def test_an_answer_that_is_no_urgency_is_normal(triage):
    assert triage.app.urgency_of("It is broken.", Parrot("soon-ish")) == "normal"
