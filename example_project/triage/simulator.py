"""A SIMULATED model: nothing here understands language.

It lets the example run without network, key or cost. It knows the labelled tickets, so
it can be right as often as it wants to be, and it throws dice to decide whether it is:

- How often it is right depends on the kind of the ticket: ``ACCURACY``.
- A prompt that does not say what the labels mean makes it right only .75 times as
  often. A label is explained by a line such as ``billing: charges, invoices, refunds``.
- A prompt with three worked examples or more leaves it .3 of its errors. An example is
  a line that begins with ``Ticket:`` and under it one that begins with ``Answer:``.
- A wrong answer is one of the other labels, each as likely as the next.
- A prompt that does not name the labels gets small talk, as it would from a real model.

Nothing else in the prompt changes its answers, but every other wording is another
request and gets other throws of the dice.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Protocol

from triage.labels import TOPICS, URGENCIES
from triage.tickets import Ticket, labelled_tickets

ACCURACY = {"easy": 0.92, "medium": 0.80, "hard": 0.55}
WITHOUT_MEANINGS = 0.75  # accuracy is multiplied by this
WITH_EXAMPLES = 0.3  # and then what is left of the errors by this
ENOUGH_EXAMPLES = 3
WORKED_EXAMPLE = re.compile(r"^Ticket: *\S.*\nAnswer: *\w", re.MULTILINE)


class Draw(Protocol):
    """One draw of a request, handed in by the plugin: its dice."""

    @property
    def rng(self) -> random.Random: ...


def answer(messages: Sequence[dict[str, str]], *, draw: Draw, **params: object) -> str:
    """Answer a chat with one label.

    Args:
        messages: the prompt as ``system``, the ticket as ``user``.
        draw: where the dice come from.
        params: temperature and the like, which change nothing here.

    Raises:
        LookupError: the messages hold none of the labelled tickets.
    """
    prompt = "\n".join(each["content"] for each in messages if each["role"] == "system")
    question = "\n".join(each["content"] for each in messages if each["role"] == "user")
    ticket = find_ticket(question)
    truth, labels = asked_for(prompt, ticket)
    if truth is None:
        return "Thanks for sharing this ticket! What would you like to know about it?"
    if draw.rng.random() < chance_of_being_right(prompt, labels, kind=ticket.kind):
        return truth
    return draw.rng.choice([label for label in labels if label != truth])


def find_ticket(question: str) -> Ticket:
    """Recognise a labelled ticket in what the user says."""
    for ticket in labelled_tickets():
        if ticket.text in question:
            return ticket
    message = (
        "the simulator knows only the tickets of triage/tickets.jsonl, and this is none of "
        "them; add it there, or ask a real model with --llm-model=openai/gpt-6-luna"
    )
    raise LookupError(message)


def asked_for(prompt: str, ticket: Ticket) -> tuple[str | None, Sequence[str]]:
    """Tell from the labels in the prompt what is asked: the right answer and its labels."""
    if all(names(prompt, label) for label in TOPICS):
        return ticket.label, TOPICS
    if all(names(prompt, label) for label in URGENCIES):
        return ticket.urgency, URGENCIES
    return None, ()


def chance_of_being_right(prompt: str, labels: Sequence[str], *, kind: str) -> float:
    """Weigh the kind of the ticket and the quality of the prompt."""
    chance = ACCURACY[kind]
    if not all(explains(prompt, label) for label in labels):
        chance *= WITHOUT_MEANINGS
    if len(WORKED_EXAMPLE.findall(prompt)) >= ENOUGH_EXAMPLES:
        chance = 1 - WITH_EXAMPLES * (1 - chance)
    return chance


def names(prompt: str, label: str) -> bool:
    """Whether the label stands in the prompt as a word."""
    return re.search(rf"\b{label}\b", prompt) is not None


def explains(prompt: str, label: str) -> bool:
    """Whether a line of the prompt says what the label means, in three words or more."""
    return re.search(rf"^\W*{label}: *\S+ +\S+ +\S", prompt, re.MULTILINE) is not None
