"""A situation: a checkout, what REF means in it, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.ci.hosts import Job
from tests.ci.origin import WORSE, Origin

HARMLESS = {"notes.txt": "harmless\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A checkout, and the baseline that is right in it.

    Attributes:
        path: rootdir of the evals.
        environ: what CI sets; empty on a laptop.
        wanted: the commit that ``ref`` means.
        recorded: the commits of which the store has a complete run.
        baseline: that of them whose run stands for ``wanted``, if none is made now: of the
            commit itself, else of an equal tree, else of its nearest first-parent ancestor; a
            clean tree at ``ref`` itself is held against an earlier one. None if none does.
        why: the reason, in a sentence.
        ref: what stands behind ``--llm-baseline=``.
        note: a part of what must be said about it, if anything must.
        fork: what the facts of CI say.
        is_fetched: the commit can be told only after history was fetched.
    """

    path: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    wanted: str
    recorded: tuple[str, ...]
    baseline: str | None
    why: str
    ref: str = "main"
    note: str = ""
    fork: bool | None = None
    is_fetched: bool = False


def complete(
    job: Job,
    origin: Origin,
    *,
    wanted: str,
    why: str,
    baseline: str | None = None,
    recorded: tuple[str, ...] | None = None,
    ref: str = "main",
    note: str = "",
    fork: bool | None = None,
    is_fetched: bool = False,
) -> Situation:
    """Complete a situation: each commit of main has a run, and that of the wanted one is right."""
    return Situation(
        path=job.path,
        environ=job.environ,
        wanted=wanted,
        recorded=tuple(origin.main) if recorded is None else recorded,
        baseline=wanted if baseline is None else baseline,
        why=why,
        ref=ref,
        note=note,
        fork=fork,
        is_fetched=is_fetched,
    )


def add_feature(origin: Origin, *, on: int = 1) -> str:
    """Commit a worse prompt on top of a commit of main, by its index."""
    commit = origin.commit(WORSE, on=origin.main[on])
    origin.set("feature", commit)
    return commit
