"""What a test can ask for: a model, a vendor's client, and a place for its scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_llmeval.options import SETTINGS

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from anthropic import Anthropic, AsyncAnthropic
    from ollama import AsyncClient, Client
    from openai import AsyncOpenAI, OpenAI

    from pytest_llmeval.cache.replies import Replies
    from pytest_llmeval.engine.trial.event_loop import TrialRunner
    from pytest_llmeval.engine.trial.import_calls import Asker
    from pytest_llmeval.engine.trial.ledger import Ledger
    from pytest_llmeval.engine.trial.trial import RunningTrial
    from pytest_llmeval.models.async_base import AsyncModel
    from pytest_llmeval.models.base import CurrentTrial, Model
    from pytest_llmeval.models.calls import CachedCalls
    from pytest_llmeval.models.limits.budget import Budget
    from pytest_llmeval.models.limits.throttle import Gates
    from pytest_llmeval.models.providers.registry import Providers


REPLIES = pytest.StashKey["Replies"]()
PROVIDERS = pytest.StashKey["Providers"]()


class ScoreRecorder(Protocol):
    """Records the trial's value for a metric."""

    def __call__(self, value: float, metric: str = "score") -> None:
        """Record a finite number, once a metric and trial."""


@pytest.fixture(scope="session")
def _llm_replies(pytestconfig: pytest.Config) -> Iterator[Replies]:
    """Replies that were paid for, opened at the first call and closed at the end."""
    replies = _replies(pytestconfig)
    yield replies
    replies.close()


@pytest.fixture(scope="session")
def _llm_providers(pytestconfig: pytest.Config) -> Iterator[Providers]:
    """Connections and imported functions, kept from trial to trial."""
    providers = _providers(pytestconfig)
    yield providers
    providers.close()


@pytest.fixture(scope="session")
def _llm_interception(
    pytestconfig: pytest.Config,
    _llm_replies: Replies,
    _llm_providers: Providers,
) -> Iterator[None]:
    """Stands between the application's clients and the network; cases that want it ask first."""
    from pytest_llmeval.models.attribution import inherited_by_threads

    engine = pytestconfig.pluginmanager.get_plugin("llmeval-engine")
    assert engine is not None  # noqa: S101 - it is what asked for this fixture
    with inherited_by_threads(), intercepting(pytestconfig, engine.asker):
        yield


@contextmanager
def intercepting(config: pytest.Config, asker: Asker) -> Iterator[None]:
    """Keep what clients of the application ask, for those whom ``asker`` names."""
    from pytest_llmeval.engine.hooks import NOTES
    from pytest_llmeval.models.intercept import patch as intercept
    from pytest_llmeval.models.intercept.questions import Interception
    from pytest_llmeval.models.intercept.recognition import Recognition

    interception = Interception(
        asker,
        calls_of=lambda trial: _calls_of(trial, config, _replies(config)),
        retries=_providers(config).retries,
        recognition=Recognition(config.stash[SETTINGS].intercept_hosts),
        note=config.stash.setdefault(NOTES, []).append,
    )
    with intercept.intercepting(interception):
        yield


def _replies(config: pytest.Config) -> Replies:
    """Find the replies of the session; modules may ask for some before there are fixtures."""
    from pytest_llmeval.cache.replies import Replies
    from pytest_llmeval.engine.hooks import NOTES

    if REPLIES not in config.stash:
        settings = config.stash[SETTINGS]
        config.stash[REPLIES] = Replies(
            settings.directory,
            mode=settings.cache,
            session=settings.session,
            warn=config.stash.setdefault(NOTES, []).append,
            patience=settings.timeout,
        )
        config.add_cleanup(config.stash[REPLIES].close)
    return config.stash[REPLIES]


def _providers(config: pytest.Config) -> Providers:
    """Find what the session calls with, as its replies."""
    from pytest_llmeval.engine.hooks import SENT, SLOWDOWNS
    from pytest_llmeval.models.limits.deadline import TimeLimit
    from pytest_llmeval.models.limits.retries import RetryPolicy
    from pytest_llmeval.models.providers.registry import Providers

    if PROVIDERS not in config.stash:
        gates, budget = _gates(config), _budget(config)
        limit = TimeLimit(config.stash[SETTINGS].timeout)
        config.stash[SLOWDOWNS] = gates.take_slowdowns
        config.stash[SENT] = budget.take_sent
        most = config.stash[SETTINGS].max_reply_mb * 2**20
        policy = RetryPolicy(gates=gates, limit=limit, budget=budget, max_reply_bytes=most)
        config.stash[PROVIDERS] = providers = Providers(retries=policy)
        config.add_cleanup(providers.close)
    return config.stash[PROVIDERS]


@pytest.fixture(scope="session")
def _llm_loop() -> Iterator[AbstractEventLoop]:
    """The event loop of async evals where pytest-asyncio has none for them."""
    import asyncio

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        yield runner.get_loop()


@pytest.fixture
def _llm_runner(request: pytest.FixtureRequest) -> Iterator[TrialRunner]:
    """What runs the coroutines of this trial: its body, and pytest-asyncio's fixtures."""
    from pytest_llmeval.engine.trial.async_plugins import find_loop
    from pytest_llmeval.engine.trial.trial import TRIAL

    runner = request.node.stash[TRIAL].runner_on(find_loop(request))
    yield runner
    runner.close()


