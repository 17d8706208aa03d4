"""Share runs: among the shards of a suite, and among the machines of a team."""
