"""What is gated in the baseline and not here: which of it ``llm_accept_gone`` gives up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

_ENTRY = re.compile(r"(?P<function>.*[^:]):(?P<metric>[^:]+)")


def accepts(entries: Sequence[str], function: str, metric: str = "") -> bool:
    """Tell whether an entry of ``llm_accept_gone`` names a function, or a metric of it.

    Args:
        entries: each names a function, or ``function:metric``; patterns may stand for both.
        function: node id without brackets.
        metric: the metric that is gone; empty where the whole function is.
    """
    return any(_names(entry, function, metric) for entry in entries)


def matching_nothing(entries: Sequence[str], gone: Iterable[tuple[str, str]]) -> list[str]:
    """Return the entries that name nothing of what is gone: functions, each with its metric."""
    known = list(gone)
    return [entry for entry in entries if not any(_names(entry, *one) for one in known)]


def _names(entry: str, function: str, metric: str) -> bool:
    parts = _ENTRY.fullmatch(entry)
    wanted, of_metric = (parts["function"], parts["metric"]) if parts else (entry, "")
    if bool(metric) is not bool(of_metric) or not fnmatchcase(metric, of_metric):
        return False
    path, *rest = function.split("::")
    spellings = [path, *("::".join([path, *rest][at:]) for at in range(len(rest) + 1))]
    return any(fnmatchcase(spelling, wanted) for spelling in spellings)
