"""A page with replies: of two runs of a shop, one prompt of which lost a rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.judging import judged
from pytest_llmeval.records import Run
from pytest_llmeval.reports.html.rendering import render_page
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.store import RunStore
from pytest_llmeval.settings import Settings
from tests.transcripts.recorded import Recorder, run_of, said, system, user

RULE = "A refund that was promised goes to billing."
OLD, NEW = f"Name the team. {RULE} Be brief.", "Name the team. Be brief."
HOSTILE = "<script>window.ran = true</script><img src=x onerror='window.ran = true'>"
BROKEN = ("late-refund", "lost-refund", "double-refund", "gift-refund")
OTHERS = tuple(f"parcel-{number}" for number in range(8))
TONE = "evals/test_tone.py::test_tone"
MESSAGE = "AssertionError: assert 'orders' == 'billing'"


def recorded(home: Path, *, earlier: Sequence[str] = (), **settings: Any) -> Judgement:
    """Record a baseline and a run, and judge it.

    Args:
        home: ``.llmeval``.
        earlier: outcomes of each case of ``test_label`` in runs before the baseline, a run each.
        settings: of the session.
    """
    recorder, store = Recorder(home), RunStore(home)
    for number, outcomes in enumerate(earlier):
        told = f"Name a team, if any. {number}"
        store.save(_run(recorder, number, told, [outcomes] * len(BROKEN), told=told))
    baseline = _run(recorder, 50, OLD, ["ppppp"] * len(BROKEN))
    run = _run(recorder, 51, NEW, ["mmmmm", "mmmmm", "pmmmm", "mmmmp"], ref="shorter")
    for each in (baseline, run):
        store.save(each)
    recorder.store.close()
    found = Baseline(run=baseline, path=home, reference="main", how="run id")
    wanted = Settings(directory=home, session="s", baseline="main", **settings)
    headlines = {f"{case.function}[late-refund]": MESSAGE for case in run.cases[:1]}
    return judged(Judgement(settings=wanted, baseline=found, headlines=headlines), run)


def page_of(judgement: Judgement) -> str:
    """Write the page of a judgement."""
    return render_page(make_report(judgement), judgement)


def _run(
    recorder: Recorder,
    second: int,
    prompt: str,
    outcomes: Sequence[str],
    *,
    ref: str = "main",
    told: str = "",
) -> Run:
    reply = {"p": said("billing"), "m": said(f"orders {HOSTILE}")}
    cases = []
    for name, ended in zip((*BROKEN, *OTHERS), (*outcomes, *["ppppp"] * 8), strict=True):
        asked = [system(prompt), user(f"Ticket: {name}")]
        cases.append(
            recorder.case(
                name,
                ended,
                lambda index, asked=asked, ended=ended: [(asked, reply[ended[index]])],  # type: ignore[misc]
            )
        )
    tone = [system(f"Be kind. {told}"), user("Hello")]
    cases.append(recorder.case("angry", "pppmp", lambda _: [(tone, said("hi"))], function=TONE))
    commit = f"{second:02}" * 20
    how: dict[str, Any] = {"tree": "f" * 40, "ref": ref, "complete": True}
    return run_of(*cases, second=second, commit=commit, **how)
