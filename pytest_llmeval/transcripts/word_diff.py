"""Differences of two texts by words, and of two requests by messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from pytest_llmeval.models.message import Message
from pytest_llmeval.transcripts.messages import Asked

Op = Literal[" ", "-", "+"]

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # written without blanks
WORDS = re.compile(rf"\s*(?:[{_CJK}]|[^\s{_CJK}]+)|\s+$")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
# the most parts to compare: more take over 0.1 s
_MOST = 600


def first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the first place where two sequences differ, or where the shorter one ends."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


@dataclass(frozen=True, slots=True)
class Piece:
    """Words that both texts have, or only the first (``-``), or only the second (``+``)."""

    op: Op
    text: str


def word_diff(before: str, after: str) -> tuple[Piece, ...]:
    """Compare two texts word by word; very different long ones by lines, or as a whole."""
    for parts in (WORDS, _LINES):
        found = _diff(parts.findall(before), parts.findall(after))
        if found is not None:
            return found
    return _pieces((("-", before), ("+", after)))


def _diff(before: Sequence[str], after: Sequence[str]) -> tuple[Piece, ...] | None:
    """Compare parts of texts; None if too many differ."""
    start = first_difference(before, after)
    end = first_difference(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(old), len(new)) > _MOST:
        return None
    changes: list[tuple[Op, str]] = [(" ", "".join(before[:start]))]
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            changes.append((" ", "".join(old[i:j])))
        else:
            changes += [("-", "".join(old[i:j])), ("+", "".join(new[k:m]))]
    changes.append((" ", "".join(before[len(before) - end :])))
    return _pieces(changes)


def _pieces(changes: Sequence[tuple[Op, str]]) -> tuple[Piece, ...]:
    return tuple(Piece(op, text) for op, text in changes if text)


@dataclass(frozen=True, slots=True)
class MessageDiff:
    """A message of a request on both sides.

    Attributes:
        role: of the message, or the name of a setting.
        pieces: its text; a single piece if nothing changed.
    """

    role: str
    pieces: tuple[Piece, ...]

    @property
    def edit(self) -> tuple[str, ...]:
        """The changed pieces alone."""
        return tuple(f"{piece.op}{piece.text.strip()}" for piece in self.pieces if piece.op != " ")


def in_context(pieces: Sequence[Piece], *, words: int) -> Iterator[Piece]:
    """Cut the texts that both sides have to so many words on each side of a change."""
    last = len(pieces) - 1
    for place, piece in enumerate(pieces):
        if piece.op == " " and last:
            piece = Piece(" ", shortened(piece.text, words, is_last=place == last))  # noqa: PLW2901
        yield piece


def shortened(text: str, most: int, *, is_last: bool = False) -> str:
    """Cut a long text to so many words at its beginning and at its end; of the last one no end."""
    words = list(re.finditer(r"\S+", text))
    if len(words) <= 4 * most:
        return text
    head, tail = text[: words[most - 1].end()], "" if is_last else text[words[-most].start() :]
    return f"{head} ... ({len(words) - most * (2 - is_last)} words) ... {tail}"


def request_diff(before: Asked, after: Asked) -> tuple[MessageDiff, ...]:
    """Compare two requests, message by message, and then their settings by name."""
    return (*_messages(before.messages, after.messages), *_settings(before, after))


def _messages(before: Sequence[Message], after: Sequence[Message]) -> Iterator[MessageDiff]:
    for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (MessageDiff(one.role, _pieces([(" ", one.text)])) for one in before[i:j])
            continue
        for old, new in zip_longest(before[i:j], after[k:m]):
            if old and new and old.role == new.role:
                yield MessageDiff(old.role, word_diff(old.text, new.text))
                continue
            if old:
                yield MessageDiff(old.role, (Piece("-", old.text),))
            if new:
                yield MessageDiff(new.role, (Piece("+", new.text),))


def _settings(before: Asked, after: Asked) -> Iterator[MessageDiff]:
    for name in dict.fromkeys((*before.settings, *after.settings)):
        old, new = before.settings.get(name, ""), after.settings.get(name, "")
        if old != new:
            yield MessageDiff(name, word_diff(old, new))
