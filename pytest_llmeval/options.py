"""Command line and ini, resolved into one frozen ``Settings``.

Precedence: command line, marker, ini, default. Values arrive as text and are checked
here, not by argparse, so that a mistake is one line with exit code 4.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args

import pytest

from pytest_llmeval import ranges
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import (
    CacheMode,
    GateRules,
    GateTest,
    Multiplicity,
    OnMissing,
    Settings,
    TokenPrice,
)

if TYPE_CHECKING:
    from decimal import Decimal

T = TypeVar("T")
IniType = Literal["string", "bool", "int", "float", "linelist", "args"]

SETTINGS = pytest.StashKey[Settings]()

DIRECTORY = ".llmeval"
REPORT_ENDINGS = (".json",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: ``--llm-NAME`` on the command line, ``llm_NAME`` in the ini file."""

    name: str
    metavar: str
    help: str
    ini: IniType | None
    kind: Literal["value", "flag", "list"] = "value"

    @property
    def flag(self) -> str:
        """How it is written on the command line."""
        return f"--llm-{self.name}"

    @property
    def key(self) -> str:
        """How it is written in the ini file, and where argparse puts it."""
        return f"llm_{self.name.replace('-', '_')}"


OPTIONS = (
    Option(
        name="baseline",
        metavar="REF",
        ini=None,
        help="compare with the run recorded for REF: a branch, tag or commit, a run id, "
        "a run file, or 'last'; a significant drop fails the session",
    ),
    Option(
        name="anchor",
        metavar="REF",
        ini=None,
        help="compare with a second, older run too, such as the last release's, so that many "
        "small drops cannot add up unseen",
    ),
    Option(
        name="on-missing",
        metavar="error|warn",
        ini=None,
        help="without a stored run for REF: stop before anything is run, or run ungated "
        "(default: error)",
    ),
    Option(
        name="retry-errors",
        metavar="",
        ini=None,
        kind="flag",
        help="run only the errored trials of the last run again, and record that run completed",
    ),
    Option(
        name="model",
        metavar="PROVIDER/MODEL",
        ini="string",
        help="model that the llm fixture asks: openai/gpt-4o-mini, or function/module:callable",
    ),
    Option(
        name="repeats",
        metavar="N",
        ini="int",
        help="trials of every case; on the command line it overrides the markers (default: 5)",
    ),
    Option(
        name="concurrency",
        metavar="N",
        ini="int",
        help="how many trials may be in flight at once, over all workers (default: 32)",
    ),
    Option(
        name="timeout",
        metavar="SECONDS",
        ini="float",
        help="how long one call may take, its retries included, before its trial is errored "
        "(default: 600)",
    ),
    Option(
        name="alpha",
        metavar="P",
        ini="float",
        help="one-sided level of the test, above 0 and below 0.5 (default: 0.05)",
    ),
    Option(
        name="margin",
        metavar="D",
        ini="float",
        help="fail only on a drop of more than D (default: 0)",
    ),
    Option(
        name="target",
        metavar="D",
        ini="float",
        help="the drop that must be ruled out, or would have been caught (default: 0.10)",
    ),
    Option(
        name="test",
        metavar="NAME",
        ini="string",
        help=f"test for 6 changed cases or more: {', '.join(get_args(GateTest))} "
        "(default: paired-t)",
    ),
    Option(
        name="multiplicity",
        metavar="holm|bh",
        ini="string",
        help="how several comparisons share the error rate: no false alarm among all, or a small "
        "share of false ones among the found (default: holm)",
    ),
    Option(
        name="strict",
        metavar="",
        ini="bool",
        kind="flag",
        help="an inconclusive comparison fails too",
    ),
    Option(
        name="cache",
        metavar="MODE",
        ini="string",
        help="auto: replay what is stored, ask for the rest; replay: ask for nothing; "
        "refresh: draw everything anew and keep the old draws; off: neither (default: auto)",
    ),
    Option(
        name="max-calls",
        metavar="N",
        ini="int",
        help="the most calls that may be made, over all workers; the trials of further ones are "
        "errored (default: any number)",
    ),
    Option(
        name="max-cost",
        metavar="DOLLARS",
        ini="float",
        help="the most that the calls may cost, over all workers; a call that could exceed it is "
        "not made (default: any sum)",
    ),
    Option(
        name="report",
        metavar="PATH.json",
        ini="linelist",
        kind="list",
        help="write the comparison to a file; repeatable",
    ),
    Option(
        name="dir",
        metavar="PATH",
        ini="string",
        help=f"where replies and runs are kept (default: {DIRECTORY} beside the ini file)",
    ),
)
INI_ONLY = (
    ("llm_serial_fixtures", "args", "names of fixtures whose cases must run alone"),
    ("llm_max_gone", "float", "share of a function's baseline cases that may be gone (0.10)"),
    (
        "llm_gate_order",
        "linelist",
        "test functions, or function:metric, tested in this order, each at the full level as "
        "long as all before it regressed",
    ),
    (
        "llm_origin_alias",
        "linelist",
        "lines of 'http://127.0.0.1:8001 = https://api.example.com': two origins, one key",
    ),
    (
        "llm_prices",
        "linelist",
        "lines of 'openai/model = 0.15, 0.60': dollars per million tokens, input and output",
    ),
    ("llm_intercept", "bool", "keep what clients of the application ask (default: false)"),
    (
        "llm_intercept_hosts",
        "args",
        "hosts, or host:port, of gateways that speak the language of openai, anthropic or ollama",
    ),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare every option and its ini twin."""
    group = parser.getgroup("llmeval", "LLM evals")
    for option in OPTIONS:
        settings: dict[str, Any] = {"dest": option.key, "default": None, "help": option.help}
        if option.kind == "flag":
            group.addoption(option.flag, action="store_true", **settings)
            if option.ini:
                group.addoption(
                    f"--no-llm-{option.name}",
                    action="store_false",
                    dest=option.key,
                    default=None,
                    help=f"undo {option.flag} of the ini file",
                )
        else:
            settings["action"] = "append" if option.kind == "list" else "store"
            group.addoption(option.flag, metavar=option.metavar, **settings)
        if option.ini:
            parser.addini(option.key, option.help, type=option.ini, default=None)
    for key, kind, text in INI_ONLY:
        parser.addini(key, text, type=cast("IniType", kind), default=None)


def resolve(config: pytest.Config) -> Settings:
    """Read and check every option of a session.

    Raises:
        SettingsError: a value cannot be used; the message names where it came from.
    """
    read = _Reader(config)
    target = read("target", ranges.positive, 0.10)
    margin = read("margin", ranges.not_negative, 0.0)
    ranges.check_margin(margin, target=target, given=read.is_given("target"), prefix="--llm-")
    return Settings(
        directory=_directory(config, read),
        session=_session_id(config),
        baseline=read("baseline", _text, None),
        anchor=_anchor(read),
        on_missing=read("on-missing", _one_of(OnMissing), "error"),
        retry_errors=bool(read("retry-errors", _flag, default=False)),
        model=read("model", _text, None),
        repeats=_whole_from(read.command_line("repeats"), "--llm-repeats"),
        default_repeats=_whole_from(read.ini("llm_repeats"), "llm_repeats in the ini file") or 5,
        concurrency=read("concurrency", _whole, 32),
        timeout=read("timeout", _seconds, 600.0),
        serial_fixtures=tuple(read.ini("llm_serial_fixtures") or ()),
        cache=read("cache", _one_of(CacheMode), "auto"),
        reports=tuple(read("report", _report_paths(config), ())),
        max_calls=read("max-calls", _count_of_calls, None),
        max_cost=read("max-cost", _dollars, None),
        prices=_prices(read.ini("llm_prices") or ()),
        origin_aliases=_aliases(read.ini("llm_origin_alias") or ()),
        intercept=bool(read.ini("llm_intercept")),
        intercept_hosts=_hosts(read.ini("llm_intercept_hosts") or ()),
        gate=GateRules(
            alpha=read("alpha", ranges.alpha, 0.05),
            margin=margin,
            target=target,
            max_gone=_checked(
                read.ini("llm_max_gone"), "llm_max_gone in the ini file", ranges.share, default=0.10
            ),
            strict=bool(read("strict", _flag, default=False)),
            test=_test_for(margin, read),
            multiplicity=read("multiplicity", _one_of(Multiplicity), "holm"),
            order=tuple(read.ini("llm_gate_order") or ()),
        ),
    )


def _test_for(margin: float, read: _Reader) -> GateTest:
    test: GateTest = read("test", ranges.gate_test, "paired-t")
    ranges.check_test(test, margin=margin, prefix="--llm-")
    return test


def _anchor(read: _Reader) -> str | None:
    anchor: str | None = read("anchor", _text, None)
    if anchor is not None and read.command_line("baseline") is None:
        raise SettingsError(
            f"--llm-anchor={anchor}: an anchor is a second baseline, and there is no first one. "
            f"Type --llm-baseline={anchor}, or add --llm-baseline=REF."
        )
    return anchor


class _Reader:
    """Looks a value up on the command line, then in the ini file."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def __call__(self, name: str, check: Callable[[Any], T], default: Any) -> T:
        option = next(option for option in OPTIONS if option.name == name)
        given = self.command_line(name)
        if given is not None:
            return _checked(given, option.flag, check, default=default)
        stored = self.ini(option.key) if option.ini else None
        return _checked(stored, f"{option.key} in the ini file", check, default=default)

    def command_line(self, name: str) -> Any:
        """Return what was given on the command line, None if nothing was."""
        return self._config.getoption(f"llm_{name.replace('-', '_')}", None)

    def is_given(self, name: str) -> bool:
        """Whether an option was set at all."""
        return self.command_line(name) is not None or self.ini(f"llm_{name}") is not None

    def ini(self, key: str) -> Any:
        """Return what the ini file says, None if it does not.

        Raises:
            SettingsError: the text there is not of the key's type.
        """
        try:
            value = self._config.getini(key)
        except (TypeError, ValueError, pytest.UsageError) as exc:  # older and newer pytest
            raise SettingsError(f"{key} in the ini file: {exc}") from None
        return None if value in ("", []) else value


def _checked(value: Any, source: str, check: Callable[[Any], T], *, default: Any) -> T:
    if value is None:
        return cast("T", default)
    try:
        return check(value)
    except (ValueError, TypeError) as exc:
        shown = " ".join(map(str, value)) if isinstance(value, list) else value
        raise SettingsError(f"{source}={shown}: {exc}") from None


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("the value is empty")
    return value


def _flag(value: object) -> bool:
    return bool(value)


def _seconds(value: object) -> float:
    try:
        number = ranges.number(value)
    except ValueError:
        number = 0.0
    if number <= 0:
        raise ValueError("must be a number of seconds above 0, such as 600")
    return number


def _whole_from(value: object, source: str) -> int | None:
    return _checked(value, source, _whole, default=None)


def _whole(value: object) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ValueError("must be a whole number of 1 or more, such as 5")
    return int(text)


def _count_of_calls(value: object) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdigit()):
        raise ValueError("must be a whole number of 0 or more, such as 500")
    return int(text)


