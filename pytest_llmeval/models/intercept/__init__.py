"""Clients that the application builds itself."""