@pytest.fixture
def llm(request: pytest.FixtureRequest, _llm_replies: Replies, _llm_providers: Providers) -> Model:
    """Cached model of this trial: ``llm.ask(prompt)`` and ``llm.chat(messages)``.

    Asks the model named by ``--llm-model`` or the ini key ``llm_model``; trial i is given
    draw i of a request, stored or new.
    """
    calls = _calls(request, _llm_replies)
    return _llm_providers.build_model(request.config.stash[SETTINGS].model, calls)


@pytest.fixture
def openai_client(
    request: pytest.FixtureRequest, _llm_replies: Replies, _llm_providers: Providers
) -> OpenAI:
    """The vendor's own client; its replies are kept draw by draw."""
    return _llm_providers.openai_client(_calls(request, _llm_replies))


@pytest.fixture
def anthropic_client(
    request: pytest.FixtureRequest, _llm_replies: Replies, _llm_providers: Providers
) -> Anthropic:
    """The vendor's own client; its replies are kept draw by draw."""
    return _llm_providers.anthropic_client(_calls(request, _llm_replies))


@pytest.fixture
def ollama_client(
    request: pytest.FixtureRequest, _llm_replies: Replies, _llm_providers: Providers
) -> Client:
    """The vendor's own client; its replies are kept draw by draw."""
    return _llm_providers.ollama_client(_calls(request, _llm_replies))


@pytest.fixture
def async_llm(
    request: pytest.FixtureRequest, _llm_replies: Replies, _llm_providers: Providers
) -> AsyncModel:
    """Cached model of this ``async def`` trial: ``await async_llm.ask(prompt)``; see ``llm``."""
    calls = _calls(request, _llm_replies)
    return _llm_providers.build_async_model(request.config.stash[SETTINGS].model, calls)


@pytest.fixture
def async_openai_client(
    request: pytest.FixtureRequest, _llm_replies: Replies, _llm_providers: Providers
) -> AsyncOpenAI:
    """The vendor's own awaitable client; its replies are kept draw by draw."""
    return _llm_providers.async_openai_client(_calls(request, _llm_replies))


@pytest.fixture
def async_anthropic_client(
    request: pytest.FixtureRequest, _llm_replies: Replies, _llm_providers: Providers
) -> AsyncAnthropic:
    """The vendor's own awaitable client; its replies are kept draw by draw."""
    return _llm_providers.async_anthropic_client(_calls(request, _llm_replies))


@pytest.fixture
def async_ollama_client(
    request: pytest.FixtureRequest, _llm_replies: Replies, _llm_providers: Providers
) -> AsyncClient:
    """The vendor's own awaitable client; its replies are kept draw by draw."""
    return _llm_providers.async_ollama_client(_calls(request, _llm_replies))


@pytest.fixture
def llm_score(request: pytest.FixtureRequest) -> ScoreRecorder:
    """Record a score of this trial: ``llm_score(0.7)``, ``llm_score(0.7, "tone")``."""
    return _ledger(request).score


def _gates(config: pytest.Config) -> Gates:
    """Make what holds calls back; the workers of a session hear of one another by a file."""
    from pytest_llmeval.engine.install import workers
    from pytest_llmeval.models.limits.shared_pace import Bulletin
    from pytest_llmeval.models.limits.throttle import Gates

    settings = config.stash[SETTINGS]
    processes = workers(config)
    return Gates(
        ceiling=settings.concurrency,
        processes=processes,
        bulletin=Bulletin(settings.directory, settings.session) if processes > 1 else None,
    )


def _budget(config: pytest.Config) -> Budget:
    """Make what holds the caps; the workers of a session share them by a file."""
    from pytest_llmeval.models.limits.budget import Budget
    from pytest_llmeval.models.limits.prices import Prices
    from pytest_llmeval.models.limits.spending import Journal

    settings = config.stash[SETTINGS]
    # Not by their number: the only worker may be killed, and another take its place.
    worker: dict[str, str] = getattr(config, "workerinput", {})
    shared = Journal.of_session(settings.directory, settings.session) if worker else None
    return Budget(
        max_calls=settings.max_calls,
        max_cost=settings.max_cost,
        prices=Prices(settings.prices),
        journal=shared,
        process=worker.get("workerid", "here"),
    )


def _calls(request: pytest.FixtureRequest, replies: Replies) -> CachedCalls:
    """Calls of this trial: keyed, replayed or made, recorded.

    No fixture of its own: each costs a trial 0.1 ms.
    """
    return _calls_of(_ledger(request), request.config, replies)


def _calls_of(trial: CurrentTrial, config: pytest.Config, replies: Replies) -> CachedCalls:
    from pytest_llmeval.models.calls import CachedCalls

    return CachedCalls(trial, replies, aliases=config.stash[SETTINGS].origin_aliases)


def _ledger(request: pytest.FixtureRequest) -> Ledger:
    from pytest_llmeval.engine.trial.trial import TRIAL

    trial: RunningTrial | None = request.node.stash.get(TRIAL, None)
    if trial is None:
        pytest.fail(
            f"{request.node.nodeid} uses an llm fixture but is no eval: "
            "mark it with @llm_eval(repeats=5)",
            pytrace=False,
        )
    return trial.ledger
