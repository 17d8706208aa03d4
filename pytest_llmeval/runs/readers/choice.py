"""Choice of the reader for a result file of another harness."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from pytest_llmeval.errors import TableError
from pytest_llmeval.runs.readers import inspect_log, lm_eval, promptfoo
from pytest_llmeval.runs.readers.result_file import Results, load_json, mapping, mappings
from pytest_llmeval.runs.table_rows import JSONL, has_ending, read_objects

ENDINGS = (".eval", ".json")


def results_of(path: Path, *, metric: str | None) -> Results | None:
    """Read a log of Inspect, samples of lm-evaluation-harness, or what promptfoo wrote.

    Args:
        path: of the file.
        metric: the one that was asked for; None for all that tell right from wrong.

    Returns:
        Its trials; None for a file that may be a score table.

    Raises:
        TableError: it is none of these, is damaged or too large, or has no score.
    """
    if has_ending(path, JSONL):
        lines = read_objects(path)
        first = next(lines, None)
        if first is None or not {lm_eval.CASE, "resps"} <= first[1].keys():
            return None
        return lm_eval.read_lm_eval(path, chain([first], lines))
    if not has_ending(path, ENDINGS):
        return None
    if path.suffix.lower() == ".eval":
        return inspect_log.read_packed(path)
    content = mapping(load_json(path))
    if "eval" in content and "samples" in content:
        return inspect_log.read_inspect_log(path, content, mappings(content["samples"]))
    if "results" in content:
        return promptfoo.read_promptfoo(path, content, metric=metric)
    raise TableError(
        f"{path}: neither a log of Inspect with samples nor what promptfoo writes with --output; "
        "a score table ends in .csv or .jsonl"
    )
