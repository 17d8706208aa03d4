"""The section of a session that is held against nothing: means, intervals, worst cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pytest_llmeval.gate.results import FunctionDescription
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import MEASURED_METRICS
from pytest_llmeval.reports import words
from pytest_llmeval.reports.lines import BOLD, YELLOW, Line, aligned

_LISTED_CASES = 3


def ungated_lines(judgement: Judgement) -> Iterator[Line]:
    """Word the descriptions."""
    level = 1 - 2 * judgement.settings.gate.alpha
    heading = ["test function", "cases", "trials", "mean", f"{level:.0%} CI", "next run", ""]
    texts = aligned([heading, *map(_description_row, judgement.descriptions)])
    yield Line()
    yield Line(texts[0], BOLD)
    yield from map(Line, texts[1:])
    yield from _legend(judgement, level=level)
    for described in judgement.descriptions:
        for case in described.worst[:_LISTED_CASES]:
            headline = judgement.headlines.get(case.case, "")
            name = words.short(case.case)
            scores = words.hits(case.scores, metric=described.metric)
            ends = _ends(case.interval, described.metric)
            yield Line(f"worst  {name}  {scores} {ends}  {headline}".rstrip())
        if described.trials.errored:
            yield from map(Line, words.first_reason(judgement, described.function))
    yield Line(f"not gated: {judgement.not_gated or 'no --llm-baseline'}", YELLOW)


def _legend(judgement: Judgement, *, level: float) -> Iterator[Line]:
    """Say what the two intervals are about, and where the second is not to be trusted."""
    if any(described.prediction for described in judgement.descriptions):
        yield Line(
            f"{level:.0%} CI: the mean of cases like these · next run: the mean of these very "
            "cases, were nothing changed"
        )
    for described in judgement.descriptions:
        if described.drifts:
            yield Line(
                f"{words.short(described.function)}: its repeats differ by more than chance "
                "explains: did the provider change meanwhile?",
                YELLOW,
            )


def _ends(interval: tuple[float, float] | None, metric: str) -> str:
    if interval is None:
        return ""
    if metric in MEASURED_METRICS:
        return "[{:.4g}, {:.4g}]".format(*interval)
    return "[{:.3f}, {:.3f}]".format(*interval)


def _description_row(described: FunctionDescription) -> list[str]:
    name = described.function.rpartition("::")[2]
    counts = described.trials
    are_all = described.scored_cases == described.cases  # the mean is that of the scored ones
    odd = Counter(crashed=counts.crashed, errored=counts.errored, skipped=counts.skipped)
    return [
        name if described.metric == "pass" else f"{name} ({described.metric})",
        str(described.cases) if are_all else f"{described.scored_cases} of {described.cases}",
        str(counts.scored + counts.errored + counts.skipped),
        "" if described.mean is None else words.figure(described.mean, described.metric),
        _ends(described.interval, described.metric),
        _ends(described.prediction, described.metric),
        ", ".join(f"{count} {what}" for what, count in odd.items() if count),
    ]
