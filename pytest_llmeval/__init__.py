"""Repeat LLM tests, replay what did not change, and gate on what did."""

__version__ = "0.1.0"
