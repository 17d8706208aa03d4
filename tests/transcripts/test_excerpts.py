from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_llmeval.records import Run
from pytest_llmeval.transcripts.transcript import LONGEST, Moved, Sides, StoredTexts, excerpts
from tests.transcripts.recorded import FUNCTION, Exchange, Recorder, run_of, said, user

CASE = f"{FUNCTION}[a]"


def answering(recorder: Recorder, outcomes: str, *replies: object) -> Run:
    """Record a run of one case; each trial asks one thing and gets its reply."""

    def exchanges(index: int) -> list[Exchange]:
        return [([user("?")], replies[index])]

    return run_of(recorder.case("a", outcomes, exchanges))


def sides(recorder: Recorder, baseline: Run, current: Run, *, fell: bool = True) -> Sides:
    moved = [Moved(CASE, "pass", "higher", fell)]
    with StoredTexts(recorder.home) as stored:
        return excerpts(baseline, current, moved, stored)[CASE]


def test_of_a_case_that_fell_the_best_reply_stands_beside_the_worst(recorder: Recorder) -> None:
    baseline = answering(recorder, "mp", said("old wrong"), said("old right"))
    current = answering(recorder, "pm", said("new right"), said("new wrong"))

    assert sides(recorder, baseline, current) == ("old right", "new wrong")
    assert sides(recorder, baseline, current, fell=False) == ("old wrong", "new right")


def test_the_replies_that_were_judged_last_are_shown(recorder: Recorder) -> None:
    def asking(*texts: str) -> Run:
        asked = [([user(f"{number}?")], said(text)) for number, text in enumerate(texts)]
        return run_of(recorder.case("a", "m", lambda _: asked))

    assert sides(recorder, asking("a", "b", "c"), asking("a", "x", "y")) == ("c", "y")
    assert sides(recorder, asking("a", "b"), asking("a", "b", "c")) == ("b", "c")
    assert sides(recorder, asking("a", "b", "c"), asking("a", "x")) == ("b", "x")


def test_of_a_conversation_the_first_reply_that_differs_is_shown(recorder: Recorder) -> None:
    def talking(first: str) -> Run:
        begun = [user("Where is it?"), {"role": "assistant", "content": first}, user("When?")]
        asked = [(begun[:1], said(first)), (begun, said("Soon."))]
        return run_of(recorder.case("a", "m", lambda _: asked))

    assert sides(recorder, talking("Here."), talking("There.")) == ("Here.", "There.")
    assert sides(recorder, talking("Here."), talking("Here.")) == ("Soon.", "Soon.")


def test_of_what_was_judged_by_a_model_the_first_reply_that_differs_is_shown(
    recorder: Recorder,
) -> None:
    def judged(label: str, letter: str, verdict: str) -> Run:
        asked = [
            ([user("Label it.")], said(label)),
            ([user("Write to them.")], said(letter)),
            ([user(f"Is this polite?\n\n{letter}\n")], said(verdict)),
        ]
        return run_of(recorder.case("a", "m", lambda _: asked))

    baseline = judged("legal", "Dear Madam, it will come soon.", "yes")
    rude = judged("sales", "You will have to wait for it.", "no")
    other_judge = judged("sales", "Dear Madam, it will come soon.", "no")

    assert sides(recorder, baseline, rude) == (
        "Dear Madam, it will come soon.",
        "You will have to wait for it.",
    )
    assert sides(recorder, baseline, other_judge) == ("yes", "no")


def test_of_calls_that_were_open_at_once_those_that_differ_are_shown(recorder: Recorder) -> None:
    def gathering(department: str, urgency: str, *, turned: bool = False) -> Run:
        asked = [
            ([user("Which department?")], said(department)),
            ([user("Urgent?")], said(urgency)),
        ]
        case, (trial,) = recorder.case("a", "m", lambda _: asked)
        calls = [replace(call, strand=(0, at)) for at, call in enumerate(trial.calls)]
        return run_of((case, (replace(trial, calls=tuple(calls[:: -1 if turned else 1])),)))

    baseline = gathering("legal", "no")
    for turned in (False, True):
        one, both, none = (
            gathering(*words, turned=turned)
            for words in (("sales", "no"), ("sales", "yes"), ("legal", "no"))
        )
        assert sides(recorder, baseline, one) == ("legal", "sales")
        assert sides(recorder, baseline, both) == ("no | legal", "yes | sales")
        assert sides(recorder, baseline, none) == ("no | legal", "no | legal")


def test_beside_a_failure_stands_the_reply_of_that_trial(recorder: Recorder) -> None:
    baseline = answering(recorder, "pp", said("right"), said("right"))
    current = answering(recorder, "mm", said("first"), said("second"))
    missed, lower = (
        replace(trial, scores={"score": score})
        for trial, score in zip(current.trials, (0.5, 0.2), strict=True)
    )

    moved = [Moved(CASE, "score", "higher", has_fallen=True)]
    with StoredTexts(recorder.home) as stored:
        found = excerpts(baseline, replace(current, trials=(missed, lower)), moved, stored)

    assert found[CASE] == ("right", "first")


def test_a_side_whose_reply_is_not_here_is_none(recorder: Recorder, tmp_path: Path) -> None:
    elsewhere = Recorder(tmp_path / "other")
    baseline = answering(elsewhere, "p", said("right"))
    elsewhere.store.close()
    current = answering(recorder, "m", said("wrong"))

    assert sides(recorder, baseline, current) == (None, "wrong")


def test_a_reply_of_many_lines_is_one_line(recorder: Recorder) -> None:
    baseline = answering(recorder, "p", said("a\n\n b\tc"))
    current = answering(recorder, "m", said("x" * 1_000_000))

    assert sides(recorder, baseline, current) == ("a b c", "x" * LONGEST)


def test_a_reply_that_only_calls_a_tool_shows_the_call(recorder: Recorder) -> None:
    call = {"function": {"name": "look_up", "arguments": "{}"}}
    reply = {"choices": [{"message": {"reasoning": "Well", "content": None, "tool_calls": [call]}}]}

    found = sides(recorder, answering(recorder, "p", reply), answering(recorder, "m", b"odd"))

    assert found == ("look_up({})", "odd")


def test_a_case_without_trials_on_a_side_shows_nothing_there(recorder: Recorder) -> None:
    assert sides(recorder, run_of(), answering(recorder, "m", said("wrong"))) == (None, "wrong")


def test_of_long_replies_the_words_around_the_difference_are_shown(recorder: Recorder) -> None:
    same = "Let me think about it. " * 40
    baseline = answering(recorder, "p", said(f"{same}It is billing. {same}"))
    current = answering(recorder, "m", said(f"{same}It is an order. {same}"))

    first, second = sides(recorder, baseline, current)

    assert first is not None
    assert second is not None
    assert first.startswith("...")
    assert "It is billing. Let me" in first
    assert "It is an order. Let me" in second
    assert len(first) == len(second) == LONGEST + 3
