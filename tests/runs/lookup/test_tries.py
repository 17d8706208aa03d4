"""Which runs are tries against one baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_llmeval.errors import Lost
from pytest_llmeval.records import CiJob, Outcome
from pytest_llmeval.runs.store import tries_against
from tests.runs.builders import make_call, make_run

if TYPE_CHECKING:
    from tests.runs.conftest import Project


def test_tries_are_paid_runs_compared_with_it_outside_ci(project: Project) -> None:
    baseline = project.record()
    first = project.record(compared_with=baseline, attempts=4, dirty=True)
    project.record(compared_with=baseline, attempts=0)  # all came from the cache
    project.record(compared_with=baseline, attempts=4, ci=CiJob(provider="github"))
    refused = make_call(
        draw=None, reply_sha256=None, lost=Lost.TIMEOUT, lost_for=("600",)
    )  # the rest came from the cache
    of_cache = make_call(replayed=True)
    bare, *others = (replace(one, calls=(of_cache,)) for one in make_run().trials)
    errored = replace(bare, outcome=Outcome.ERRORED, scores={}, calls=(refused,))
    trials = (errored, *others)
    project.record(compared_with=baseline, attempts=1, trials=trials)
    project.record(compared_with=first, attempts=4)
    project.record()
    second = project.record("f" * 40, compared_with=baseline, complete=False)  # nobody counted

    found = tries_against(project.store, baseline)

    assert [one.header.run.id for one in found] == [first, second]
    other = project.record(compared_with=baseline, attempts=4, ref="other")
    of_other = [tries_against(project.store, baseline, branch=name) for name in (None, "other")]
    assert [[one.header.run.id for one in tries] for tries in of_other] == [[other]] * 2
    assert tries_against(project.store, baseline, branch="main") == found


def test_what_is_older_or_damaged_is_no_try(project: Project) -> None:
    later = "20261122T000000-1a2b3c"
    damaged = project.record(compared_with=later, attempts=4)
    assert tries_against(project.store, later) == []
    file = project.store.by_id(damaged)
    assert file is not None
    file.write_bytes(b"no run")
    assert tries_against(project.store, damaged) == []
