"""Dates, times and ids by which requests differ."""

from __future__ import annotations

import pytest

from pytest_llmeval.models.message import Message
from pytest_llmeval.transcripts.messages import Asked
from pytest_llmeval.transcripts.varying import differ_in_varying


def asked(text: str, **own: str) -> Asked:
    return Asked((Message("user", text),), own)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It is 2026-11-25.", "It is 2026-11-26."),
        ("It is 2026-11-25T09:15:00Z now", "It is 2026-11-26T10:01:59Z now"),
        ("On 25.11.2026 at 9:15", "On 26.11.2026 at 10:40"),
        ("Today is Wednesday, November 25, 2026.", "Today is Thursday, November 26, 2026."),
        ("25 Nov 2026: hello", "26 Nov 2026: hello"),
        ("at 1764061200.123 sharp", "at 1764147600.9 sharp"),
        ("id 6f9619ff-8b86-d011-b42d-00c04fc964ff", "id 550e8400-e29b-41d4-a716-446655440000"),
        ("token 9f8a7b6c end", "token 0a1b2c3d end"),
        ("req_A1b2C3d4E5f6G7h8", "req_Z9y8X7w6V5u4T3s2"),
    ],
)
def test_what_is_another_one_in_each_build(one: str, other: str) -> None:
    assert differ_in_varying(asked(one), asked(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (asked("Answer."), asked("Answer.")),
        (asked("Answer."), asked("Answer in a word.")),
        (asked("At most 3 words."), asked("At most 5 words.")),
        (asked("Use 3-shot-examples"), asked("Use 5-shot-examples")),
        (asked("It is 2026-11-25. Answer."), asked("It is 2026-11-26. Be polite.")),
        (asked("x", model="gpt-2026-01-01"), asked("x", model="gpt-2026-02-02")),
        (asked("x", temperature="0.1"), asked("x", temperature="0.2")),
    ],
    ids=str,
)
def test_an_edit_or_another_model_is_none(one: Asked, other: Asked) -> None:
    assert not differ_in_varying(one, other)
