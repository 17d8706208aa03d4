"""Read result files of other harnesses as rows of a score table."""
