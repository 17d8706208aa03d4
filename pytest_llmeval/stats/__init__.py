"""Statistics of the gate: pure functions over arrays, nothing of ours imported."""
