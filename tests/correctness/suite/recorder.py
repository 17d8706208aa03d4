"""Writes down every report of the session, and every warning."""

import json
from pathlib import Path

import pytest


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config), "recorder-of-reports")


class Recorder:
    def __init__(self, config):
        self.config = config
        self.reports = []
        self.warnings = []

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        hook = self.config.hook
        data = hook.pytest_report_to_serializable(config=self.config, report=report)
        status = hook.pytest_report_teststatus(report=report, config=self.config)
        data.pop("node", None)  # the worker, no data
        self.reports.append(data | {"status": [str(part) for part in status]})

    def pytest_warning_recorded(self, warning_message, when, nodeid):
        kind = warning_message.category.__name__
        self.warnings.append([nodeid, when, kind, str(warning_message.message)])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        path = Path(self.config.rootpath, "recorded.json")
        path.write_text(json.dumps({"reports": self.reports, "warnings": self.warnings}))
