"""``llmeval diff``, and ``llmeval show`` of a case."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.cli.reading_commands import _echo
from pytest_llmeval.records import Outcome, Run
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.runs.store import RunStore
from tests.docs.pages import blocks
from tests.transcripts.recorded import Exchange, Recorder, run_of, said, system, user

OLD = "Label the question of a customer. If money is asked for, answer billing. Be brief."
NEW = "Label the question of a customer. Be brief."
HOSTILE = "\x1b[31mred\x1b]0;title\x07 </details> @team\n::error::broken\n##[error]no\u202eevil"
ORDER = "evals/test_agent.py::test_order"


def invoke(*arguments: str, color: bool = False, width: int = 80) -> Result:
    environment = {"COLUMNS": str(width), "PY_COLORS": str(int(color))}
    return CliRunner().invoke(main, arguments, color=color, env=environment)


def output_of(*arguments: str, **how: Any) -> str:
    result = invoke(*arguments, **how)
    assert result.exit_code == 0, result.output
    return result.stdout


def asking(prompt: str, *replies: object, question: str = "Where is my money?") -> Any:
    def exchanges(index: int) -> Sequence[Exchange]:
        return [([system(prompt), user(question)], replies[index % len(replies)])]

    return exchanges


Recorded = Callable[..., tuple[Run, Run]]


@pytest.fixture
def record(recorder: Recorder) -> Recorded:
    """Record a baseline and a run that was compared with it."""

    def both(baseline: Sequence[Any], current: Sequence[Any]) -> tuple[Run, Run]:
        old = run_of(*baseline, second=1, tree="f" * 40, ref="main")
        how = {"tree": "e" * 40, "commit": "b" * 40, "ref": "shorter-prompt"}
        new = run_of(*current, second=2, compared_with=old.id, **how)
        for run in (old, new):
            RunStore(recorder.home).save(run)
        return old, new

    return both


@pytest.fixture
def shop(recorder: Recorder, record: Recorded) -> tuple[Run, Run]:
    """One prompt lost a rule: of three cases one fell, and one fell less."""
    old = [
        recorder.case(name, "pppp", asking(OLD, said("billing"), question=name))
        for name in ("t1", "t2", "t3")
    ]
    answers = "other", "other", "billing", "what?"
    new = [
        recorder.case("t1", "pppp", asking(NEW, said("billing"), question="t1")),
        recorder.case("t2", "mmpm", asking(NEW, *map(said, answers), question="t2")),
        recorder.case("t3", "pppm", asking(NEW, said("billing"), question="t3")),
    ]
    return record(old, new)


def test_without_arguments_the_case_that_fell_most_is_shown(shop: tuple[Run, Run]) -> None:
    lines = output_of("diff").splitlines()

    assert lines[0] == "evals/test_shop.py::test_label[t2]"
    assert lines[1:3] == [
        f"baseline  run {shop[0].id}  main@aaaaaaa            4/4 passed",
        f"here      run {shop[1].id}  shorter-prompt@bbbbbbb  1/4 passed",
    ]


@pytest.mark.parametrize(("worth", "shown"), [(1.0, ["4/4", "1/4"]), (0.5, ["0.500", "0.125"])])
def test_scores_that_are_hits_are_counted_whatever_they_are_called(
    worth: float, shown: list[str], recorder: Recorder, record: Recorded
) -> None:
    def graded(outcomes: str) -> Any:
        case, trials = recorder.case("a", outcomes, asking(OLD, said("x")))
        scores = [{**one.scores, "tone": worth * one.scores["pass"]} for one in trials]
        graded = [replace(one, scores=of) for one, of in zip(trials, scores, strict=True)]
        return replace(case, gate=("tone",)), tuple(graded)

    record([graded("pppp")], [graded("mmpm")])

    told = [line.split()[-2:] for line in output_of("diff", "a").splitlines()[1:3]]
    assert told == [[score, "tone"] for score in shown]


def test_the_page_shows_what_is_printed(shop: tuple[Run, Run]) -> None:
    shown = [block.text for block in blocks("docs/debug.md", language="text")]

    assert output_of("diff") in shown


def test_the_request_is_shown_once_with_the_words_that_changed(shop: tuple[Run, Run]) -> None:
    text = " ".join(output_of("diff").split())

    assert "[-If money is asked for, answer billing.-] Be brief." in text
    assert "the same words changed in all 2 other cases of test_label that were checked" in text
    assert text.count("Label the question") == 1


def test_replies_are_told_draw_by_draw_and_equal_ones_once(shop: tuple[Run, Run]) -> None:
    lines = output_of("diff").splitlines()

    table = [line.split() for line in lines[lines.index("") + 1 :] if line[:1].isdigit()]
    assert [row[1:3] + row[5:7] for row in table] == [
        ["A", "passed", "B", "missed"],
        ["A", "passed", "B", "missed"],
        ["A", "passed", "A", "passed"],
        ["A", "passed", "C", "missed"],
    ]
    assert table[0][3:5] == ["21+2", "0.8"]
    assert "here, trials 0 1 3: AssertionError evals/test_shop.py:12" in lines
    place = lines.index("reply B  0 of 4 baseline, 2 of 4 here")
    assert lines[place + 1] == "  other"


def test_a_case_can_be_named_by_a_part_of_its_id(shop: tuple[Run, Run]) -> None:
    assert output_of("diff", "t3").startswith("evals/test_shop.py::test_label[t3]\n")
    assert output_of("diff", "test_label[t1]").startswith("evals/test_shop.py::test_label[t1]\n")
    old, new = shop
    assert output_of("diff", "t3", old.id, new.id) == output_of("diff", "t3")
    assert output_of("diff", new.id, old.id).splitlines()[1].startswith(f"baseline  run {new.id}")


def test_a_function_means_its_case_that_fell_most_and_in_one_run_its_worst(
    shop: tuple[Run, Run],
) -> None:
    for name in ("evals/test_shop.py::test_label", "test_label", "label"):
        assert output_of("diff", name) == output_of("diff", "t2")
        assert output_of("show", "last", name) == output_of("show", "last", "t2")
    assert output_of("show", shop[0].id, "test_label").splitlines()[0].endswith("[t1]")


def test_a_part_of_several_ids_lists_them(shop: tuple[Run, Run]) -> None:
    result = invoke("diff", "t")

    assert result.exit_code == 4
    assert result.stdout == ""
    assert result.stderr == (
        "ERROR: t: 3 cases have that: evals/test_shop.py::test_label[t1], "
        "evals/test_shop.py::test_label[t2], evals/test_shop.py::test_label[t3]. "
        "Name one of them\n"
    )


@pytest.mark.parametrize("arguments", [["diff", "t9"], ["show", "last", "t9"]])
def test_a_case_that_is_nowhere_is_a_usage_error(
    shop: tuple[Run, Run], arguments: list[str]
) -> None:
    result = invoke(*arguments)

    assert result.exit_code == 4
    assert "t9: no case has that in its name" in result.stderr


def test_an_exact_parameter_is_meant_before_a_longer_one(
    recorder: Recorder, record: Recorded
) -> None:
    cases = [recorder.case(name, "p", asking(OLD, said("x"))) for name in ("t1", "t10", "xt1")]
    record(cases, cases)

    assert output_of("diff", "t1").startswith("evals/test_shop.py::test_label[t1]\n")
    assert invoke("diff", "t").exit_code == 4


def test_show_tells_what_one_run_asked_and_was_answered(shop: tuple[Run, Run]) -> None:
    lines = output_of("show", "last", "t2").splitlines()

    assert lines[0] == "evals/test_shop.py::test_label[t2]"
    assert "  user      t2" in lines
    assert '  settings  model "m"' in lines
    assert "reply A  2 of 4" in lines
    assert "baseline" not in "".join(lines)


def test_turns_are_in_order_and_the_place_where_the_sides_part_is_named(
    recorder: Recorder, record: Recorded
) -> None:
    def agent(number: int, final: str) -> Any:
        question = user("Where is my order?")
        function = {"name": "look_up", "arguments": f'{{"id": {number}}}'}
        asked = {"role": "assistant", "content": None, "tool_calls": [{"function": function}]}
        result = {"role": "tool", "content": "late"}
        first = {"choices": [{"message": asked}]}
        return lambda _: [([question], first), ([question, asked, result], said(final))]

    old = recorder.case("a", "pp", agent(7, "It is late."), function=ORDER)
    record([old], [recorder.case("a", "mm", agent(8, "On time."), function=ORDER)])

    lines = output_of("diff").splitlines()

    assert "request, the same on both sides" in lines
    place = lines.index("the sides part in trial 0 at call 1")
    assert lines[place + 1 : place + 3] == [
        '  baseline  assistant calls: look_up({"id": 7})',
        '  here      assistant calls: look_up({"id": 8})',
    ]
    place = lines.index("reply A  2 of 2 baseline, 0 of 2 here")
    assert lines[place + 1 : place + 5] == [
        '  assistant calls look_up({"id": 7})',
        "  call 2",
        "  tool returns    late",
        "  assistant       It is late.",
    ]


def test_an_equal_reply_to_unlike_requests_says_whose_requests_it_shows(
    recorder: Recorder, record: Recorded
) -> None:
    def two_questions(second: str) -> Any:
        return lambda _: [([user("Who?")], said("Ann")), ([user(second)], said("yes"))]

    old = recorder.case("a", "pp", two_questions("Is it late?"))
    record([old], [recorder.case("a", "pp", two_questions("Is it too late?"))])

    text = output_of("diff", "a", width=100)

    # "Ann" answers the request of call 1, which did not change
    assert "request of call 1, the same on both sides\n  user      Who?\n" in text
    assert text.endswith(
        "reply A  2 of 2 baseline, 2 of 2 here; requests as trial 0 here sent them, others differ\n"
        "  assistant Ann\n  call 2\n  user      Is it too late?\n  assistant yes\n"
    )


def test_a_replay_is_told_by_its_draw_and_not_by_its_text(
    recorder: Recorder, record: Recorded
) -> None:
    case, trials = recorder.case("a", "pp", asking(OLD, said("same")))
    _, others = recorder.case("a", "pm", asking(OLD, said("same")))
    record([(case, trials)], [(case, (trials[0], others[1]))])

    rows = [line for line in output_of("diff").splitlines() if line[:1].isdigit()]

    assert [row.endswith("= replay") for row in rows] == [True, False]
    assert all("A passed" in row for row in rows)


def test_replies_that_are_not_here_are_said_to_be_so(
    shop: tuple[Run, Run], recorder: Recorder
) -> None:
    recorder.store.close()
    shutil.rmtree(recorder.home / "cache")

    result = invoke("diff", "t2")

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    missing = "not in the cache here: pruned, or paid for on another machine"
    assert f"request, baseline: {missing}" in lines
    assert [line.split()[1:3] for line in lines if line[:1] == "0"] == [["?", "passed"]]
    assert not any(line.startswith("reply") for line in lines)
    assert result.stderr.startswith(
        "note: replies marked ? are not here: 4 of 4 trials, baseline; 4 of 4 trials, here. "
    )
    assert "not here: 4 of 4 trials. " in invoke("show", "last", "t2").stderr
    assert not (recorder.home / "cache").exists()


def test_of_a_trial_is_shown_what_is_here(recorder: Recorder, record: Recorded) -> None:
    asked = [system(OLD)], [system(NEW)]
    case, trials = recorder.case("a", "p", lambda _: [(one, said("x")) for one in asked])
    calls = trials[0].calls[0], replace(trials[0].calls[1], draw="e" * 32)
    record([(case, trials)], [(case, (replace(trials[0], calls=calls),))])

    lines = output_of("diff", "a").splitlines()

    place = lines.index("reply ?  trial 0, here")
    assert lines[place + 1 :] == [
        "  assistant x",
        "  call 2",
        "  system    Label the question of a customer. Be brief.",
        "  assistant the reply is not here",
    ]


def test_a_case_of_one_side_alone_is_shown_for_that_side(
    recorder: Recorder, record: Recorded
) -> None:
    old = recorder.case("a", "p", asking(OLD, said("x")))
    record([old], [old, recorder.case("new", "p", asking(OLD, said("y")))])

    lines = output_of("diff", "new").splitlines()

    assert lines[1].endswith("has no such case")
    assert "request, baseline: none was made" in lines
    assert "  user      Where is my money?" in lines


def test_where_nothing_moved_a_case_is_asked_for(recorder: Recorder, record: Recorded) -> None:
    case = recorder.case("a", "p", asking(OLD, said("x")))
    record([case], [case])

    assert output_of("diff") == "every case scored the same in both; name one: llmeval diff CASE\n"


def test_a_run_that_was_compared_with_nothing_asks_for_two(
    recorder: Recorder, record: Recorded
) -> None:
    RunStore(recorder.home).save(
        run_of(recorder.case("a", "p", asking(OLD, said("x"))), tree="f" * 40)
    )

    result = invoke("diff")

    assert result.exit_code == 4
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("Name two:  llmeval diff A B\n")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
@pytest.mark.parametrize("reply", [said(HOSTILE), HOSTILE.encode(), said("日本語" * 200)])
def test_a_hostile_reply_is_shown_and_does_nothing(
    recorder: Recorder, record: Recorded, width: int, reply: object
) -> None:
    old = recorder.case(HOSTILE, "pp", asking(HOSTILE, said("x")))
    record([old], [recorder.case(HOSTILE, "mm", asking(HOSTILE + "!", reply, said(HOSTILE)))])

    for text in (output_of("diff", width=width), output_of("show", "last", "red", width=width)):
        assert all(line.isprintable() for line in text.splitlines())
        assert not any(line.lstrip().startswith("::") for line in text.splitlines())
        assert "##[" not in text
        assert max(map(columns_of, text.splitlines())) <= max(width, 40)


def columns_of(line: str) -> int:
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in line)


def test_only_our_own_colours_reach_a_terminal(recorder: Recorder, record: Recorded) -> None:
    old = recorder.case("a", "p", asking("one", said("x")))
    record([old], [recorder.case("a", "m", asking("two", said("\x1b[31mred\x1b[0m")))])

    text = output_of("diff", color=True)

    assert "\x1b[31m[-one-]\x1b[0m" in text
    assert "\x1b[32m{+two+}\x1b[0m" in text
    assert r"\x1b[31mred\x1b[0m" in text
    assert "\x1b" not in output_of("diff", color=False)


def test_a_megabyte_is_cut_unless_all_of_it_is_asked_for(
    recorder: Recorder, record: Recorded
) -> None:
    long = said("word " * 200_000)
    old = recorder.case("a", "p", asking(OLD, said("x")))
    record([old], [recorder.case("a", "m", asking(OLD, long))])

    cut, full = output_of("diff"), output_of("diff", "--full")

    assert "... (1000000 characters in all; --full shows them)" in cut
    assert len(cut) < 10_000
    assert full.count("word") == 200_000


@pytest.mark.parametrize("name", [["diff", "a", "b", "c", "d"], ["diff", "last", "nothing"]])
def test_other_mistakes_are_one_line(shop: tuple[Run, Run], name: list[str]) -> None:
    result = invoke(*name)

    assert result.exit_code == 4
    assert result.stderr.startswith("ERROR: ")
    assert result.stderr.count("\n") == 1


def test_a_case_that_was_renamed_is_held_against_its_old_name(
    recorder: Recorder, record: Recorded, tmp_path: Path
) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nllm_renamed =\n    evals/test_old.py -> evals/test_shop.py\n"
    )
    old = "evals/test_old.py::test_label"
    before = [recorder.case(name, "pp", asking(OLD, said("x")), function=old) for name in "ab"]
    after = [recorder.case(name, "mm", asking(NEW, said("y"))) for name in "ab"]
    record(before, after)

    text = output_of("diff", "a")

    assert text.startswith("evals/test_shop.py::test_label[a]\n")
    assert "[-If money" in text
    assert "the same words changed in the one other case of test_label that was checked" in text
    assert "reply A  2 of 2 baseline, 0 of 2 here" in text


@pytest.mark.parametrize("name", ["old-id", "new-id", "test_label"])
def test_a_case_whose_id_was_edited_is_held_against_itself_whichever_id_is_typed(
    recorder: Recorder, record: Recorded, name: str
) -> None:
    case, trials = recorder.case("old-id", "mm", asking(OLD, said("x")))
    new = replace(case, id=case.id.replace("old", "new"), parameters="2" * 32)
    now = [replace(one, case=new.id, outcome=Outcome.PASSED, scores={"pass": 1}) for one in trials]
    record([(replace(case, parameters="1" * 32), trials)], [(new, tuple(now))])

    lines = output_of("diff", name, width=150).splitlines()

    assert lines[0] == new.id
    assert lines[1].endswith(f"0/2 passed, as {case.id}")
    assert lines[2].endswith("2/2 passed")
    assert lines[4] == "request, the same on both sides"


@pytest.mark.parametrize("arguments", [["diff", "a"], ["show", "last", "a"]])
def test_a_case_of_which_no_trial_ended_is_a_usage_error(
    recorder: Recorder, record: Recorded, arguments: list[str]
) -> None:
    case, _ = recorder.case("a", "p", asking(OLD, said("x")))
    record([(case, ())], [(case, ())])

    result = invoke(*arguments)

    assert result.exit_code == 4
    assert "evals/test_shop.py::test_label[a]: no trial of it ended in " in result.stderr


def test_what_steers_only_as_a_whole_line_is_spelled_out_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _echo([(("#", ""), ("#[error]x", "red"))], Page())

    assert capsys.readouterr().out == "\\x23#[error]x\n"


def test_a_trial_without_calls_is_told_without_a_reply(
    recorder: Recorder, record: Recorded
) -> None:
    case = recorder.case("a", "p", lambda _: [])
    record([case], [case])

    lines = output_of("diff", "a").splitlines()

    assert "request, here: none was made" in lines
    assert lines[-1].split() == ["0", "passed", "passed"]


def test_more_answers_than_letters_have_names_of_their_own(
    recorder: Recorder, record: Recorded
) -> None:
    case = recorder.case("a", "p" * 30, lambda index: [([user("?")], said(f"answer {index}"))])
    record([case], [case])

    lines = output_of("show", "last", "a").splitlines()

    assert lines[lines.index("reply Z  1 of 30") + 1] == "  answer 25"
    assert lines[lines.index("reply A1  1 of 30") + 1] == "  answer 26"


def test_a_case_of_which_only_one_side_says_more_names_the_end(
    recorder: Recorder, record: Recorded
) -> None:
    asked = [([user("?")], said("a")), ([user("?"), user("!")], said("b"))]
    case = recorder.case("a", "p", lambda _: asked)
    record([case], [recorder.case("a", "m", lambda _: asked[:1])])

    lines = output_of("diff").splitlines()

    place = lines.index("the sides part in trial 0 at call 2")
    assert lines[place + 1 : place + 3] == ["  baseline  user: !", "  here      nothing more"]


def test_of_cases_that_moved_alike_the_first_by_name_is_shown(
    recorder: Recorder, record: Recorded
) -> None:
    low = [recorder.case(name, "m", asking(OLD, said("x"))) for name in "ba"]
    high = [recorder.case(name, "p", asking(NEW, said("y"))) for name in "ba"]
    old, new = record(high, low)

    assert output_of("diff").startswith("evals/test_shop.py::test_label[a]\n")
    assert output_of("diff", new.id, old.id).startswith("evals/test_shop.py::test_label[a]\n")


def test_changed_lines_and_blanks_are_marked_so_that_they_can_be_seen(
    recorder: Recorder, record: Recorded
) -> None:
    old = recorder.case("a", "p", asking("Labels:\n\nbilling, bug", said("x"), question="a b"))
    new = recorder.case("a", "m", asking("Labels:\nall", said("x"), question="a b "))
    record([old], [new])

    lines = [line.strip() for line in output_of("diff").splitlines()]

    place = lines.index("system    Labels:")
    assert lines[place + 1 : place + 5] == ["", "[-billing, bug-]", "{+all+}", "user      a b{+ +}"]
