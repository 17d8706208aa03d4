"""Where the gate and the reference differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Comparison
from pytest_llmeval.records import Run
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.reshaping import under_new_names
from tests.reference.gate import judge
from tests.reference.pairs import Pair
from tests.reference.renaming import renamed

CLOSE = 1e-9


def differences(pair: Pair, main: Run | None = None) -> tuple[Comparison, list[str]]:
    """Compare a pair by both; list each verdict, row, p and exit in which they differ.

    With ``main`` as the baseline proper the baseline of the pair is an anchor.
    Advice, which changes no verdict and takes most of the time, is left out.
    """
    here = {case.id for case in pair.run.cases}
    with patch("pytest_llmeval.gate.conclusion.remedies", return_value=(None, None)):
        comparison = compare(_renamed(pair, here), pair.run, pair.rules, main=main)
    expected, fails = judge(renamed(pair.baseline, pair.renamed, here), pair.run, pair.rules, main)
    gate = {(one.function, one.metric): one for one in comparison.functions}
    found = [f"{name}: only one has it" for name in gate.keys() ^ expected.keys()]
    for name in gate.keys() & expected.keys():
        one, other = gate[name], expected[name]
        compared = {
            "verdict": (one.verdict.value, other.verdict),
            "row": (one.row, other.row),
            "p": (one.evidence.p, other.p),
            "p of a rise": (one.evidence.p_improved, other.p_improved),
            "fails": (one.fails, other.fails),
        }
        found += [f"{name}: {what} {both}" for what, both in compared.items() if not _same(*both)]
    if comparison.fails != fails:
        found.append(f"exit: {comparison.fails}, {fails}")
    return comparison, found


def _renamed(pair: Pair, here: set[str]) -> Run:
    found = Baseline(run=pair.baseline, path=Path(), reference="main", how="commit")
    try:
        return under_new_names(found, pair.renamed, here=here).run
    except SettingsError:  # two cases would have one name: no line counts
        return pair.baseline


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= CLOSE
    return one == other


def methods_of(comparison: Comparison) -> Iterator[tuple[int, str, bool]]:
    """Yield row and method of each comparison, and whether its drop was accepted."""
    for one in comparison.functions:
        yield one.row, one.effect.method, one.accepted
