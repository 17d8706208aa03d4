from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]


def test_the_server_runs_as_a_process_and_names_its_url() -> None:
    command = [sys.executable, "-m", "tests.servers.openai_server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        try:
            with urlopen(f"{url}/models") as response:  # noqa: S310 - loopback, our own process
                status = response.status
        finally:
            process.terminate()

    assert status == 200
