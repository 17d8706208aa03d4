from __future__ import annotations

collect_ignore = ["suite"]  # data: run by sessions of its own
