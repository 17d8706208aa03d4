from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from pytest_llmeval.models.message import Message
from pytest_llmeval.transcripts.messages import Asked
from pytest_llmeval.transcripts.transcript import ChangedRequest, edits_of
from pytest_llmeval.transcripts.word_diff import Piece, request_diff, word_diff

words = st.lists(st.sampled_from(["a", "b", " ", "\n", "c.", "日", "本"]), max_size=30).map("".join)


def side(pieces: tuple[Piece, ...], op: str) -> str:
    return "".join(piece.text for piece in pieces if piece.op in (" ", op))


@given(words | st.text(), words | st.text())
@example("a " * 2000, "b " * 2000)
@example("a\n" * 2000, "b " * 2000)
def test_each_side_of_a_difference_is_the_text_that_it_was(before: str, after: str) -> None:
    pieces = word_diff(before, after)

    assert (side(pieces, "-"), side(pieces, "+")) == (before, after)
    assert all(piece.text for piece in pieces)
    assert (before == after) == all(piece.op == " " for piece in pieces)


def test_only_the_words_that_changed_are_marked() -> None:
    assert word_diff("Answer with one word.", "Answer with a word.") == (
        Piece(" ", "Answer with"),
        Piece("-", " one"),
        Piece("+", " a"),
        Piece(" ", " word."),
    )


def test_texts_that_are_written_without_blanks_differ_by_letters() -> None:
    assert word_diff("日本語", "日本人") == (
        Piece(" ", "日本"),
        Piece("-", "語"),
        Piece("+", "人"),
    )


def test_of_very_long_texts_whole_lines_differ() -> None:
    same = "".join(f"line {n}\n" for n in range(5000))
    pieces = word_diff("x " * 900 + "\n" + same, "y " * 900 + "\n" + same)

    assert [piece.op for piece in pieces] == ["-", "+", " "]
    assert pieces[2].text == same


def test_a_megabyte_that_is_another_one_is_given_as_a_whole() -> None:
    before, after = "ab " * 350_000, "cd " * 350_000

    assert word_diff(before, after) == (Piece("-", before), Piece("+", after))


def asked(*messages: tuple[str, str], **settings: str) -> Asked:
    return Asked(tuple(Message(*message) for message in messages), settings)


def test_turns_of_requests_are_held_against_their_like() -> None:
    before = asked(("system", "Be kind."), ("user", "Hi"), temperature="0", seed="1")
    after = asked(("system", "Be brief."), ("user", "Hi"), temperature="0.7", top_p="1")

    found = {message.role: message.edit for message in request_diff(before, after)}

    assert found == {
        "system": ("-kind.", "+brief."),
        "user": (),
        "temperature": ("-0", "+0.7"),
        "seed": ("-1",),
        "top_p": ("+1",),
    }


def test_turns_that_only_one_side_has_are_given_as_a_whole() -> None:
    before = asked(("user", "Hi"))
    after = asked(("system", "Be brief."), ("user", "Hi"), ("user", "Now?"))

    found = [(message.role, message.edit) for message in request_diff(before, after)]

    assert found == [("system", ("+Be brief.",)), ("user", ()), ("user", ("+Now?",))]
    assert [(t.role, t.edit) for t in request_diff(after, before)] == [
        ("system", ("-Be brief.",)),
        ("user", ()),
        ("user", ("-Now?",)),
    ]


def test_a_turn_that_another_role_replaced_is_given_on_both_sides() -> None:
    found = request_diff(asked(("user", "Hi")), asked(("system", "Hi")))

    assert [(message.role, message.edit) for message in found] == [
        ("user", ("-Hi",)),
        ("system", ("+Hi",)),
    ]


def test_the_edit_of_two_cases_is_the_same_where_the_same_words_changed() -> None:
    def edit(question: str, rule: str) -> object:
        before = asked(("system", "Be kind. Be brief."), ("user", question))
        after = asked(("system", f"Be {rule}. Be brief."), ("user", question))
        return edits_of([ChangedRequest(1, request_diff(before, after))])

    assert edit("Peru?", "calm") == edit("Where is my order?", "calm")
    assert edit("Peru?", "calm") != edit("Peru?", "quick")
    assert edit("Peru?", "kind") == ()
