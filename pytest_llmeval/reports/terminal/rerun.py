"""Lines about the run of a baseline that is made now."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmeval.runs.git import short_hash
from pytest_llmeval.runs.store import FoundRun, first_of


def begins(commit: str) -> str:
    """Say that the evals of another commit run first."""
    return (
        f"llm evals: no run of {short_hash(commit)} is stored: its evals run first, in a worktree"
    )


def ended(commit: str, found: FoundRun | None) -> str:
    """Say that they have ended."""
    run = "it has no such eval" if found is None else f"recorded as run {found.run.id}"
    return f"llm evals: end of the run of {short_hash(commit)}, {run}\n"


def rerun_notes(
    dropped: Sequence[str],
    dependencies: Sequence[str],
    submodules: Sequence[str],
    *,
    has_pointers: bool,
) -> tuple[str, ...]:
    """Say in what the run of a baseline that was made now may be unlike one made then.

    Args:
        dropped: paths that were typed and that the commit lacks.
        dependencies: files by which the commit wants other packages than are installed.
        submodules: folders that were empty.
        has_pointers: what git-lfs keeps was not there.
    """
    notes = []
    if dropped:
        notes.append(f"the commit lacks {first_of(dropped)}, which is compared with nothing")
    if dependencies:
        notes.append(
            f"{first_of(dependencies)} differs: the run was made with the packages installed here, "
            "which may not be what that commit wants"
        )
    if submodules:
        notes.append(f"the submodule {first_of(submodules)} was empty in that run")
    if has_pointers:
        notes.append("files that git-lfs keeps were its pointers in that run")
    return tuple(notes)
