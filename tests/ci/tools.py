"""Tools of the environment that check files of CI services."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path


def run_tool(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    tool = Path(sysconfig.get_path("scripts"), name)
    return subprocess.run(
        [tool, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
