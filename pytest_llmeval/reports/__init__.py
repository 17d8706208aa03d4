"""Numbers into words: the terminal section and the report files."""
