"""Vendors and function models."""
