"""Tells the story of the plugin on a copy of the example project: ``make demo``.

Records main, then judges three branches against it: one that cannot matter, one that
makes the prompt worse, one that makes it better. Needs git and an environment with the
plugin; needs no network and no key, for the example's model is a simulator. Plain
Python, because the exit codes and the words of each section are checked on the way,
and because bash would not run everywhere.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEMO = Path(__file__).resolve().parent
EXAMPLE = DEMO.parent / "example_project"
LEFT_BEHIND = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".llmeval", ".git")
COLOUR_CODE = re.compile(r"\x1b\[[0-9;]*m")


class StoryBroken(Exception):
    """The plugin did not do what the demo promises."""


@dataclass(frozen=True)
class Branch:
    """One act: what is changed, and what pytest must say and return.

    Attributes:
        edit: changes the working tree of the project.
        says: patterns that must be found in pytest's output.
        never_says: patterns that must not.
    """

    name: str
    heading: str
    subject: str
    edit: Callable[[Path], None]
    exit_code: int
    says: tuple[str, ...]
    never_says: tuple[str, ...]
    moral: str


@dataclass(frozen=True)
class Stage:
    """A folder in which commands are typed for everyone to see."""

    folder: Path
    environment: Mapping[str, str]

    def types(self, command: str, *, exit_code: int = 0) -> str:
        """Echo and run one command, return what it printed.

        Raises:
            StoryBroken: it ended with another exit code.
        """
        print(f"\n$ {command}", flush=True)
        done = subprocess.run(  # noqa: S603 - every command stands in this file
            shlex.split(command),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        print(done.stdout, end="", flush=True)
        if done.returncode != exit_code:
            message = f"`{command}` ended with exit code {done.returncode}, not {exit_code}"
            raise StoryBroken(message)
        return COLOUR_CODE.sub("", done.stdout)


def main() -> int:
    """Tell the story; 0 if all of it came true."""
    options = arguments()
    with project_folder(options.keep) as folder:
        print(f"The demo plays in {folder}" + ("" if options.keep else ", which it will delete"))
        try:
            tell_story(Stage(folder, environment()))
        except StoryBroken as broken:
            print(f"\nDEMO FAILED: {broken}", file=sys.stderr)
            return 1
    return 0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--keep", metavar="FOLDER", help="play there, and leave it for a look")
    return parser.parse_args()


@contextmanager
def project_folder(keep: str | None) -> Iterator[Path]:
    """Give a fresh copy of the example project, deleted afterwards unless it is to be kept."""
    if keep is not None:
        folder = Path(keep).resolve()
        if folder.exists():
            sys.exit(f"--keep={keep}: is there already; name a folder that is still to be made")
        yield shutil.copytree(EXAMPLE, folder, ignore=LEFT_BEHIND)
        return
    with tempfile.TemporaryDirectory(prefix="llmeval-demo-") as parent:
        yield shutil.copytree(EXAMPLE, Path(parent, "ticket-triage"), ignore=LEFT_BEHIND)


def environment() -> dict[str, str]:
    """Build an environment in which neither git's nor pytest's private settings matter."""
    theirs = ("GIT_", "GITHUB_", "PYTEST_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    commands = str(Path(sys.executable).parent)
    clean["PATH"] = os.pathsep.join([commands, clean.get("PATH", os.defpath)])
    clean["GIT_CONFIG_GLOBAL"] = clean["GIT_CONFIG_SYSTEM"] = os.devnull
    for role in ("AUTHOR", "COMMITTER"):
        clean[f"GIT_{role}_NAME"] = "Demo"
        clean[f"GIT_{role}_EMAIL"] = "demo@example.org"
    clean["PYTHONIOENCODING"] = "utf-8"
    if sys.stdout.isatty():
        clean["PY_COLORS"] = "1"
    return clean


def tell_story(stage: Stage) -> None:
    """Record main, then play the branches."""
    heading("main: ask the model ten times for every case, and record the run")
    stage.types("git init --quiet --initial-branch=main")
    stage.types("git add .")
    stage.types('git commit --quiet -m "Sort tickets with a prompt"')
    stage.types("pytest --llm-repeats=10")
    for branch in BRANCHES:
        play(stage, branch)
    heading("What was shown")
    print("exit 0  main recorded")
    for branch in BRANCHES:
        print(f"exit {branch.exit_code}  {branch.name}: {branch.moral}")


def play(stage: Stage, branch: Branch) -> None:
    """Make the branch and its change, then let pytest judge it.

    Raises:
        StoryBroken: pytest returned or said something else than the story tells.
    """
    heading(branch.heading)
    stage.types(f"git switch --quiet -c {branch.name} main")
    branch.edit(stage.folder)
    stage.types("git diff --unified=0")
    stage.types(f'git commit --quiet -a -m "{branch.subject}"')
    output = stage.types("pytest --llm-baseline=main", exit_code=branch.exit_code)
    for pattern in branch.says:
        if not re.search(pattern, output):
            raise StoryBroken(f"on {branch.name}, pytest should have said /{pattern}/")
    for pattern in branch.never_says:
        if re.search(pattern, output):
            raise StoryBroken(f"on {branch.name}, pytest should not have said /{pattern}/")


def heading(text: str) -> None:
    """Print a heading of the story."""
    print(f"\n\n### {text} {'#' * max(3, 75 - len(text))}", flush=True)


def comment_the_application(folder: Path) -> None:
    """Add a comment that no model will ever see."""
    module = folder / "triage" / "app.py"
    source = module.read_text(encoding="utf-8")
    before = "def topic_of("
    module.write_text(
        source.replace(before, f"# Desks are named in labels.py.\n{before}"), encoding="utf-8"
    )


def shorten_the_prompt(folder: Path) -> None:
    """Leave out what the labels mean."""
    shutil.copyfile(DEMO / "shorter_prompt.txt", folder / "triage" / "prompt.txt")


def add_examples_to_the_prompt(folder: Path) -> None:
    """Append three worked examples."""
    with (folder / "triage" / "prompt.txt").open("a", encoding="utf-8") as prompt:
        prompt.write((DEMO / "examples.txt").read_text(encoding="utf-8"))


BRANCHES = (
    Branch(
        name="comment",
        heading="A branch that only adds a comment",
        subject="Say where the desks are named",
        edit=comment_the_application,
        exit_code=0,
        says=(r"\b0 calls made", r"\bunchanged .*: 2 functions"),
        never_says=("REGRESSED", r"\bimproved\b"),
        moral="all replies came from the cache, so nothing can have changed",
    ),
    Branch(
        name="shorter-prompt",
        heading="A branch that saves tokens and loses what the labels mean",
        subject="Shorten the prompt",
        edit=shorten_the_prompt,
        exit_code=1,
        says=(r"\bREGRESSED +test_topic", "1 function unchanged"),
        never_says=(r"\bimproved\b",),
        moral="test_topic REGRESSED, and the build fails",
    ),
    Branch(
        name="worked-examples",
        heading="A branch that adds three worked examples to the prompt",
        subject="Show the model three tickets",
        edit=add_examples_to_the_prompt,
        exit_code=0,
        says=(r"\bimproved +test_topic", "1 function unchanged"),
        never_says=("REGRESSED",),
        moral="test_topic improved, and the build passes",
    ),
)


if __name__ == "__main__":
    sys.exit(main())
