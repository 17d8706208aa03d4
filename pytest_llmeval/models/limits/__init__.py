"""Limits of what is asked: how much, how fast, how long."""
