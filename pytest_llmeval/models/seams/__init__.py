"""Seams between the HTTP clients of an application and the network, by library."""
