"""Files ``samples_TASK_TIME.jsonl`` of lm-evaluation-harness: one document a line and filter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_llmeval.errors import TableError
from pytest_llmeval.runs.readers.result_file import Results

CASE = "doc_id"
# The other fields of a line, for files before 0.4.5, which do not list their metrics.
OTHERS = (
    *("doc", "doc_id", "target", "arguments", "input", "resps", "filtered_resps", "filter"),
    *("metrics", "doc_hash", "prompt_hash", "target_hash"),
)


def read_lm_eval(path: Path, lines: Iterable[tuple[int, Mapping[str, Any]]]) -> Results:
    """Read the lines of a file.

    Args:
        path: of the file.
        lines: number and content of each.

    Raises:
        TableError: a line has no id, or none has a score.
    """
    results = Results()
    for number, line in lines:
        if CASE not in line:
            raise TableError(f"{path}, line {number}: it has no '{CASE}'")
        listed = line.get("metrics")
        names = listed if isinstance(listed, list) else [key for key in line if key not in OTHERS]
        chosen = line.get("filter", "none")
        for name in map(str, names):
            metric = name if chosen == "none" else f"{name},{chosen}"
            results.add(line[CASE], 0, metric, line.get(name))
    results.notes.append(
        f"{path.name}: one score a document, whatever --repeats was, so a case has one trial"
    )
    return results.finished(path)
