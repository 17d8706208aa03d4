"""What a session of the suite reported, without what may differ from one to the next."""

from __future__ import annotations

import json
import os
import re
import shutil
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forked import ForkedSession
from tests.warm_python import warm_python

SUITE = Path(__file__).with_name("suite")

# Times, where and how it ran, and what rides on whichever report comes first.
_OF_ITS_OWN = (
    "duration", "start", "stop", "seconds", "draw", "opening", "total", "notes", "serial",
    "attempts", "id", "worker_id", "testrun_uid", "item_index",
)  # fmt: skip


@dataclass(frozen=True)
class Outcomes:
    """One session.

    Attributes:
        reports: by node id and phase, everything that a report carries.
        junit: by class and name.
        warnings: with how often each was given.
        met: prompts for which two trials waited at once, and the others.
    """

    status: int
    output: str
    reports: dict[tuple[str, str], Any]
    junit: dict[str, list[str]]
    warnings: Counter[tuple[str, ...]]
    met: dict[str, set[str]]


def run_suite(folder: Path, *arguments: str, overlaps: bool) -> Outcomes:
    """Run a copy of the suite in a session of its own.

    Args:
        folder: for the copy; must not exist.
        arguments: of the session.
        overlaps: calls wait until another trial waits too.
    """
    shutil.copytree(SUITE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    session = ForkedSession(
        folder,
        "--junitxml=junit.xml",
        *arguments,
        output=folder.with_suffix(".txt"),
        environment={
            **os.environ,
            "SUITE_OVERLAPS": "1" if overlaps else "",
            "WARM_PYTHON": warm_python(),
        },
    )
    output, _ = session.communicate(timeout=300)
    recorded = json.loads((folder / "recorded.json").read_text())
    waits = (line.partition(" ") for line in _lines(folder / "waits.log"))
    met: dict[str, set[str]] = {"met": set(), "missed": set()}
    for word, _, prompt in waits:
        met[word].add(prompt)
    reports = _normal(recorded["reports"], folder)
    return Outcomes(
        status=session.wait(),
        output=output,
        reports={(report["nodeid"], report["when"]): report for report in reports},
        junit=_junit(folder),
        warnings=Counter(tuple(warning) for warning in recorded["warnings"]),
        met=met,
    )


def _normal(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        if isinstance(result := value.get("llm_eval"), str):  # as it goes to another process
            value = {**value, "llm_eval": json.loads(result)}
        return {k: _normal(v, folder) for k, v in value.items() if k not in _OF_ITS_OWN}
    if isinstance(value, list):
        return [_normal(entry, folder) for entry in value]
    return _normal_text(value, folder) if isinstance(value, str) else value


def _normal_text(text: str, folder: Path) -> str:
    """Take away the folder, and where things lay in memory."""
    return re.sub(r"0x[0-9a-f]+", "0x", text.replace(str(folder), "FOLDER"))


def _junit(folder: Path) -> dict[str, list[str]]:
    """Write each test case of the JUnit file down, by class and name."""
    written: dict[str, list[str]] = {}
    for case in ET.parse(folder / "junit.xml").iter("testcase"):  # noqa: S314 - our own
        case.attrib.pop("time")
        text = _normal_text(ET.tostring(case, encoding="unicode"), folder)
        written.setdefault(f"{case.get('classname')}.{case.get('name')}", []).append(text)
    return written


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
