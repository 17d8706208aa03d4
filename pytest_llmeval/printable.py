"""Text of others, made fit for a terminal and the log of a CI service."""

from __future__ import annotations

import re

# What GitHub obeys at the start of a line, and GitHub and Azure anywhere: ::error::, ##[group].
_COMMAND = re.compile(r"^\s*:(?=:)|#(?=#(?:\[|vso\[))")


def printable(text: str) -> str:
    r"""Write what would steer a terminal or a CI service so that it is seen instead: ``\x1b``.

    Args:
        text: becomes one line, whatever it holds.
    """
    shown = "".join(char if char.isprintable() else _escaped(char) for char in text)
    return _COMMAND.sub(lambda found: found[0][:-1] + _escaped(found[0][-1]), shown)


def _escaped(char: str) -> str:
    code = ord(char)
    plain = char.encode("unicode_escape").decode("ascii")
    return plain if plain != char else f"\\x{code:02x}"
