"""One line about how far a session is, while it runs."""

from __future__ import annotations

from pytest_llmeval.records import Progress

_MINUTE = 60
_HOUR = 3600


def progress_line(progress: Progress, *, width: int) -> str:
    """Word the progress, with as many parts as fit.

    Args:
        progress: how far the session is.
        width: columns that may be filled.
    """
    parts = [f"llm evals: {progress.done}/{progress.total} trials"]
    if progress.in_flight is not None:
        parts.append(f"{progress.in_flight} in flight")
    parts.append(f"{progress.made} calls made, {progress.replayed} replayed")
    if progress.seconds_left is not None:
        # What most want to know comes where it is cut off last.
        parts.insert(1, f"{_duration(progress.seconds_left)} left")
    while len(parts) > 1 and len(" · ".join(parts)) > width:
        parts.pop()
    return " · ".join(parts)[: max(0, width)]


def _duration(seconds: float) -> str:
    """Write ``40 s``, ``3 min``, ``1 h 10 min``: an estimate, so no more than that."""
    if seconds < _MINUTE:
        return f"about {max(1, round(seconds))} s"
    minutes = round(seconds / _MINUTE)
    if seconds < _HOUR:
        return f"about {minutes} min"
    return f"about {minutes // 60} h {minutes % 60} min"
