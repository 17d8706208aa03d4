"""The gate: a run held against a baseline, case by case."""
