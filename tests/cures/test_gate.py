"""Cures of what the gate says work where they are printed."""

from __future__ import annotations

import re

import pytest

from tests.cures.bench import WORSE, Bench, taken
from tests.project import EVALS

MAIN = "--llm-baseline=main"
SIX = EVALS.replace("range(20)", "range(6)")
SCORED = (
    SIX.replace("(llm, case)", "(llm, case, llm_score)").replace(
        "(repeats=5)", '(repeats=5, gate=("pass", "length"))'
    )
    + '    llm_score(1.0, "length")\n'
)
RENAMED = SIX.replace("test_says", "test_tells")
STUBBED = SIX.replace("llm.ask(PROMPT.format(case=case)).text", '"yes"')
WITH_IDS = SIX.replace("range(6)])", "range(6)], ids=[*'abcdef'])")
OTHER_IDS = SIX.replace('f"case-{i}"', 'f"ticket-{i}"')


@pytest.mark.parametrize(
    ("before", "after", "said", "cure"),
    [
        (SIX, RENAMED, "not collected here", r"file (llm_renamed = .*?) if"),
        (SIX, RENAMED, "not collected here", r"or (llm_accept_gone = \S+) if"),
        (SIX, OTHER_IDS, "no id of the 6 cases", r"as in (llm_renamed = \S+ -> \S+)"),
        (
            SCORED,
            SCORED.replace('    llm_score(1.0, "length")\n', "").replace(', "length"', ""),
            "no trial recorded it here",
            r"by (llm_accept_gone = \S+) in",
        ),
        (
            SCORED,
            SCORED.replace(', gate=("pass", "length")', ""),
            "it stays gated",
            r"by (llm_accept_gone = \S+)",
        ),
        (
            SIX,
            SIX.replace("range(6)", "range(3)"),
            "of llm_max_gone",
            r"type this once +(--llm-max-gone=\S+)",
        ),
        (
            WITH_IDS,
            WITH_IDS.replace('f"case-{i}"', '("case-%s", "other-%s")[i < 3] % i'),
            "edited, with other replies: 3",
            r"type this once +(--llm-max-gone=\S+)",
        ),
    ],
    ids=["renamed", "given up", "ids", "metric", "gate", "cases", "edited"],
)  # fmt: skip
def test_what_was_there_and_is_gone(
    bench: Bench, before: str, after: str, said: str, cure: str
) -> None:
    bench.commit(test_evals=before + "\n# on main\n")
    bench.session()
    bench.topic(test_evals=after)
    printed = bench.session(MAIN)
    assert said in printed

    printed = bench.type(taken(printed, cure))

    assert said not in printed


def test_an_eval_that_is_to_ask_no_model(bench: Bench) -> None:
    bench.commit(test_other=SIX.replace("test_says", "test_still_says"))
    bench.session()
    bench.topic(test_evals=STUBBED)
    printed = bench.session(MAIN)
    assert "take the mark off" in printed
    bench.project.write(
        test_evals=STUBBED.replace("@llm_eval(repeats=5)\n", "").replace("(llm, ", "(")
    )

    printed = bench.type(taken(printed, r"file (llm_accept_gone = \S+)"))

    assert bench.exit == 0
    assert "take the mark off" not in printed


def test_parts_that_are_judged_by_themselves(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.session()
    bench.topic()
    monkeypatch.setenv("CI", "true")
    parts = [("-k", "case-0 or case-1 or case-2"), ("-k", "case-3 or case-4 or case-5")]
    printed = bench.session(MAIN, *parts[0])
    merge = taken(printed, r"gate once: (llmeval merge DIR\.\.\. --baseline=main)")
    assert "Record each without --llm-baseline" in printed
    for part in parts:
        bench.session(*part)

    _, *arguments = merge.replace("DIR...", str(bench.project.path / ".llmeval/runs")).split()
    printed = bench.llmeval(*arguments)

    assert (bench.exit, "unchanged" in printed) == (0, True), printed


def test_what_fell_is_read_by_the_command_below_it(bench: Bench) -> None:
    bench.session()
    bench.topic(app=WORSE)
    printed = bench.session(MAIN)
    assert bench.exit == 1

    typed = taken(printed, r"read both replies: (llmeval diff \S+(?: \S+-\w{6})*)")
    printed = bench.type(typed)

    assert bench.exit == 0, printed
    assert re.search(r"rate=0\.02", printed)


def test_what_fell_is_read_in_the_folder_that_was_typed(bench: Bench) -> None:
    home = f"--llm-dir={bench.project.path / 'our runs'}"
    missing = bench.session(MAIN, home)
    bench.type(taken(missing, r"Record one: (pytest '--llm-dir=[^']+')"))
    bench.topic(app=WORSE)
    printed = bench.session(MAIN, home)
    assert bench.exit == 1

    printed = bench.type(taken(printed, r"read both replies: (llmeval diff .*'--dir=[^']+')"))

    assert bench.exit == 0, printed
    assert re.search(r"rate=0\.02", printed)


def test_a_drop_that_is_meant_is_accepted(bench: Bench) -> None:
    bench.session()
    bench.topic(app=WORSE)
    printed = bench.session(MAIN)
    assert bench.exit == 1

    bench.type(taken(printed, r"to the ini file(?: \(.*?\))? (llm_accept = \S+ >= [\d.]+)"))

    assert bench.exit == 0
