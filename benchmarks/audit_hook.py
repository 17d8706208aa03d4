"""How long does Python take to tell our audit hook of what it does?

In one process: what Python audits, before the hook is there, while it watches a session, and
after that, when it is silent but cannot be removed. Run: ``python benchmarks/audit_hook.py``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from socket import create_connection, create_server
from statistics import median
from timeit import repeat

from pytest_llmeval.models.unseen import UnseenConnections

ROUNDS = 9


class Trial:
    """A trial that may connect wherever it wants."""

    function = "test_bench"
    intercepts = True

    def deny(self, refusal: Exception) -> None:
        """Nothing is refused here."""
        raise refusal


def measured(actions: dict[str, tuple[Callable[[], object], int]]) -> dict[str, float]:
    """Return the nanoseconds that each action takes, the median of some rounds."""
    return {
        name: median(repeat(action, number=number, repeat=ROUNDS)) / number * 1e9
        for name, (action, number) in actions.items()
    }


def main() -> int:
    """Print the table."""
    trial, unseen = Trial(), UnseenConnections(lambda *_: False)
    with create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "file")
        file.touch()

        def connect() -> None:
            with create_connection(server.getsockname()):
                server.accept()[0].close()

        actions: dict[str, tuple[Callable[[], object], int]] = {
            "`id(x)`": (lambda: id(trial), 200_000),
            "`sys._getframe()`": (sys._getframe, 200_000),
            "open and close a file": (lambda: file.open().close(), 20_000),
            "a connection to this machine": (connect, 500),
        }
        before = measured(actions)
        with unseen.watching(lambda: trial):
            meanwhile = measured(actions)
        after = measured(actions)
    print("| ns | without the hook | while it watches | silent |")
    print("|---|---:|---:|---:|")
    for name, bare in before.items():
        print(f"| {name} | {bare:,.0f} | {meanwhile[name]:,.0f} | {after[name]:,.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