def _dollars(value: object) -> Decimal:
    from decimal import Decimal, InvalidOperation

    try:
        amount = Decimal(str(value).strip().removeprefix("$"))
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise ValueError("must be a sum in dollars of 0 or more, such as 2.50")
    return amount


def _one_of(literal: Any) -> Callable[[Any], Any]:
    known = get_args(literal)

    def check(value: object) -> object:
        if value not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return value

    return check


def _report_paths(config: pytest.Config) -> Callable[[Sequence[str]], list[Path]]:
    def check(values: Sequence[str]) -> list[Path]:
        paths = [config.invocation_params.dir / value for value in values]
        for path in paths:
            if path.suffix not in REPORT_ENDINGS:
                raise ValueError(f"a report ends in {' or '.join(REPORT_ENDINGS)}")
            if path.is_dir():
                raise ValueError("this is a folder; name a file in it")
        return paths

    return check


def _aliases(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
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


def _prices(lines: Sequence[str]) -> dict[str, TokenPrice]:
    prices = {}
    for line in lines:
        model, _, given = line.rpartition("=")
        numbers = given.split(",")
        try:
            price = TokenPrice(input=_dollars(numbers[0]), output=_dollars(numbers[1]))
        except (ValueError, IndexError):
            price = None
        if price is None or len(numbers) != 2 or "/" not in model:  # noqa: PLR2004
            raise SettingsError(
                f"llm_prices in the ini file: {line!r} is no price; write dollars per million "
                "tokens, input and output, as in  openai/gpt-4o-mini = 0.15, 0.60"
            )
        prices[model.strip()] = price
    return prices


def _hosts(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if "/" in name or "*" in name:
            raise SettingsError(
                f"llm_intercept_hosts in the ini file: {name!r} is no host; write a name, with or "
                "without a port, such as gateway.example.com or 10.0.0.7:8080"
            )
    return tuple(names)


def _directory(config: pytest.Config, read: _Reader) -> Path:
    """Where cache and runs live: beside the ini file, else at git's top, else at rootpath."""
    given = read("dir", _text, None)
    if given is not None:
        from_command_line = read.command_line("dir") is not None
        base = config.invocation_params.dir if from_command_line else config.rootpath
        return (base / given).absolute()
    if config.inipath is not None:
        return config.rootpath / DIRECTORY
    tops = (top for top in (config.rootpath, *config.rootpath.parents) if (top / ".git").exists())
    return next(tops, config.rootpath) / DIRECTORY


def _session_id(config: pytest.Config) -> str:
    worker: dict[str, str] | None = getattr(config, "workerinput", None)
    return os.urandom(16).hex() if worker is None else worker["testrunuid"]
