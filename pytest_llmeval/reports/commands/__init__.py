"""The words of the `llmeval` commands."""
