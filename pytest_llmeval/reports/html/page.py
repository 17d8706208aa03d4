"""A report as one page for a browser: self-contained, and safe whatever texts it shows.

What a model or a test wrote is escaped, and the page's policy lets a browser run and load nothing
but the style and the script that stand in it.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING

from pytest_llmeval.history import History
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Outcome
from pytest_llmeval.reports.document import (
    Entry,
    consequence,
    failing_side,
    is_tested,
    lead,
    moved_functions,
    undetected_drop,
    verdict_words,
    worst_first,
)
from pytest_llmeval.reports.formats import counted
from pytest_llmeval.reports.html.cases import MOVES, ShownCase, ShownFunction, shown_function
from pytest_llmeval.reports.html.charts import Chart, history_charts
from pytest_llmeval.reports.html.plots import CASE_WIDTH, WIDTH, forests
from pytest_llmeval.reports.html.replies import Edit, ShownReplies, read_replies
from pytest_llmeval.reports.html.trust import doubts

if TYPE_CHECKING:
    from jinja2 import Environment

_MOST_MISSED = 4
_MOST_CHOICES = 40  # values of parameters that can be chosen
_DAY = 86_400
_BYTES = 10**6

Facts = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of the page, with the texts of its cases.

    Attributes:
        shown: its cases.
        replies: rendered, by case; a case that is missing has no room.
        asked: what the first of them was asked, with what changed in it.
        alike: how many of them had the same words changed.
    """

    shown: ShownFunction
    replies: Mapping[str, str]
    asked: ShownReplies | None
    alike: int


def render_page(report: Entry, judgement: Judgement, history: History) -> str:
    """Write a report as a page of HTML.

    Args:
        report: the JSON report of the judgement.
        judgement: with the runs, whose replies are looked up in the cache here.
        history: of the functions, both runs among them.
    """
    side = failing_side(report)
    if side is not report:
        judgement = judgement.against_anchor or judgement
    shown = [
        shown_function(one, _errored(judgement, one["function"]))
        for one in worst_first(side["functions"])
    ]
    environment = _environment()
    functions = _with_replies(environment, judgement, shown)
    anchors = _anchors(report, side)
    style, script = (_resource(name) for name in ("page.css", "page.js"))
    return environment.get_template("page.html").render(
        report=report,
        side=side,
        style=style,
        script=script,
        policy=_policy(style, script),
        verdict=side["verdict"],
        words=_title(report, side),
        lead=lead(report, moved_functions(side)),
        consequence=consequence(report),
        facts=_facts(report, side),
        forests=forests(report, worst_first(side["functions"]), anchors),
        has_anchor=bool(anchors),
        functions=functions,
        embeds=judgement.settings.show_texts,
        moves=_moves(shown),
        meanings=MOVES,
        values=_values(shown),
        command=partial(_command, report["run"], side["baseline"]),
        doubts=doubts(
            side,
            history,
            baseline=judgement.baseline.run if judgement.baseline else None,
            run=judgement.run,
        ),
        charts=history_charts(history),
        provenance=_provenance(report, side),
        width=WIDTH,
        case_width=CASE_WIDTH,
    )


def _command(run: Entry | None, baseline: Entry | None, case: ShownCase) -> str:
    """Write what shows the replies of a case where its runs are."""
    ids = [found["id"] for found in (baseline, run) if found]
    words = ["diff", case.name, *ids] if baseline else ["show", *ids, case.name]
    return shlex.join(["llmeval", *words])


def render_charts(title: str, hint: str, charts: Sequence[Chart]) -> str:
    """Write charts as a page of their own.

    Args:
        title: of the page.
        hint: what the intervals are.
        charts: in their order.
    """
    style = _resource("page.css")
    return (
        _environment()
        .get_template("charts.html")
        .render(
            title=title,
            hint=hint,
            charts=charts,
            style=style,
            policy=_policy(style),
            width=WIDTH,
        )
    )


def _errored(judgement: Judgement, function: str) -> set[str]:
    run = judgement.run
    if run is None:
        return set()
    cases = {case.id for case in run.cases if case.function == function}
    errored = (trial for trial in run.trials if trial.outcome is Outcome.ERRORED)
    return {trial.case for trial in errored if trial.case in cases}


def _with_replies(
    environment: Environment,
    judgement: Judgement,
    shown: Sequence[ShownFunction],
) -> list[_Function]:
    """Render the replies of cases, worst first over all functions, until there is no more room."""
    replies: dict[int, dict[str, str]] = {at: {} for at in range(len(shown))}
    asked: dict[int, list[ShownReplies]] = {at: [] for at in range(len(shown))}
    if judgement.settings.show_texts:
        room = judgement.settings.html_mb * _BYTES
        template = environment.get_template("replies.html")
        for at, case, found in _read(judgement, shown):
            text = template.render(replies=found, is_compared=judgement.baseline is not None)
            room -= len(text.encode())
            if room < 0:
                break
            replies[at][case] = text
            asked[at].append(found)
    return [
        _Function(one, replies[at], next(iter(asked[at]), None), _alike(asked[at]))
        for at, one in enumerate(shown)
    ]


