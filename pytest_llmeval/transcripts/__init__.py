"""Requests and replies of a case: read from a run and the cache, which stay as they are."""
