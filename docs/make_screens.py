"""The pictures of a red build in README, from a session of the example. Run: ``make pictures``.

The example is judged as its README says, with the worse prompt of the demo. Its model is seeded,
so that the section, drawn as SVG, changes with the example or with what is printed only. The page
of HTML is opened in Chromium; pixels differ from one Chromium to the next.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "screens"
COLUMNS = 100
SHOWN_COMMIT = "97a1bbe81c20"
# The last line of the section that is drawn; only what to type next is drawn below it.
LAST = re.compile(r"^  fell too ")
NEXT = "read both replies:"
# By the number of a style in a terminal; what has no style has 0.
SCHEMES = {
    "light": {
        "paper": "#ffffff",
        "0": "#1f2328",
        "31": "#b3261e",
        "32": "#1a7f37",
        "33": "#8a5a00",
    },
    "dark": {"paper": "#16181d", "0": "#d7dae0", "31": "#ff8a80", "32": "#7ee787", "33": "#f2cc60"},
}
CELL, ROW, EDGE = 8.4, 19, 16
WIDTH, HEIGHT = 1100, 640  # of the page, from what changed in the prompt to the worst cases
_STYLE = re.compile(r"\x1b\[(\d+)m")
# Nothing else of the environment: options, colours or a job of CI would change what is printed.
_NEEDED = ("PATH", "HOME", "SYSTEMROOT", "TEMP", "TMPDIR")
_NO_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
_SOMEONE = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Someone"), ("EMAIL", "someone@example.org"))
}


def judge_the_example(project: Path) -> str:
    """Make a copy of the example, record main and judge a worse prompt; return what is printed.

    The page of the session is ``why.html`` in the copy.
    """
    unwanted = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".llmeval")
    shutil.copytree(ROOT / "example_project", project, ignore=unwanted)
    for line in ("init -q -b main --template=", "add .", "commit -qm main"):
        _type(project, "git", *line.split())
    _type(project, sys.executable, "-m", "pytest", "-q", "--llm-repeats=10")
    _type(project, "git", "switch", "-qc", "shorter-prompt")
    shutil.copyfile(ROOT / "demo" / "shorter_prompt.txt", project / "triage" / "prompt.txt")
    _type(project, "git", "commit", "-qam", "shorter")
    judged = ("-m", "pytest", "--color=yes", "--llm-baseline=main", "--llm-report=why.html")
    return _as_shown(_type(project, sys.executable, *judged, exit_code=1))


def shown(printed: str) -> list[str]:
    """Return the lines of the section that are drawn, with their styles."""
    lines = printed.splitlines()
    plain = [_STYLE.sub("", line) for line in lines]
    first = next(at for at, line in enumerate(plain) if line.startswith("REGRESSED:"))
    last = next(at for at, line in enumerate(plain) if at > first and LAST.match(line))
    (next_,) = (at for at, line in enumerate(plain) if line.startswith(NEXT))
    return [*lines[first:last], "...", lines[next_]]


def drawn(lines: list[str], scheme: str) -> str:
    """Draw lines of a terminal as SVG."""
    colours = SCHEMES[scheme]
    width, height = COLUMNS * CELL + 2 * EDGE, len(lines) * ROW + 2 * EDGE
    texts = [text for at, line in enumerate(lines) for text in _texts(line, at, colours)]
    body = "\n".join(texts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" role="img" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" '
        f'font-size="14">\n<rect width="{width:.0f}" height="{height}" rx="8" '
        f'fill="{colours["paper"]}" stroke="#8884"/>\n{body}\n</svg>\n'
    )


def _texts(line: str, row: int, colours: dict[str, str]) -> Iterator[str]:
    """Draw each piece of a line that has one style, over the cells that it has."""
    column, styles = 0, set[str]()
    for piece in re.split(r"(\x1b\[\d+m)", line):
        if style := _STYLE.fullmatch(piece):
            styles = set() if style[1] == "0" else styles | {style[1]}
            continue
        blanks = len(piece) - len(piece.lstrip())
        if text := piece.strip():
            kept = escape(text.replace(" ", "\u00a0"))  # of plain blanks SVG shows one
            colour = colours[next((one for one in styles if one in colours), "0")]
            weight = ' font-weight="bold"' if "1" in styles else ""
            yield (
                f'<text x="{EDGE + (column + blanks) * CELL:.1f}" y="{EDGE + row * ROW + 14}" '
                f'fill="{colour}"{weight} textLength="{len(text) * CELL:.1f}">{kept}</text>'
            )
        column += len(piece)


def photograph(page: Path) -> None:
    """Take a picture of the top of a page, light and dark."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            opened = browser.new_page(
                color_scheme="light" if scheme == "light" else "dark",
                viewport={"width": WIDTH, "height": 2000},
            )
            opened.goto(page.as_uri())
            found = opened.get_by_text("What changed in the prompt").first.bounding_box()
            opened.screenshot(
                path=FOLDER / f"page-{scheme}.png",
                full_page=True,
                clip={
                    "x": 0,
                    "y": found["y"] - EDGE if found else 0,
                    "width": WIDTH,
                    "height": HEIGHT,
                },
            )
        browser.close()


def _type(folder: Path, *command: str, exit_code: int = 0) -> str:
    given = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    done = subprocess.run(  # noqa: S603 - every command stands in this file
        command,
        cwd=folder,
        env={**given, **_NO_SETTINGS, **_SOMEONE, "COLUMNS": str(COLUMNS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != exit_code:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def _as_shown(printed: str) -> str:
    """Put a commit that is always the same in the place of the one that the copy has."""
    printed = re.sub(r"@ [0-9a-f]{12}$", f"@ {SHOWN_COMMIT}", printed, flags=re.MULTILINE)
    return re.sub(r"(?<=main@)[0-9a-f]{7}", SHOWN_COMMIT[:7], printed)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "triage"
        lines = shown(judge_the_example(project))
        for scheme in SCHEMES:
            (FOLDER / f"section-{scheme}.svg").write_text(drawn(lines, scheme), encoding="utf-8")
        photograph(project / "why.html")
