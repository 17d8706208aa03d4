"""The version of the package, which parts of it tell others."""

__version__ = "0.1.0"
