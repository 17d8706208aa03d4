"""Arguments of the commands: their options, the folder of runs, and the runs that names mean."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, cast, get_args

import click

from pytest_llmeval import settings
from pytest_llmeval.cache.directory import refuse_foreign
from pytest_llmeval.cli.case_names import functions_named
from pytest_llmeval.errors import SettingsError, TableError
from pytest_llmeval.gate.scoring import FunctionScores, scores_of
from pytest_llmeval.judgement import pricing
from pytest_llmeval.records import Better, Run
from pytest_llmeval.runs import reshaping, score_table
from pytest_llmeval.runs.directions import NONE_TYPED, Directions
from pytest_llmeval.runs.git import read_state
from pytest_llmeval.runs.lookup.for_commands import find_candidate, find_reference
from pytest_llmeval.runs.lookup.refs import Baseline, Refs
from pytest_llmeval.runs.store import ENDING, RunStore

# As pytest looks for its ini file in a folder, with the keys of its table where one is needed.
INI_FILES: dict[str, tuple[str, ...]] = {
    "pytest.toml": (),
    ".pytest.toml": (),
    "pytest.ini": (),
    ".pytest.ini": (),
    "pyproject.toml": ("tool", "pytest"),
    "tox.ini": ("pytest",),
    "setup.cfg": ("tool:pytest",),
}
_OPTIONS, _RULES = map(settings.options_of, (settings.Settings, settings.GateRules))
SAME = "A and B are the very same scores: nothing can differ"
POSITIONAL = "ids are made from positions: where the two runs hold other cases, give ids="


@dataclass
class Home:
    """The folder of runs and replies, and the runs that names mean there.

    The folder is looked for at its first use: ``plan --rates`` needs none.

    Attributes:
        named: what was typed for ``--dir``, None for the folder of a session that would be
            started in the working directory.
    """

    named: Path | None

    @cached_property
    def path(self) -> Path:
        """The folder, absolute; there may be nothing.

        Raises:
            SettingsError: the directory that was found belongs to somebody else.
        """
        if self.named is not None:
            return self.named.absolute()
        rootpath, ini = root_and_ini(Path.cwd())
        named = next(iter(ini_words("llm_dir", by_line=True)), None)
        home = settings.default_directory(rootpath, has_ini=ini is not None)
        if named is not None:
            home = (rootpath / named).absolute()
        refuse_foreign(home, rootpath=rootpath)
        return home

    @property
    def typed(self) -> Path | None:
        """The folder if it was typed, absolute, else None."""
        return self.named and self.path

    @property
    def pytest(self) -> str:
        """How to type a session that records its run there."""
        return settings.pytest_into(self.typed)

    @cached_property
    def store(self) -> RunStore:
        """The runs recorded there."""
        return RunStore(self.path)

    @cached_property
    def refs(self) -> Refs:
        """The resolver of names there, seen from the working directory."""
        return self.refs_of(self.store)

    def refs_of(self, store: RunStore) -> Refs:
        """Return the resolver of names for a store that reads the runs there in another way."""
        reach = ini_value("baseline_reach")
        return Refs(store, read_state(Path.cwd()), reach=reach, pytest=self.pytest)

    def find_run(
        self, reference: str, *, metric: str | None = None, better: Directions = NONE_TYPED
    ) -> Baseline:
        """Find what a name means to ``llmeval compare`` as B: a run, a condition of it, a table.

        ``metric`` and ``better`` are as those of a pair.

        Raises:
            LLMEvalError: there is none of that name, or it cannot be read.
        """
        table = score_table.table_named(reference)
        if table is not None:
            path, condition = table
            read = score_table.read_table(
                path, reference=reference, condition=condition, metric=metric
            )
            guessed = tuple(
                f"of {one} higher is taken to be better: say otherwise in a column 'better', or "
                f"type  {_lower(one)}"
                for one in score_table.undirected([read], better)
            )
            return _of_table(read, score_table.runs_of(read, read, better=better)[1], guessed)
        name, selection = _split(reference)
        found = find_candidate(name, self.refs)
        run = reshaping.gated_on(found.run, metric=metric, better=better)
        if metric is not None:
            run, _ = reshaping.recording(metric, run, run)
        if selection is None:
            return replace(found, run=run)
        run, _ = reshaping.conditions(run, run, (selection, selection))
        return replace(found, run=run, reference=reference)

    def find_pair(
        self,
        baseline: str,
        candidate: str,
        *,
        metric: str | None = None,
        better: Directions = NONE_TYPED,
        max_errored: float | None = None,
    ) -> tuple[Baseline, Baseline]:
        """Find two runs, conditions of runs or score tables that are compared with each other.

        Args:
            baseline: what was typed for A.
            candidate: what was typed for B.
            metric: the only one to compare; None for the gated ones.
            better: which direction of a metric is good, under "" of the only one.
            max_errored: of tables, the share of trials that may have no score.

        Raises:
            LLMEvalError: there is none of that name, it cannot be read, or the two are unlike.
        """
        named, other_named = score_table.table_named(baseline), score_table.table_named(candidate)
        if named is None and other_named is None:
            if max_errored is not None:
                raise SettingsError("--max-errored is for score tables and result files alone")
            return self._recorded(baseline, candidate, metric=metric, better=better)
        if named is None or other_named is None:
            table, other = (candidate, baseline) if named is None else (baseline, candidate)
            raise TableError(
                f"{table} is a score table and {other} is none: compare two tables, or two runs"
            )
        tables = [
            score_table.read_table(path, reference=reference, condition=part, metric=metric)
            for (path, part), reference in ((named, baseline), (other_named, candidate))
        ]
        same = named[1] == other_named[1] and named[0].samefile(other_named[0])
        return _pair_of_tables(*tables, better=better, max_errored=max_errored, is_same=same)

    def _recorded(
        self, baseline: str, candidate: str, *, metric: str | None, better: Directions
    ) -> tuple[Baseline, Baseline]:
        (name, part), (other_name, other_part) = _split(baseline), _split(candidate)
        # The judged run is not replaced by an earlier one, which would never be worse.
        found = find_candidate(other_name, self.refs, exact=True)
        against = found  # for two conditions of one run
        if part is None or name != other_name:
            against = find_reference(name, self.refs, candidate=found.run)
        runs, notes = (against.run, found.run), against.notes
        if against.run.id == found.run.id and part == other_part:
            notes += (SAME,)
        if part is None and other_part is None:
            here = {case.id for case in found.run.cases}
            against = replace(against, notes=notes)
            renamed = reshaping.under_new_names(against, ini_value("renamed"), here=here)
            runs, notes = (renamed.run, found.run), renamed.notes
        elif part is not None and other_part is not None:
            runs = reshaping.conditions(*runs, (part, other_part))
            positional = any(case.positional for run in runs for case in run.cases)
            if positional and runs[0].id != runs[1].id:
                notes += (POSITIONAL,)
        else:
            raise SettingsError(
                f"{baseline} {candidate}: name a test of both, as in RUN::test[a] RUN::test[b]"
            )
        gated = [reshaping.gated_on(run, metric=metric, better=better) for run in runs]
        before, after = gated if metric is None else reshaping.recording(metric, *gated)
        against = replace(against, run=before, reference=baseline, notes=notes)
        return against, replace(found, run=after, reference=candidate)


def _lower(name: str) -> str:
    return f"--better {shlex.quote(f'{name}=lower')}"


def _pair_of_tables(
    first: score_table.ScoreTable,
    second: score_table.ScoreTable,
    *,
    better: Directions,
    max_errored: float | None,
    is_same: bool,
) -> tuple[Baseline, Baseline]:
    if unsaid := score_table.undirected([first, second], better):
        raise SettingsError(
            f"of {' and '.join(unsaid)}, is a higher or a lower value better? Type it, as in  "
            f"{_lower(unsaid[0])}  or say it in a column 'better' of a score table"
        )
    pair, named = score_table.named_alike((first, second))
    (first, second), notes = score_table.without_gaps(pair, max_errored=max_errored)
    if not any((*first.scores.values(), *second.scores.values())):
        names = f"{first.reference} and {second.reference}"
        raise TableError(f"{names}: no trial has a score on both sides")
    run, other_run = score_table.runs_of(first, second, better=better)
    notes = (*named, *notes, *([SAME] if is_same else []))
    return _of_table(first, run, notes), _of_table(second, other_run)


def _of_table(table: score_table.ScoreTable, run: Run, notes: tuple[str, ...] = ()) -> Baseline:
    return Baseline(
        run=run,
        path=table.path,
        reference=table.reference,
        how="table",
        notes=(*table.notes, *notes),
    )


def _split(reference: str) -> tuple[str, reshaping.Selection | None]:
    """Split what was typed into the name of a run and a condition of it, if one is named."""
    name, separator, test = reference.partition("::")
    if not separator or Path(reference).is_file():
        return reference, None
    return name, reshaping.parse_selection(test)


def ini_words(name: str, *, by_line: bool = False) -> tuple[str, ...]:
    """Read a list in the ini file of a session that would be started in the working directory.

    The list is empty without the key or the file.

    Args:
        name: of the key.
        by_line: one entry a line, for a key whose entries may have blanks.
    """
    _, ini = root_and_ini(Path.cwd())
    value = ((ini and settings_of(ini)) or {}).get(name)
    if isinstance(value, list):
        return tuple(map(str, value))
    text = "" if value is None else str(value)
    return tuple(filter(None, map(str.strip, text.splitlines() if by_line else text.split())))


def ini_value(name: str) -> Any:
    """Return an option of ``Settings`` or ``GateRules`` as a session started here has it.

    Raises:
        SettingsError: the ini file has a value there that will not do.
    """
    option = (_OPTIONS | _RULES)[name]
    is_list = option.ini == "linelist"
    words = ini_words(option.key, by_line=is_list)
    value: object = words if is_list else next(iter(words), option.default)
    if option.ini == "bool":
        with suppress(click.BadParameter):  # the check of the option refuses any other text
            value = click.BOOL(value)
    return settings.checked(option.key, option.check, value, where=settings.IN_INI)


def ini_settings(*names: str) -> dict[str, Any]:
    """Read some ``Settings`` of such a session, and of which form its ini file is."""
    _, ini = root_and_ini(Path.cwd())
    is_toml = ini is not None and ini.suffix == ".toml"
    return {"toml": is_toml, **{name: ini_value(name) for name in names}}


def root_and_ini(start: Path) -> tuple[Path, Path | None]:
    """Find rootdir and ini file as a pytest session without arguments does."""
    folders = (start, *start.parents)
    files = [folder / name for folder in folders for name in INI_FILES]
    files = [file for file in files if file.is_file()]
    own = (file for file in files if not INI_FILES[file.name] or settings_of(file) is not None)
    ini = next(own, None) or next((file for file in files if file.name == "pyproject.toml"), None)
    if ini is not None:
        return ini.parent, ini
    return next((folder for folder in folders if (folder / "setup.py").is_file()), start), None


def settings_of(file: Path) -> Mapping[str, object] | None:
    """Read pytest's part of an ini file; None if it has none, or cannot be read."""
    try:
        content = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    return _pytest_part(content, file.name)


