from __future__ import annotations

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
