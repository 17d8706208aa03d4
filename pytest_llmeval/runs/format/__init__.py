"""The run file."""
