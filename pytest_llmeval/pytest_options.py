"""Command line and ini, resolved into one frozen ``Settings``.

Precedence: command line, marker, ini, default. Values arrive as text and are checked
here, not by argparse, so that a mistake is one line with exit code 4.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_llmeval.errors import SettingsError, nearest
from pytest_llmeval.settings import (
    IN_INI,
    REMOVED,
    REMOVED_OPTIONS,
    REPEATS,
    TYPED_KEY,
    GateRules,
    Option,
    Settings,
    check_rules,
    checked,
    default_directory,
    every_option,
    options_by_group,
    options_of,
    untyped_store,
)

if TYPE_CHECKING:
    from pytest_llmeval.runs.ci import CiFacts

SETTINGS = pytest.StashKey[Settings]()
STARTED = pytest.StashKey["Started"]()
CI = pytest.StashKey["CiFacts"]()
SESSION_KEY = "llmeval_session"  # xdist's own id can be given by hand, the same every day

# Options by which pytest runs no test, by the names of their values.
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
# Options of a session that is compared with an earlier run, by their fields.
_OF_COMPARISONS = ("baseline", "anchor", "confirm", "on_missing", "reports", "store")
_UNKNOWN_KEY = re.compile(r"Unknown config option: (llm_\w+)")
_QUOTED = re.compile(r"'([^']*)'$")  # what pytest could not read ends its message


class Started(NamedTuple):
    """What a session was started with, before a conftest, which a branch may change, ran.

    Attributes:
        parser: tells typed options from those of addopts; None where a conftest loaded the plugin
            too late for it.
        environ: the variables.
        options: their values.
        typed: what was typed. A worker has what its controller was started with.
    """

    parser: pytest.Parser | None
    environ: dict[str, str]
    options: argparse.Namespace
    typed: tuple[str, ...]


def keep_start(config: pytest.Config, parser: pytest.Parser) -> None:
    """Keep what a session is started with, before the first conftest; see ``started``."""
    options = copy(config.known_args_namespace)
    config.stash[STARTED] = Started(parser, dict(os.environ), options, _arguments(config))


def started(config: pytest.Config) -> Started:
    """Return what was kept; what is there now, where our plugin was loaded too late."""
    now = Started(None, dict(os.environ), config.option, _arguments(config))
    kept = config.stash.get(STARTED, now)
    worker: dict[str, list[str]] | None = getattr(config, "workerinput", None)
    if worker is None:
        return kept
    return kept._replace(options=config.option, typed=tuple(worker.get(TYPED_KEY, kept.typed)))


def _arguments(config: pytest.Config) -> tuple[str, ...]:
    return tuple(map(os.fspath, config.invocation_params.args))


def ci_of(config: pytest.Config) -> CiFacts:
    """Return the facts on the CI job in these variables."""
    if CI not in config.stash:
        from pytest_llmeval.runs.ci import read_ci

        config.stash[CI] = read_ci(started(config).environ)
    return config.stash[CI]


def add_options(parser: pytest.Parser) -> None:
    """Declare every option and its ini twin."""
    grouped = [(heading, one) for heading, some in options_by_group().items() for one in some]
    for heading, option in grouped:
        group = parser.getgroup(f"llmeval {heading}", f"LLM evals: {heading}")
        settings: dict[str, Any] = {"dest": option.key, "default": None, "help": option.help}
        if option.metavar:
            settings |= {"metavar": option.metavar}
            settings["action"] = "append" if option.ini == "linelist" else "store"
            group.addoption(option.flag, **settings)
        elif option.flag:
            group.addoption(option.flag, action="store_true", **settings)
            if option.ini:
                settings["help"] = f"undo {option.flag} of the ini file"
                group.addoption(option.flags[1], action="store_false", **settings)
        if option.ini:
            parser.addini(option.key, option.help, type=option.ini, default=None)
    for flag in REMOVED_OPTIONS:
        group.addoption(flag, action="store_true", default=False, help=argparse.SUPPRESS)
    for key in REMOVED:
        parser.addini(key, "removed: take it out", type="linelist", default=None)


def asks_only(config: pytest.Config) -> bool:
    """Tell whether pytest was only asked to list or set something up, and will run no test."""
    return any(getattr(started(config).options, name, False) for name in _QUESTIONS)


def check_questions(config: pytest.Config) -> None:
    """Refuse an option that runs no test, if a file or a variable set it in a gated session.

    Raises:
        SettingsError: an option with which no test is run was set, but not typed.
    """
    if hasattr(config, "workerinput"):
        return
    _check_read_as_typed(config)
    typed = _typed_options(config)
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


def read_settings(config: pytest.Config, *, baseline_of: str | None = None) -> Settings:
    """Read and check every option of a session.

    Args:
        config: of the session.
        baseline_of: id of the session for which this one makes the run of a baseline. Then this
            session compares with nothing, and shared files have that id.

    Raises:
        SettingsError: a value cannot be used; the message names where it came from.
    """
    if baseline_of is None:  # an earlier commit may have such a line, and nobody can mend it
        _check_removed(config)
    given = _given(config, GateRules)
    rules = GateRules(**given)
    typed = _typed_options(config)
    check_rules(rules, is_typed="target" in given, prefix="--llm-")
    given = _given(config, Settings)
    if baseline_of is not None:
        given = {name: value for name, value in given.items() if name not in _OF_COMPARISONS}
    _check_origins(config, given, typed)
    worker: dict[str, str] = getattr(config, "workerinput", {})
    if "fetch" not in given and not given.keys().isdisjoint(("baseline", "anchor")):
        given["fetch"] = ci_of(config).provider is not None
    if "anchor" in given and "baseline" not in given:
        raise SettingsError(
            f"--llm-anchor={given['anchor']}: an anchor is a second baseline, and there is no "
            f"first one. Type --llm-baseline={given['anchor']}, or add --llm-baseline=REF."
        )
    # the only option with one form on the command line and another in the ini file
    repeats = options_of(Settings)["repeats"]
    given |= {
        "typed": frozenset(
            name
            for name, option in (options_of(Settings) | options_of(GateRules)).items()
            if typed.intersection(option.flags)
        ),
        # a worker's is that of its controller
        "session": baseline_of or worker.get(SESSION_KEY) or os.urandom(16).hex(),
        "makes_baseline": baseline_of is not None,
        "toml": is_toml(config),
        "repeats": _typed(config, repeats),
        "default_repeats": _stored(config, repeats) or REPEATS,
        "reports": _report_files(config, given.get("reports", ())),
        "typed_model": given.get("model") if "--llm-model" in typed else None,
        "directory": _directory(config, given.get("directory")),
        "gate": rules,
    }
    given["typed_directory"] = given["directory"] if "--llm-dir" in typed else None
    return Settings(**given)


def near_flag(parser: pytest.Parser, arguments: Sequence[str]) -> str:
    """Name the option or key that a typed one was to be, which pytest does not name; else ""."""
    known = [flag for option in every_option() for flag in option.flags]
    keys = {option.key for option in every_option() if option.ini}
    typed = {text.partition("=")[0] for text in arguments if text.startswith("--llm")}
    for flag in sorted(typed.difference(known, REMOVED_OPTIONS)):
        key, near = flag[2:].replace("-", "_"), nearest(flag, known, most=1)
        hint = f"Did you mean {near[0]}?" if near else ""
        hint = f"Write {key} into the ini file" if key in keys else hint
        read, unknown = parser.parse_known_and_unknown_args(arguments) if hint else (None, [])
        unknown += getattr(read, "file_or_dir", ())  # where it has a blank it is read as a path
        if any(text.partition("=")[0] == flag for text in unknown):  # no conftest has it either
            return f"{flag}: there is no such option. {hint}"
    return ""


def near_key(warning: str) -> str:
    """Name our ini key that is most like the one of a warning of pytest's; else ""."""
    unknown = _UNKNOWN_KEY.match(warning)
    keys = [option.key for option in every_option() if option.ini]
    near = nearest(unknown[1], keys, most=1) if unknown else ()
    if unknown is None or not near:
        return ""
    return f"{unknown[1]} in the ini file: there is no such key. Did you mean {near[0]}?"


