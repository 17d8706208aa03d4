"""Trial threads: one of them runs Python at a time."""
