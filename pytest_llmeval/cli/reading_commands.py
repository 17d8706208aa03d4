"""``llmeval diff``, and ``llmeval show`` of a case: requests and replies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import click

from pytest_llmeval.cli.arguments import Home, home_option, ini_value
from pytest_llmeval.cli.case_names import case_named, lowest, turned_means
from pytest_llmeval.cli.pages import has_colours, page_of_output, warn
from pytest_llmeval.errors import BaselineError
from pytest_llmeval.gate.edited import find_edits
from pytest_llmeval.gate.scoring import sides_of
from pytest_llmeval.records import Case, Run
from pytest_llmeval.reports.terminal.diff import CaseSide, alike_in_others, case_lines, not_here
from pytest_llmeval.reports.terminal.fitting import Page, StyledLine
from pytest_llmeval.runs.lookup.for_commands import find_candidate, find_reference
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.reshaping import under_new_names
from pytest_llmeval.runs.store import BORROWED, ENDING, RunStore
from pytest_llmeval.safe_text import printable
from pytest_llmeval.transcripts import transcript
from pytest_llmeval.transcripts.scan import HeaderStore, ScannedRun, scan_run

AUTO = "auto"
_OTHERS = 20  # cases that are looked at for the same change
_MARKUP: dict[str, dict[str, Any]] = {
    "": {},
    "bold": {"bold": True},
    "dim": {"dim": True},
    **{colour: {"fg": colour} for colour in ("red", "green")},
}

full_option = click.option("--full", is_flag=True, help="Show long texts whole.")


class _Pair(NamedTuple):
    """Two runs, and the name of each case in the first one, by its name here.

    ``edited`` has the name here, by its name in the first one, of each case whose id was edited.
    """

    before: ScannedRun
    after: ScannedRun
    old_names: dict[str, str]
    edited: dict[str, str]


@click.command("diff")
@click.argument("names", metavar="[CASE] [A B]", nargs=-1)
@full_option
@home_option
def diff_command(names: Sequence[str], home: Home, *, full: bool) -> None:
    """Show what changed in the requests and replies of a case.

    CASE is a node id or a part of one that no other case has. Without it, or with the name of a
    test function, it is the case that fell most. A and B are recorded runs, as for compare; without
    them, the last run is compared with its baseline.
    """
    if len(names) > 3:  # noqa: PLR2004 - CASE A B
        raise click.UsageError("name a case, two runs, or a case and two runs: [CASE] [A B]")
    case, runs = (None, names) if len(names) == 2 else (names[0] if names else None, names[1:])  # noqa: PLR2004
    pair = _pair(home, runs)
    known = dict.fromkeys((*pair.old_names, *(each.id for each in pair.after.header.run.cases)))
    if case is None:
        chosen = _fell_most(pair)
    else:
        chosen = case_named(
            case, known, lambda ids: _fell_most(pair, ids) or lowest(pair.after, ids)
        )
    chosen = pair.edited.get(chosen or "", chosen)
    if chosen is None:
        click.echo("every case scored the same in both; name one: llmeval diff CASE")
        return
    with transcript.StoredTexts(home.path) as stored:
        sides = _sides(
            stored,
            ("baseline", pair.before, pair.old_names.get(chosen, chosen)),
            ("here", pair.after, chosen),
        )
        requests = transcript.changed_requests(sides[0].transcripts, sides[1].transcripts)
        alike = _alike(requests, pair, chosen, stored) if requests else ""
    if not any(side.trials for side in sides):
        raise click.UsageError(f"{chosen}: no trial of it ended in either run")
    where = transcript.parting(sides[0].transcripts, sides[1].transcripts)
    _show(sides, full=full, requests=requests, alike=alike, parting=where)


def show_case(reference: str, case: str, home: Home, *, full: bool) -> None:
    """Print the requests and replies of one case of a run."""
    found = find_candidate(reference, home.refs_of(HeaderStore(home.path)))
    scanned = scan_run(found.path)
    ids = [each.id for each in scanned.header.run.cases]
    chosen = case_named(case, ids, partial(lowest, scanned))
    warn(*found.notes)
    with transcript.StoredTexts(home.path) as stored:
        (side,) = _sides(stored, ("", scanned, chosen))
    if not side.trials:
        raise click.UsageError(f"{chosen}: no trial of it ended in run {side.run.id}")
    _show([side], full=full)


def _pair(home: Home, names: Sequence[str]) -> _Pair:
    """Find two runs by their headers, then scan them.

    Raises:
        LLMEvalError: one of them is not here, or cannot be read.
    """
    found = _found(home, HeaderStore(home.path), names)
    with ThreadPoolExecutor(max_workers=2) as pool:  # to unpack a file holds no other up
        before, after = pool.map(scan_run, [each.path for each in found])
    here = {case.id for case in found[1].run.cases}
    new = under_new_names(found[0], ini_value("renamed"), here=here).run.cases
    old_names = {now.id: then.id for now, then in zip(new, found[0].run.cases, strict=True)}
    gone = [replace(case, id=old_names[case.id]) for case in new if case.id not in here]
    fresh = [case for case in found[1].run.cases if case.id not in old_names]
    edited = _edited(_as_run(before, gone), _as_run(after, fresh))
    old_names |= {now: then for then, now in edited.items()}
    return _Pair(before, after, old_names, edited)


def _edited(gone: Run, fresh: Run) -> dict[str, str]:
    """Name the cases here whose id was edited, by their ids before."""
    old, new, found = sides_of(gone), sides_of(fresh), dict[str, str]()
    for function in old.keys() & new.keys():
        own = find_edits(old[function], new[function], rule="leave_out").own
        found |= {then: now for now, then in own.items()}
    return found


def _as_run(scanned: ScannedRun, cases: Sequence[Case]) -> Run:
    """Read the trials of some cases of a run."""
    trials = scanned.trials_of(*(case.id for case in cases)).values()
    return replace(scanned.header.run, cases=tuple(cases), trials=tuple(chain(*trials)))


def _found(home: Home, headers: HeaderStore, names: Sequence[str]) -> tuple[Baseline, Baseline]:
    refs = home.refs_of(headers)
    current = find_candidate(names[1] if names else "last", refs)
    if names:
        against = find_reference(names[0], refs, candidate=current.run)
        warn(*dict.fromkeys((*against.notes, *current.notes)))
        return against, current
    known = _file_of(current.run.compared_with, headers)
    if known is not None:
        run = headers.load(known)
        return Baseline(run=run, path=known, reference=run.id, how="run id"), current
    try:
        return find_reference(AUTO, refs, candidate=current.run), current
    except BaselineError as exc:
        raise BaselineError(
            f"run {current.run.id} was compared with no run that is here ({exc}). Name two:  "
            "llmeval diff A B"
        ) from exc


def _file_of(run_id: str | None, store: RunStore) -> Path | None:
    """Find the file of a run that was recorded here, or borrowed from a team."""
    if run_id is None:
        return None
    borrowed = (store.directory / BORROWED).glob(f"*/{run_id}{ENDING}")
    return store.by_id(run_id) or next(borrowed, None)


def _fell_most(pair: _Pair, among: Sequence[str] | None = None) -> str | None:
    """Find the case that fell most, else the one that rose most; None if no case moved."""
    old, new = pair.before.means, pair.after.means
    moved: list[tuple[float, str]] = []
    for case in pair.after.header.run.cases:
        then = turned_means(case, old.get(pair.old_names.get(case.id, ""), {}))
        now = turned_means(case, new.get(case.id, {}))
        common = then.keys() & now.keys() if among is None or case.id in among else ()
        moved += [
            (now[metric] - then[metric], case.id)
            for metric in common
            if now[metric] != then[metric]
        ]
    if not moved:
        return None
    fell, rose = min(moved), min(moved, key=lambda each: (-each[0], each[1]))
    return fell[1] if fell[0] < 0 else rose[1]


def _sides(stored: transcript.StoredTexts, *named: tuple[str, ScannedRun, str]) -> list[CaseSide]:
    """Read the sides of a case, each a name, a run and the case's name there."""
    known = [
        next((each for each in scanned.header.run.cases if each.id == case), None)
        for _, scanned, case in named
    ]
    read = transcript.transcripts(stored, *(one.trials_of(case)[case] for _, one, case in named))
    return [
        CaseSide(name=name, run=scanned.header.run, case=of, transcripts=found)
        for (name, scanned, _), of, found in zip(named, known, read, strict=True)
    ]