def _check_removed(config: pytest.Config) -> None:
    """Refuse keys and options that an earlier version had."""
    for flag, instead in REMOVED_OPTIONS.items():
        if config.getoption(flag):
            raise SettingsError(f"{flag} was removed: {instead}")
    for key, instead in REMOVED.items():
        if config.getini(key):
            raise SettingsError(f"{key} in the ini file: {instead}")


def _check_read_as_typed(config: pytest.Config) -> None:
    """Refuse addopts that end in ``--``: typed options would become paths."""
    typed = started(config).typed
    own = typed[: typed.index("--")] if "--" in typed else typed
    paths = set(getattr(config.option, "file_or_dir", None) or ())
    lost = next((text for text in own if text.startswith("-") and text in paths), None)
    if lost is not None:
        raise SettingsError(
            f"{lost} was read as a path, not as an option: addopts or PYTEST_ADDOPTS end in --. "
            "Take it out there"
        )


def _check_origins(config: pytest.Config, given: Mapping[str, Any], typed: set[str]) -> None:
    """Refuse what only a file says, which a branch may change: a store; no gate in CI."""
    warns = given.get("on_missing") == "warn" and "--llm-on-missing" not in typed
    if warns and ci_of(config).provider is not None:
        raise SettingsError(
            "--llm-on-missing=warn was set by addopts, PYTEST_ADDOPTS or a file of arguments: a "
            "branch could end its own gate by it. Type it in the job's command"
        )
    names_store = "store" in given and "--llm-store" not in typed
    if names_store and not hasattr(config, "workerinput"):
        where = f"{IN_INI}, or addopts"
        checked("llm_store", untyped_store, given["store"], where=where)


