"""One trial: a clone of the item, its calls and its outcome."""
