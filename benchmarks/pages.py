"""Is the page of HTML small, and there at once, also where a suite is large?

Suites of which every case was asked anew, with every reply in the cache: 200 cases x 10 (target:
below 2 MB) and 5,000 x 10 (below 15 MB and 10 s, from the judgement on). Run:
``python benchmarks/pages.py``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from random import Random

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.judging import judged
from pytest_llmeval.records import Case, Run, Trial
from pytest_llmeval.reports.html.rendering import render_page
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.store import RunStore
from pytest_llmeval.settings import Settings

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.transcripts.recorded import Recorder, run_of, said, system, user

REPEATS = 10
TARGETS = {200: (2e6, None), 5_000: (15e6, 10.0)}
WORDS = ("order", "refund", "promised", "billing", "whatever", "became", "parcel", "team")


def main() -> int:
    """Print the table; 1 if a target was missed."""
    print("| cases x 10 | size | CPU | target |\n|---|---:|---:|---:|")
    missed = False
    for cases, (largest, longest) in TARGETS.items():
        with tempfile.TemporaryDirectory(prefix="llmeval-pages-") as name:
            judgement = recorded(Path(name) / ".llmeval", cases)
            begin = time.process_time()
            page = render_page(make_report(judgement), judgement)
            seconds, size = time.process_time() - begin, len(page.encode())
        missed |= size >= largest or (longest is not None and seconds >= longest)
        target = f"{largest / 1e6:g} MB" + (f", {longest:g} s" if longest else "")
        print(f"| {cases:,} | {size / 1e6:.2f} MB | {seconds:.1f} s | {target} |")
    return int(missed)


def recorded(home: Path, cases: int) -> Judgement:
    """Record a baseline and a run of another prompt, and judge it."""
    recorder, store, random = Recorder(home), RunStore(home), Random(1)  # noqa: S311 - no secret
    runs: list[Run] = []
    for second, (rate, prompt) in enumerate(((0.9, "Be brief."), (0.8, "Be kind."))):
        made = [_case(recorder, random, number, rate, prompt) for number in range(cases)]
        commit = f"{second + 1}" * 40
        run = run_of(*made, second=second, tree="f" * 40, commit=commit, ref="main", complete=True)
        store.save(run)
        runs.append(run)
    recorder.store.close()
    baseline = Baseline(run=runs[0], path=home, reference="main", how="run id")
    settings = Settings(directory=home, session="s", baseline="main")
    return judged(Judgement(settings=settings, baseline=baseline), runs[1])


def _case(
    recorder: Recorder, random: Random, number: int, rate: float, prompt: str
) -> tuple[Case, tuple[Trial, ...]]:
    outcomes = "".join("p" if random.random() < rate else "m" for _ in range(REPEATS))
    asked = [system(f"Name the team. {prompt}"), user(f"Ticket {number}")]
    return recorder.case(
        f"ticket-{number}",
        outcomes,
        lambda _: [(asked, said(" ".join(random.choices(WORDS, k=40))))],
    )


if __name__ == "__main__":
    sys.exit(main())