def _typed_options(config: pytest.Config) -> set[str]:
    return {argument.partition("=")[0] for argument in started(config).typed}


def readable_settings(config: pytest.Config) -> Settings:
    """Return the settings that a report needs; the defaults if some cannot be read."""
    if SETTINGS in config.stash:
        return config.stash[SETTINGS]
    option = options_of(Settings)["reports"]
    try:
        paths = _typed(config, option) or _stored(config, option) or ()
        return Settings(session="", reports=_report_files(config, paths))
    except SettingsError:
        return Settings(session="")


def _given(config: pytest.Config, kind: type[Settings | GateRules]) -> dict[str, Any]:
    """Read the values of some options, by the names of their fields."""
    found: dict[str, Any] = {}
    for name, option in options_of(kind).items():
        value = _typed(config, option)
        value = _stored(config, option) if value is None else value
        if value is not None:
            found[name] = value
    return found


def _typed(config: pytest.Config, option: Option) -> Any:
    """Read the value from the command line, None if there is none."""
    value = getattr(started(config).options, option.key, None)
    return None if value is None else checked(option.flag, option.check, value)


def _stored(config: pytest.Config, option: Option) -> Any:
    """Read the value from the ini file, None if there is none.

    The check of the option refuses a text that is not of the key's type.
    """
    if option.ini is None:
        return None
    try:
        value = config.getini(option.key)
    except (TypeError, ValueError, pytest.UsageError) as exc:  # older and newer pytest
        quoted = _QUOTED.search(str(exc))
        if quoted is None:
            raise SettingsError(f"{option.key}{IN_INI}: {exc}") from None
        value = quoted[1]
    is_set = value not in (None, "", [])
    return checked(option.key, option.check, value, where=IN_INI) if is_set else None


def is_toml(config: pytest.Config) -> bool:
    """Tell whether the ini file is TOML, which has another form of lines."""
    return config.inipath is not None and config.inipath.suffix == ".toml"


def _directory(config: pytest.Config, named: str | None) -> Path:
    """Return the folder of cache and runs: the one that the user names, or the default."""
    if named is None:
        return default_directory(config.rootpath, has_ini=config.inipath is not None)
    is_typed = config.getoption("llm_dir", None) is not None
    return ((config.invocation_params.dir if is_typed else config.rootpath) / named).absolute()


def _report_files(config: pytest.Config, paths: Sequence[Path]) -> tuple[Path, ...]:
    """Find the report files from where pytest was started, as a conftest may change the folder."""
    files = tuple(config.invocation_params.dir / path for path in paths)
    is_typed = config.getoption("llm_report", None) is not None
    source = "--llm-report" if is_typed else "llm_report in the ini file"
    for path, file in zip(paths, files, strict=True):
        if file.is_dir():
            raise SettingsError(f"{source}={path}: this is a folder; name a file in it")
    return files
