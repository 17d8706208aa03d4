"""``llmeval tries``: a loop at a prompt, try by try."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

import click

from pytest_llmeval.cli.arguments import Home, home_option, ini_value, rule
from pytest_llmeval.cli.pages import echo_lines, page_of_output, warn
from pytest_llmeval.gate.compare import compare
from pytest_llmeval.judgement import pricing
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.records import Run
from pytest_llmeval.reports.cost import cost_of_run
from pytest_llmeval.reports.tries import Try, tried_entry, tried_lines
from pytest_llmeval.runs.reshaping import under_new_names
from pytest_llmeval.runs.store import is_try, tries_against
from pytest_llmeval.settings import GateRules
from pytest_llmeval.transcripts.common_change import RequestChange, request_changes
from pytest_llmeval.transcripts.transcript import StoredTexts

HOW = "Record one: {} --llm-baseline=main"


@click.command("tries")
@click.argument("reference", metavar="[BASELINE]", required=False)
@rule("alpha", "What may lie beyond each end of an interval")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON list.")
@home_option
def tries_command(reference: str | None, home: Home, *, alpha: float, as_json: bool) -> None:
    """Show what was tried since a baseline, and what it brought.

    A try is a run that was compared with that baseline and paid for calls, of a dirty tree, too;
    runs of CI are none. Only tries of the branch of the newest one are shown. Words are those that
    changed since the try before. BASELINE is a recorded run, as for compare; without it, it is the
    one of the newest try.
    """
    found = home.find_run(reference or _newest_baseline(home))
    if reference is None:  # nobody typed the id, and a branch says more
        found = replace(found, reference=found.run.ref or found.reference)
    tries = [home.store.load(one.path) for one in tries_against(home.store, found.run.id)]
    if not tries:
        raise click.UsageError(f"no try was compared with {found.named}. {HOW.format(home.pytest)}")
    renamed = under_new_names(
        found, ini_value("renamed"), here={c.id for t in tries for c in t.cases}
    )
    warn(*renamed.notes)
    rules, page = GateRules(alpha=alpha), page_of_output()
    rows = list(_rows(renamed.run, tries, rules, home))
    if not rows:
        raise click.UsageError(f"no try has a case that changed against {found.named}")
    if as_json:
        click.echo(json.dumps(list(map(tried_entry, rows)), indent=2))
        return
    echo_lines(page.fitted(tried_lines(rows, found, rules, page)))


def _newest_baseline(home: Home) -> str:
    """Return the id of the baseline of the newest try."""
    headers = (stored.header for stored in home.store.every().runs)
    named = next((one.run.compared_with for one in headers if is_try(one)), None)
    if named is None:
        raise click.UsageError(
            f"no run in {home.store.folder} was compared with another. {HOW.format(home.pytest)}"
        )
    return named


def _rows(baseline: Run, tries: Sequence[Run], rules: GateRules, home: Home) -> Iterator[Try]:
    """Compare each try with the baseline, and its requests with those of the try before."""
    shows = ini_value("show_texts")
    earlier = [baseline]
    with StoredTexts(home.path) as stored:
        for run in tries:
            cost = cost_of_run(run, Prices({}))
            spent = "" if cost.is_local else str(cost.spent)
            # metrics of a function mostly have the same cases
            changes: dict[tuple[str, ...], tuple[RequestChange, ...]] = {}
            for one in compare(baseline, run, rules, cost_of=pricing({})).functions:
                if not one.effect.changed:
                    continue
                ids = tuple(case.case for case in one.compared)
                if shows and ids not in changes:
                    cases = dict.fromkeys(ids, one.function)
                    changes[ids] = request_changes(_before(earlier, cases), run, cases, stored)
                yield Try(run, one, changes.get(ids, ()), spent)
            earlier.append(run)


def _before(earlier: Sequence[Run], cases: Container[str]) -> Run:
    """Return the newest earlier run with a trial of one of these cases; the first has them all."""
    return next(run for run in reversed(earlier) if any(t.case in cases for t in run.trials))
