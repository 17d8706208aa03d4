"""The command ``llmeval``, for all that needs no test session."""

from __future__ import annotations

import sys
from typing import Any

import click

from pytest_llmeval import __version__
from pytest_llmeval.cli import run_commands
from pytest_llmeval.cli.cache_commands import cache
from pytest_llmeval.cli.comment_command import comment_command
from pytest_llmeval.cli.merge_command import merge_command
from pytest_llmeval.cli.plan_command import plan_command
from pytest_llmeval.cli.reading_commands import diff_command
from pytest_llmeval.cli.store_commands import fetch_command, push_command
from pytest_llmeval.cli.until_command import until_command
from pytest_llmeval.errors import LLMEvalError
from pytest_llmeval.safe_text import printable

USAGE_ERROR = 4  # as pytest exits


class _Door(click.Group):
    """A group of commands: a mistake is one line and pytest's exit code for usage errors."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit."""
        try:
            super().main(*args, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as exc:
            exc.show()
            sys.exit(USAGE_ERROR)
        except (click.ClickException, click.Abort, LLMEvalError, OSError) as exc:
            message = "\n".join(map(printable, _message(exc).split("\n")))
            click.echo(f"ERROR: {message}", err=True)
            sys.exit(USAGE_ERROR)
        sys.exit(0)


def _message(exc: Exception) -> str:
    if isinstance(exc, click.Abort):
        return "stopped; nothing was changed. Without a terminal to ask at, say --yes"
    if isinstance(exc, click.ClickException):
        return exc.format_message()
    if isinstance(exc, OSError) and exc.filename is not None:
        return f"{exc.filename}: {exc.strerror or exc}"
    return str(exc)


@click.group(cls=_Door)
@click.version_option(__version__, prog_name="llmeval")
def main() -> None:
    """Compare what pytest sessions with evals left behind, and look after it."""


for command in (
    run_commands.compare_command,
    run_commands.list_command,
    run_commands.show_command,
    until_command,
    plan_command,
    run_commands.selfcheck_command,
    diff_command,
    merge_command,
    push_command,
    fetch_command,
    comment_command,
    cache,
):
    main.add_command(command)
