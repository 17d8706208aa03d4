from __future__ import annotations

import os

import pytest

from tests.ci.origin import git_environ


@pytest.fixture(autouse=True)
def _own_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git as it is out of the box, in this process too."""
    own = git_environ()
    for name in set(os.environ) - set(own):
        monkeypatch.delenv(name)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
