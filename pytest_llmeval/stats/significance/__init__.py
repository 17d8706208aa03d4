"""The tests: scores of both sides in, a p-value out."""
