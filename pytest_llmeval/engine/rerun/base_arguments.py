"""The arguments of the pytest that makes the run of a baseline."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_llmeval.engine.rerun.relocation import Relocation

# Flags that go by what failed last time, of which a worktree knows nothing, or ask a person.
_LEFT_OUT = frozenset((
    "--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--new-first", "--sw", "--stepwise",
    "--sw-skip", "--stepwise-skip", "--sw-reset", "--stepwise-reset", "--pdb", "--trace",
    "--llm-missed",
))  # fmt: skip
# Options that name a file of this session, and what takes them back; by where argparse puts them.
_TAKEN_BACK = {
    "xmlpath": "--junitxml=",
    "htmlpath": "--html=",
    "report_log": "--report-log=",
    "log_file": f"--log-file={os.devnull}",
    "cov_source": "--no-cov",
}


@dataclass(frozen=True, slots=True)
class BaseArguments:
    """What a pytest in the worktree is started with.

    Attributes:
        arguments: of its command line.
        dropped: paths that were typed and that the commit lacks.
        has_tests: whether a path is left, if any was typed.
    """

    arguments: tuple[str, ...]
    dropped: tuple[str, ...]
    has_tests: bool


def base_arguments(
    config: pytest.Config,
    parser: pytest.Parser | None,
    relocation: Relocation,
    *,
    typed: Sequence[str],
    directory: Path,
    options: Sequence[str] = (),
) -> BaseArguments:
    """Return the arguments of this session as they are to be in the worktree.

    What only this session is to do is taken back: its reports, its coverage, its stop at the first
    failure. Node ids become their files: which of their tests run is said otherwise, as the commit
    may lack some.

    Args:
        config: of this session.
        parser: of its command line; None where a conftest loaded the plugin too late for it.
        relocation: of the worktree.
        typed: the arguments of this session.
        directory: ``.llmeval`` of this session.
        options: that come on top.
    """
    tokens = list(_expanded(iter(typed), config, relocation))
    positions = _positions(tokens, config, parser)
    places = {at: _moved_path(tokens[at], config, relocation) for at in positions}
    moved = [
        # what stands behind an equals sign may be a path, too
        places[at] if at in places else "=".join(map(relocation.moved, token.split("=", 1)))
        for at, token in enumerate(tokens)
        if token not in _LEFT_OUT
    ]
    kept = [token for token in moved if token is not None]
    added = _added(config, relocation, directory)
    end = kept.index("--") if "--" in kept else len(kept)
    return BaseArguments(
        arguments=(*kept[:end], *added, *options, *kept[end:]),
        dropped=tuple(tokens[at] for at, place in places.items() if place is None),
        has_tests=not places or any(place is not None for place in places.values()),
    )


def _expanded(
    tokens: Iterator[str], config: pytest.Config, relocation: Relocation
) -> Iterator[str]:
    """Replace ``@FILE`` by the arguments in that file, as the commit has it."""
    for token in tokens:
        if token.startswith("@"):
            file = Path(relocation.moved(str(config.invocation_params.dir / token[1:])))
            yield from _expanded(iter(file.read_text().splitlines()), config, relocation)
        else:
            yield token


def _positions(
    tokens: Sequence[str], config: pytest.Config, parser: pytest.Parser | None
) -> list[int]:
    """Find the paths among arguments: a value of an option may look just like one."""
    options = config.option if parser is None else parser.parse_known_args(list(tokens))
    typed = set(options.file_or_dir)
    found = [at for at, token in enumerate(tokens) if token in typed]
    return found if parser is None else [at for at in found if _is_path_at(at, tokens, parser)]


def _is_path_at(at: int, tokens: Sequence[str], parser: pytest.Parser) -> bool:
    marked = [*tokens[:at], "\0", *tokens[at + 1 :]]
    try:
        return "\0" in parser.parse_known_args(marked).file_or_dir
    except pytest.UsageError:  # the value of an option that takes numbers alone
        return False


def _moved_path(token: str, config: pytest.Config, relocation: Relocation) -> str | None:
    """Return a path of tests as it is in the worktree, None if nothing is there."""
    written = token.partition("::")[0]
    path = config.invocation_params.dir / written
    if config.option.pyargs and not path.exists():
        return token  # a package, to be found by PYTHONPATH
    place = relocation.place(path)
    if place is None:
        return token
    return str(place) if place.exists() else None


def _added(config: pytest.Config, relocation: Relocation, directory: Path) -> Iterator[str]:
    """Say which folders are used there, and take back what only this session is to do."""
    option, scratch = config.option, relocation.scratch
    yield f"--rootdir={relocation.place(config.rootpath)}"
    if config.inipath is not None and relocation.place(config.inipath) is None:
        yield from ("-c", str(config.inipath))
    yield from (f"--llm-dir={directory}", "--maxfail=0")
    yield from (undone for name, undone in _TAKEN_BACK.items() if getattr(option, name, None))
    if option.basetemp:
        yield f"--basetemp={scratch / 'basetemp'}"
    if config.pluginmanager.hasplugin("cacheprovider"):
        yield from ("-o", f"cache_dir={scratch / 'cache'}")
