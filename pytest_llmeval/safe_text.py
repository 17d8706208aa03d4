"""Texts of models and tests, written so that terminals, logs and pages only show them.

A reply may hold anything: escape codes of a terminal, commands to a CI service, HTML, mentions.
``printable`` is for terminals and logs, where a line may be a command of the CI service.
The other functions are for Markdown as GitHub and GitLab render it. Bots read the source of
Markdown, so it has no mention, no comment and no HTML either.
"""

from __future__ import annotations

import re

TAB = 4  # columns
# What GitHub obeys at the start of a line, and GitHub, Azure and TeamCity anywhere: ::error::,
# ##[group], ##vso[task.complete], ##teamcity[message].
_COMMAND = re.compile(r"^\s*:(?=:)|#(?=#\w*\[)")
# Characters with a meaning in Markdown or HTML anywhere; bots obey a line that begins with /.
_MARKUP = re.compile(r"[#$&*:<>@\[\\\]^_`{|}~]|w(?=ww\.)|^\s*/", re.IGNORECASE)
# Text that may stand between backticks, also in a cell of a table.
_PLAIN = re.compile(r"(?!\s)[^`|<@$]+(?<!\s)")
# The same for our own sentences, which hold brackets and underscores of names.
_SYNTAX = re.compile(r"[\\`*|~$]|(?<![^\W_])_|_(?![^\W_])|\](?=[\[(:])|^(?:[/#=+-]|\d+(?=[.)]))")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# Beginnings of a mention, a reference, an address or an emoji in rendered text, not in code.
_LINKED = re.compile(r"@|#(?=\w)|GH-(?=\d)|:(?=[\w+/:-])|www(?=\.)", re.IGNORECASE)
_FURTHER_LINE = "\n       "  # of a message behind "ERROR: "
_BREAK = "\u200b"  # is not seen


def printable(text: str) -> str:
    r"""Write what would steer a terminal or a CI service so that it is seen instead: ``\x1b``.

    Args:
        text: becomes one line, whatever it holds.
    """
    shown = "".join(char if char.isprintable() else _escaped(char) for char in text)
    return _COMMAND.sub(lambda found: found[0][:-1] + _escaped(found[0][-1]), shown)


def printable_message(message: str) -> str:
    """Write a message of ours likewise, with its own line ends and none of a value in it.

    Args:
        message: its further lines are indented by seven blanks.
    """
    return _FURTHER_LINE.join(map(printable, message.split(_FURTHER_LINE)))


def printable_lines(text: str) -> list[str]:
    """Write a text of several lines likewise, line by line; tabs become blanks."""
    lines = text.replace("\r\n", "\n").split("\n")
    return [printable(line.expandtabs(TAB)) for line in lines]


def prose(sentence: str) -> str:
    """Write a sentence of ours, which may quote names and messages, as text of Markdown.

    Args:
        sentence: becomes one line, whatever it holds.
    """
    shown = _LINKED.sub(lambda found: found[0] + _BREAK, printable(sentence.strip()))
    shown = _SYNTAX.sub(lambda at: f"{at[0]}{_BREAK}" if at[0].isdecimal() else f"\\{at[0]}", shown)
    return re.sub("[&<>]", lambda found: _HTML[found[0]], shown)


def code_span(text: str) -> str:
    """Write a text as code within Markdown: in a line or a cell of a table, not within HTML.

    A text without entities stands between backticks, for readers of the source.

    Args:
        text: becomes one line, whatever it holds.
    """
    shown = printable(text)
    return f"`{shown}`" if _PLAIN.fullmatch(shown) else html_code(text)


def html_code(text: str) -> str:
    """Write a text as code within an HTML element such as ``<summary>``; it fits Markdown, too.

    Args:
        text: becomes one line, whatever it holds.
    """
    entities = _MARKUP.sub(lambda at: f"{at[0][:-1]}&#{ord(at[0][-1])};", printable(text))
    return f"<code>{entities}</code>"


def _escaped(char: str) -> str:
    code_point = ord(char)
    plain = char.encode("unicode_escape").decode("ascii")
    return plain if plain != char else f"\\x{code_point:02x}"
