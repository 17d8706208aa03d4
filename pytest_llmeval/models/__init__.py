"""Models that a test can ask: many providers behind one cached call."""
