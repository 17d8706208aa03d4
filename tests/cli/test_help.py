"""The help of the command: whole summaries in 80 columns, plain words, values with names."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main
from tests.docs.test_plain_words import found_in


def groups_and_commands(
    command: click.Command, typed: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    yield typed
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from groups_and_commands(one, (*typed, name))


EVERY = list(groups_and_commands(main))


def help_of(typed: tuple[str, ...]) -> str:
    return CliRunner().invoke(main, [*typed, "--help"], terminal_width=80).output


@pytest.mark.parametrize("typed", EVERY, ids=" ".join)
def test_a_help_fits_80_columns_and_cuts_no_summary(typed: tuple[str, ...]) -> None:
    text = help_of(typed)

    assert max(map(len, text.splitlines())) <= 80
    assert not [line for line in text.splitlines() if re.match(r"  [a-z].*\w\.\.\.$", line)]


@pytest.mark.parametrize("typed", EVERY, ids=" ".join)
def test_a_value_is_named_by_what_it_is(typed: tuple[str, ...]) -> None:
    assert not re.findall(r"--[a-z-]+ (?:TEXT|INTEGER|FLOAT).*", help_of(typed))


@pytest.mark.parametrize("typed", EVERY, ids=" ".join)
def test_a_help_has_the_words_of_the_glossary(typed: tuple[str, ...]) -> None:
    assert found_in(help_of(typed)) == []


def test_the_commands_stand_in_groups_with_those_of_every_day_first() -> None:
    headings = re.findall(r"^(\S.*):$", help_of(()), re.MULTILINE)

    assert headings == [
        "Options", "Every day", "Plan and improve a suite", "CI and teams", "What is kept",
    ]  # fmt: skip
    assert re.findall(r"^  ([a-z]+) ", help_of(()), re.MULTILINE)[:3] == ["init", "show", "compare"]


def test_a_summary_says_what_the_command_does() -> None:
    text = help_of(())

    assert re.search(r"^  compare +Compare two recorded runs\.$", text, re.MULTILINE)


def test_the_option_that_is_most_like_a_mistyped_one_is_named() -> None:
    said = CliRunner().invoke(main, ["plan", "--drops=0.1"]).stderr
    assert said == "ERROR: there is no option --drops. Did you mean --drop?\n"
