from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_llmeval.errors import ProviderFailed, ReplayMiss, SettingsError
from pytest_llmeval.models.function import load_function
from pytest_llmeval.models.llm import Reply, Usage
from tests.models.conftest import CountingTrial, Session


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Write importable modules; a module written anew is imported anew."""
    monkeypatch.syspath_prepend(tmp_path)
    # Two versions of a module within one second look the same to a bytecode cache.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    written: set[str] = set()

    def write_module(source: str, name: str = "bot_under_test") -> None:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        written.add(name)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()

    yield write_module
    for name in written:
        sys.modules.pop(name, None)


BOT = "function/bot_under_test:answer"
ECHO = """
    def answer(messages, **params):
        return f"{messages[-1]['content']}, {params}"
"""


def key_of(session: Session) -> str:
    trial = CountingTrial(0)
    session.model(BOT, trial).ask("Hello")
    return trial.calls[0].key


def test_a_function_answers_messages_and_parameters(
    session: Session, trial: CountingTrial, write: Callable[..., None]
) -> None:
    write(ECHO)

    reply = session.model(BOT, trial).ask("Hello", temperature=0)

    text = "Hello, {'temperature': 0}"
    assert reply == Reply(text=text, parse=str, model=None, usage=Usage(), cached=False)
    assert reply.raw == text


def test_a_function_gets_the_system_message_first(
    session: Session, trial: CountingTrial, write: Callable[..., None]
) -> None:
    write("""
        def answer(messages):
            return " ".join(message["role"] for message in messages)
    """)

    assert session.model(BOT, trial).ask("Hello", system="Be brief.").text == "system user"


def test_a_second_run_calls_nothing(
    begin: Callable[..., Session], write: Callable[..., None]
) -> None:
    write("""
        made = []

        def answer(messages):
            made.append(1)
            return str(len(made))
    """)
    replies = [begin().model(BOT, CountingTrial(0)).ask("Hello") for _ in range(2)]

    assert [reply.text for reply in replies] == ["1", "1"]
    assert [reply.cached for reply in replies] == [False, True]


def test_a_replay_is_missed_where_nothing_is_stored(
    begin: Callable[..., Session], trial: CountingTrial, write: Callable[..., None]
) -> None:
    write(ECHO)

    with pytest.raises(ReplayMiss):
        begin(mode="replay").model(BOT, trial).ask("Hello")


def test_a_call_is_recorded_with_model_parameters_and_seconds(
    session: Session, trial: CountingTrial, write: Callable[..., None]
) -> None:
    write(ECHO)

    session.model(BOT, trial).ask("Hello", temperature=0.5, mood="good")

    (call,) = trial.calls
    assert (call.model, call.host) == (BOT, None)
    assert call.parameters == {"temperature": 0.5}
    assert call.seconds is not None
    assert 0 <= call.seconds < 1
    assert trial.waits == 1


def test_a_function_cannot_change_the_conversation_of_the_test(
    session: Session, trial: CountingTrial, write: Callable[..., None]
) -> None:
    write("""
        def answer(messages):
            messages[0]["content"] = "changed"
            return messages.pop()["role"]
    """)
    conversation = [{"role": "user", "content": "Hello"}]

    session.model(BOT, trial).chat(conversation)

    assert conversation == [{"role": "user", "content": "Hello"}]


def test_any_text_survives_the_store(
    begin: Callable[..., Session], write: Callable[..., None]
) -> None:
    write("""
        def answer(messages):
            return "caf\\u00e9 \\ud83d \\n"
    """)

    texts = {begin().model(BOT, CountingTrial(0)).ask("Hello").text for _ in range(2)}

    assert texts == {"caf\u00e9 \ud83d \n"}


# ------------------------------------------------------------------------ draws


DICE = """
    def answer(messages, *, draw):
        return f"{draw.trial}/{draw.occurrence} {draw.rng.random()}"
