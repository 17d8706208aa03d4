"""Logs of Inspect: ``.eval``, a zip of JSON, and ``.json``. An epoch is a repeat."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_llmeval.cache.key import value_at
from pytest_llmeval.errors import TableError
from pytest_llmeval.runs.readers.result_file import LARGEST, Results, mapping, mappings, parse

SUMMARIES = "summaries.json"  # of all samples, without their messages
JOURNAL = "_journal/summaries/"  # the same, of a log that was not finished
HEADERS = ("header.json", "_journal/start.json")


def read_packed(path: Path) -> Results:
    """Read a log that is a zip file.

    Raises:
        TableError: it is damaged, too large, packed in a way that cannot be read here, or
            has no score.
    """
    zipfile = _zipfile()
    try:
        with zipfile.ZipFile(path) as packed:
            names = packed.namelist()
            header = next((name for name in HEADERS if name in names), None)
            parts = [name for name in names if name == SUMMARIES]
            parts = parts or [name for name in names if name.startswith(JOURNAL)]
            wanted = [*parts, header] if header else parts
            if sum(packed.getinfo(name).file_size for name in wanted) > LARGEST:
                raise TableError(f"{path}: its samples inflate to more than {LARGEST >> 20} MiB")
            # a member is read up to the size that it declares, never beyond
            content = {name: parse(path, packed.read(name)) for name in wanted}
    except NotImplementedError:
        raise TableError(
            f"{path} is packed with zstd: pip install backports.zstd, "
            "or inspect log convert --to json"
        ) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as exc:
        raise TableError(f"{path}: damaged, or no log of Inspect: {exc}") from None
    except OSError as exc:
        raise TableError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    samples = [sample for name in parts for sample in mappings(content[name])]
    return read_inspect_log(path, mapping(content.get(header or "")), samples)


def _zipfile() -> Any:
    """Return what reads zip files packed with zstd too, where it is installed."""
    try:
        return import_module("backports.zstd.zipfile")
    except ImportError:  # Python 3.14 can read them itself
        return import_module("zipfile")


def read_inspect_log(
    path: Path, header: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]
) -> Results:
    """Read the samples of a log, and what its header tells of them.

    Raises:
        TableError: a sample has no id or epoch, or none has a score.
    """
    results = Results()
    scores = [_scores(sample) for sample in samples]
    metrics = dict.fromkeys(name for each in scores for name in each)
    for sample, of_sample in zip(samples, scores, strict=True):
        epoch = sample.get("epoch", 1)
        if type(epoch) is not int or epoch < 1 or "id" not in sample:
            raise TableError(f"{path}: a sample has no 'id', or no 'epoch' from 1")
        failed = sample.get("error") is not None
        for metric in metrics:
            results.add(sample["id"], epoch - 1, metric, None if failed else of_sample.get(metric))
    if header.get("status") not in (None, "success"):
        results.notes.append(f"{path.name}: its status is '{header['status']}'")
    ids = value_at(header, "eval", "dataset", "sample_ids")
    epochs = value_at(header, "eval", "config", "epochs") or 1
    planned = len(ids) * epochs if isinstance(ids, list) and isinstance(epochs, int) else 0
    if planned > len(samples):
        results.notes.append(f"{path.name}: {len(samples)} of {planned} samples are in it")
    return results.finished(path)


def _scores(sample: Mapping[str, Any]) -> dict[str, object]:
    """Return the value of each scorer; a scorer with several values has a metric for each."""
    values: dict[str, object] = {}
    for scorer, score in mapping(sample.get("scores")).items():
        value = value_at(score, "value")
        if isinstance(value, dict):
            values |= {f"{scorer}.{key}": each for key, each in value.items()}
        else:
            values[scorer] = value
    return values
