"""Make the run of a baseline now: its commit is tested in a worktree, by a pytest of its own."""
