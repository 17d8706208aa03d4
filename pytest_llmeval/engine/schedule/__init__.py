"""The order of trials, and which cases may overlap."""
