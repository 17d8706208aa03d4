"""Lines about the run of a baseline that is made now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_llmeval.runs.git import short_hash
from pytest_llmeval.runs.store import FoundRun, first_of

if TYPE_CHECKING:
    from pytest_llmeval.engine.rerun.base_run import BaseRun


def begins(commit: str) -> str:
    """Say that the evals of another commit run first."""
    return (
        f"llm evals: no run of {short_hash(commit)} is stored: its evals run first, in a worktree"
    )


def ended(commit: str, found: FoundRun | None) -> str:
    """Say that they have ended."""
    run = "it has no such eval" if found is None else f"recorded as run {found.run.id}"
    return f"llm evals: end of the run of {short_hash(commit)}, {run}\n"


def rerun_notes(made: BaseRun) -> Iterator[str]:
    """Say in what the run of a baseline that was made now may be unlike one made then."""
    if made.dropped:
        yield f"the commit lacks {first_of(made.dropped)}, which is compared with nothing"
    if made.dependencies:
        yield (
            f"{first_of(made.dependencies)} differs: the run was made with the packages installed "
            "here, which may not be what that commit wants"
        )
    if made.submodules:
        yield f"the submodule {first_of(made.submodules)} was empty in that run"
    if made.has_pointers:
        yield "files that git-lfs keeps were its pointers in that run"
