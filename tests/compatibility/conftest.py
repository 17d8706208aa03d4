from __future__ import annotations

import sys

import pytest

from tests.conftest import NO_PLUGINS

_PYTHON = sys.executable


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Begin each session afresh: plugins are the subject, and the moment when they are loaded."""
    monkeypatch.setattr(sys, "executable", _PYTHON)
    monkeypatch.delenv("WARM_PYTHON")
    monkeypatch.setenv("PYTEST_ADDOPTS", NO_PLUGINS)
    return pytester
