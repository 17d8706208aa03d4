"""Sorts the support mail of a company that makes home weather stations."""
