"""Advice on a suite in words, each piece with a figure and the line to type."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_llmeval.errors import listed_names
from pytest_llmeval.gate.advice import Advice, Trouble
from pytest_llmeval.reports import json_report, notation

_MOST_REPEATS = 30  # more cases are cheaper
_NAMED = 2
_SHOW, _SHOW_CASE = "llmeval show {run}{home}", "llmeval show {run} {case}{home}"
_PLAN = "llmeval plan {run} --function={function} --drop={target:g}{home}"
_REPEATS, _REFRESH = "{pytest} --llm-repeats={repeats}", "{again} --llm-cache=refresh"
_TYPED: Mapping[Trouble, str] = {
    Trouble.ERRORED: "{again}",
    Trouble.DRIFTS: _REFRESH,
    Trouble.FALSE_ALARMS: _REPEATS,
    Trouble.UNEXPECTED: _REFRESH,
    Trouble.IDENTICAL: "{pytest} --llm-repeats=1",
    Trouble.UNREPEATED: "{pytest} --llm-repeats=5",
    Trouble.BLIND: _REPEATS,
    Trouble.SETTLED: _SHOW_CASE,
    Trouble.NOISE_OF_ONE: _SHOW_CASE,
    Trouble.TOGETHER: '@llm_eval(gate="{kept}")',
}
_SENTENCES: Mapping[Trouble, str] = {
    Trouble.ERRORED: "{errored} of {trials} trials errored{why}",
    Trouble.DRIFTS: "its repeats differ by more than chance explains (p {p:.1g}): the provider "
    "changed meanwhile",
    Trouble.FALSE_ALARMS: "compared with itself it is called worse in {rate:.1%} of comparisons, "
    "and only {level:.1%} are promised: do not trust a single alarm",
    Trouble.UNEXPECTED: "the mean of {cases} cases that sent the same requests is {mean:.4g}, and "
    "an earlier run predicts [{low:.4g}, {high:.4g}]: one of them was recorded on an odd day",
    Trouble.IDENTICAL: "all {repeats} trials of each case got one reply, as with temperature 0 or "
    "a fixed seed: {waste:.0%} of its calls bring nothing",
    Trouble.UNREPEATED: "each case has one trial, so nobody can say how often a drop of {target:g} "
    "would be found",
    Trouble.BLIND: "finds a drop of {target:g} in {power:.0%} of builds; {more} more cases"
    "{or_repeats} would find it in 80%",
    Trouble.SETTLED: "of {cases} cases {passed} passed and {missed} missed in each trial; they "
    "take {share:.0%} of its {calls} and show no small change",
    Trouble.NOISE_OF_ONE: "{case}{tied} has {share:.0%} of the noise of {units} independent cases",
    Trouble.TOGETHER: "moves with {other} (r {r:.2f}): two gated metrics that give one answer",
}


@dataclass(frozen=True, slots=True)
class Patient:
    """The run that is advised on, as people name it.

    Attributes:
        reference: what was typed for it.
        named: its kind and id, and how much was looked at.
        is_table: it is a score table, of which nobody can type ``pytest``.
        pytest: how to type a session that records its run in the same folder.
        selection: what its own session was to run, as it is typed; "" for all.
        home: the option of ``llmeval`` that names the folder, after a blank; "" for the usual one.
    """

    reference: str
    named: str
    is_table: bool
    pytest: str
    selection: str
    home: str


def advice_lines(pieces: Sequence[Advice], patient: Patient) -> Iterator[str]:
    """Word the advice, the most useful first."""
    yield f"{patient.named}{'' if pieces else ': nothing to advise'}"
    for number, piece in enumerate(pieces, start=1):
        text, typed = _worded(piece, patient)
        yield from (f"{number}. {text}", f"   {typed}")


def advice_entries(pieces: Sequence[Advice], patient: Patient) -> list[dict[str, Any]]:
    """Write the advice as ``--json``; docs/report-format.md tells its keys."""
    words = [_worded(piece, patient) for piece in pieces]
    return [
        {
            "trouble": piece.trouble,
            "function": piece.scores.function,
            "metric": piece.scores.metric,
            "others": [notation.label(one) for one in piece.others],
            "gain": piece.gain,
            "figures": json_report.dumped(piece.figures),
            "text": text,
            "type": typed,
        }
        for piece, (text, typed) in zip(pieces, words, strict=True)
    ]


def _worded(piece: Advice, patient: Patient) -> tuple[str, str]:
    """Return the sentence, and the line to type."""
    scores, words = piece.scores, {"why": "", "or_repeats": "", "case": "", **piece.figures}
    words |= {
        "run": shlex.quote(patient.reference),
        "home": patient.home,
        "pytest": patient.pytest,
        "again": f"{patient.pytest} {patient.selection}".rstrip(),
        "function": shlex.quote(notation.short(scores)),
        "calls": "trials" if patient.is_table else "calls",
    }
    cases, repeats = words.get("cases") or 0, words.get("repeats")
    words["more"] = cases or "over a million"
    if words.get("reason"):
        words["why"] = f", most by {words['reason']}"
    if repeats is not None:
        words["or_repeats"] = f" or {repeats} repeats on both sides"
    if "first" in words:
        words["case"] = notation.case_name(words["first"], scores)
        words["tied"] = f" with {cases - 1} tied to it" if cases > 1 else ""
    text = f"{notation.label(scores)}: {_SENTENCES[piece.trouble].format(**words)}"
    if piece.others:
        others = listed_names([notation.label(one) for one in piece.others], _NAMED)
        text += f" (also, with other figures: {others})"
    typed = _TYPED[piece.trouble]
    many = piece.trouble is Trouble.BLIND and (repeats is None or repeats > _MOST_REPEATS)
    if patient.is_table or many:
        typed = _PLAN if "target" in words else _SHOW
    return text, typed.format(**words | {"case": shlex.quote(words["case"])})
