"""The tickets that people have labelled by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TICKETS_FILE = Path(__file__).with_name("tickets.jsonl")


@dataclass(frozen=True, slots=True)
class Ticket:
    """One labelled ticket.

    Attributes:
        label: the topic a person gave it.
        kind: how hard people found it: ``easy``, ``medium`` or ``hard``.
        urgency: what a person said; None where nobody was asked.
    """

    id: str
    text: str
    label: str
    kind: str
    urgency: str | None = None


@cache
def labelled_tickets() -> tuple[Ticket, ...]:
    """Read the tickets, in the order of the file."""
    lines = TICKETS_FILE.read_text(encoding="utf-8").splitlines()
    return tuple(Ticket(**json.loads(line)) for line in lines)
