"""Fixtures: a model, the clients of the vendors, and a place for scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import environ  # by name: a test may mock the module's attribute
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_llmeval.pytest_options import SETTINGS
from pytest_llmeval.vendors import VENDORS

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from pytest_llmeval.engine.trial.event_loop import TrialRunner
    from pytest_llmeval.engine.trial.ledger import Ledger
    from pytest_llmeval.models.llm import AsyncModel, Model
    from pytest_llmeval.models.model_session import ModelSession


MODELS = pytest.StashKey["ModelSession"]()


class ScoreRecorder(Protocol):
    """Records the trial's value for a metric."""

    def __call__(self, value: float, metric: str = "score") -> None:
        """Record the value of a metric, once a metric and trial.

        Args:
            value: a finite number of at most 1e100 in size, in a unit of yours; True is 1. A number
                of numpy, or an array of a single one, will do.
            metric: its name: any but ``seconds``, ``tokens`` and ``cost``, which are measured.

        Raises:
            ScoreError: it is no such number, or the metric has a value in this trial already. The
                trial is crashed unless the test catches it.
        """


def model_session(config: pytest.Config) -> ModelSession:
    """Find the session's models; modules may ask some before there are fixtures."""
    if MODELS not in config.stash:
        from pytest_llmeval.engine.install import workers
        from pytest_llmeval.models.model_session import ModelSession

        worker: dict[str, str] = getattr(config, "workerinput", {})
        config.stash[MODELS] = ModelSession(
            config.stash[SETTINGS], processes=workers(config), worker=worker.get("workerid", "")
        )
        config.add_cleanup(config.stash[MODELS].close)
    return config.stash[MODELS]


@pytest.fixture(scope="session")
def _llm_models(pytestconfig: pytest.Config) -> Iterator[ModelSession]:
    """Give stored replies and connections, kept from trial to trial and closed at the end."""
    models = model_session(pytestconfig)
    yield models
    models.close()


@pytest.fixture(scope="session")
def _llm_loop() -> Iterator[AbstractEventLoop]:
    """Give async evals an event loop where pytest-asyncio has none for them."""
    import asyncio

    from pytest_llmeval.engine.trial.other_loops import unguarded_sockets

    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    with unguarded_sockets():
        loop = runner.get_loop()
    with runner:
        yield loop


@pytest.fixture
def _llm_runner(request: pytest.FixtureRequest) -> Iterator[TrialRunner]:
    """Give the runner of this trial's coroutines: its body, and pytest-asyncio's fixtures."""
    from pytest_llmeval.engine.trial.event_loop import TrialRunner
    from pytest_llmeval.engine.trial.other_loops import find_loop
    from pytest_llmeval.engine.trial.trial import TRIAL

    runner = TrialRunner(request.node.stash[TRIAL].thread, find_loop(request))
    yield runner
    runner.close()


# None of these asks for ``request``: pytest would make one three times a trial.
@pytest.fixture
def llm(_llm_models: ModelSession) -> Model:
    """Cached model of this trial: ``llm.ask(prompt)`` and ``llm.chat(messages)``.

    Asks the model named by ``--llm-model`` or the ini key ``llm_model``; trial i is given
    draw i of a request, stored or new. Outside an eval it fails the test with one line.
    """
    return _llm_models.model(_llm_models.settings.model, _ledger(_llm_models))


@pytest.fixture
def async_llm(_llm_models: ModelSession) -> AsyncModel:
    """Cached model of this ``async def`` trial: ``await async_llm.ask(prompt)``; see ``llm``."""
    return _llm_models.model(_llm_models.settings.model, _ledger(_llm_models), awaits=True)


@pytest.fixture
def llm_score(_llm_models: ModelSession) -> ScoreRecorder:
    """Record a score of this trial: ``llm_score(0.7)``, ``llm_score(0.7, "tone")``."""
    return _ledger(_llm_models).score


def _ledger(models: ModelSession) -> Ledger:
    from pytest_llmeval.engine.trial.ledger import Ledger

    trial = models.current_trial()
    if not isinstance(trial, Ledger) or trial.index is None:
        test = environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]  # without the phase
        why = f"{test} uses an llm fixture but is no eval: mark it with @llm_eval(repeats=5)"
        pytest.fail(why, pytrace=False)
    return trial


def client_fixtures() -> ModuleType:
    """Make a fixture for each client of each vendor; pytest takes them from a module."""
    module = ModuleType("llmeval_client_fixtures")
    for awaits in (False, True):
        for vendor in (name for name, line in VENDORS.items() if line.sdk):
            name = f"{'async_' * awaits}{vendor}_client"
            setattr(module, name, pytest.fixture(name=name)(_client_of(vendor, awaits=awaits)))
    return module


def _client_of(vendor: str, *, awaits: bool) -> Callable[..., object]:
    def client(_llm_models: ModelSession) -> object:
        return _llm_models.client(vendor, _ledger(_llm_models), awaits=awaits)

    line = VENDORS[vendor]
    kind, awaitable = (line.async_client, "awaitable ") if awaits else (line.client, "")
    client.__annotations__["return"] = f"{line.sdk}.{kind}"
    client.__doc__ = f"The vendor's own {awaitable}client; its replies are kept trial by trial."
    return client
