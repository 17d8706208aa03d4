from __future__ import annotations

import signal

# pytester forgets the modules that a nested session was the first to import. These are
# slow to import again, and numpy objects to being imported twice.
import hypothesis  # noqa: F401
import numpy as np  # noqa: F401
import pytest
import scipy.stats  # noqa: F401

from tests.project import Project, make_project

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return make_project(pytester)


def pytest_configure() -> None:
    """Let the sessions that tests start be interrupted.

    A job in the background of a shell begins with Ctrl-C ignored, and hands that down.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
