from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.model_session import ModelSession
from pytest_llmeval.settings import Settings
from tests.models.conftest import CountingTrial, Session
from tests.servers.openai_server import OpenAIServer


def parrot(messages: list[dict[str, str]]) -> str:
    return f"function: {messages[-1]['content']}"


PARROT = f"function/{__name__}:parrot"


def test_a_question_goes_to_the_provider_that_its_model_names(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    model = session.model(PARROT, trial)

    assert model.ask("Hello").text == "function: Hello"
    assert model.ask("Hello", model="openai/gpt").text == "reply 0"
    assert model.ask("Hello").text == "function: Hello"


@pytest.mark.usefixtures("server")
def test_without_a_default_every_question_names_its_model(
    session: Session, trial: CountingTrial
) -> None:
    model = session.model(None, trial)

    assert model.ask("Hello", model="openai/gpt").text == "reply 0"
    with pytest.raises(SettingsError, match="--llm-model=provider/model"):
        model.ask("Hello")


def test_a_failed_test_shows_which_model_it_had(session: Session, trial: CountingTrial) -> None:
    assert repr(session.model(PARROT, trial)) == f"<TrialModel: {PARROT}>"
    assert repr(session.model(None, trial)) == "<TrialModel: no model named>"


def check(directory: Path, name: str) -> None:
    settings = Settings(directory=directory, session="checked", model=name)
    ModelSession(settings).check_settings()


@pytest.mark.parametrize("name", ["gpt-4o", "function/no_such_bot:answer"])
def test_a_check_finds_a_bad_model(directory: Path, name: str) -> None:
    with pytest.raises(SettingsError):
        check(directory, name)


@pytest.mark.parametrize("name", ["openai/gpt", PARROT])
def test_a_check_lets_a_usable_model_pass(directory: Path, name: str) -> None:
    check(directory, name)


@pytest.mark.parametrize("name", ["gpt-4o", "function/no_such_bot:answer"])
def test_a_bad_model_shows_before_anything_is_asked(
    session: Session, trial: CountingTrial, name: str
) -> None:
    with pytest.raises(SettingsError):
        session.model(name, trial)


def test_a_bad_model_of_one_question_is_a_mistake(session: Session, trial: CountingTrial) -> None:
    with pytest.raises(SettingsError, match="names no provider"):
        session.model(PARROT, trial).ask("Hello", model="gpt-4o")


def test_a_function_is_loaded_once_a_session(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.model(PARROT, CountingTrial(0))
    monkeypatch.setitem(sys.modules, __name__, None)

    assert session.model(PARROT, CountingTrial(1)).ask("Hello").text == "function: Hello"


@pytest.mark.usefixtures("server")
def test_a_trial_builds_its_client_once(
    session: Session, trial: CountingTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = session.model("openai/gpt", trial)
    model.ask("Hello")
    monkeypatch.setattr(session.models, "_provider", None)

    assert model.ask("Hello again").text == "reply 1"


def test_trials_share_their_connections(session: Session, server: OpenAIServer) -> None:
    for index in range(3):
        session.model("openai/gpt", CountingTrial(index)).ask("Hello")

    assert len({request.port for request in server.requests}) == 1


def test_one_client_serves_the_threads_of_a_test(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    model = session.model("openai/gpt", trial)
    texts: list[str] = []

    def ask(number: int) -> None:
        texts.append(model.ask(f"Question {number}").text)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(texts) == [f"reply {number}" for number in range(8)]


def test_a_session_can_be_closed_twice(session: Session) -> None:
    session.models.close()
    session.models.close()


def test_naming_models_imports_no_sdk() -> None:
    script = (
        "import sys, pytest_llmeval.models.model_session\n"
        "heavy = {'openai', 'httpx2', 'httpx', 'diskcache', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )

    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert result.stdout == "[]\n"
