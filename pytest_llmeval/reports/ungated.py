"""The section of a session that is held against nothing: means, intervals, worst cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pytest_llmeval.gate.description import FunctionDescription
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports import words
from pytest_llmeval.reports.errored import first_reason
from pytest_llmeval.reports.lines import BOLD, YELLOW, Line
from pytest_llmeval.reports.table import aligned

_LISTED_CASES = 3


def ungated_lines(judgement: Judgement) -> Iterator[Line]:
    """Word the descriptions."""
    level = 1 - 2 * judgement.settings.gate.alpha
    heading = ["test function", "cases", "trials", "mean", f"{level:.0%} CI", ""]
    texts = aligned([heading, *map(_description_row, judgement.descriptions)])
    yield Line()
    yield Line(texts[0], BOLD)
    yield from map(Line, texts[1:])
    for described in judgement.descriptions:
        for case in described.worst[:_LISTED_CASES]:
            headline = judgement.headlines.get(case.case, "")
            name = words.short(case.case)
            scores = words.hits(case.scores, metric=described.metric)
            yield Line(f"worst  {name}  {scores}  {headline}".rstrip())
        if described.trials.errored:
            yield from map(Line, first_reason(judgement, described.function))
    yield Line(f"not gated: {judgement.not_gated or 'no --llm-baseline'}", YELLOW)


def _description_row(described: FunctionDescription) -> list[str]:
    name = described.function.rpartition("::")[2]
    interval = described.interval
    counts = described.trials
    odd = Counter(crashed=counts.crashed, errored=counts.errored, skipped=counts.skipped)
    return [
        name if described.metric == "pass" else f"{name} ({described.metric})",
        str(described.cases),
        str(counts.scored + counts.errored + counts.skipped),
        "" if described.mean is None else words.number(described.mean),
        "" if interval is None else "[{:.3f}, {:.3f}]".format(*interval),
        ", ".join(f"{count} {what}" for what, count in odd.items() if count),
    ]
