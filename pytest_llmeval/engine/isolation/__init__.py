"""Process-wide state that each trial finds as if it were alone."""