@lru_cache(maxsize=4)  # a command asks for twenty keys: 12 ms each in a long pyproject.toml
def _pytest_part(content: str, name: str) -> Mapping[str, object] | None:
    keys = INI_FILES[name] or ("pytest",)
    try:
        if name.endswith(".toml"):
            table = tomllib.loads(content)
            for key in keys:
                table = table[key]
            return dict(table.get("ini_options", table))
        parser = ConfigParser(strict=False, interpolation=None, allow_no_value=True)
        parser.read_string(content)
        return parser[keys[0]]
    except (ValueError, KeyError, TypeError, AttributeError, ConfigParserError):
        return None


existing_path = click.Path(path_type=Path, exists=True)


def report_option(*endings: str) -> Callable[[Any], Any]:
    """Declare the option that asks for files of the result, with some of ``REPORT_ENDINGS``."""
    check = partial(settings.report_paths, endings=endings)
    names = " or ".join(f"PATH{ending}" for ending in endings)
    return click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="PATH",
        callback=lambda _, __, typed: settings.checked("--report", check, typed),
        help=f"Write the result to {names}; may be repeated.",
    )


function_option = click.option(
    "--function", "name", metavar="NAME", help="Only this test function."
)


def _directions(_: click.Context, __: click.Parameter, typed: tuple[str, ...]) -> Directions:
    """Read ``lower`` and ``latency_ms=lower``; the last one of a name counts."""
    found: dict[str, Better] = {}
    for text in typed:
        name, way = text.rpartition("=")[::2]
        if way not in get_args(Better):
            raise click.BadParameter(f"{text!r} is neither higher, lower nor NAME=lower")
        found[name] = cast("Better", way)
    return found


