"""GitHub's API, for ``llmeval comment``: the run that a job follows, its artifact, one comment."""
