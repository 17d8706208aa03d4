"""What becomes of each form of a comparison, and how much each face of a report says of it."""

from __future__ import annotations

import json
import sys
from typing import Any

from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.markdown import render
from pytest_llmeval.reports.report_files import failures
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.terminal.section import section
from tests.reports.judgements import FORMS


def outcomes_of_forms() -> dict[str, Any]:
    said, forms = [], {}
    for name, make in FORMS.items():
        judgement = make()
        report = make_report(judgement)
        compared = judgement.comparison
        faces = [
            [line.text for line in section(report, judgement, Page(10_000))],
            render(report).splitlines(),
        ]
        said += faces
        forms[name] = (
            judgement.fails,
            report.side.verdict,
            [(one.row, one.verdict, one.fails) for one in (compared.functions if compared else ())],
            [len(failure.lines) for failure in failures(report, judgement)],
            [len(face) for face in faces],
        )
    return {"said": said, "forms": forms}


def main() -> None:
    json.dump(outcomes_of_forms(), sys.stdout)