def metric_options(command: Callable[..., None]) -> Callable[..., None]:
    """Declare the options for the metric of runs and score tables, and for its good direction."""
    better = click.option(
        "--better", multiple=True, metavar="[NAME=]higher|lower", callback=_directions,
        help="Whether higher or lower values are better; NAME= for one of several metrics.",
    )  # fmt: skip
    metric = click.option("--metric", metavar="NAME", help="Only this metric.")
    return metric(better(command))


home_option = click.option(
    "--dir",
    "home",
    type=click.Path(path_type=Path, file_okay=False),
    callback=lambda _, __, named: Home(named),
    help="Where runs and replies are kept (default: where pytest keeps them here).",
)


def _store_named(_: click.Context, __: click.Parameter, typed: str | None) -> str | None:
    name, check, where = "--store", settings.team_store, ""
    if typed is None:
        typed = next(iter(ini_words("llm_store")), None)
        name, check, where = "llm_store", settings.untyped_store, settings.IN_INI
    return None if typed is None else str(settings.checked(name, check, typed, where=where))


store_option = click.option(
    "--store",
    metavar=f"{settings.SCHEME}REMOTE",
    callback=_store_named,
    help="The team's store (default: llm_store in the ini file).",
)


def run_files(place: Path) -> list[Path]:
    """List the run files in a folder, at any depth; a file is the only one."""
    return [place] if place.is_file() else sorted(place.rglob(f"*{ENDING}"))


