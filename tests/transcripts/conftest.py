from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.transcripts.recorded import Recorder


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    """Writes runs and replies into a folder of its own."""
    recorder = Recorder(tmp_path / ".llmeval")
    yield recorder
    recorder.store.close()
