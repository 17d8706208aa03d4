"""A job whose checkout has one commit, and no stored run, makes the run of its base."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.ci.hosts import pull_request
from tests.ci.origin import WORSE, Origin, run_git
from tests.ci.pull_requests import stacked_pull_request
from tests.ci.situation import HARMLESS
from tests.forked import ForkedSession
from tests.warm_python import warm_python

OPTIONS = ("--llm-baseline=auto", "--llm-on-missing=rerun")


class Ended:
    """A session that has ended.

    Attributes:
        status: its exit status, ``output`` what it wrote.
    """

    def __init__(self, path: Path, *options: str, environ: Mapping[str, str] | None = None) -> None:
        own = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
        output = path.parent / "output"
        arguments = (f"--llm-report={path.parent / 'report.json'}", *options)
        environ = own | {"WARM_PYTHON": warm_python()} | dict(environ or {})
        session = ForkedSession(path, *arguments, output=output, environment=environ)
        self.status = session.wait(300)
        self.output = output.read_text()
        self._report = path.parent / "report.json"

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self._report.read_text())
        return report

    @property
    def found(self) -> tuple[int, str, str, str]:
        """Exit status, verdict, the baseline's commit, and how it was found."""
        baseline = self.report["baseline"]
        return self.status, self.report["verdict"], baseline["commit"], baseline["how"]


@pytest.mark.parametrize(
    ("files", "status", "verdict", "made"),
    [(WORSE, 1, "regressed", 40), (HARMLESS, 0, "unchanged", 0)],
    ids=["worse", "harmless"],
)
def test_a_pull_request_of_depth_one_is_held_against_its_base(
    tmp_path: Path, files: Mapping[str, str], status: int, verdict: str, made: int
) -> None:
    origin = Origin(tmp_path / "host")
    job = pull_request(origin, tmp_path / "job", head=origin.commit(files, on=origin.tip))

    ended = Ended(job.path, *OPTIONS, environ=job.environ)

    assert ended.found == (status, verdict, origin.tip, "rerun"), ended.output
    assert ended.report["run"]["calls"]["made"] == made
    assert f"baseline main@{origin.tip[:7]} (auto: the target, as github says, " in ended.output


def test_a_stacked_pull_request_is_not_blamed_for_its_parent(tmp_path: Path) -> None:
    situation = stacked_pull_request(tmp_path)

    ended = Ended(situation.path, *OPTIONS, environ=situation.environ)

    assert ended.found == (0, "unchanged", situation.wanted, "rerun"), ended.output


def test_a_conftest_of_the_branch_does_not_say_what_it_is_merged_into(tmp_path: Path) -> None:
    """Its code runs before the baseline is looked up."""
    origin = Origin(tmp_path / "host")
    below = origin.commit(WORSE, on=origin.tip)
    origin.set("below", below)
    variables = {"BUILDKITE": "true", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "below"}
    conftest = f"import os\ndel os.environ['GITHUB_ACTIONS']\nos.environ |= {variables}\n"
    head = origin.commit({"conftest.py": conftest}, on=below)
    job = pull_request(origin, tmp_path / "job", head=head)

    ended = Ended(job.path, *OPTIONS, environ=job.environ)

    assert ended.found == (1, "regressed", origin.tip, "rerun"), ended.output
    assert "auto: the target, as github says" in ended.output


@pytest.mark.parametrize(("options", "status"), [((), 4), (("--llm-fetch",), 0)])
def test_a_shallow_clone_elsewhere_fetches_its_base_if_it_may(
    tmp_path: Path, options: tuple[str, ...], status: int
) -> None:
    origin = Origin(tmp_path / "host")
    path = tmp_path / "clone"
    run_git(tmp_path, "clone", "--quiet", "--depth=1", origin.url, str(path))

    ended = Ended(path, f"--llm-baseline={origin.main[-2]}", *OPTIONS[1:], *options)

    assert ended.status == status, ended.output
    hint = "If this clone lacks it let it be fetched:  add --llm-fetch"
    assert (hint in ended.output) is not bool(options)
