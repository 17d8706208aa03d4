from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from importlib.util import find_spec

import pytest

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.limits.prices import Prices, Tariff
from pytest_llmeval.records import Usage
from pytest_llmeval.settings import TokenPrice

D = Decimal
OWN = TokenPrice(input=D("0.15"), output=D("0.60"))

listed = pytest.mark.skipif(find_spec("genai_prices") is None, reason="the extra is not installed")


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)


def cost(prices: Prices, model: str, read: int | None, written: int | None) -> Decimal | None:
    tariff = prices.tariff(model)
    assert tariff is not None
    return tariff.cost(Usage(input_tokens=read, output_tokens=written))


def test_a_price_of_the_user_is_taken_as_it_is() -> None:
    assert cost(Prices({"openai/foo": OWN}), "openai/foo", 1_000_000, 500_000) == D("0.45")


@pytest.mark.parametrize(("read", "written"), [(None, 2), (2, None), (None, None)])
def test_tokens_that_were_not_counted_have_no_cost(read: int | None, written: int | None) -> None:
    assert cost(Prices({"openai/foo": OWN}), "openai/foo", read, written) is None


def test_tokens_that_cost_nothing_need_not_be_counted() -> None:
    own = TokenPrice(input=D("0.02"), output=D(0))

    assert cost(Prices({"openai/embed": own}), "openai/embed", 1_000_000, None) == D("0.02")


@pytest.mark.parametrize("model", ["ollama/llama3.2:1b", "function/app.bot:answer"])
def test_what_runs_here_costs_nothing_unless_the_user_says_so(model: str) -> None:
    assert cost(Prices({}), model, None, None) == 0
    assert Prices({}).is_local(model)
    assert cost(Prices({model: OWN}), model, 1_000_000, 0) == D("0.15")
    assert not Prices({model: OWN}).is_local(model)


@pytest.mark.usefixtures("without_extra")
def test_without_the_tables_a_price_is_not_known_and_the_user_is_told_what_to_type() -> None:
    prices = Prices({})

    assert prices.tariff("openai/gpt-4o-mini") is None
    with pytest.raises(SettingsError) as caught:
        prices.check("openai/gpt-4o-mini", cap=D("1.50"))
    message = str(caught.value)
    assert message.startswith("--llm-max-cost=1.50: the price of openai/gpt-4o-mini is not known")
    assert "openai/gpt-4o-mini = INPUT, OUTPUT" in message


def test_a_request_that_names_no_model_has_no_price() -> None:
    assert Prices({}).tariff(None) is None
    assert not Prices({}).is_local(None)


def test_a_price_that_is_known_passes_the_check() -> None:
    Prices({"openai/foo": OWN}).check("openai/foo", cap=D(1))


@listed
def test_the_tables_know_models_and_their_windows() -> None:
    tariff = Prices({}).tariff("openai/gpt-4o-mini")

    assert tariff is not None
    assert tariff.cost(Usage(input_tokens=1000, output_tokens=100)) == D("0.00021")
    assert tariff.window == 128_000
    assert cost(Prices({}), "openai/gpt-4o-mini-2024-07-18", 1000, 100) == D("0.00021")


@listed
def test_a_price_of_the_user_wins_over_the_tables() -> None:
    assert Prices({"openai/gpt-4o-mini": OWN}).tariff("openai/gpt-4o-mini") == Tariff(price=OWN)


@listed
def test_long_requests_cost_more_where_the_tables_say_so() -> None:
    short = cost(Prices({}), "anthropic/claude-sonnet-4-5", 100_000, 0)
    long = cost(Prices({}), "anthropic/claude-sonnet-4-5", 1_000_000, 0)

    assert short is not None
    assert long is not None
    assert long > 10 * short
    assert cost(Prices({}), "anthropic/claude-sonnet-4-5", 1000, 1000) == D("0.018")
    assert cost(Prices({}), "anthropic/claude-sonnet-4-5", None, 3) is None


@listed
def test_a_model_that_the_tables_do_not_know_has_no_price() -> None:
    prices = Prices({})

    assert prices.tariff("openai/no-such-model") is None
    assert "openai/no-such-model = INPUT, OUTPUT" in prices.remedy("openai/no-such-model")


@listed
def test_an_embedding_has_no_output_to_pay_for() -> None:
    assert cost(Prices({}), "openai/text-embedding-3-small", 1_000_000, None) == D("0.02")


def test_the_tables_are_imported_when_they_are_needed_and_not_before() -> None:
    code = (
        "import sys\n"
        "from pytest_llmeval.models.limits.prices import Prices\n"
        "Prices({}).tariff('ollama/x'); Prices({}).remedy('openai/x')\n"
        "assert 'genai_prices' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


@listed
@pytest.mark.parametrize(("own", "wins"), [("0", False), ("1000", True)])
def test_under_a_typed_cap_no_price_is_below_the_listed_one(own: str, wins: bool) -> None:
    """A branch could else spend what it likes by a price of 0 in its ini file."""
    model = "anthropic/claude-haiku-4-5"
    price = TokenPrice(input=D(own), output=D("1000"))
    known = Prices({}).tariff(model)
    assert known is not None

    found = Prices({model: price}, at_least_listed=True).tariff(model)

    assert found is not None
    assert found.price == (price if wins else known.price)
    free = Prices({"ollama/x": OWN}, at_least_listed=True).tariff("ollama/x")
    assert free is not None
    assert free.price == OWN
