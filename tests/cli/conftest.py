from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.transcripts.recorded import Recorder


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """Writes runs and replies where commands look for them."""
    monkeypatch.chdir(tmp_path)
    recorder = Recorder(tmp_path / ".llmeval")
    yield recorder
    recorder.store.close()
