"""One item: many trials, one report."""