"""


def test_a_draw_is_the_same_whenever_it_is_made(
    begin: Callable[..., Session], write: Callable[..., None]
) -> None:
    write(DICE)

    first, again = (
        begin(mode="off").model(BOT, CountingTrial(3)).ask("Roll").text for _ in range(2)
    )

    assert first == again
    assert first.startswith("3/0 ")


def test_every_draw_is_another_one(session: Session, write: Callable[..., None]) -> None:
    write(DICE)
    numbers = set()
    for index in (0, 1, None):
        model = session.model(BOT, CountingTrial(index))
        for prompt in ("Roll", "Roll", "Roll again"):
            numbers.add(model.ask(prompt).text.split()[1])

    assert len(numbers) == 9


# ------------------------------------------------------------------------ keys


def test_the_key_of_a_versioned_function_is_frozen(
    session: Session, write: Callable[..., None]
) -> None:
    write(f"{textwrap.dedent(ECHO)}\nanswer.llm_version = 3\n")

    assert key_of(session) == "2118e3c29cbcce06566cdc8f9baf1b32e99f95d4c6add60790271403fb6d752b"


@pytest.mark.parametrize(
    "source",
    [
        "'''About this module.'''\ndef answer(messages):\n    return 'a'\n",
        "def answer(messages):\n    '''Answer.'''\n    return 'a'  # always\n",
        "# a bot\n\n\ndef answer( messages ):\n\n    return ('a')\n",
    ],
)
def test_comments_docstrings_and_layout_keep_the_key(
    session: Session, begin: Callable[..., Session], write: Callable[..., None], source: str
) -> None:
    write("def answer(messages):\n    return 'a'\n")
    before = key_of(session)
    write(source)

    assert key_of(begin()) == before


@pytest.mark.parametrize(
    "source",
    [
        "def answer(messages):\n    return 'b'\n",
        "LIMIT = 1\ndef answer(messages):\n    return 'a'\n",
        "def answer(messages):\n    return 'a'\nanswer.llm_version = 1\n",
    ],
)
def test_an_edit_of_the_code_changes_the_key(
    session: Session, begin: Callable[..., Session], write: Callable[..., None], source: str
) -> None:
    write("def answer(messages):\n    return 'a'\n")
    before = key_of(session)
    write(source)

    assert key_of(begin()) != before


def test_a_version_stands_for_the_code(
    session: Session, begin: Callable[..., Session], write: Callable[..., None]
) -> None:
    write("def answer(messages):\n    return 'a'\nanswer.llm_version = '2'\n")
    before = key_of(session)
    write("def answer(messages):\n    return 'b'\nanswer.llm_version = '2'\n")

    assert key_of(begin()) == before


def test_messages_parameters_and_name_are_in_the_key(
    session: Session, trial: CountingTrial, write: Callable[..., None]
) -> None:
    write(f"{textwrap.dedent(ECHO)}\nother = answer\n")
    model = session.model(BOT, trial)

    model.ask("Hello")
    model.ask("Bye")
    model.ask("Hello", temperature=1)
    model.ask("Hello", model="function/bot_under_test:other")

    assert len({call.key for call in trial.calls}) == 4


@pytest.mark.parametrize(
    "export",
    [
        "from engine_under_test import answer",
        "import engine_under_test\nanswer = engine_under_test.Bot()",
        "import engine_under_test, functools\nanswer = functools.partial(engine_under_test.answer)",
        "import engine_under_test, functools\n"
        "answer = functools.wraps(engine_under_test.answer)(lambda m: engine_under_test.answer(m))",
    ],
)
def test_the_module_that_defines_the_callable_counts(
    session: Session, begin: Callable[..., Session], write: Callable[..., None], export: str
) -> None:
    engine = """
        def answer(messages):
            return "{text}"

        class Bot:
            def __call__(self, messages):
                return answer(messages)
    """
    keys = set()
    for text in ("a", "b"):
        write(engine.format(text=text), "engine_under_test")
        write(export)
        keys.add(key_of(session if text == "a" else begin()))

    assert len(keys) == 2


def test_the_module_that_binds_arguments_counts(
    session: Session, begin: Callable[..., Session], write: Callable[..., None]
) -> None:
    keys = set()
    write("def say(text, messages):\n    return text\n", "engine_under_test")
    for text in ("a", "b"):
        write(
            "import engine_under_test, functools\n"
            f"answer = functools.partial(engine_under_test.say, {text!r})\n"
        )
        keys.add(key_of(session if text == "a" else begin()))

    assert len(keys) == 2


# ------------------------------------------------------------------------ failures


def test_a_function_that_raises_is_a_failed_provider(
    session: Session, trial: CountingTrial, write: Callable[..., None]
) -> None:
    write("""
        def answer(messages):
            raise LookupError("the prompt was: hello")
    """)

    with pytest.raises(ProviderFailed) as caught:
        session.model(BOT, trial).ask("Hello")

    reason = f"{BOT} raised LookupError at bot_under_test.py:3"
    assert str(caught.value) == f"{reason}: the prompt was: hello"
    assert caught.value.failure == "infrastructure"
    assert isinstance(caught.value.__cause__, LookupError)
    assert (trial.calls[0].failure, trial.calls[0].reason) == ("infrastructure", reason)


def test_a_function_that_returns_no_str_is_a_failed_provider(
    begin: Callable[..., Session], trial: CountingTrial, write: Callable[..., None]
) -> None:
    write("""
        def answer(messages):
            return None
    """)

    with pytest.raises(ProviderFailed, match="returned NoneType, not str"):
        begin().model(BOT, trial).ask("Hello")

    assert trial.calls[0].failure == "infrastructure"


def test_a_failure_is_not_stored(
    begin: Callable[..., Session], trial: CountingTrial, write: Callable[..., None]
) -> None:
    write("""
        made = []

        def answer(messages):
            made.append(1)
            if len(made) == 1:
                raise OSError
            return "at last"
    """)
    model = begin().model(BOT, trial)
    with pytest.raises(ProviderFailed):
        model.ask("Hello")

    assert model.ask("Hello").text == "at last"


# ------------------------------------------------------------------------ loading


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError: No module named"),
        ("raise ValueError('first\\nsecond')", "(ValueError: first)"),
        ("def other(): ...", "has no 'answer'"),
        ("answer = 'yes'", "holds no callable 'answer'"),
    ],
)
def test_a_function_that_cannot_be_used_is_a_mistake_of_one_line(
    write: Callable[..., None], source: str, problem: str
) -> None:
    write(source)

    with pytest.raises(SettingsError) as caught:
        load_function("bot_under_test:answer")

    message = str(caught.value)
    assert message.startswith(f"model {BOT}: ")
    assert problem in message
    assert "\n" not in message


def test_a_serial_async_function_is_a_mistake_with_a_hint(write: Callable[..., None]) -> None:
    write("async def answer(messages): ...\nanswer.llm_serial = True")

    with pytest.raises(SettingsError, match=r"llm_serial holds for plain functions.*asyncio.Lock"):
        load_function("bot_under_test:answer")


def test_an_unknown_module_is_a_mistake_with_a_hint() -> None:
    with pytest.raises(SettingsError, match=r"no_such_bot cannot be imported .*pythonpath"):
        load_function("no_such_bot:answer")


def test_a_callable_without_source_needs_a_version(write: Callable[..., None]) -> None:
    write("answer = len")

    with pytest.raises(SettingsError, match="llm_version"):
        load_function("bot_under_test:answer")


def test_a_versioned_callable_needs_no_source(write: Callable[..., None]) -> None:
    write("class Bot(int):\n    llm_version = 1\nanswer = Bot")

    assert load_function("bot_under_test:answer").source == "llm_version 1"


def test_a_callable_that_hides_its_parameters_gets_no_draw(write: Callable[..., None]) -> None:
    write("class Bot(int):\n    llm_version = 1\nanswer = Bot")

    assert not load_function("bot_under_test:answer").takes_draw
