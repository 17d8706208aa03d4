"""A job whose checkout has one commit, and no stored run, makes the run of its base."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.ci.hosts import pull_request
from tests.ci.origin import WORSE, Origin
from tests.ci.situation import HARMLESS
from tests.forked import ForkedSession

OPTIONS = ("--llm-baseline=auto", "--llm-on-missing=rerun", "--llm-report=out/report.json")


@pytest.mark.parametrize(
    ("files", "status", "verdict", "made"),
    [(WORSE, 1, "regressed", 100), (HARMLESS, 0, "unchanged", 0)],
    ids=["worse", "harmless"],
)
def test_a_pull_request_of_depth_one_is_held_against_its_base(
    tmp_path: Path, files: Mapping[str, str], status: int, verdict: str, made: int
) -> None:
    origin = Origin(tmp_path / "host")
    job = pull_request(origin, tmp_path / "job", head=origin.commit(files, on=origin.tip))
    environ = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    session = ForkedSession(
        job.path, *OPTIONS, output=tmp_path / "output", environment=environ | dict(job.environ)
    )

    assert session.wait(60) == status, (tmp_path / "output").read_text()

    report: dict[str, Any] = json.loads((job.path / "out" / "report.json").read_text())
    assert report["verdict"] == verdict
    baseline = {key: report["baseline"][key] for key in ("commit", "how", "distance")}
    assert baseline == {"commit": origin.tip, "how": "rerun", "distance": 0}
    assert report["run"]["calls"]["made"] == made
