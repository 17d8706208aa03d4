from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_llmeval.runs.own_repository import OwnRepository
from pytest_llmeval.runs.sharing.shared_store import RefStore
from tests.runs.conftest import Project


@pytest.fixture
def origin(project: Project, tmp_path: Path) -> Project:
    """A bare repository that the project has as origin."""
    project.git("clone", "--quiet", "--bare", str(project.top), str(tmp_path / "origin.git"))
    bare = Project(tmp_path / "origin.git")
    bare.git("config", "uploadpack.allowFilter", "true")  # as hosts have it
    project.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    return bare


@pytest.fixture
def clone(origin: Project, tmp_path: Path) -> Callable[[str], Project]:
    """Clone origin, as on another machine."""

    def make(name: str) -> Project:
        origin.git("clone", "--quiet", str(origin.top), str(tmp_path / name))
        return Project(tmp_path / name)

    return make


def refs_of(project: Project, *, remote: str = "origin") -> RefStore:
    """The store in the refs of a project's remote, as a new session sees it."""
    directory = project.top / ".llmeval"
    return RefStore(OwnRepository(directory, top=project.top, fetches=True, remote=remote))
