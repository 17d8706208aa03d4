"""``llmeval comment``: what another job reported, as a comment below its pull request."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from pytest_llmeval.cli.pages import echo
from pytest_llmeval.errors import ReportRefused
from pytest_llmeval.reports.received import (
    MOST_BYTES,
    is_worth_a_comment,
    marker,
    nobody_to_tell,
    read_report,
    written,
)


def _checked_name(_: click.Context, __: click.Parameter, name: str) -> str:
    if not re.fullmatch(r"\w+([.-]\w+)*", name, re.ASCII):
        raise click.BadParameter(f"{name!r}: letters, digits and single . _ - between them")
    return name


@click.command("comment")
@click.argument("report", required=False, type=click.Path(path_type=Path))
@click.option(
    "--artifact", default="evals", show_default=True, callback=_checked_name,
    help="The artifact that has the report; each has a comment of its own.",
)  # fmt: skip
def comment_command(report: Path | None, artifact: str) -> None:
    """Comment on a pull request what its job reported.

    For a job of GitHub that follows another workflow (on: workflow_run), with a token that may
    write and none of the project's code; docs/ci.md has it. The report is taken from the artifact
    of that run, or from the file REPORT. A comment that is there is written anew. Exit 0 where
    there is nothing to comment on.
    """
    echo([_comment(report, name=artifact)])


def _comment(path: Path | None, *, name: str) -> str:
    """Comment; return the line that says what was done, or why nothing."""
    from pytest_llmeval.github import workflow_run
    from pytest_llmeval.github.api import Github, find_comment, write_comment

    run = workflow_run.read_workflow_run(os.environ)
    with Github(os.environ) as github:
        numbers = workflow_run.open_pull_requests(github, run)
        if len(numbers) != 1:
            return nobody_to_tell(run, github.repository, numbers)
        if path is None:
            content = workflow_run.download_report(github, run, artifact=name, most=MOST_BYTES + 1)
        else:
            content = _content(path)
        if content is None:
            return f"nothing to comment: run {run.id} left no artifact '{name}'"
        report = read_report(content)
        (number,) = numbers
        old = find_comment(github, pull_request=number, marker=marker(name))
        if old is None and not is_worth_a_comment(report):
            return f"nothing to comment: unchanged (#{number})"
        text = written(report, run, name=name)
        if old is not None and old["body"] == text:
            return f"the comment on #{number} says so already: {old.get('html_url')}"
        url = write_comment(github, text, pull_request=number, old=old)
        return f"{'commented' if old is None else 'comment updated'} on #{number}: {url}"


def _content(path: Path) -> bytes:
    """Read a file that a stranger may have made: no link, no pipe, and not too much of it.

    Raises:
        ReportRefused: it is no plain file.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    if path.is_symlink() or not path.is_file():
        raise ReportRefused(f"{path}: a report is a plain file, and here is none")
    with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - by its descriptor
        return file.read(MOST_BYTES + 1)
