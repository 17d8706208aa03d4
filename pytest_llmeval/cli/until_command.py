"""``llmeval until``: more and more repeats, until the mean is known narrowly enough."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from pytest_llmeval.cli import arguments
from pytest_llmeval.cli.pages import echo
from pytest_llmeval.gate.scoring import FunctionScores
from pytest_llmeval.records import Run
from pytest_llmeval.reports.html.plots import look_chart
from pytest_llmeval.reports.html.rendering import render_charts
from pytest_llmeval.reports.notation import label, percent
from pytest_llmeval.reports.terminal.planning import ending, look_heading, look_lines
from pytest_llmeval.settings import HTML, JSON, chance, positive
from pytest_llmeval.stats.expected import ExpectedMean, expect_mean, repeats_for_width

FIRST = 3
RECORDED = (0, 1)  # pytest's exit codes after a run: all passed, or some failed
NOT_HERE = {
    "--llm-repeats": "is what grows here: say --max-repeats",
    "--llm-baseline": "compares two runs: measure first, then compare with as many repeats",
    "--llm-dir": "is known here as --dir: name it before the --",
}
ANEW = ("off", "refresh")
_KEYS = ("repeats", "mean", "interval", "width", "by_repeats", "drifts")

# by function, and by the repeats that were asked for
Looks = dict[str, dict[int, ExpectedMean]]


@click.command("until")
@arguments.ranged("width=D", positive, None, "How wide the range may be (default: as --llm-target)")
@click.option(
    "--max-repeats", "most", type=click.IntRange(min=FIRST), default=30, show_default=True,
    metavar="N", help="Stop at N repeats, narrow enough or not.",
)  # fmt: skip
@arguments.ranged("confidence=SHARE", chance, 0.95, "How often such a range is right")
@click.option(
    "--html", "pages", type=click.Path(path_type=Path), multiple=True, hidden=True
)  # until 1.0
@arguments.report_option(HTML, JSON)
@arguments.function_option
@arguments.home_option
@click.argument("words", metavar="-- [PYTEST ARGS]...", nargs=-1, type=click.UNPROCESSED)
def until_command(
    width: float | None,
    home: arguments.Home,
    *,
    most: int,
    confidence: float,
    name: str | None,
    pages: tuple[Path, ...],
    reports: tuple[Path, ...],
    words: tuple[str, ...],
) -> None:
    """Run pytest with more and more repeats until the mean is known.

    It begins with 3 repeats and ends once the range of the mean is no wider than --width: a later
    run of the same cases, with as many repeats, is expected to have its mean there. Earlier replies
    come from the cache, so each further run pays for its new trials only. Exit 0 if the range of
    every function is narrow enough, 1 if not, else as pytest does.
    """
    width = arguments.ini_value("target") if width is None else width
    _refuse(words)
    echo([look_heading(confidence)])
    repeats = FIRST
    looks: Looks = {}
    while True:
        output, run = _look(repeats, words, home=home)
        found = list(_expected(run, name=name, confidence=confidence))
        echo(look_lines(repeats, run, found))
        for function, expected in found:
            if expected is not None:
                looks.setdefault(label(function), {})[repeats] = expected
        wider = [one for _, one in found if one is None or one.width is None or one.width > width]
        if not wider or None in wider or repeats == most:
            break
        repeats = _next(repeats, wider, width=width, most=most)
    click.echo(f"\n{output}")
    echo(ending(repeats, found, width=width, most=most))
    hint = f"Lines are where the mean of a later run is expected, {percent(confidence)}."
    charts = [look_chart(name, [*each.items()]) for name, each in looks.items()]
    for path in (*pages, *reports):
        is_data = path.suffix == JSON
        text = _data(looks) if is_data else render_charts("Means by repeats", hint, charts)
        path.write_text(text, encoding="utf-8")
    if wider:
        raise SystemExit(1)


def _data(looks: Looks) -> str:
    entries = [
        {
            "function": name,
            "looks": [{key: getattr(one, key) for key in _KEYS} for one in each.values()],
        }
        for name, each in looks.items()
    ]
    return json.dumps(entries, indent=2) + "\n"


def _refuse(words: Sequence[str]) -> None:
    for argument in words:
        option, _, value = argument.partition("=")
        if option in NOT_HERE:
            raise click.UsageError(f"{option} {NOT_HERE[option]}")
        if option == "--llm-cache" and value in ANEW:
            raise click.UsageError(
                f"{argument} pays for every call at every look: leave it out, so that "
                "earlier replies come from the cache"
            )


def _look(repeats: int, words: Sequence[str], *, home: arguments.Home) -> tuple[str, Run]:
    """Run pytest once, to its end also after Ctrl-C, and read what it recorded."""
    before = home.store.files()
    command = [sys.executable, "-m", "pytest", *words, f"--llm-repeats={repeats}"]
    if home.typed is not None:
        command.append(f"--llm-dir={home.typed}")
    with subprocess.Popen(  # noqa: S603 - the user's own pytest arguments
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            output, _ = process.communicate()
        except KeyboardInterrupt:  # pytest gets the signal too, and records its run
            output, _ = process.communicate()
    if process.returncode not in RECORDED:
        click.echo(output)
        raise SystemExit(process.returncode)
    new = {run_id: path for run_id, path in home.store.files().items() if run_id not in before}
    if not new:
        click.echo(output)
        raise click.UsageError(
            f"pytest recorded no run in {home.store.folder}: no test under @llm_eval ran, or its "
            "runs are kept elsewhere. Name the directory with --dir"
        )
    return output, home.store.load(new[max(new)])


def _expected(
    run: Run, *, name: str | None, confidence: float
) -> Iterator[tuple[FunctionScores, ExpectedMean | None]]:
    of_scores = [one for one in arguments.chosen(run, name) if not one.compares_ratios]
    if not of_scores:
        raise click.UsageError(
            "all that is gated is what calls took, and --width is one of scores: "
            "gate on a score too, as in gate=('pass', 'seconds')"
        )
    for function in of_scores:
        samples = function.samples
        yield function, expect_mean(samples, confidence=confidence) if samples else None


def _next(repeats: int, wider: Sequence[ExpectedMean | None], *, width: float, most: int) -> int:
    """Choose the next number of repeats: the predicted one, but at most twice as many."""
    needed = max(
        repeats_for_width(expected, width=width, limit=most) or most
        for expected in wider
        if expected is not None
    )
    return min(max(needed, repeats + 1), 2 * repeats, most)
