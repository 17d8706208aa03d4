"""Runs on disk, and the way from a git ref to a baseline."""
