"""Checks of what is typed for an option, wherever that is.

A check takes what was typed and returns what it means, or raises ``ValueError`` with the
end of a sentence: what the value must be, and an example.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from pytest_llmeval.errors import SettingsError, without_user

if TYPE_CHECKING:
    from decimal import Decimal

    from pytest_llmeval.records import TokenPrice
    from pytest_llmeval.settings import GateRules

CacheMode = Literal["auto", "replay", "refresh", "off"]
KeylessCases = Literal["fail", "defer"]
EditedCases = Literal["leave_out", "compare"]
OnMissing = Literal["error", "warn", "rerun", "rerun-always"]
Multiplicity = Literal["holm", "bh"]
GateTest = Literal[
    "paired-t", "log-ratio", "sign-flip", "mcnemar", "mcnemar-exact", "mcnemar-mid-p"
]
# those that take the cases, or every single trial, as all there is: not for a gate
FixedTest = Literal[
    "exact-within-case", "welch", "cmh", "chi-square", "chi-square-plain", "two-proportion-z"
]
AnyTest = Literal[GateTest, FixedTest]

ACCEPTED = "{} {} {:.12g}"  # a function and metric, a sign, the worst mean that is accepted
_ACCEPTED = re.compile(
    r"(?P<name>[^\[\]*?]*[^:\[\]*?]:[^:\[\]*?@]+?)\s*(?P<sign>[<>]=)\s*(?P<bound>\S+)"
)
SCHEME = "git+refs://"  # begins the name of a team's store
_ADDRESS = re.compile(r"[/\\:]")
LARGEST_REPLY = 256  # MiB
JSON, MARKDOWN, HTML = REPORT_ENDINGS = (".json", ".md", ".html")
# those that can hold a margin against a spread
MARGIN_TESTS: tuple[GateTest, ...] = ("paired-t", "log-ratio")


def checked(source: str, check: Callable[[Any], Any], value: Any) -> Any:
    """Read a value by one of the checks below.

    Raises:
        SettingsError: it will not do; the message names its source.
    """
    try:
        return check(value)
    except (ValueError, TypeError) as exc:
        shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        raise SettingsError(f"{source}={without_user(shown)}: {exc}") from None


def _number(value: object) -> float:
    """Read a finite number."""
    try:
        found = float(str(value))
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError("must be a number, such as 0.05")
    return found


def _within(fits: Callable[[float], bool], wanted: str) -> Callable[[object], float]:
    def check(value: object) -> float:
        found = _number(value)
        if not fits(found):
            raise ValueError(wanted)
        return found

    return check


# a one-sided test needs less than a coin; nothing is ever shown at less than 1e-12
alpha = _within(
    lambda level: 1e-12 <= level < 0.5,  # noqa: PLR2004
    "must lie above 0 and below 0.5, such as 0.05, and be 1e-12 or more",
)
chance = _within(lambda share: 0 < share < 1, "must lie above 0 and below 1, such as 0.80")
share = _within(lambda share: 0 <= share <= 1, "must lie between 0 and 1, such as 0.10")
positive = _within(lambda number: number > 0, "must be above 0, such as 0.10")
not_negative = _within(lambda number: number >= 0, "must be 0 or more, such as 0.02")


def seconds(value: object) -> float:
    """Read a number of seconds."""
    try:
        found = _number(value)
    except ValueError:
        found = 0.0
    if found <= 0:
        raise ValueError("must be a number of seconds above 0, such as 600")
    return found


def whole(value: object) -> int:
    """Read a number to count from 1."""
    return _whole_from(1, value, example=5)


def count(value: object) -> int:
    """Read a number to count from 0."""
    return _whole_from(0, value, example=50)


def mebibytes(value: object) -> int:
    """Read how large a reply may be; the cache holds none above 256 MiB."""
    found = whole(value)
    if found > LARGEST_REPLY:
        raise ValueError(f"must be a whole number of 1 to {LARGEST_REPLY}, such as 128")
    return found


def _whole_from(least: int, value: object, *, example: int) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ValueError(f"must be a whole number of {least} or more, such as {example}")
    return int(text)


def amount(value: object) -> Decimal:
    """Read a sum of money."""
    from decimal import Decimal, InvalidOperation

    try:
        found = Decimal(str(value).strip().removeprefix("$"))
    except InvalidOperation:
        found = Decimal(-1)
    if not found.is_finite() or found < 0:
        raise ValueError("must be a sum in dollars of 0 or more, such as 2.50")
    return found


def choice_of(literal: Any) -> Callable[[Any], Any]:
    """Make a check that lets the values of a ``Literal`` through."""
    known = get_args(literal)

    def check(value: object) -> object:
        if value not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return value

    return check


def not_blank(value: str) -> str:
    """Read a text that is not blank."""
    if not value.strip():
        raise ValueError("the value is empty")
    return value


def store(value: str) -> str:
    """Read the name of a team's store."""
    if not re.fullmatch(r"git\+refs://[^\s-][^\s]*", value) or not value.isprintable():
        raise ValueError("must be git+refs:// and the name of a remote, such as git+refs://origin")
    return value


