"""What a job tells first: why it could not judge, and that another model was asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.ci.hosts import Job, merge_request, pull_request
from tests.ci.origin import Origin
from tests.ci.other_hosts import Built, jenkins
from tests.ci.test_rerun import OPTIONS, Ended

BROKEN = {"app.py": "PROMPT = 1 / 0\n"}
OTHER_MODEL = {"pytest.ini": "[pytest]\nllm_model = function/model:other\npythonpath = .\n"}


def at_github(built: Built, folder: Path) -> Job:
    return pull_request(built.origin, folder, head=built.head)


def at_gitlab(built: Built, folder: Path) -> Job:
    return merge_request(built.origin, folder, head=built.head)


HOSTS = (at_github, at_gitlab, jenkins)  # with annotations, and two without


@pytest.mark.parametrize("check_out", HOSTS, ids=lambda one: one.__name__)
def test_a_base_that_cannot_run_is_told_in_one_annotation_and_in_junit(
    tmp_path: Path, check_out: Callable[[Built, Path], Job]
) -> None:
    origin = Origin(tmp_path / "host")
    good = origin.tip
    broken = origin.advance(BROKEN)
    head = origin.revert(broken, on=broken)
    (tmp_path / "jobs").mkdir()
    job = check_out(Built(origin, head), tmp_path / "jobs" / "work")

    junit = tmp_path / "junit.xml"
    ended = Ended(job.path, *OPTIONS, f"--junitxml={junit}", environ=job.environ)

    assert ended.status == 4, (good, ended.output)
    why = f"no run of {broken[:7]} could be made"
    told = [line for line in ended.output.splitlines() if line.startswith("::error ")]
    assert len(told) == (check_out is at_github)
    assert all(why in line for line in told)
    (failed,) = ElementTree.parse(junit).iter("testcase")  # noqa: S314 - our own
    assert failed.attrib["name"] == "gate"
    assert why in str(failed[0].text)
    assert "--llm-on-missing=warn" in str(failed[0].text)  # the way out


def test_a_request_that_asks_another_model_says_so_first(tmp_path: Path) -> None:
    origin = Origin(tmp_path / "host")
    model = (tmp_path / "host" / "author" / "model.py").read_text()
    origin.advance({"model.py": f"{model}\n\nother = answer\n"})
    job = pull_request(origin, tmp_path / "job", head=origin.commit(OTHER_MODEL, on=origin.tip))
    page = tmp_path / "summary.md"

    environ = {**job.environ, "GITHUB_STEP_SUMMARY": str(page)}
    ended = Ended(job.path, *OPTIONS, environ=environ)

    assert ended.report["baseline"]["commit"] == origin.tip
    verdict, said, *_ = (line for line in page.read_text().splitlines() if line.strip())
    assert verdict.startswith("## LLM evals: ")
    plain = said.replace("\N{ZERO WIDTH SPACE}", "")  # which keeps hosts from linking the name
    assert plain.startswith(
        "**Another model is asked: function/model:other, not function/model:answer.**"
    )
