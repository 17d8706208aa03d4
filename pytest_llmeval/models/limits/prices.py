"""Prices of calls: the user's own first, then those of genai-prices.

A price is never guessed. Where there is none the cost is not known, which is not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from json import dumps
from typing import Any, NamedTuple

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Call, Usage
from pytest_llmeval.settings import TokenPrice
from pytest_llmeval.vendors import VENDORS

MILLION = 10**6

FREE = TokenPrice(input=Decimal(0), output=Decimal(0))

Counting = Callable[[int, int], Decimal]


class Tariff(NamedTuple):
    """The prices of one model.

    Attributes:
        price: of its tokens.
        window: the most tokens that one call can read and write together, None if not known.
        long: from so many input tokens on a request has another price, which ``price_long``
            tells; None if there is no such length.
    """

    price: TokenPrice
    window: int | None = None
    long: int | None = None
    price_long: Counting | None = None

    def cost(self, usage: Usage) -> Decimal | None:
        """Price a call in dollars; None if tokens that cost something were not counted."""
        input_tokens, output_tokens = usage.input_tokens, usage.output_tokens
        if self.long is not None and self.price_long is not None:
            if input_tokens is None or output_tokens is None:
                return None
            if input_tokens >= self.long:
                return self.price_long(input_tokens, output_tokens)
        read = _part(self.price.input, input_tokens)
        written = _part(self.price.output, output_tokens)
        return None if read is None or written is None else read + written

    def most(self, body: Mapping[str, Any], own_limit: object) -> Decimal | None:
        """Price a request at the most that it can have read and written; None if that is not known.

        Args:
            body: what is sent.
            own_limit: what a field that one vendor alone has names as the limit.
        """
        read = most_input_tokens(body, window=self.window)
        written = most_output_tokens(body, window=self.window, own_limit=own_limit)
        return self.cost(Usage(input_tokens=read, output_tokens=written))


class Prices:
    """Prices of the models of a session; genai-prices is imported when it is first needed.

    Args:
        own: prices that the user gave, by ``provider/model``; they win.
        at_least_listed: they win where they are not below the listed ones. Under a cap that was
            typed a branch could else spend without end by a price of 0 in the ini file.
    """

    def __init__(self, own: Mapping[str, TokenPrice], *, at_least_listed: bool = False) -> None:
        self._own = own
        self._at_least_listed = at_least_listed
        self._tariffs: dict[str, Tariff | None] = {}

    def tariff(self, model: str | None) -> Tariff | None:
        """Find what a model costs, None if that is not known."""
        if model is None:
            return None
        if model not in self._tariffs:
            self._tariffs[model] = self._find(model)
        return self._tariffs[model]

    def cost(self, call: Call) -> Decimal | None:
        """Price a call in dollars; None without a price, or without the tokens that it counts."""
        tariff = self.tariff(call.model)
        return None if tariff is None else tariff.cost(call.usage)

    def is_local(self, model: str | None) -> bool:
        """Whether a model runs on the user's own machine, at no price."""
        return model is not None and model not in self._own and _is_local(model)

    def remedy(self, model: str | None) -> str:
        """Say what to type where a model has no price."""
        return (
            f"Say in the ini file  llm_prices = {model or 'openai/model'} = INPUT, OUTPUT"
            "  in dollars per million tokens"
        )

    def check(self, model: str, *, cap: Decimal) -> None:
        """Find out, before anything is spent, whether a model has a price.

        Raises:
            SettingsError: it has none.
        """
        if self.tariff(model) is None:
            raise SettingsError(
                f"--llm-max-cost={cap}: the price of {model} is not known, so its calls cannot be "
                f"held to a sum. {self.remedy(model)}"
            )

    def _find(self, model: str) -> Tariff | None:
        own, is_local = self._own.get(model), _is_local(model)
        if own is None:
            return Tariff(price=FREE) if is_local else _listed(model)
        listed = _listed(model) if self._at_least_listed and not is_local else None
        least = listed.price if listed else own
        is_below = own.input < least.input or own.output < least.output
        return listed if is_below else Tariff(price=own)


