"""Lines of the commands on a terminal, in its width and colours."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports.notation import Line
from pytest_llmeval.reports.report import Report
from pytest_llmeval.reports.report_files import write_reports
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.safe_text import printable

verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show more lines.")


def page_of_output(*, verbose: bool = False, full: bool = False) -> Page:
    """Describe standard output."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return Page(shutil.get_terminal_size().columns, encoding, verbose=verbose, full=full)


def echo(lines: Iterable[str]) -> None:
    """Write lines to standard output, made printable, as a line may quote foreign files."""
    for line in lines:
        click.echo(printable(line))


def warn(*notes: str) -> None:
    """Write notes to standard error, likewise."""
    for note in notes:
        click.echo(f"warning: {printable(note)}", err=True)


def write_files(report: Report, paths: Sequence[Path], judgement: Judgement) -> bool:
    """Write reports; tell whether all could be written, and say on standard error which not."""
    problems = write_reports(report, paths, judgement, option="--report")
    for problem in problems:
        click.echo(problem, err=True)
    return not problems


def echo_lines(lines: Iterable[Line]) -> None:
    """Write lines to standard output, coloured by the rules that pytest has."""
    is_coloured = has_colours()
    for line in lines:
        colour = next((name for name in ("red", "green", "yellow") if name in line.markup), None)
        styled = click.style(line.text, fg=colour, bold=line.markup.get("bold"))
        click.echo(styled if line.text else "", color=is_coloured)


def has_colours() -> bool:
    """Tell whether standard output is to be coloured, by the rules that pytest has."""
    own = os.environ.get("PY_COLORS")
    if own in ("0", "1"):
        return own == "1"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
