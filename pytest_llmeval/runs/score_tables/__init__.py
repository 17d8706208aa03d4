"""Score tables of other harnesses, read as runs."""
