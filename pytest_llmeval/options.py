"""Command line and ini, resolved into one frozen ``Settings``.

Precedence: command line, marker, ini, default. Values arrive as text and are checked
here, not by argparse, so that a mistake is one line with exit code 4.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from pytest_llmeval import ranges
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.option_table import INI_ONLY, OPTIONS, IniType, default_directory
from pytest_llmeval.records import (
    CacheMode,
    GateRules,
    GateTest,
    Multiplicity,
    OnMissing,
    Settings,
)

T = TypeVar("T")

SETTINGS = pytest.StashKey[Settings]()
PARSER = pytest.StashKey[pytest.Parser]()
SESSION_KEY = "llmeval_session"  # xdist's own id can be given by hand, the same every day

REPORT_ENDINGS = (".json",)
# Options of pytest with which no test is run, by the names of their values.
_QUESTIONS = {
    "collectonly": ("--collect-only", "--collectonly", "--co"),
    "setuponly": ("--setup-only", "--setuponly"),
    "setupplan": ("--setup-plan", "--setupplan"),
    "showfixtures": ("--fixtures", "--funcargs"),
    "show_fixtures_per_test": ("--fixtures-per-test",),
    "markers": ("--markers",),
    "cacheshow": ("--cache-show",),
    "version": ("--version", "-V", "-VV"),
    "help": ("--help", "-h"),
}
_QUOTED = re.compile(r"'([^']*)'$")  # what pytest could not read ends its message


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


def asks_only(config: pytest.Config) -> bool:
    """Whether pytest was only asked to list or set something up, and will run no test."""
    return any(config.getoption(name, False) for name in _QUESTIONS)


def check_questions(config: pytest.Config) -> None:
    """Let no file and no variable turn a session that is to be judged into a mere question.

    Raises:
        SettingsError: an option with which no test is run was set, but not typed.
    """
    if hasattr(config, "workerinput"):
        return
    typed = {os.fspath(argument).partition("=")[0] for argument in config.invocation_params.args}
    # pytest reads no further than --help.
    if config.getoption("llm_baseline", None) is None and "--llm-baseline" not in typed:
        return
    for name, spellings in _QUESTIONS.items():
        if config.getoption(name, False) and typed.isdisjoint(spellings):
            raise SettingsError(
                f"{spellings[0]} was set by addopts, PYTEST_ADDOPTS or a file of arguments: no "
                "test would run, and nothing be compared with the baseline. Take it out there, or "
                "type it yourself"
            )


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
        directory_is_named=read.is_given("dir"),
        session=_session_id(config),
        baseline=read("baseline", _text, None),
        anchor=_anchor(read),
        on_missing=read("on-missing", ranges.one_of(OnMissing), "error"),
        retry_errors=bool(read("retry-errors", _flag, default=False)),
        model=read("model", _text, None),
        repeats=_whole_from(read.command_line("repeats"), "--llm-repeats"),
        default_repeats=_whole_from(read.ini("llm_repeats"), "llm_repeats in the ini file") or 5,
        concurrency=read("concurrency", ranges.whole, 32),
        timeout=read("timeout", ranges.seconds, 600.0),
        max_reply_mb=_checked(
            read.ini("llm_max_reply_mb"),
            "llm_max_reply_mb in the ini file",
            ranges.mebibytes,
            default=128,
        ),
        serial_fixtures=tuple(read.ini("llm_serial_fixtures") or ()),
        cache=read("cache", ranges.one_of(CacheMode), "auto"),
        reports=tuple(read("report", _report_paths(config), ())),
        max_calls=read("max-calls", ranges.count_of_calls, None),
        max_cost=read("max-cost", ranges.dollars, None),
        prices=ranges.prices(read.ini("llm_prices") or ()),
        origin_aliases=ranges.aliases(read.ini("llm_origin_alias") or ()),
        renamed=ranges.renamed(read.ini("llm_renamed") or ()),
        intercept=_checked(
            read.ini("llm_intercept"), "llm_intercept in the ini file", _flag, default=False
        ),
        intercept_hosts=ranges.hosts(read.ini("llm_intercept_hosts") or ()),
        gate=GateRules(
            alpha=read("alpha", ranges.alpha, 0.05),
            margin=margin,
            target=target,
            max_gone=_checked(
                read.ini("llm_max_gone"), "llm_max_gone in the ini file", ranges.share, default=0.10
            ),
            strict=bool(read("strict", _flag, default=False)),
            test=_test_for(margin, read),
            multiplicity=read("multiplicity", ranges.one_of(Multiplicity), "holm"),
            order=tuple(read.ini("llm_gate_order") or ()),
            accept_gone=ranges.gone(read.ini("llm_accept_gone") or ()),
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

        A text that is not of the key's type is returned as it is, for the check of the key.

        Raises:
            SettingsError: what is there is no text either.
        """
        try:
            value = self._config.getini(key)
        except (TypeError, ValueError, pytest.UsageError) as exc:  # older and newer pytest
            typed = _QUOTED.search(str(exc))
            if typed is None:
                raise SettingsError(f"{key} in the ini file: {exc}") from None
            return typed[1]
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
    if isinstance(value, str):  # pytest could not read it as one
        raise ValueError("must be true or false")  # noqa: TRY004 - as every check
    return bool(value)


def _whole_from(value: object, source: str) -> int | None:
    return _checked(value, source, ranges.whole, default=None)


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


def _directory(config: pytest.Config, read: _Reader) -> Path:
    """Where cache and runs live: where the user says, else see ``default_directory``."""
    given = read("dir", _text, None)
    if given is not None:
        from_command_line = read.command_line("dir") is not None
        base = config.invocation_params.dir if from_command_line else config.rootpath
        return (base / given).absolute()
    return default_directory(config.rootpath, has_ini=config.inipath is not None)


def _session_id(config: pytest.Config) -> str:
    worker: dict[str, str] | None = getattr(config, "workerinput", None)
    return os.urandom(16).hex() if worker is None else worker[SESSION_KEY]
