"""Find recorded runs by what a user names."""
