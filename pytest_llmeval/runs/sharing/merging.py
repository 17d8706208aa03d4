"""Join the runs of shards, each of which ran a part of the suite, into one run.

The functions take records and return records, and read or write no file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, TypeVar

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Case, CiJob, Collected, Outcome, Run, Trial, filters_of, paths_of
from pytest_llmeval.runs.run_lines import collected_cases

T = TypeVar("T")

# These options act while tests are collected, so nothing counts what they leave out.
_WHILE_COLLECTING = ("--ignore=", "--ignore-glob=")
_ALIKE = {
    "commit": "commits",
    "tree": "trees",
    "root": "rootdirs",
    "rules": "settings of the gate",
    "made": "kinds",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The run of several shards.

    Attributes:
        run: ``complete`` says whether all that the shards collected is there.
        found: cases of which every trial ended, up to where their function stopped; ``expected``
            is how many there must be.
        notes: sentences to print.
    """

    run: Run
    found: int
    expected: int
    notes: tuple[str, ...] = ()


def merge_runs(shards: Sequence[Run], *, union: bool = False) -> Merged:
    """Join the runs of shards.

    Args:
        shards: at least one; their order does not matter.
        union: the shards got different paths, so each collected a part of the suite. Whether their
            paths reach all of it is not known here: the run has them as its selection.

    Raises:
        SettingsError: they are not of one suite, or two of them hold different trials of a case.
    """
    runs = _each_once(shards)
    _check_alike(runs)
    _check_selections(runs)
    suites = _suites(runs, union=union)
    cases = _cases(runs)
    trials = _trials(runs, cases)
    looks = _looks(runs)
    stops = {case.id: looks.get(case.function, case.repeats) for case in cases}
    ended = {case.id for case in cases if len(trials[case.id]) >= stops[case.id]}
    expected = len(cases) + sum(suite.cases - len(known) for suite, known in suites.items())
    whole = len(ended) == expected
    attempts = [run.attempts for run in runs]
    named = json.dumps([run.id for run in runs]).encode()
    has_all = all(len(trials[case.id]) == case.repeats for case in cases)
    run = replace(
        runs[-1],
        # the same whenever the same runs are joined
        id=f"{runs[-1].id[:15]}-{hashlib.sha256(named).hexdigest()[:6]}",
        tests=_tests(runs),
        fixtures={name: used for run in runs for name, used in run.fixtures.items()},
        places={name: place for run in runs for name, place in run.places.items()},
        looks=looks,
        dirty=any(run.dirty for run in runs),
        unseen=tuple(sorted({name for run in runs for name in run.unseen})),
        changed=tuple(sorted({name for run in runs for name in run.changed})),
        ref=_common([run.ref for run in runs]),
        selection=_selection(runs, whole=whole),
        typed=_typed(runs),
        complete=whole and has_all,
        stopped=whole and not has_all,
        partial=() if whole else _in_part(runs),
        cases=cases,
        trials=tuple(chain.from_iterable(trials.values())),
        outside_calls=sum(run.outside_calls for run in runs),
        attempts=None if None in attempts else sum(filter(None, attempts)),
        # the looks were at the baseline that all shards had, and else the merged run has its own
        compared_with=_common([run.compared_with for run in runs]) if looks else None,
        ci=_job(runs),
        collected=collected_cases(ended) if whole else None,
    )
    return Merged(run=run, found=len(ended), expected=expected, notes=_notes(runs))


def _each_once(shards: Sequence[Run]) -> list[Run]:
    """Order runs by id; a run may be in two folders."""
    found: dict[str, Run] = {}
    for run in shards:
        if found.setdefault(run.id, run) != run:
            raise _unlike(run, run, "two different runs of one id")
    return [found[run_id] for run_id in sorted(found)]


