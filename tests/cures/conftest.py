from __future__ import annotations

import pytest

from tests.cures.bench import Bench
from tests.project import EVALS, make_project


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Bench:
    project = make_project(pytester)
    project.write(test_evals=EVALS.replace("range(20)", "range(6)"))
    project.commit()
    return Bench(project)
