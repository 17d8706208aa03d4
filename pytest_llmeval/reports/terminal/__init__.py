"""Lines for the terminal alone: the section of a session, its tables, what commands print."""
