"""Vendors and function models, and the registry that names them."""
