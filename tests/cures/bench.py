"""A project in which a message is brought about, and in which its cure is typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

from click.testing import CliRunner

from pytest_llmeval.cli import main
from tests.project import Project

WORSE = 'PROMPT = "Say yes to {case}. rate=0.02"\n'


def flat(text: str) -> str:
    """Write on one line, as a message is where no terminal breaks it."""
    return " ".join(text.split())


@dataclass(slots=True)
class Bench:
    """A project, and what was typed in it last.

    Attributes:
        project: with a commit on main.
        last: types the last command again, with more arguments.
        exit: of that command.
    """

    project: Project
    last: Callable[..., str] = field(default=lambda *_: "")
    exit: int = 0

    def session(self, *arguments: str) -> str:
        """Run pytest with two repeats of each case; return what it printed."""

        def again(*more: str) -> str:
            result = self.project.run("-q", "--llm-repeats=2", *arguments, *more)
            self.exit = int(result.ret)
            return flat(f"{result.stdout.str()}\n{result.stderr.str()}")

        self.last = again
        return again()

    def llmeval(self, *arguments: str) -> str:
        """Run a command; return what it printed."""

        def again(*more: str) -> str:
            result = CliRunner().invoke(main, [*arguments, *more])
            assert result.exception is None or isinstance(result.exception, SystemExit)
            self.exit = result.exit_code
            return flat(result.output)

        self.last = again
        return again()

    def topic(self, **files: str) -> str:
        """Commit files, or a note of one's own, on a branch from HEAD; return the commit."""
        self.project.git("switch", "-q", "-c", "topic")
        return self.commit(**files or {"notes_txt": "of the topic"})

    def commit(self, **files: str) -> str:
        self.project.write(**files)
        self.project.git("add", "-A")
        self.project.git("commit", "-qm", "change")
        return self.project.git("rev-parse", "HEAD")

    def ini(self, line: str) -> None:
        """Add a line to the ini file, as somebody who pastes it."""
        path = self.project.path / "pytest.ini"
        path.write_text(f"{path.read_text().rstrip()}\n{line}\n")

    def type(self, typed: str) -> str:
        """Type what a message says, and then the command that complained; return what that says.

        An option is added to the command. A line of the ini file is written there. Commands are
        run one after the other, and the branch is left as it was.
        """
        typed = typed.strip()
        if typed.startswith("-"):
            return self.last(*shlex.split(typed))
        if re.match(r"llm_\w+ = ", typed):
            self.ini(typed)
            return self.last()
        complained, said = self.last, ""
        here = self.project.git("symbolic-ref", "-q", "--short", "HEAD")
        for command in typed.split(" && "):
            name, *arguments = shlex.split(command)
            said = self._run(name, arguments)
        if self.project.git("rev-parse", "--abbrev-ref", "HEAD") != here:
            self.project.git("switch", "-q", here)
        self.last = complained
        if name in ("pytest", "llmeval") and ("--llm-baseline" in typed or name == "llmeval"):
            return said  # it is itself the command that works
        return complained()

    def _run(self, name: str, arguments: list[str]) -> str:
        match name:
            case "git":
                return self.project.git(*arguments)
            case "pytest":
                return self.session(*arguments)
            case "llmeval":
                return self.llmeval(*arguments)
        raise AssertionError(f"nobody knows how to type {name}")


def taken(output: str, pattern: str) -> str:
    """Take what is to be typed out of a message, in which it is the first group."""
    found = re.search(pattern, output)
    assert found, f"{pattern} is not in\n{output}"
    return found[1]
