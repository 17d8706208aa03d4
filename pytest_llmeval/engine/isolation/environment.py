"""Give each trial its own environment variables."""

from __future__ import annotations

from os import environ, putenv, unsetenv
from typing import Any

from pytest_llmeval.engine.isolation.part import Part

# As the interpreter keeps it: pytest sets it for each phase of each trial.
_NO_TEST: dict[Any, None] = {environ.encodekey("PYTEST_CURRENT_TEST"): None}
# The mapping behind os.environ: decoding it would cost 40 us a switch.
_ENVIRON: dict[Any, Any] = getattr(environ, "_data", {})

Raw = dict[Any, Any]  # as the interpreter keeps it


class Environment(Part[Raw]):
    """Swap the environment."""

    def take_off(self) -> Raw:
        """Copy it."""
        return _ENVIRON.copy()

    def put_on(self, saved: Raw) -> None:
        """Make it what it was, touching only what differs."""
        for name, value in saved.items():
            if _ENVIRON.get(name) is not value:  # nearly all are the very same objects
                putenv(name, value)
                _ENVIRON[name] = value
        if len(_ENVIRON) > len(saved):
            for name in _ENVIRON.keys() - saved.keys():
                unsetenv(name)
                del _ENVIRON[name]

    def is_as(self, saved: Raw) -> bool:
        """Whether it is the same but for the current test, which a trial that ended has not."""
        return len(saved) == len(_ENVIRON) and saved | _NO_TEST == _ENVIRON | _NO_TEST

    def follow(self, saved: Raw, before: Raw, after: Raw) -> Raw:
        """Change the same variables."""
        gone = before.keys() - after.keys()
        kept = {name: value for name, value in saved.items() if name not in gone}
        return kept | dict(after.items() - before.items())
