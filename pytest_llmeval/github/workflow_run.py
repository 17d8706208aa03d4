"""The workflow run that a job follows, its artifact, and the pull request that it was for."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from pytest_llmeval.cache.key import parse_json, value_at
from pytest_llmeval.errors import ReportRefused, SettingsError
from pytest_llmeval.github.api import Github, needed
from pytest_llmeval.safe_text import printable

MOST_ARTIFACT = 20 * 10**6  # bytes of an artifact, which may have run files too
ENDING = ".json"
_DAMAGED = (BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRun:
    """A run of a workflow, as GitHub tells it to the job that follows.

    Attributes:
        id: of the run.
        event: what started it.
        commit: full hash: of a pull request its last one, which GitHub merged for the run.
        branch: that the commit was pushed to.
        repository: of that branch, as OWNER/NAME; empty if it was deleted.
        conclusion: how the run ended, in GitHub's word, such as ``failure``.
        url: its page.
    """

    id: int
    event: str
    commit: str
    branch: str
    repository: str
    conclusion: str
    url: str


def read_workflow_run(environ: Mapping[str, str]) -> WorkflowRun:
    """Read the event file of a job that follows another workflow.

    Raises:
        SettingsError: there is none, or it is of another event.
    """
    path = Path(needed(environ, "GITHUB_EVENT_PATH"))
    try:
        run = value_at(parse_json(path.read_bytes()), "workflow_run")
    except (OSError, ValueError):
        run = None
    run_id = value_at(run, "id")
    if not isinstance(run_id, int):
        raise SettingsError(
            f"GITHUB_EVENT_PATH={path}: no event of a workflow that has ended was found there: "
            "docs/ci.md has the workflow, which begins with  on: workflow_run"
        )
    return WorkflowRun(
        id=run_id,
        event=_text(run, "event"),
        commit=_text(run, "head_sha"),
        branch=_text(run, "head_branch"),
        repository=_text(run, "head_repository", "full_name"),
        conclusion=_text(run, "conclusion"),
        url=_text(run, "html_url"),
    )


def open_pull_requests(github: Github, run: WorkflowRun) -> list[int]:
    """Find the pull requests that a run was for.

    Nothing of this is taken from the artifact. GitHub's event names none where a fork asks.

    Returns:
        Numbers of those into this repository that are open and still at the commit of the run.
    """
    owner = run.repository.partition("/")[0]
    if run.event != "pull_request" or not (owner and run.branch and run.commit):
        return []
    wanted = (run.commit, run.repository, github.repository)
    places = (("head", "sha"), ("head", "repo", "full_name"), ("base", "repo", "full_name"))
    return [
        entry["number"]
        for entry in github.pages("pulls", {"state": "open", "head": f"{owner}:{run.branch}"})
        if tuple(value_at(entry, *place) for place in places) == wanted
    ]


def download_report(github: Github, run: WorkflowRun, *, artifact: str, most: int) -> bytes | None:
    """Read the report out of an artifact of a run; nothing is written to the disk.

    Args:
        github: the repository.
        run: whose artifacts are looked through.
        artifact: its name; the newest one counts.
        most: bytes of the report that are read.

    Returns:
        None if the run left no such artifact.

    Raises:
        GithubFailed: it cannot be had, or is too large.
        ReportRefused: it is no archive with one report.
    """
    found = github.pages(f"actions/runs/{run.id}/artifacts", {"name": artifact}, name="artifacts")
    kept = [one["id"] for one in found if one.get("name") == artifact and not one.get("expired")]
    if not kept:
        return None
    archive = github.download(f"actions/artifacts/{max(kept)}/zip", most=MOST_ARTIFACT)
    return report_in(archive, most=most)


def report_in(archive: bytes, *, most: int) -> bytes:
    """Unpack the one report of an artifact; run files beside it lie in folders.

    Raises:
        ReportRefused: there is none, or there are several.
    """
    try:
        with ZipFile(BytesIO(archive)) as files:
            found = [
                file
                for file in files.infolist()
                if "/" not in file.filename and file.filename.endswith(ENDING)
            ]
            # Other ways to pack may ask for gigabytes of memory.
            if len(found) == 1 and found[0].compress_type in (ZIP_STORED, ZIP_DEFLATED):
                with files.open(found[0]) as report:
                    return report.read(most)
    except _DAMAGED as exc:
        raise ReportRefused(f"the artifact cannot be unpacked: {printable(str(exc))}") from None
    raise ReportRefused(
        f"the artifact has {len(found)} files *{ENDING} outside of folders that can be read: "
        "upload one, as --llm-report wrote it"
    )


def _text(value: object, *names: str) -> str:
    found = value_at(value, *names)
    return found if isinstance(found, str) else ""
