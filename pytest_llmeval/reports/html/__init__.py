"""The report as one page for a browser: a template, its style and script, and its content."""