def is_address(remote: str) -> bool:
    """Tell whether this is the address of a remote, as no name of one can be."""
    return _ADDRESS.search(remote.removeprefix(SCHEME)) is not None


def untyped_store(value: str) -> str:
    """Read the name of a team's store that stands in a file: a branch may change it.

    A name means what the config of the checkout says, and no commit brings that along.
    """
    if is_address(store(value)):
        raise ValueError(
            "an address holds only where it is typed, as a branch could name a store of its own: "
            "name a remote, such as git+refs://origin"
        )
    return value


def boolean(value: object) -> bool:
    """Read true or false."""
    if isinstance(value, str):  # pytest could not read it as one
        raise ValueError("must be true or false")  # noqa: TRY004 - as every check
    return bool(value)


def report_paths(values: Sequence[str]) -> tuple[Path, ...]:
    """Read names of report files."""
    paths = tuple(map(Path, values))
    for path in paths:
        if path.suffix not in REPORT_ENDINGS:
            raise ValueError(f"a report ends in {', '.join(REPORT_ENDINGS[:-1])} or {HTML}")
    return paths


def aliases(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Read pairs of origins."""
    pairs = []
    for line in lines:
        alias, equals, origin = (part.strip() for part in line.partition("="))
        if not equals or "://" not in alias or "://" not in origin:
            raise SettingsError(
                f"llm_origin_alias in the ini file: {line!r} is no pair of origins; write "
                "http://127.0.0.1:8001 = https://api.example.com"
            )
        pairs.append((alias, origin))
    return tuple(pairs)


def prices(lines: Sequence[str]) -> dict[str, TokenPrice]:
    """Read prices of models."""
    return dict(map(_price, lines))


def _price(line: str) -> tuple[str, TokenPrice]:
    from pytest_llmeval.records import TokenPrice

    model, _, given = line.rpartition("=")
    try:
        price = TokenPrice(*map(amount, given.split(",")))
    except (ValueError, TypeError):
        price = None
    if price is None or "/" not in model:
        raise SettingsError(
            f"llm_prices in the ini file: {line!r} is no price; write dollars per million "
            "tokens, input and output, as in  openai/gpt-6-luna = 0.10, 0.50"
        )
    return model.strip(), price


def gone(entries: Sequence[str]) -> tuple[str, ...]:
    """Read what a branch gives up: functions, ``function:metric``, or patterns of these."""
    for entry in entries:
        function = re.sub(r"(?<!:):[^:]+$", "", entry)  # without its metric
        if not function.strip("*?[]!/.: "):
            raise SettingsError(
                f"llm_accept_gone in the ini file: {entry!r} gives everything up; name what is "
                "gone, as in  test_old  or  tests/test_old.py::*  or  test_a:tone"
            )
    return tuple(entries)


def accepted(lines: Sequence[str]) -> tuple[str, ...]:
    """Read drops that are meant, each with the worst mean that is accepted."""
    entries = []
    for line in lines:
        parts = _ACCEPTED.fullmatch(line.strip())
        try:
            bound = _number(parts["bound"]) if parts else None
        except ValueError:
            bound = None
        if parts is None or bound is None:
            name, at, _ = line.rpartition("@")
            example = f"{name.strip()} >= 0.38" if at and ":" in name else "test_a:pass >= 0.38"
            raise SettingsError(
                f"llm_accept in the ini file: {line!r} accepts no drop; write a test function, its "
                "metric and the worst mean that is accepted, as the section prints it: "
                f"{example}  (<= where lower is better)"
            )
        entries.append(ACCEPTED.format(parts["name"], parts["sign"], bound))
    return tuple(entries)


def base_files(names: Sequence[str]) -> tuple[str, ...]:
    """Read names of files and folders relative to rootdir."""
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise SettingsError(
                f"llm_base_files in the ini file: {name!r} is not below rootdir; write a path "
                "relative to it, as in  data/questions.csv"
            )
    return tuple(names)


def renamed(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Read what is called otherwise than in the baseline."""
    pairs: list[tuple[str, str]] = []
    for line in lines:
        # ids may hold an arrow of their own, without blanks
        old, arrow, new = (part.strip() for part in line.partition(" -> "))
        if not (arrow and old and new) or old == new:
            raise SettingsError(
                f"llm_renamed in the ini file: {line!r} is no new name; write a folder, file, "
                "class, function or case, as in  evals/test_a.py::test_old -> "
                "evals/test_a.py::test_new"
            )
        for first in pairs:
            if old == first[0] or new == first[1]:
                raise SettingsError(
                    f"llm_renamed in the ini file: {' -> '.join(first)} and {line}: one name "
                    "stands for one; remove a line"
                )
        pairs.append((old, new))
    return tuple(pairs)


def hosts(names: Sequence[str]) -> tuple[str, ...]:
    """Read names of hosts."""
    for name in names:
        if "/" in name or "*" in name:
            raise SettingsError(
                f"llm_intercept_hosts in the ini file: {name!r} is no host; write a name, with or "
                "without a port, such as gateway.example.com or 10.0.0.7:8080"
            )
    return tuple(names)


def gate_test(value: object) -> GateTest:
    """Read the name of a test that is valid for a gate."""
    known = ", ".join(get_args(GateTest))
    if value == "exact-within-case":
        raise ValueError(
            "speaks of these very cases only: the gate takes it by itself below 6 changed cases; "
            f"must be one of {known}"
        )
    if value in get_args(FixedTest):
        raise ValueError(
            "is not valid for a gate (docs/statistics.md has its false alarms and its power), "
            f"llmeval compare --test={value} has it; must be one of {known}"
        )
    if value not in get_args(GateTest):
        raise ValueError(f"must be one of {known}")
    return cast("GateTest", value)


def any_test(value: object) -> AnyTest:
    """Read the name of a test, valid for a gate or not."""
    known = get_args(AnyTest)
    if value not in known:
        raise ValueError(f"must be one of auto, {', '.join(known)}")
    return cast("AnyTest", value)


def check_rules(rules: GateRules, *, is_typed: bool, prefix: str) -> None:
    """Refuse a margin that is not below the target, or with a test that takes none.

    Args:
        rules: of the gate.
        is_typed: the target was typed and is not the default.
        prefix: what the options begin with, ``--llm-`` or ``--``.

    Raises:
        SettingsError: two of them do not go together.
    """
    margin = f"{prefix}margin={rules.margin:g}"
    if rules.margin >= rules.target:
        default = "" if is_typed else " (the default)"
        raise SettingsError(
            f"{margin} must be smaller than {prefix}target={rules.target:g}{default}: "
            "a drop that is allowed cannot be one that must be ruled out. "
            f"Raise the target, as in {prefix}target={rules.margin * 2:g}."
        )
    if rules.margin > 0 and rules.test not in MARGIN_TESTS:
        raise SettingsError(
            f"{margin} with {prefix}test={rules.test}: it tests for any drop and takes "
            f"no margin. Leave the margin out, or choose {' or '.join(MARGIN_TESTS)}."
        )
