"""``llmeval compare``: hold one run or score table against another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from pytest_llmeval import ranges
from pytest_llmeval.cli.common import echo, find_pair, ranged
from pytest_llmeval.cli.home import directory_option, home_of
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.ranges import AnyTest, FixedTest
from pytest_llmeval.records import Better
from pytest_llmeval.reports.commands.compared import compared_lines
from pytest_llmeval.reports.json import render
from pytest_llmeval.session import compared
from pytest_llmeval.settings import GateRules, Settings

DEFAULTS = GateRules()
NO_GATE = "{} is no test for a gate: docs/statistics.md tells when it is valid"


def _test(value: object) -> AnyTest:
    return DEFAULTS.test if value == "auto" else ranges.any_test(value)


@click.command()
@click.argument("baseline", metavar="A")
@click.argument("candidate", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="Write what --llm-report writes.")
@ranged("alpha", ranges.alpha, DEFAULTS.alpha, "One-sided level of the test")
@ranged("margin", ranges.not_negative, DEFAULTS.margin, "Fail only on a drop of more than this")
@ranged("target", ranges.positive, DEFAULTS.target, "The drop that must be ruled out or caught")
@click.option("--strict", is_flag=True, help="Inconclusive, not judged and partial fail too.")
@click.option("--metric", metavar="NAME", help="Compare this metric alone.")
@click.option("--better", type=click.Choice(["higher", "lower"]), help="Which direction is good.")
@ranged("test", _test, None, "Another test of docs/statistics.md (default: auto, paired-t)")
@directory_option
def compare(
    baseline: str,
    candidate: str,
    directory: Path | None,
    *,
    as_json: bool,
    alpha: float | None,
    margin: float | None,
    target: float | None,
    strict: bool,
    test: AnyTest | None,
    metric: str | None,
    better: Better | None,
) -> None:
    """Hold B against the baseline A, and exit as a session would: 1 if B is worse.

    A and B are recorded runs (last, a run id, a run file, a branch, tag or commit), two
    conditions of runs (RUN::test[a] RUN::test[b]), or score tables (.csv or .jsonl, also
    .gz, with case_id, repeat and score; FILE::CONDITION picks rows by the column condition).
    """
    rules = _rules(alpha=alpha, margin=margin, target=target, strict=strict, test=test)
    home = home_of(directory)
    there, here = find_pair(baseline, candidate, home=home, metric=metric, better=better)
    if rules.test in get_args(FixedTest):
        there = replace(there, notes=(*there.notes, NO_GATE.format(rules.test)))
    accepted = here.run.rules.get("accept_gone")
    if isinstance(accepted, tuple):  # the session that recorded B was let off these
        rules = replace(rules, accept_gone=accepted)
    settings = Settings(directory=home, session="", baseline=baseline, gate=rules)
    judged = compared(Judgement(settings=settings, run=here.run, baseline=there), here.run)
    if as_json:
        click.echo(render(judged), nl=False)
    else:
        echo(line.text for line in compared_lines(judged, here))
    if judged.fails:
        raise SystemExit(1)


def _rules(
    *,
    alpha: float | None,
    margin: float | None,
    target: float | None,
    strict: bool,
    test: AnyTest | None,
) -> GateRules:
    given = {"alpha": alpha, "margin": margin, "target": target, "test": test}
    set_here: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    rules = replace(DEFAULTS, strict=strict, **set_here)
    ranges.check_margin(rules.margin, target=rules.target, given=target is not None, prefix="--")
    ranges.check_test(rules.test, margin=rules.margin, prefix="--")
    return rules
