"""The folder of runs and replies that a session in the working directory would use.

pytest's rule for its rootdir is repeated here, since the command needs no pytest.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from pathlib import Path
from typing import Any

import click

from pytest_llmeval.cache.directory import refuse_foreign
from pytest_llmeval.settings import default_directory

# As pytest looks for its ini file in a folder; the tables of those that need one, by their keys.
INI_FILES: dict[str, tuple[str, ...]] = {
    "pytest.toml": (),
    ".pytest.toml": (),
    "pytest.ini": (),
    ".pytest.ini": (),
    "pyproject.toml": ("tool", "pytest"),
    "tox.ini": ("pytest",),
    "setup.cfg": ("tool:pytest",),
}

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory that sessions know as --llm-dir; else that of a session in this folder.",
)


def home_of(given: Path | None) -> Path:
    """Tell where a session in the working directory keeps its runs and replies.

    Args:
        given: the place that ``--dir`` names.

    Returns:
        Absolute; there may be nothing.

    Raises:
        SettingsError: the directory that was found belongs to somebody else.
    """
    if given is not None:
        return given.absolute()
    rootpath, ini = _root(Path.cwd())
    named = ((ini and _settings_of(ini)) or {}).get("llm_dir")
    if named:
        return (rootpath / str(named)).absolute()
    home = default_directory(rootpath, has_ini=ini is not None)
    refuse_foreign(home, rootpath=rootpath)
    return home


def _root(start: Path) -> tuple[Path, Path | None]:
    """Find rootdir and ini file as a pytest session without arguments does."""
    folders = (start, *start.parents)
    files = [folder / name for folder in folders for name in INI_FILES]
    files = [file for file in files if file.is_file()]
    ini = next((file for file in files if _is_ini(file)), None)
    ini = ini or next((file for file in files if file.name == "pyproject.toml"), None)
    if ini is not None:
        return ini.parent, ini
    return next((folder for folder in folders if (folder / "setup.py").is_file()), start), None


def _is_ini(file: Path) -> bool:
    return not INI_FILES[file.name] or _settings_of(file) is not None


def _settings_of(file: Path) -> Mapping[str, object] | None:
    """Read pytest's part of an ini file; None if it has none, or cannot be read."""
    keys = INI_FILES[file.name] or ("pytest",)
    try:
        content = file.read_text(encoding="utf-8")
        if file.suffix == ".toml":
            return _table(tomllib.loads(content), keys)
        parser = ConfigParser(strict=False, interpolation=None, allow_no_value=True)
        parser.read_string(content)
        return parser[keys[0]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigParserError):
        return None


def _table(document: dict[str, Any], keys: Sequence[str]) -> Mapping[str, object]:
    for key in keys:
        document = document[key]
    return dict(document.get("ini_options", document))