def _read(
    judgement: Judgement, shown: Sequence[ShownFunction]
) -> Iterator[tuple[int, str, ShownReplies]]:
    cases = [(case.lost, at, case.case) for at, one in enumerate(shown) for case in one.cases]
    readers = {
        at: read_replies(judgement, [case.case for case in one.cases], one.entry["metric"])
        for at, one in enumerate(shown)
    }
    for _, at, case in sorted(cases):
        yield at, case, next(readers[at])


def _alike(asked: Sequence[ShownReplies]) -> int:
    edits: Counter[Edit] = Counter(one.edit for one in asked)
    return edits[asked[0].edit] if asked else 0


def _title(report: Entry, side: Entry) -> str:
    accepted = side["verdict"] == "regressed" and not side["fails"]
    words = verdict_words(side["verdict"], accepted=accepted)
    if side is report:
        return words
    return f"{words} against the anchor {side['baseline']['reference']}"


def _anchors(report: Entry, side: Entry) -> Sequence[Entry]:
    anchor = report["anchor"]
    return anchor["functions"] if anchor and anchor is not side else []


def _facts(report: Entry, side: Entry) -> Facts:
    """Tell in a few words what was compared, at which cost, and what could not be seen."""
    run, baseline = report["run"], side["baseline"]
    facts: Facts = []
    if baseline is not None:
        facts.append(("Baseline", _baseline(baseline)))
    missed = [
        f"{one['label']}: {undetected_drop(one) or 'any drop, as too few cases moved'}"
        for one in moved_functions(side)
        if baseline is not None and is_tested(one)
    ]
    if missed:
        facts.append(("Would have been missed", "; ".join(missed[:_MOST_MISSED])))
    if run is not None:
        calls = run["calls"]
        told = f"{calls['made']} made, {calls['replayed']} replayed"
        facts.append(("Calls", told + (f", {calls['failed']} failed" if calls["failed"] else "")))
        cost = {"Cost": run["cost"]["spent"], "Saved by replays": run["cost"]["saved"]}
        facts += [(name, f"${value:.3g}") for name, value in cost.items() if value is not None]
    if report["differences"]:
        names = ", ".join(one["fact"] for one in report["differences"])
        facts.append(("Differs besides", names))
    return facts


def _baseline(baseline: Entry) -> str:
    text = str(baseline["reference"])
    if baseline["commit"]:
        text += f" at {baseline['commit'][:12]}"
    if baseline["distance"]:
        text += f", {counted(baseline['distance'], 'commit')} back"
    if baseline["age"] is not None and baseline["age"] >= _DAY:
        text += f", {counted(int(baseline['age'] // _DAY), 'day')} old"
    return text


def _moves(shown: Sequence[ShownFunction]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in shown:
        counts.update(one.moves)
    return {move: counts[move] for move in MOVES if counts[move]}


def _values(shown: Sequence[ShownFunction]) -> list[str]:
    """Return the values of parameters that several cases have, the most frequent ones."""
    counts = Counter(value for one in shown for case in one.cases for value in case.values)
    several = [value for value, count in counts.most_common(_MOST_CHOICES) if count > 1]
    return sorted(several)


def _provenance(report: Entry, side: Entry) -> Facts:
    facts: Facts = []
    baseline, run = side["baseline"], report["run"]
    for name, found in (("Baseline", baseline), ("Here", run)):
        if found is not None:
            facts.append((f"{name}: run", f"{found['id']} of {found['created'][:16]}"))
            facts.append((f"{name}: commit", f"{found['commit']}{' (dirty)' * found['dirty']}"))
            facts.append((f"{name}: models", ", ".join(found["models"]) or "none"))
            facts.append((f"{name}: served", ", ".join(found["served"]) or "not told"))
            versions = (f"{name} {version}" for name, version in found["versions"].items())
            facts.append((f"{name}: versions", ", ".join(versions)))
            if found["ci"] and found["ci"]["url"]:
                facts.append((f"{name}: job", found["ci"]["url"]))
    for one in report["differences"]:
        old, new = (", ".join(one[of]) for of in ("baseline", "here"))
        facts.append((f"Differs: {one['fact']}", f"{old} \N{RIGHTWARDS ARROW} {new}"))
    settings = (f"{name} {value}" for name, value in report["settings"].items())
    facts.append(("Settings", ", ".join(settings)))
    facts += [("Holds for", line) for line in report["scope"]]
    facts += [("Note", line) for line in report["notes"]]
    if baseline is not None and run is not None:
        typed = shlex.join(["llmeval", "compare", baseline["id"], run["id"]])
        facts.append(("Again", typed))
    return facts


def _policy(style: str, script: str | None = None) -> str:
    """Write the policy by which nothing but these texts is obeyed."""
    scripts = "" if script is None else f"; script-src '{_digest(script)}'"
    return f"default-src 'none'; style-src '{_digest(style)}'{scripts}"


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _resource(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
