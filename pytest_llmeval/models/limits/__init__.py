"""Retries, pace, deadlines and caps of calls."""
