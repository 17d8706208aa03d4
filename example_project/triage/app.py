"""Asks a model where a ticket belongs and how urgent it is.

The application does not know which model it talks to. It is handed one: any object
with ``chat(messages)`` that returns something with a ``text``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from triage.labels import TOPICS, URGENCIES

HERE = Path(__file__).parent
Message = dict[str, str]


class Reply(Protocol):
    """What a model answered."""

    @property
    def text(self) -> str: ...


class Model(Protocol):
    """Whatever can answer a chat."""

    def chat(self, messages: list[Message]) -> Reply: ...


def topic_of(ticket: str, model: Model) -> str:
    """Tell which desk should read the ticket.

    An answer that is no topic goes to ``other``, where a person reads it.
    """
    return parse_label(ask("prompt.txt", ticket, model=model), TOPICS, fallback="other")


def urgency_of(ticket: str, model: Model) -> str:
    """Tell how soon the ticket should be read."""
    return parse_label(ask("urgency_prompt.txt", ticket, model=model), URGENCIES, fallback="normal")


def ask(prompt_file: str, ticket: str, *, model: Model) -> str:
    """Send the prompt and the ticket, return the model's words."""
    prompt = (HERE / prompt_file).read_text(encoding="utf-8")
    return model.chat(build_messages(prompt, ticket)).text


def build_messages(prompt: str, ticket: str) -> list[Message]:
    """Put the prompt and the ticket into the form that chat models take."""
    return [
        {"role": "system", "content": prompt.strip()},
        {"role": "user", "content": f"Ticket: {ticket}"},
    ]


def parse_label(answer: str, labels: Sequence[str], *, fallback: str) -> str:
    """Read a label from an answer such as ``Billing.``; anything else is the fallback."""
    word = answer.strip().strip(".\"'*` ").lower()
    return word if word in labels else fallback
