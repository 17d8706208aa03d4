"""What the commands share: where runs and replies are kept, and how lines are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.gate.samples import FunctionSamples
from pytest_llmeval.printable import printable
from pytest_llmeval.reports.words import short

HOME = ".llmeval"

directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory that sessions know as --llm-dir; else .llmeval, sought from here upwards.",
)

function_option = click.option(
    "--function", "name", metavar="NAME", help="Of this test function alone."
)


def ranged(
    name: str, check: Callable[[object], object], default: float | None, text: str
) -> Callable[[Any], Any]:
    """Declare an option with a range, which pytest's own of that name may have too.

    Args:
        name: without dashes.
        check: one of ``ranges``.
        default: to be told; the command itself gets None where nothing was typed.
        text: for ``--help``.
    """

    def checked(_: click.Context, __: click.Parameter, value: str | None) -> object:
        try:
            return None if value is None else check(value)
        except ValueError as exc:
            raise SettingsError(f"--{name}={value}: {exc}") from None

    told = "" if default is None else f" (default: {default:g})"
    return click.option(f"--{name}", callback=checked, help=f"{text}{told}.")


def chosen(
    found: Sequence[FunctionSamples], name: str | None, *, run: str
) -> tuple[FunctionSamples, ...]:
    """Choose the functions that were asked about.

    Args:
        found: every function of a run.
        name: of a test function, with or without its file; all of them if None.
        run: its id, for the message.

    Raises:
        click.UsageError: there is none of that name, or none at all.
    """
    like = [each for each in found if name in (None, each.function, short(each.function))]
    if not like:
        names = ", ".join(dict.fromkeys(short(each.function) for each in found)) or "no eval"
        raise click.UsageError(f"--function={name}: run {run} has {names}")
    return tuple(like)


def nearest_home(here: Path) -> Path | None:
    """Find the nearest ``.llmeval`` in a folder or above it."""
    sought = [folder / HOME for folder in (here, *here.parents)]
    return next((home for home in sought if home.is_dir()), None)


def home_of_runs(given: Path | None) -> Path:
    """Tell where runs are looked for; there may be none."""
    here = Path.cwd()
    return (given or nearest_home(here) or here / HOME).absolute()


def echo(lines: Iterable[str]) -> None:
    """Write lines to standard output; a file of others may have had a hand in them."""
    for line in lines:
        click.echo(printable(line))
