"""A report as one page for a browser: self-contained, and safe whatever texts it shows.

Texts of models and tests are escaped. The page's policy lets a browser run and load only the style
and the script of the page itself.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Sequence
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pytest_llmeval.gate.describe import History, history_of
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.judgement import Judgement, pricing
from pytest_llmeval.reports import common_causes, sentences, telling
from pytest_llmeval.reports.html import cases, facts
from pytest_llmeval.reports.html.plots import CASE_SIZE, WIDTH, Chart, forests, history_charts
from pytest_llmeval.reports.html.side_by_side import read_replies
from pytest_llmeval.reports.notation import decimals, ends_of, figure
from pytest_llmeval.reports.report import ComparedFunction, Report, RunEntry
from pytest_llmeval.runs.lookup.standing import newest_runs
from pytest_llmeval.runs.pooled import own_trials
from pytest_llmeval.runs.store import RunStore

if TYPE_CHECKING:
    from jinja2 import Environment

_MOST_RUNS = 30
_BYTES = 10**6


def render_page(report: Report, judgement: Judgement) -> str:
    """Write a report as a page of HTML.

    Args:
        report: of the judgement.
        judgement: with the runs, whose replies are looked up in the cache here.
    """
    side = telling.failing_side(report)
    if side is not report.side:
        judgement = judgement.against_anchor or judgement
    functions, errored = telling.ordered(side), cases.errored_cases(judgement)
    shown = [cases.shown_function(one, errored.get(one.of.function, ())) for one in functions]
    if judgement.settings.show_texts:
        _add_replies(judgement, shown)
    anchor, means = report.anchor, means_around(judgement)
    changed = {} if judgement.is_of_tables else _of_changed(means, functions)
    anchors = anchor.compared if anchor and anchor is not side else []
    return _rendered(
        "page.html",
        script=_resource("page.js"),
        report=report,
        side=side,
        title=telling.title(report, side),
        more=sentences.MORE,
        lead=telling.lead(report, telling.moved_functions(side)),
        moved=_moved(functions),
        consequence=telling.consequence(report),
        facts=list(facts.facts(report, side)),
        changes=list(common_causes.told_changes(report)),
        pass_hat_words=telling.pass_hat_words,
        forests=forests(report.settings, functions, anchors),
        has_anchor=bool(anchors),
        functions=shown,
        embeds=judgement.settings.show_texts,
        moves=cases.moves_of(shown),
        meanings=cases.MOVES,
        values=cases.shared_values(shown),
        command=partial(_command, report.run, side.baseline.recorded if side.baseline else None),
        doubts=list(facts.doubts(judgement, side, means)),
        charts=history_charts(changed, among=[one.of.function for one in functions]),
        provenance=list(facts.provenance(report, side)),
    )


def _moved(functions: Sequence[telling.AnyFunction]) -> str:
    """Count the cases of the worst function that fell and rose, and name two that fell most."""
    compared = [one for one in functions if isinstance(one, ComparedFunction)]
    worst = next((one for one in compared if one.compared), None)
    if worst is None or worst.of.verdict is Verdict.UNCHANGED:
        return ""
    fell = [case.of for case in worst.moved if case.of.difference < 0][:2]
    named = ", ".join(telling.moved_in_brief(case, worst) for case in fell)
    return f"In {worst.label}, {telling.moved_counts(worst)}{named and f': {named}'}"


def _of_changed(means: History, functions: Sequence[telling.AnyFunction]) -> History:
    """Leave out the functions that were replayed: their means are the baseline's."""
    compared = [one.of for one in functions if isinstance(one, ComparedFunction)]
    replayed = {(of.function, of.metric) for of in compared if not of.effect.changed}
    shown = {(one.of.function, one.of.metric) for one in functions} - replayed
    return {name: points for name, points in means.items() if name in shown}


def _command(run: RunEntry | None, baseline: RunEntry | None, case: cases.ShownCase) -> str:
    """Write the command that shows the replies of a case where its runs are."""
    ids = [found.id for found in (baseline, run) if found]
    words = ["diff", case.name, *ids] if baseline else ["show", *ids, case.name]
    return shlex.join(["llmeval", *words])


def means_around(judgement: Judgement) -> History:
    """Describe the runs of a judgement, and the runs of the baseline's branch."""
    settings, run = judgement.settings, judgement.run
    if run is None or not (judgement.descriptions or judgement.comparison):
        return {}
    baseline = own_trials(judgement.baseline.run) if judgement.baseline else None
    besides = [each for each in (baseline, run) if each and each.trials]
    branch = baseline.ref if baseline else run.ref
    store = RunStore(settings.directory)
    runs, _ = newest_runs(store, branch=branch, most=_MOST_RUNS, besides=besides)
    runs = [one for one in runs if one.ref == branch or one in besides]  # no branch is not any
    return history_of(runs, alpha=settings.gate.alpha, cost_of=pricing(settings.prices))


def render_charts(heading: str, hint: str, charts: Sequence[Chart]) -> str:
    """Write charts as a page of their own.

    Args:
        heading: of the page.
        hint: what the intervals are.
        charts: in their order.
    """
    return _rendered("charts.html", title=heading, hint=hint, charts=charts)


def _add_replies(judgement: Judgement, shown: Sequence[cases.ShownFunction]) -> None:
    """Render the replies of cases, worst first over all functions, until there is no more room."""
    room, is_compared = judgement.settings.html_mb * _BYTES, judgement.baseline is not None
    ordered = [(case, function) for function in shown for case in function.cases]
    ordered.sort(key=lambda each: each[0].order)
    wanted = [(case.case, case.name, function.entry.of.metric) for case, function in ordered]
    for (case, function), found in zip(ordered, read_replies(judgement, wanted), strict=True):
        text = _filled("replies.html", replies=found, is_compared=is_compared)
        room -= len(text.encode())
        if room < 0:
            break
        function.asked.append(found)
        function.replies[case.case] = text


def _rendered(template: str, *, script: str | None = None, **shown: Any) -> str:
    """Fill a template, with the policy by which a browser obeys its style and script alone."""
    style, none = _resource("page.css"), "default-src 'none'; base-uri 'none'; form-action 'none'"
    policy = f"{none}; style-src '{_digest(style)}'"
    if script is not None:
        policy += f"; script-src '{_digest(script)}'"
    parts = {"style": style, "script": script, "policy": policy, "widths": (WIDTH, CASE_SIZE)}
    return _filled(template, **parts, **shown)


def _filled(template: str, **shown: Any) -> str:
    """Fill a template; half of a character, which JSON may hold and UTF-8 not, becomes "?"."""
    text = _environment().get_template(template).render(**shown)
    return text.encode(errors="replace").decode()


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _resource(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(figure=figure, ends_of=ends_of, decimals=decimals)
    return environment
