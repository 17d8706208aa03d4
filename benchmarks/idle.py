"""What does the plugin cost a project that has no evals?

2000 trivial tests as a whole process, with the plugin and without it. The
target is at most 5 % more. Run: ``python benchmarks/idle.py``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from stopwatch import BARE_PYTEST, OUR_PYTEST, interleaved, ratio, table

FILES = 20
TESTS_PER_FILE = 100
ROUNDS = 15
TARGET = 1.05

TEST_FILE = f"""
import pytest

@pytest.mark.parametrize("number", range({TESTS_PER_FILE}))
def test_trivial(number):
    assert number >= 0
"""


def main() -> int:
    """Print the table; 1 if the target was missed."""
    with tempfile.TemporaryDirectory(prefix="llmeval-idle-") as name:
        folder = Path(name)
        for number in range(FILES):
            (folder / f"test_trivial_{number:02}.py").write_text(TEST_FILE, encoding="utf-8")
        usages = interleaved(
            {
                "with the plugin": OUR_PYTEST,
                "without": BARE_PYTEST,
            },
            folder=folder,
            rounds=ROUNDS,
        )
    targets = {"with the plugin": f"wall {TARGET}"}
    print(table(usages, unit=f"{FILES * TESTS_PER_FILE} tests without an eval", targets=targets))
    with_plugin, without = usages.values()
    return 0 if ratio(with_plugin, without) <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
