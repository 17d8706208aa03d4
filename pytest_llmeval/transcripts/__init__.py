"""Requests and replies of a case, read from a run and the cache without changing either."""