def _is_local(model: str) -> bool:
    provider = model.partition("/")[0]
    return provider == "function" or (provider in VENDORS and VENDORS[provider].is_free)


def _part(price: Decimal, tokens: int | None) -> Decimal | None:
    if not price:
        return Decimal(0)
    return None if tokens is None else price * tokens / MILLION


def _listed(model: str) -> Tariff | None:
    """Look a model up in the tables that genai-prices brings along; no network is used."""
    try:
        import genai_prices
    except ImportError:
        return None
    provider, _, name = model.partition("/")

    def calculate(input_tokens: int, output_tokens: int) -> Any:
        usage = genai_prices.Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        return genai_prices.calc_price(usage, model_ref=name, provider_id=provider)

    try:
        found = calculate(0, 0)
    except LookupError:
        return None
    listed = [found.model_price.input_mtok, found.model_price.output_mtok]
    read, written = (Decimal(getattr(price, "base", price) or 0) for price in listed)
    tiers = [tier for price in listed for tier in getattr(price, "tiers", ())]
    return Tariff(
        price=TokenPrice(input=read, output=written),
        window=found.model.context_window,
        # To have each call priced there takes 0.1 ms; so only where a product does not tell.
        long=min((tier.start for tier in tiers), default=None),
        price_long=lambda *tokens: Decimal(calculate(*tokens).total_price),
    )


# Tokens that a vendor adds unseen: the frame of each message, instructions on how to use
# tools (Anthropic tells of up to some 700).
ADDED_TOKENS = 1024

LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
COPIES = ("n", "best_of")

# What stands for more than its own text: a picture, a file, a conversation kept by the vendor.
POINTERS = frozenset((
    "cachedContent", "conversation", "document", "file", "fileData", "file_data", "file_id",
    "image", "image_url", "images", "inlineData", "input_audio", "previous_response_id",
    "source",
))  # fmt: skip
OWN_TOOLS = (None, "custom", "function")
# Google names its own tools by the field that configures them.
GOOGLES_TOOLS = frozenset({"codeExecution", "googleSearch", "googleSearchRetrieval", "urlContext"})


def most_input_tokens(body: Mapping[str, Any], *, window: int | None) -> int | None:
    """Tell the most tokens that a request can have read.

    A token is at least one byte, so text cannot have more tokens than bytes.

    Args:
        body: what is sent.
        window: the most tokens that the model can read and write, None if not known.

    Returns:
        For what points to more than its text the window, None if that is not known.
    """
    tools, pointing = body.get("tools"), POINTERS | GOOGLES_TOOLS
    is_hosted = isinstance(tools, list) and any(
        not isinstance(tool, Mapping) or tool.get("type") not in OWN_TOOLS for tool in tools
    )
    has_prompt = isinstance(body.get("prompt"), Mapping)  # that the vendor keeps
    if is_hosted or has_prompt or not pointing.isdisjoint(_keys(body)):
        return window
    text = dumps(body, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass")) + ADDED_TOKENS


def most_output_tokens(
    body: Mapping[str, Any], *, window: int | None, own_limit: object = None
) -> int | None:
    """Tell the most tokens that a request can have written.

    Args:
        body: what is sent.
        window: as for ``most_input_tokens``.
        own_limit: what a field that one vendor alone has names as the limit.

    Returns:
        What the request names as its limit; without one the window, None if that is not known.
    """
    limits = _counts(*map(body.get, LIMITS), own_limit)
    limit = max(limits) if limits else window
    copies = max(1, *_counts(*map(body.get, COPIES)), 1)
    return None if limit is None else limit * copies


def _counts(*values: object) -> list[int]:
    return [value for value in values if isinstance(value, int) and value > 0]


def _keys(value: object) -> Iterator[str]:
    """List the names of all fields that hold something, however deep."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if item is not None:
                yield name
                yield from _keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _keys(item)
