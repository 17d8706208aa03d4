"""From a name to a recorded run."""
