"""What a call prints and warns of in a thread of its own belongs to the trial that waits for it."""

from __future__ import annotations

import pytest

from tests.forked import run_forked

BOT = """
import logging
import sys
import time
import warnings

def answer(messages, *, draw):
    said = messages[-1]["content"]
    time.sleep(0.01 + 0.02 * draw.rng.random())
    print(f"called {said}")
    print(f"failing {said}", file=sys.stderr)
    logging.getLogger("bot").warning(f"logged {said}")
    if said.startswith("careful"):
        warnings.warn(f"warned {said}", UserWarning)
    time.sleep(0.01)
    print(f"answered {said}")
    return said
"""
PRELUDE = """
import contextlib
import io
import warnings
import pytest
from pytest_llmeval import llm_eval, waiting

MANY = pytest.mark.parametrize("n", range(4))
"""
MODES = pytest.mark.parametrize(
    "mode",
    [(), ("--capture=sys",), ("--llm-concurrency=1",)],
    ids=["overlapping", "sys", "inline"],
)


def run(pytester: pytest.Pytester, suite: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(bot=BOT, test_it=PRELUDE + suite)
    pytester.makeini("[pytest]\nllm_model = function/bot:answer\npythonpath = .\n")
    return run_forked(pytester, "-p", "no:cacheprovider", *arguments)


@MODES
def test_what_a_call_prints_stands_between_what_its_trial_prints(
    pytester: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    result = run(
        pytester,
        """
@MANY
@llm_eval(repeats=3, min_score=1)
def test_it(llm, n):
    print(f"before {n}")
    llm.ask(f"{n}")
    print(f"after {n}")
    waiting(print, f"waited {n}")
    assert False
""",
        *mode,
    )

    result.assert_outcomes(failed=4)
    for n in range(4):
        part = str(result.stdout).partition(f"_ test_it[{n}] _")[2].partition("\n____")[0]
        lines = f"before {n}\ncalled {n}\nanswered {n}\nafter {n}\nwaited {n}\n"
        assert part.count(lines) == 3
        assert part.count(f"failing {n}") == part.count("failing ") == 3
        assert part.count("called ") == 3


@MODES
def test_a_trial_that_redirects_its_output_gets_that_of_its_call(
    pytester: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    result = run(
        pytester,
        """
@llm_eval(repeats=3, min_score=1)
def test_it(llm):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        llm.ask("?")
    assert text.getvalue() == "called ?\\nanswered ?\\n"
""",
        *mode,
    )

    result.assert_outcomes(passed=1)


def test_a_trial_in_turn_meets_nothing_of_the_call_of_another(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        bot="""
        import sys
        import threading
        import warnings

        GO, SAID = threading.Event(), threading.Event()

        def answer(messages):
            GO.wait(300)
            print("called")
            print("failing", file=sys.stderr)
            sys.stderr.write("written\\n")
            warnings.warn("warned", UserWarning)
            SAID.set()
            return "yes"
        """,
        test_it="""
        import contextlib
        import io
        import time
        import warnings
        from bot import GO, SAID
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=1, min_score=1)
        def test_asks(llm):
            llm.ask("?")
            assert False

        @llm_eval(repeats=1, min_score=1)
        def test_in_turn():
            text = io.StringIO()
            with contextlib.redirect_stdout(text), warnings.catch_warnings(record=True) as caught:
                GO.set()
                end = time.monotonic() + 20
                while not SAID.is_set() and time.monotonic() < end:
                    pass  # with the baton
            print("in turn")
            assert (text.getvalue(), caught) == ("", [])
            assert False
        """,
    )
    pytester.makeini("[pytest]\nllm_model = function/bot:answer\npythonpath = .\n")

    result = run_forked(pytester, "-p", "no:cacheprovider")

    result.assert_outcomes(failed=2, warnings=1)
    asks, _, in_turn = str(result.stdout).partition("_ test_in_turn _")
    assert "called\n" in asks
    assert "failing\nwritten\n" in asks
    in_turn = in_turn.partition("= warnings")[0]
    assert "in turn\n" in in_turn
    assert not [word for word in ("called", "failing", "written", "warned") if word in in_turn]


@MODES
def test_what_a_call_warns_of_meets_the_filters_of_its_own_trial(
    pytester: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    result = run(
        pytester,
        """
@MANY
@llm_eval(repeats=3, min_score=1)
def test_caught(llm, n):
    with pytest.warns(UserWarning) as caught:
        llm.ask(f"careful {n}")
    assert [str(w.message) for w in caught] == [f"warned careful {n}"]
    assert caught[0].filename.endswith("bot.py")

@MANY
@llm_eval(repeats=3, min_score=1)
def test_silent(llm, n):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        llm.ask(f"silent {n}")

@MANY
@llm_eval(repeats=3, min_score=1)
def test_ignored(llm, n):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="warned careful ignored")
        llm.ask(f"careful ignored {n}")

@MANY
@llm_eval(repeats=3, min_score=1)
def test_an_error(llm, n):
    llm.ask(f"answered {n}")  # a trial without any reply would be no result
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with pytest.raises(Exception, match="UserWarning"):
            llm.ask(f"careful error {n}")

@llm_eval(repeats=2, min_score=1)
def test_shown(llm):
    llm.ask("careful shown")
    warnings.warn("by the test", UserWarning)
""",
        *mode,
    )

    # A warning that is an error in a model loses the reply: such a trial has no outcome.
    result.assert_outcomes(
        passed=13, errors=4, warnings=2 if mode[:1] == ("--llm-concurrency=1",) else 4
    )
    result.stdout.fnmatch_lines(
        ["*test_it.py::test_shown*", "*bot.py:13: UserWarning: warned careful shown*"]
    )
    result.stdout.fnmatch_lines(["*test_it.py:*: UserWarning: by the test"])
    result.stdout.no_fnmatch_line("*warned careful ignored*")
    result.stdout.no_fnmatch_line("*aside.py*")


def test_calls_of_coroutines_are_told_apart_too(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import asyncio

@MANY
@llm_eval(repeats=3, min_score=1)
async def test_it(async_llm, n):
    with pytest.warns(UserWarning) as caught:
        await async_llm.ask(f"careful {n}")
    assert [str(w.message) for w in caught] == [f"warned careful {n}"]
    assert False
""",
    )

    result.assert_outcomes(failed=4)
    for n in range(4):
        part = str(result.stdout).partition(f"_ test_it[{n}] _")[2].partition("\n____")[0]
        assert part.count(f"called careful {n}\nanswered careful {n}\n") == 3
        assert part.count("called ") == 3


@MODES
def test_a_coroutine_meets_the_output_of_its_call_where_no_other_has_its_turn_between(
    pytester: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    result = run(
        pytester,
        """
@llm_eval(repeats=1, min_score=1)
async def test_it(async_llm, caplog):
    for n in range(3):
        print(f"before {n}")
        with pytest.warns(UserWarning, match=f"warned careful {n}"):
            await async_llm.ask(f"careful {n}")
        assert f"logged careful {n}" in caplog.text
        print(f"after {n}")
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        await async_llm.ask("?")
    assert text.getvalue() == "called ?\\nanswered ?\\n"
    await async_llm.ask("end")
    pytest.fail("seen to the end")
""",
        *mode,
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Failed: seen to the end"])
    said = [f"before {n}\ncalled careful {n}\nanswered careful {n}\nafter {n}\n" for n in range(3)]
    assert "".join([*said, "called end\nanswered end\n"]) in str(result.stdout)
