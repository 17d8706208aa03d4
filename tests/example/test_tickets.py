from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture
def tickets(example: Path) -> list[dict[str, str]]:
    lines = (example / "triage" / "tickets.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_half_of_sixty_tickets_are_easy_and_a_fifth_is_hard(tickets):
    assert Counter(ticket["kind"] for ticket in tickets) == {"easy": 30, "medium": 18, "hard": 12}


def test_every_topic_has_as_many_tickets_of_each_kind(tickets, triage: SimpleNamespace):
    counts = Counter((ticket["label"], ticket["kind"]) for ticket in tickets)

    assert counts == {
        (topic, kind): number
        for topic in triage.labels.TOPICS
        for kind, number in (("easy", 5), ("medium", 3), ("hard", 2))
    }


def test_ids_are_unique_and_stay_readable_in_a_node_id(tickets):
    ids = [ticket["id"] for ticket in tickets]

    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each) for each in ids)


def test_texts_are_unique_and_none_is_part_of_another(tickets):
    texts = [ticket["text"] for ticket in tickets]

    found = [sum(text in other for other in texts) for text in texts]

    assert found == [1] * len(texts)


def test_texts_have_one_to_three_sentences(tickets):
    sentences = [len(re.findall(r"[.!?]+(?:\s|$)", ticket["text"])) for ticket in tickets]

    assert set(sentences) <= {1, 2, 3}


def test_twelve_tickets_have_an_urgency_and_each_urgency_is_met_four_times(
    tickets, triage: SimpleNamespace
):
    urgencies = Counter(ticket["urgency"] for ticket in tickets if "urgency" in ticket)

    assert urgencies == dict.fromkeys(triage.labels.URGENCIES, 4)


@pytest.mark.parametrize(
    "prompt",
    [
        "example_project/triage/prompt.txt",
        "example_project/triage/urgency_prompt.txt",
        "demo/shorter_prompt.txt",
        "demo/examples.txt",
    ],
)
def test_no_prompt_gives_a_ticket_away(tickets, example: Path, prompt: str):
    text = (example.parent / prompt).read_text(encoding="utf-8")

    assert [ticket["id"] for ticket in tickets if ticket["text"] in text] == []
