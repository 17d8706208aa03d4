"""The command ``llmeval``, for all that needs no test session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, cast

import click

from pytest_llmeval.errors import LLMEvalError, nearest
from pytest_llmeval.safe_text import printable
from pytest_llmeval.version import __version__

_WIDEST = 66  # columns of a summary: 80 without the margin and the longest name
USAGE_ERROR = 4  # pytest's exit code
# Each command and its module, so that a command needs not the imports of all; in groups for --help.
_GROUPS = {
    "Every day": {
        "init": "init_command",
        "show": "run_commands",
        "compare": "run_commands",
        "diff": "reading_commands",
        "tries": "tries_command",
        "history": "run_commands",
        "list": "run_commands",
    },
    "Plan and improve a suite": {
        "plan": "plan_command",
        "until": "until_command",
        "doctor": "doctor_command",
        "selfcheck": "doctor_command",
    },
    "CI and teams": {
        "merge": "merge_command",
        "push": "store_commands",
        "fetch": "store_commands",
    },
    "What is kept": {
        "cache": "cache_commands",
        "prune": "prune_command",
    },
}
_MODULES = {name: module for group in _GROUPS.values() for name, module in group.items()}
_REMOVED = {
    "comment": "gh pr comment NUMBER --body-file evals.md --edit-last --create-if-none writes what "
    "--llm-report=evals.md left (docs/ci.md)",
}


class _Commands(Mapping[str, click.Command]):
    """The commands by name, each imported when it is asked for."""

    def __getitem__(self, name: str) -> click.Command:
        module = import_module(f"pytest_llmeval.cli.{_MODULES[name]}")
        return cast("click.Command", getattr(module, f"{name}_command"))

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class _Door(click.Group):
    """A group of commands: a mistake is one line and pytest's exit code for usage errors."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, those of every day first."""
        width = max(map(len, _MODULES))
        for heading, names in _GROUPS.items():
            with formatter.section(heading):
                commands = {name: self.commands[name] for name in names}
                formatter.write_dl(
                    [
                        (name.ljust(width), command.get_short_help_str(_WIDEST))
                        for name, command in commands.items()
                        if not command.hidden
                    ]
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the typed command; for one that was removed say what to type instead."""
        if args[0] in _REMOVED:
            raise click.UsageError(f"llmeval {args[0]} was removed: {_REMOVED[args[0]]}")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit."""
        try:
            super().main(*args, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as exc:
            exc.show()
            sys.exit(USAGE_ERROR)
        except BrokenPipeError:  # the reader has seen enough: | head
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except (click.ClickException, click.Abort, LLMEvalError, OSError) as exc:
            message = "\n".join(map(printable, _message(exc).split("\n")))
            click.echo(f"ERROR: {message}", err=True)
            sys.exit(USAGE_ERROR)
        sys.exit(0)


def _message(exc: Exception) -> str:
    if isinstance(exc, click.Abort):
        return "stopped; nothing was changed. Without a terminal to ask at, say --yes"
    if isinstance(exc, click.MissingParameter) and exc.ctx and exc.ctx.info_name == "compare":
        return "compare needs two runs, such as:  llmeval compare main last"
    if isinstance(exc, click.NoSuchOption) and exc.possibilities:
        near = nearest(exc.option_name, exc.possibilities, most=1, likeness=0.0)
        return f"there is no option {exc.option_name}. Did you mean {near[0]}?"
    if isinstance(exc, click.ClickException):
        return exc.format_message()
    if isinstance(exc, OSError) and exc.filename is not None:
        return f"{exc.filename}: {exc.strerror or exc}"
    return str(exc)


@click.group(cls=_Door, commands=cast("Any", _Commands()))
@click.version_option(__version__, prog_name="llmeval")
def main() -> None:
    """Compare the runs that your evals recorded, and look after them."""
