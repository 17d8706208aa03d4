"""``llmeval merge``: one run of the runs of shards, judged once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from pytest_llmeval.cli import arguments
from pytest_llmeval.cli.pages import echo_lines, page_of_output, verbose_option, write_files
from pytest_llmeval.errors import (
    BaselineError,
    BaselineNotFound,
    LLMEvalError,
    SettingsError,
    counted,
)
from pytest_llmeval.gate.results import Fact, Why
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.judging import judged
from pytest_llmeval.records import Run, filters_of
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.notation import RED, Line
from pytest_llmeval.reports.report import Report
from pytest_llmeval.reports.report_files import append_summary, refused
from pytest_llmeval.reports.terminal.headline import failure_line
from pytest_llmeval.reports.terminal.section import section
from pytest_llmeval.runs.ci import read_ci
from pytest_llmeval.runs.git import short_hash
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.lookup.session_baseline import find_baseline
from pytest_llmeval.runs.run_file import read_run, read_run_header
from pytest_llmeval.runs.run_lines import FULL_HASH
from pytest_llmeval.runs.sharing.merging import Merged, merge_runs
from pytest_llmeval.runs.sharing.shared_store import session_refs
from pytest_llmeval.runs.sharing.suite_files import TEST_FILES, suite_files, unreached
from pytest_llmeval.runs.store import BORROWED, ENDING, NO_COMMIT, first_of, refuse_tracked
from pytest_llmeval.session import planned_judgement
from pytest_llmeval.settings import (
    HTML,
    JSON,
    MARKDOWN,
    GateRules,
    Settings,
    checked,
    not_blank,
    options_of,
)


@click.command("merge")
@click.argument("shards", metavar="DIR...", nargs=-1, required=True, type=arguments.existing_path)
@arguments.ranged("baseline=REF", not_blank, None, "Compare the merged run with the run of REF")
@click.option("--union", is_flag=True, help="Each job ran other paths of the suite.")
@arguments.report_option(HTML, MARKDOWN, JSON)
@click.option("--fetch", is_flag=True, help="Fetch missing history of git; CI jobs always do.")
@verbose_option
@arguments.store_option
@arguments.home_option
def merge_command(
    shards: tuple[Path, ...],
    home: arguments.Home,
    *,
    baseline: str | None,
    union: bool,
    reports: tuple[Path, ...],
    fetch: bool,
    store: str | None,
    verbose: bool,
) -> None:
    """Join the runs of parallel CI jobs and judge them as one.

    Each job ran a part of the suite. DIR has its run files at any depth: its artifact, or its
    folder .llmeval. The merged run is recorded here. Exit 1 if a case is missing, or the gate
    fails.
    """
    asked = Settings(
        session="",
        directory=home.path,
        baseline=baseline,
        reports=reports,
        store=store,
        fetch=fetch or read_ci(os.environ).provider is not None,
    )
    try:
        judgement = _judged(shards, home, asked, union=union)
    except LLMEvalError as exc:
        judgement = refused(asked, str(exc))
        _write(make_report(judgement), judgement, asked)  # a job may comment on it
        raise
    page, report = page_of_output(verbose=verbose), make_report(judgement)
    echo_lines(section(report, judgement, page))
    if judgement.fails:
        echo_lines(page.fitted([Line(failure_line(judgement), RED)]))
    is_written = _write(report, judgement, asked)
    if judgement.fails or not is_written:
        raise SystemExit(1)


def _write(report: Report, judgement: Judgement, asked: Settings) -> bool:
    """Write the reports and the summary of a job; tell whether all reports could be written."""
    is_written = write_files(report, asked.reports, judgement)
    for problem in append_summary(report, os.environ):
        click.echo(problem, err=True)
    return is_written


def _judged(
    shards: Sequence[Path], home: arguments.Home, asked: Settings, *, union: bool
) -> Judgement:
    """Merge the runs, record the merged one, and judge it.

    Raises:
        LLMEvalError: they are no shards of one suite, or the baseline cannot be compared with.
    """
    refuse_tracked(home.path, git=home.refs.git)
    runs, notes = _read(shards)
    merged = merge_runs(runs, union=union)
    missing = None
    if merged.found != merged.expected:
        missing = Fact(Why.CASES_MISSING, (merged.found, merged.expected, _guess(shards)))
    if union and missing is None:
        merged, missing = _over_paths(merged, home)
    settings = _settings(merged.run, asked)
    path = home.store.save(merged.run)
    planned = _planned(settings, home, merged.run, shards=runs, has_all=missing is None)
    every_note = (*notes, *merged.notes, *planned.notes)
    judgement = judged(replace(planned, path=path, notes=every_note), merged.run, is_green=True)
    return judgement if missing is None else replace(judgement, could_not_judge=missing)


def _read(shards: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Read the run files of the shards' commit; note how many other files there are.

    Raises:
        SettingsError: there are none, or the newest ones of two shards are of different commits.
        BaselineUnreadable: one of them is damaged, or not of this version.
    """
    headers = {
        shard: [(path, run) for path in paths if not (run := read_run_header(path).run).made]
        for shard, paths in _files_by_shard(shards).items()
    }
    every = [one for found in headers.values() for one in found]
    if not every:
        raise SettingsError(
            f"no run file ({ENDING}) lies in {' or '.join(map(str, shards))}. A session leaves "
            "its own in .llmeval/runs"
        )
    # An earlier job may have left its runs beside those of a shard.
    runs = ([run for _, run in found] for found in headers.values() if found)
    newest = [max(found, key=lambda run: run.id) for found in runs]
    commits = {run.commit: run for run in newest}
    if len(commits) > 1:
        one, other = sorted(commits.values(), key=lambda run: run.id)[-2:]
        raise SettingsError(
            f"runs {one.id} and {other.id} are of different commits ({short_hash(one.commit)}, "
            f"{short_hash(other.commit)}): name shards of one suite"
        )
    chosen = [path for path, run in every if run.commit in commits]
    others = len(every) - len(chosen)
    wanted = short_hash(newest[0].commit)
    notes = [f"passed over, as not of {wanted}: {counted(others, 'run')}"] if others else []
    return [read_run(path) for path in chosen], notes