def _check_alike(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs:
        if not run.cases:
            raise SettingsError(f"run {run.id} has no case, so it is no shard")
        if run.collected is None:
            raise SettingsError(
                f"run {run.id} does not say how many cases it had to choose from, so nothing "
                "tells whether a shard is missing. Record it again with this version:  pytest"
            )
        for name, what in _ALIKE.items():
            values = getattr(first, name), getattr(run, name)
            if values[0] != values[1]:
                short = [value[:12] for value in values if isinstance(value, str)]
                shown = f" ({', '.join(short)})" if len(short) > 1 else ""
                raise _unlike(first, run, f"of different {what}{shown}")


def _unlike(one: Run, other: Run, what: str) -> SettingsError:
    return SettingsError(f"runs {one.id} and {other.id} are {what}: name shards of one suite")


def _check_selections(runs: Sequence[Run]) -> None:
    """Refuse runs with an option that leaves tests out before anything counts them."""
    of_paths: dict[frozenset[str], Run] = {}
    for run in runs:
        paths = frozenset(paths_of(run.selection))
        single = next((path for path in paths if "::" in path), None)
        if single is not None:
            raise SettingsError(
                f"run {run.id} was asked for {single} alone: shards are made of files and "
                "folders, or by a plugin that splits what was collected"
            )
        like = of_paths.setdefault(paths, run)
        if like.collected != run.collected:
            raise SettingsError(
                f"runs {like.id} and {run.id} collected different cases of "
                f"{', '.join(sorted(paths)) or 'the whole suite'}: name shards of one suite"
            )
        if _before(run) != _before(runs[0]):
            raise _unlike(runs[0], run, "of different --ignore options")
    if len(of_paths) > 1 and frozenset() in of_paths:
        whole, part = of_paths[frozenset()], next(run for paths, run in of_paths.items() if paths)
        raise _unlike(whole, part, "of the whole suite and of a part of it")


def _before(run: Run) -> frozenset[str]:
    """Return the options of a run that left tests out before they were counted."""
    return frozenset(one for one in filters_of(run.selection) if one.startswith(_WHILE_COLLECTING))


def _suites(runs: Sequence[Run], *, union: bool) -> dict[Collected, set[str]]:
    """Return the ids of the cases that runs chose, by what they had collected before."""
    suites: dict[Collected, set[str]] = {}
    for collected, cases in ((run.collected, run.cases) for run in runs if run.collected):
        suites.setdefault(collected, set()).update(case.id for case in cases)
    if len(suites) > 1 and not union:
        raise SettingsError(
            f"run {runs[0].id} and others were given different paths: to join such shards say "
            "--union"
        )
    for suite, known in suites.items():
        if len(known) >= suite.cases and collected_cases(known) != suite:
            raise SettingsError(
                f"the {len(known)} cases of the shards are not the {suite.cases} that they "
                "collected: a plugin gave them other names in each"
            )
    return suites


def _cases(runs: Sequence[Run]) -> tuple[Case, ...]:
    """Return every case, those of a function together."""
    found: dict[str, dict[str, Case]] = {}
    for run in runs:
        for case in run.cases:
            known = found.setdefault(case.function, {}).setdefault(case.id, case)
            if known != case:
                raise SettingsError(
                    f"{case.id} has other repeats, parameters or markers in run {run.id} than in "
                    "another shard: name shards of one suite"
                )
    return tuple(case for cases in found.values() for case in cases.values())


def _trials(runs: Sequence[Run], cases: Sequence[Case]) -> Mapping[str, tuple[Trial, ...]]:
    """Return the trials of each case by index; of equal trials the one that paid for its calls."""
    found: dict[str, dict[int, tuple[Trial, Run]]] = {case.id: {} for case in cases}
    for run in runs:
        for trial in run.trials:
            known, of = found[trial.case].get(trial.index, (trial, run))
            # An errored one is from a job that ran again, so the trial has no outcome yet.
            if known.outcome is Outcome.ERRORED:
                known, of = trial, run
            elif trial.outcome is Outcome.ERRORED:
                continue
            if _measured(known) != _measured(trial):
                raise SettingsError(
                    f"trial {trial.index} of {trial.case} is in two shards and not the same "
                    f"(runs {of.id} and {run.id}): leave one of them out"
                )
            better = min(known, trial, key=lambda one: sum(call.replayed for call in one.calls))
            found[trial.case][trial.index] = (better, of)
    return {name: tuple(kept[index][0] for index in sorted(kept)) for name, kept in found.items()}


def _measured(trial: Trial) -> tuple[object, ...]:
    """Return what a trial has in common with its repetition, all of whose calls are replays."""
    calls = [(call.key, str(call.slot), call.draw or "", call.failure) for call in trial.calls]
    return trial.outcome, dict(trial.scores), sorted(calls)


def _selection(runs: Sequence[Run], *, whole: bool) -> tuple[str, ...]:
    """Return the paths of all, and the options that left the same tests out of each.

    Where nothing is missing no test was left out after it was collected.
    """
    paths = dict.fromkeys(path for run in runs for path in paths_of(run.selection))
    common = frozenset.intersection(*(filters_of(run.selection) for run in runs))
    return (*paths, *sorted(_before(runs[0]) if whole else common))


def _typed(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return what was typed for every run; the files of a branch do not count as typed."""
    typed = [run.typed or () for run in runs]
    paths = dict.fromkeys(path for one in typed for path in paths_of(one))
    common = frozenset.intersection(*map(filters_of, typed))
    return (*(paths if all(map(paths_of, typed)) else ()), *sorted(common))


def _in_part(runs: Sequence[Run]) -> tuple[str, ...]:
    """Name the functions of which no shard has all cases."""
    in_full = {c.function for run in runs for c in run.cases if c.function not in run.partial}
    return tuple(sorted({name for run in runs for name in run.partial} - in_full))


def _job(runs: Sequence[Run]) -> CiJob | None:
    """Return what the jobs of all runs have in common."""
    jobs = [run.ci for run in runs if run.ci is not None]
    if len(jobs) < len(runs) or len({job.provider for job in jobs}) > 1:
        return None
    names = [one.name for one in fields(CiJob)]
    told: dict[str, Any] = {name: _common([getattr(job, name) for job in jobs]) for name in names}
    return CiJob(**told)


def _looks(runs: Sequence[Run]) -> Mapping[str, int]:
    """Return after how many repeats each function stopped in the shard that stopped it first."""
    found: dict[str, int] = {}
    for name, looks in chain.from_iterable(run.looks.items() for run in runs):
        found[name] = min(looks, found.get(name, looks))
    return found


def _tests(runs: Sequence[Run]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for run in runs:
        for name, digest in run.tests.items():
            if found.setdefault(name, digest) != digest:
                raise _unlike(runs[0], run, f"of different code: {name} is not the same test")
    return found


def _notes(runs: Sequence[Run]) -> tuple[str, ...]:
    names = sorted({name for run in runs for name in run.versions})
    return tuple(
        f"the shards had different versions of {name}: {', '.join(sorted(versions))}"
        for name in names
        if len(versions := {run.versions.get(name, "none") for run in runs}) > 1
    )


def _common(values: Sequence[T]) -> T | None:
    return values[0] if all(value == values[0] for value in values) else None
