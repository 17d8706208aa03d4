"""What was asked and answered in a case: read from a run and the cache, which stay as they are."""
