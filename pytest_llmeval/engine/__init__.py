"""Trials: clones of a case, run through pytest's own protocol and folded into one report."""
