"""Which stored request is most like one that was not found, and where the two differ."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_llmeval.cache.requests import Told

SHOWN = 60  # characters of a text
LEAD = 20  # of these before the place where it differs
WORDS = re.compile(r"\w+|[^\w\s]")
ABSENT = "nothing"


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that two requests do not share; a side is None where it has no such field.

    Attributes:
        field: such as ``messages[0].content``.
        here: its value in the request that was not found.
        stored: its value in the stored one.
    """

    field: str
    here: str | None
    stored: str | None


class _Leaf(NamedTuple):
    text: str
    words: Counter[str]


class Nearest:
    """Looks for what is most like one request.

    Args:
        told: the request that was not found.
    """

    def __init__(self, told: Told) -> None:
        self._place = _place(told)
        self._leaves = {field: _Leaf(text, _words(text)) for field, text in _leaves(told)}

    def among(self, others: Iterable[Told]) -> Told | None:
        """Pick the nearest: of the same model and path if there is one, then by words.

        Args:
            others: stored requests; the first of equally near ones is taken.
        """
        return min(others, key=self._distance, default=None)

    def differences(self, other: Told) -> list[Difference]:
        """List the fields that differ, in the order of the request."""
        stored = dict(_leaves(other))
        found = [
            Difference(field, leaf.text, stored.get(field))
            for field, leaf in self._leaves.items()
            if stored.get(field) != leaf.text
        ]
        new = [field for field in stored if field not in self._leaves]
        return found + [Difference(field, None, stored[field]) for field in new]

    def _distance(self, other: Told) -> tuple[bool, int]:
        differing = self.differences(other)
        return _place(other) != self._place, sum(self._weight(each) for each in differing)

    def _weight(self, difference: Difference) -> int:
        leaf = self._leaves.get(difference.field)
        here = Counter[str]() if leaf is None else leaf.words
        stored = _words(difference.stored or "")
        return 1 + (here - stored).total() + (stored - here).total()


def sentence(differences: Sequence[Difference]) -> str:
    """Say where two requests differ, in one line."""
    if not differences:
        return "they differ only in what is not kept (a value that goes by the name of a secret)"
    first = differences[0]
    text = f"{first.field}: {_sides(first)}"
    if len(differences) == 1:
        return text
    fields = ", ".join(each.field for each in differences[1:3])
    more = f" and {len(differences) - 3} more" if len(differences) > 3 else ""  # noqa: PLR2004
    return f"{text}; also {fields}{more}"


def _place(told: Told) -> tuple[object, object, object]:
    body = told["body"]
    model = body.get("model") if isinstance(body, Mapping) else None
    return told["provider"], told["path"], model


def _leaves(told: Told) -> Iterator[tuple[str, str]]:
    for part, value in told.items():
        if part == "body":
            yield from _flat("", value)
        elif value:
            yield {"source": "code of the model"}.get(part, part), json.dumps(value)


def _flat(field: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name in value:
            yield from _flat(f"{field}.{name}" if field else str(name), value[name])
    elif isinstance(value, list) and value:
        for index, part in enumerate(value):
            yield from _flat(f"{field}[{index}]", part)
    else:
        yield field or "body", json.dumps(value, ensure_ascii=False)


def _words(text: str) -> Counter[str]:
    return Counter(WORDS.findall(text))


def _sides(difference: Difference) -> str:
    here, stored = difference.here, difference.stored
    if here is None or stored is None:
        return f"{_shown(here, 0)} here, {_shown(stored, 0)} stored"
    start = _first_unlike(here, stored)
    return f"{_shown(here, start)} here, {_shown(stored, start)} stored"


def _shown(text: str | None, differs_at: int) -> str:
    if text is None:
        return ABSENT
    begin = 0 if len(text) <= SHOWN else min(max(0, differs_at - LEAD), len(text) - SHOWN)
    # What is stored may hold anything, a terminal's escape codes too.
    cut = "".join(c if c.isprintable() else "?" for c in text[begin : begin + SHOWN])
    return f"{'...' * (begin > 0)}{cut}{'...' * (begin + SHOWN < len(text))}"


def _first_unlike(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
