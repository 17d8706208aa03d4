from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

DRAWS = 200  # of each ticket: 6000, 3600 and 2400 draws a kind

ACCURACIES = {
    "plain": {"easy": 0.92, "medium": 0.80, "hard": 0.55},
    "shorter": {"easy": 0.69, "medium": 0.60, "hard": 0.4125},
    "with examples": {"easy": 0.976, "medium": 0.94, "hard": 0.865},
}


@pytest.fixture
def prompts(example: Path, demo: Path) -> dict[str, str]:
    plain = (example / "triage" / "prompt.txt").read_text(encoding="utf-8")
    return {
        "plain": plain,
        "shorter": (demo / "shorter_prompt.txt").read_text(encoding="utf-8"),
        "with examples": plain + (demo / "examples.txt").read_text(encoding="utf-8"),
    }


def replies(triage: SimpleNamespace, prompt: str, text: str, *, draws: int) -> list[str]:
    messages = triage.app.build_messages(prompt, text)
    dice = random.Random(text)  # noqa: S311 - no secret depends on them
    draw = SimpleNamespace(rng=dice)
    return [triage.simulator.answer(messages, draw=draw) for _ in range(draws)]


def assert_is_a_draw_from(probability: float, *, hits: int, of: int) -> None:
    """Four standard errors: a right simulator fails once in 15,000 seeds."""
    assert hits / of == pytest.approx(
        probability, abs=4 * math.sqrt(probability * (1 - probability) / of)
    )


@pytest.mark.parametrize("kind", ["easy", "medium", "hard"])
@pytest.mark.parametrize("prompt", ACCURACIES)
def test_accuracy_follows_the_kind_and_the_prompt(triage, prompts, prompt, kind):
    tickets = [each for each in triage.tickets.labelled_tickets() if each.kind == kind]

    hits = sum(
        replies(triage, prompts[prompt], ticket.text, draws=DRAWS).count(ticket.label)
        for ticket in tickets
    )

    assert_is_a_draw_from(ACCURACIES[prompt][kind], hits=hits, of=DRAWS * len(tickets))


def test_wrong_answers_are_the_other_labels_alike(triage, prompts):
    said = Counter(replies(triage, prompts["shorter"], hard_bug(triage).text, draws=1500))

    wrong = said - Counter(bug=1500)
    assert set(wrong) == set(triage.labels.TOPICS) - {"bug"}
    for count in wrong.values():
        assert_is_a_draw_from(0.2, hits=count, of=wrong.total())


def test_urgency_is_answered_where_the_prompt_asks_for_it(triage, example):
    prompt = (example / "triage" / "urgency_prompt.txt").read_text(encoding="utf-8")
    ticket = next(each for each in triage.tickets.labelled_tickets() if each.id == "dark-mode")

    said = Counter(replies(triage, prompt, ticket.text, draws=500))

    assert set(said) == set(triage.labels.URGENCIES)
    assert_is_a_draw_from(0.92, hits=said["low"], of=500)


def test_one_unexplained_label_is_as_bad_as_six(triage, prompts):
    prompt = prompts["plain"].replace("bug: the station", "bug\nthe station")

    assert triage.simulator.chance_of_being_right(
        prompt, triage.labels.TOPICS, kind="easy"
    ) == pytest.approx(0.69)


def test_two_examples_are_not_enough(triage, prompts):
    two = prompts["with examples"].rpartition("Ticket:")[0]

    assert triage.simulator.chance_of_being_right(
        two, triage.labels.TOPICS, kind="easy"
    ) == pytest.approx(0.92)


def test_examples_make_up_for_missing_meanings_in_part(triage, prompts, demo):
    both = prompts["shorter"] + (demo / "examples.txt").read_text(encoding="utf-8")

    assert triage.simulator.chance_of_being_right(
        both, triage.labels.TOPICS, kind="hard"
    ) == pytest.approx(1 - 0.3 * (1 - 0.4125))


def test_other_words_in_the_prompt_change_no_chance(triage, prompts):
    polite = f"Please be careful.\n{prompts['plain']}\nThank you."

    assert triage.simulator.chance_of_being_right(
        polite, triage.labels.TOPICS, kind="medium"
    ) == pytest.approx(0.80)


def test_a_prompt_without_labels_gets_small_talk(triage):
    (reply,) = replies(triage, "Sort this mail.", hard_bug(triage).text, draws=1)

    assert reply.startswith("Thanks for sharing")


def test_an_unknown_ticket_is_refused_with_the_way_out(triage, prompts):
    with pytest.raises(LookupError, match=r"only the tickets of .* --llm-model=openai/"):
        replies(triage, prompts["plain"], "Where is my umbrella?", draws=1)


def hard_bug(triage: SimpleNamespace) -> SimpleNamespace:
    return next(each for each in triage.tickets.labelled_tickets() if each.id == "history-gone")
