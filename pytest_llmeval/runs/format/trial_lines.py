"""The lines of a run file that follow the first: one a trial, with its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from pytest_llmeval.records import Call, Failure, Outcome, Slot, Trial
from pytest_llmeval.runs.format.json_lines import (
    Line,
    Malformed,
    count,
    flag,
    json_object,
    like,
    many,
    maybe,
    need,
    number,
    one_of,
    parameter,
    sparse,
    table,
    text,
)

# int() alone would also read "-1", " 1", "1_0" and the digits of other scripts.
_slot_text = like(r"(?:shared|[0-9]{1,9})/[0-9]{1,9}", "a slot such as 3/0")


def trial_line(trial: Trial, *, function: str) -> Line:
    """Write a trial; ``function`` is that of its case, so that a line can be read alone."""
    line: dict[str, object] = {"case": trial.case, "function": function, "trial": trial.index}
    line |= sparse(trial)
    del line["index"]
    if trial.calls:
        line["calls"] = [sparse(call) | {"slot": str(call.slot)} for call in trial.calls]
    return line


def read_trial(line: Line, *, functions: Mapping[str, str]) -> Trial:
    """Read the line of a trial.

    Args:
        line: the line.
        functions: function of each case that the header lists, by case id.

    Raises:
        Malformed: it is no trial of these cases.
    """
    case = need(line, "case", text)
    if need(line, "function", text) != functions.get(case):
        raise Malformed("'case' and 'function' are not in the list of the first line")
    return Trial(
        case=case,
        index=need(line, "trial", count),
        outcome=need(line, "outcome", one_of(tuple(Outcome))),
        scores=maybe(line, "scores", table(number), {}),
        calls=maybe(line, "calls", many(_read_call), ()),
        message=maybe(line, "message", text, ""),
        seconds=maybe(line, "seconds", number, 0.0),
    )


def _read_call(value: object) -> Call:
    line = json_object(value)
    return Call(
        key=need(line, "key", text),
        slot=Slot.parse(need(line, "slot", _slot_text)),
        draw=maybe(line, "draw", text, None),
        reply_sha256=maybe(line, "reply_sha256", text, None),
        replayed=maybe(line, "replayed", flag, False),
        model=maybe(line, "model", text, None),
        served=maybe(line, "served", text, None),
        fingerprint=maybe(line, "fingerprint", text, None),
        host=maybe(line, "host", text, None),
        parameters=maybe(line, "parameters", table(parameter), {}),
        input_tokens=maybe(line, "input_tokens", count, None),
        output_tokens=maybe(line, "output_tokens", count, None),
        seconds=maybe(line, "seconds", number, None),
        failure=maybe(line, "failure", one_of(get_args(Failure)), None),
        reason=maybe(line, "reason", text, None),
    )
