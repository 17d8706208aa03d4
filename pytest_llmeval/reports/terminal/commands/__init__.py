"""Lines of the commands that no session prints: list, show and diff of a case, plan, cache."""
