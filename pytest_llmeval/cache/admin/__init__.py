"""The work of `llmeval cache`."""
