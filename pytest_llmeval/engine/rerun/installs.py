"""Packages that were installed from a checkout, editable or as a copy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePath
from urllib.parse import urlsplit
from urllib.request import url2pathname

_HELPERS = ("__editable__", "_editable_impl_", "__pycache__", "..")


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """A distribution that was installed from a folder, or from a file that was built in one.

    Attributes:
        name: of the distribution.
        project: the folder; for a file the top of the checkout.
        names: the packages and modules that it brings.
        files: what was copied, absolute and without links; of an editable install next to nothing.
    """

    name: str
    project: Path
    names: frozenset[str]
    files: frozenset[str]


def installs_from(
    checkout: Path, distributions: Iterable[metadata.Distribution] | None = None
) -> Iterator[Install]:
    """List what was installed from a checkout, as the installer noted it (PEP 610).

    Args:
        checkout: without links.
        distributions: of the environment; None for those of this process.
    """
    for each in metadata.distributions() if distributions is None else distributions:
        origin = _origin(each)
        if origin is None or not origin.is_relative_to(checkout):
            continue
        # What an editable install leaves is no copy, though it is a module too.
        files = [file for file in each.files or () if not file.parts[0].startswith(_HELPERS)]
        yield Install(
            name=each.name,
            project=origin if origin.is_dir() else checkout,
            names=frozenset(_names(each, files)),
            files=frozenset(os.path.realpath(str(each.locate_file(file))) for file in files),
        )


def _origin(distribution: metadata.Distribution) -> Path | None:
    """Return the place on this machine that a distribution was installed from, without links."""
    try:
        url = json.loads(distribution.read_text("direct_url.json") or "{}").get("url", "")
        parts = urlsplit(url)
    except (ValueError, TypeError, AttributeError):
        return None
    if parts.scheme != "file":
        return None
    return Path(os.path.realpath(url2pathname(parts.path)))


def _names(distribution: metadata.Distribution, files: Iterable[PurePath]) -> set[str]:
    """Name what can be imported, by the list of setuptools or by what was copied."""
    listed = (distribution.read_text("top_level.txt") or "").split()
    copied = {file.parts[0].partition(".")[0] for file in files if _is_module(file)}
    # An editable install of hatchling lists nothing: a guess does no harm.
    guessed = distribution.name.replace("-", "_").lower()
    return {*listed, *copied} or {guessed}


def _is_module(file: PurePath) -> bool:
    return file.suffix in (".py", ".so", ".pyd")
