"""What the commands share: where runs and replies are kept, and how lines are written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

HOME = ".llmeval"

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory that sessions know as --llm-dir; else .llmeval, sought from here upwards.",
)


def nearest_home(here: Path) -> Path | None:
    """Find the nearest ``.llmeval`` in a folder or above it."""
    sought = [folder / HOME for folder in (here, *here.parents)]
    return next((home for home in sought if home.is_dir()), None)


def home_of_runs(given: Path | None) -> Path:
    """Tell where runs are looked for; there may be none."""
    here = Path.cwd()
    return (given or nearest_home(here) or here / HOME).absolute()


def echo(lines: Iterable[str]) -> None:
    """Write lines to standard output."""
    for line in lines:
        click.echo(line)