def _files_by_shard(places: Sequence[Path]) -> Mapping[Path, Sequence[Path]]:
    """List the run files of each shard: in each place, or in each folder of a single place.

    A baseline that a shard borrowed from the team lies there, too, and is no shard.
    """
    found: dict[Path, list[Path]] = {}
    for place in places:
        for path in arguments.run_files(place):
            folder, *below = path.relative_to(place).parts or (".",)
            is_commit = folder == NO_COMMIT or re.fullmatch(FULL_HASH, folder)
            is_shard = len(places) == 1 and below and not is_commit
            if path.parents[1].name != BORROWED:
                found.setdefault(place / folder if is_shard else place, []).append(path)
    return found


def _guess(shards: Sequence[Path]) -> str:
    """Guess the missing shard: one without a run, or a gap among numbered ones."""
    empty = [str(folder) for folder in shards if not arguments.run_files(folder)]
    if empty:
        return f"no run file ({ENDING}) lies in {first_of(empty)}"
    numbers = {int(found[-1]) for folder in shards if (found := re.findall(r"\d+", folder.name))}
    gaps = set(range(min(numbers), max(numbers))) - numbers if numbers else ()
    if gaps and len(numbers) == len(shards):
        return f"shard {', '.join(map(str, sorted(gaps)))} missing?"
    return "is a shard missing, or did one stop early?"


def _over_paths(merged: Merged, home: arguments.Home) -> tuple[Merged, Fact | None]:
    """Let a run of shards by path count as the whole suite, if its paths reach every file."""
    run, top = merged.run, home.refs.git.top
    files = None
    if top is not None and run.commit is not None:
        testpaths = arguments.ini_words("testpaths")
        patterns = arguments.ini_words("python_files") or TEST_FILES
        files = suite_files(
            run.commit, top=top, root=run.root, testpaths=testpaths, patterns=patterns
        )
    if files is None:
        raise SettingsError(
            f"--union needs the commit of the runs, to see which files the suite has: "
            f"{short_hash(run.commit)} is not here. Check it out first"
        )
    lacking = unreached(files, selection=run.selection)
    if lacking:
        run = replace(run, complete=False, stopped=False, collected=None)
        return replace(merged, run=run), Fact(Why.FILES_MISSING, (first_of(lacking),))
    # The paths of the shards were typed to deal the suite out, not to choose tests.
    chosen, typed = (tuple(sorted(filters_of(of))) for of in (run.selection, run.typed or ()))
    return replace(merged, run=replace(run, selection=chosen, typed=typed)), None


def _settings(run: Run, asked: Settings) -> Settings:
    """Take the rules of the gate from the run, the rest from what was typed and the ini file."""
    known = options_of(GateRules)
    rules = {
        name: checked(name, known[name].check, value, where=f" of run {run.id}")
        for name, value in run.rules.items()
        if name in known
    }
    of_baseline = ("baseline_age", "baseline_reach", "baseline_repeats", "renamed")
    own = arguments.ini_settings(*of_baseline, "html_mb", "prices", "show_texts")
    return replace(asked, gate=GateRules(**rules), **own)


def _planned(
    settings: Settings, home: arguments.Home, run: Run, *, shards: Sequence[Run], has_all: bool
) -> Judgement:
    """Find the baseline as a session that stands on the commit of the run would.

    Args:
        settings: rules of the gate, and what was typed.
        home: with the store of runs.
        run: the merged one.
        shards: the runs that it is of.
        has_all: no case is missing; the run may have stopped early.

    Raises:
        BaselineError: there is none, or it does not fit.
    """
    git = replace(home.refs.git, commit=run.commit, tree=run.tree, dirty=run.dirty)
    refs = session_refs(settings, git=git, ci=read_ci(os.environ))
    models = {call.model for trial in run.trials for call in trial.calls if call.model}

    def find(reference: str, *, option: str) -> Baseline:
        return find_baseline(
            reference,
            refs,
            settings,
            option=option.replace("--llm-", "--"),
            root=run.root,
            selection=run.selection,
            models=frozenset(models) or None,
            excluding={run.id, *(shard.id for shard in shards)},
        )

    rootpath = (git.top or Path.cwd()) / run.root
    try:
        planned = planned_judgement(settings, find=find, rootpath=rootpath, typed=())
    except BaselineError as exc:
        line = exc.line if isinstance(exc, BaselineNotFound) else str(exc)
        raise BaselineError(" ".join(line.split())) from None
    # The cases of a missing shard were not given up.
    return replace(planned, typed=(run.typed or ()) if has_all else None)
