"""Power, sample sizes, predictions and looks."""
