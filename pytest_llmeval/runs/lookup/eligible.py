"""Whether a recorded run will do as a baseline for this session, and if not, why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pytest_llmeval.records import Run, filters_of, paths_of
from pytest_llmeval.runs.store import ahead, dated_ahead, first_of, is_run_id

# The gate refuses a comparison when more of either side's trials errored than this: a
# baseline beyond it most likely met a provider that was down, and settles nothing.
MOST_ERRORED = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a baseline has to fit.

    Attributes:
        root: the session's rootpath relative to git's top level.
        selection: see ``records.Run``; empty for everything.
        models: models it is known to ask; None if that is not known yet.
    """

    root: str
    selection: tuple[str, ...]
    models: frozenset[str] | None = None

    def unlikeness(self, run: Run) -> str | None:
        """Say what makes a run one of something else, None if it is alike."""
        if run.root != self.root:
            return f"it was recorded with rootdir {run.root!r}, this session has {self.root!r}"
        if not covers(run.selection, narrow=self.selection):
            return f"it covers {selected(run.selection)}, this session {selected(self.selection)}"
        return None

    def model_rank(self, asked: frozenset[str]) -> int:
        """Rank a run by the models it asked: 0 the same, 1 these and others, 2 other ones."""
        if self.models is None or asked == self.models:
            return 0
        return 1 if self.models < asked else 2

    def model_note(self, asked: frozenset[str]) -> str | None:
        """Warn of a run that asked other models than this session, None if it did not."""
        if self.models is None or self.models <= asked:
            return None
        return f"other models: it asked {_listed(asked)}, this session asks {_listed(self.models)}"


def shortcomings(run: Run, *, trials: int) -> tuple[str, ...]:
    """List what bars a run from standing for its commit.

    Args:
        run: the run, or its header.
        trials: how many trials it has.
    """
    found = []
    if run.unseen:
        found.append(f"dirty: git did not look at {first_of(run.unseen)}")
    elif run.dirty:
        found.append("dirty: tracked files differed from the commit")
    if not run.complete:
        wanted = sum(case.repeats for case in run.cases)
        cause = (
            f"{trials} of {wanted} trials" if trials < wanted else "not everything was collected"
        )
        found.append(f"incomplete: {cause}")
    if is_run_id(run.id) and dated_ahead(run.id):  # the name of a score table tells no time
        found.append(ahead(run.id))
    return tuple(found)


def peculiarities(run: Run, *, trials: int) -> tuple[str, ...]:
    """List what is to be said of a run that was named: its shortcomings, and what it covers."""
    found = shortcomings(run, trials=trials)
    return (*found, f"of {selected(run.selection)} alone") if run.selection else found


def too_many_errored(errored: int, *, ran: int) -> bool:
    """Whether a run has so many errored trials that the gate may not judge by it.

    Args:
        errored: how many trials are errored.
        ran: how many there are without the skipped ones, which tell nothing of the provider.
    """
    return errored > MOST_ERRORED * ran


def covers(wide: Sequence[str], *, narrow: Sequence[str]) -> bool:
    """Whether a selection has all that another one has; the empty one has everything.

    Each path of the narrow one must lie below one of the wide one. As options only leave
    tests out, those of the wide one must all be in the narrow one too.
    """
    if not filters_of(wide) <= filters_of(narrow):
        return False
    outer, inner = paths_of(wide), paths_of(narrow)
    if not outer:
        return True
    return bool(inner) and all(any(_reaches(path, item) for path in outer) for item in inner)


def _reaches(path: str, item: str) -> bool:
    if "::" in path:
        return item == path or item.startswith((f"{path}::", f"{path}["))
    return PurePosixPath(item.partition("::")[0]).is_relative_to(path)


def selected(selection: Sequence[str]) -> str:
    """Write a selection for a message."""
    return _listed(selection) if selection else "everything"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(repr(word) for word in sorted(words)) or "none"
