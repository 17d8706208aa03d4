"""``python -m pytest_llmeval``: the command ``llmeval``."""

from __future__ import annotations

from pytest_llmeval.cli import main

if __name__ == "__main__":
    main(prog_name="llmeval")
