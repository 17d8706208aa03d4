"""A job that follows a workflow, as GitHub starts it: its variables, its event, an artifact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from pytest_llmeval.reports.json import document, json_text
from tests.reports.judgements import FORMS
from tests.servers.github_server import FORK, REPOSITORY, TOKEN

COMMIT = "0123456789abcdef0123456789abcdef01234567"
RUN = 77
URL = f"https://github.com/{REPOSITORY}/actions/runs/{RUN}"


def event(**changed: object) -> dict[str, Any]:
    """Word the event of a pull request's run that has ended, from a fork."""
    run = {
        "id": RUN,
        "name": "evals",
        "event": "pull_request",
        "head_branch": "feature",
        "head_sha": COMMIT,
        "head_repository": {"full_name": FORK, "owner": {"login": FORK.partition("/")[0]}},
        "conclusion": "failure",
        "html_url": URL,
        "pull_requests": [],  # always, where a fork asks
    }
    return {"action": "completed", "workflow_run": {**run, **changed}}


def job(folder: Path, url: str, told: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Write the event file; return the variables of the job."""
    file = folder / "event.json"
    file.write_text(json.dumps(event() if told is None else told))
    return {
        "GITHUB_API_URL": url,
        "GITHUB_EVENT_PATH": str(file),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": TOKEN,
    }


@cache
def _document(form: str) -> str:
    return json_text(document(FORMS[form]()))


def report(form: str = "regressed", **changed: object) -> dict[str, Any]:
    """Word a report in one form of a result."""
    return {**json.loads(_document(form)), **changed}


def archive(files: Mapping[str, bytes | str], how: int = ZIP_DEFLATED) -> bytes:
    """Pack files as an artifact is packed."""
    packed = BytesIO()
    with ZipFile(packed, "w", how) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return packed.getvalue()


def packed(document: object) -> bytes:
    """Pack a report as the job of the recipe leaves it, beside the run."""
    run = ".llmeval/runs/abc/1.jsonl.gz"
    return archive({"llmeval-report.json": json.dumps(document), run: b"not ours"})
