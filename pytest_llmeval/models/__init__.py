"""What a test can ask: providers behind one cached call."""