def ranged(
    usage: str, check: Callable[[Any], object], default: float | str | None, text: str
) -> Callable[[Any], Any]:
    """Declare an option of a command whose value is checked.

    Args:
        usage: the typed form without dashes, ``alpha=P``.
        check: one of ``settings``.
        default: the text that is checked where nothing is typed; None for None.
        text: for ``--help``, which shows a number that is the default.
    """
    name, _, metavar = usage.partition("=")

    def read(_: click.Context, __: click.Parameter, value: str | None) -> object:
        return None if value is None else settings.checked(f"--{name}", check, value)

    shown = f" (default: {default:g})" if isinstance(default, float) else ""
    return click.option(
        f"--{name}",
        type=str,
        default=default,
        callback=read,
        metavar=metavar,
        help=f"{text}{shown}.",
    )


def rule(name: str, text: str) -> Callable[[Any], Any]:
    """Declare a rule of the gate as an option of a command, with the check of the same table."""
    field = name.replace("-", "_")
    usage, check = f"{name}={_RULES[field].metavar}", _RULES[field].check
    return ranged(usage, check, getattr(settings.GateRules(), field), text)


def chosen(run: Run, name: str | None) -> list[FunctionScores]:
    """Choose the functions of a run that were asked about, on each metric.

    Args:
        run: with their scores.
        name: of a test function, with or without its file, or a part of one; all if None.

    Raises:
        click.UsageError: there is none of that name, or none at all.
    """
    found = scores_of(run, cost_of=pricing({}))
    names = functions_named(name, (case.id for case in run.cases)) if name else set()
    like = [each for each in found if name in (None, each.name) or each.function in names]
    if not like:
        told = ", ".join(dict.fromkeys(each.name for each in found)) or "no eval"
        raise click.UsageError(f"--function={name}: run {run.id} has {told}")
    return like
