"""``llmeval selfcheck``: how often would the gate cry wolf on this very suite?"""

from __future__ import annotations

from pathlib import Path

import click

from pytest_llmeval import ranges
from pytest_llmeval.cli.common import chosen, echo, find_run, function_option, ranged
from pytest_llmeval.cli.home import directory_option, home_of
from pytest_llmeval.gate.samples import samples_of
from pytest_llmeval.reports.commands import selfchecked
from pytest_llmeval.session import pricing
from pytest_llmeval.settings import GateRules

ALPHA = GateRules().alpha


@click.command("selfcheck")
@click.argument("reference", metavar="RUN")
@ranged("alpha", ranges.alpha, ALPHA, "One-sided level of the test")
@function_option
@directory_option
def selfcheck_command(
    reference: str, directory: Path | None, *, alpha: float | None, name: str | None
) -> None:
    """Hold a run against itself: how often is a suite called worse that did not change?

    Two runs are dealt at random from the repeats of each case, again and again, and the
    first half of them is held against the second. Exit 1 if alarms are more frequent than
    the level says, or if the repeats drift. RUN is what compare takes for B.
    """
    from pytest_llmeval.gate.halves import compare_halves
    from pytest_llmeval.stats.planning.selfcheck import self_check

    level = alpha or ALPHA
    run = find_run(reference, home=home_of(directory)).run
    cost_of = pricing({})
    functions = chosen(samples_of(run, cost_of=cost_of), name, run=run.id)
    halves = {
        (half.function, half.metric): half
        for half in compare_halves(run, alpha=level, cost_of=cost_of)
    }
    checks = [
        selfchecked.Checked(
            function=function,
            check=self_check(function.gains, function.units, alpha=level),
            halves=halves.get((function.function, function.metric)),
        )
        for function in functions
    ]
    click.echo(f"run {run.id}")
    echo(selfchecked.lines(checks, alpha=level))
    if not any(checked.check for checked in checks):
        raise click.UsageError(
            "no case has two scored trials to deal. Record some: pytest --llm-repeats=5"
        )
    if any(checked.cries_wolf(level) or checked.drifts for checked in checks):
        raise SystemExit(1)