def _alike(
    requests: Sequence[transcript.ChangedRequest],
    pair: _Pair,
    chosen: str,
    stored: transcript.StoredTexts,
) -> str:
    """Say how many other cases of the function were asked the same change."""
    edits = {*transcript.edits_of(requests)}
    functions = {one.id: one.function for one in pair.after.header.run.cases}
    if chosen not in functions:
        return ""
    cases = [case for case, function in functions.items() if function == functions[chosen]]
    place = cases.index(chosen)
    following = [case for case in (*cases[place + 1 :], *cases[:place]) if case in pair.old_names]
    others = following[:_OTHERS]
    before = pair.before.trials_of(*(pair.old_names[case] for case in others), most=1)
    after = pair.after.trials_of(*others, most=1)
    changed = (
        transcript.changed_requests(*transcript.transcripts(stored, old, new))
        for old, new in zip(before.values(), after.values(), strict=True)
    )
    found = [transcript.edits_of(each) for each in changed if each is not None]
    alike = sum(bool(each) and edits.issuperset(each) for each in found)
    total = len(following) if len(following) > _OTHERS else len(found)
    return alike_in_others(alike, of=len(found), others=total, function=functions[chosen])


def _show(sides: Sequence[CaseSide], *, full: bool, **found: Any) -> None:
    """Write the lines of ``case_lines`` on a case, and name its replies that are not here.

    Args:
        sides: of the case.
        full: no text is cut.
        found: the differences of both sides.
    """
    page = page_of_output(full=full)
    _echo(page.fitted_words(case_lines(sides, page, **found)), page)
    missing = not_here(sides)
    if missing:
        click.echo(f"note: {printable(missing)}", err=True)


def _echo(lines: Iterable[StyledLine], page: Page) -> None:
    """Write lines to standard output, made printable."""
    is_coloured = has_colours()
    for line in lines:
        plain = "".join(text for text, _ in line)
        safe = [(page.shown(text), style) for text, style in line]
        if page.shown(plain) != "".join(text for text, _ in safe):
            safe = [(page.shown(plain), "")]  # what no part of it is, the whole would be
        styled = "".join(click.style(text, **_MARKUP[style]) for text, style in safe if text)
        click.echo(styled.rstrip(), color=is_coloured)
