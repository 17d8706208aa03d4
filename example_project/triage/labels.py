"""The answers that the application accepts."""

from __future__ import annotations

TOPICS = ("billing", "bug", "account", "shipping", "feature", "other")
URGENCIES = ("low", "normal", "high")
