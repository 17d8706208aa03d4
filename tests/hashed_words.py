"""The package with each message of it replaced by a hash, as a plugin of pytest or by itself.

Whoever imports this module before ``pytest_llmeval`` gets that package without its words. What is
formatted into a message stays where it stood.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

PACKAGE = "pytest_llmeval"
PROSE = re.compile(r"\b[a-z]{2,},? [a-z]{2,}\b|[a-z]{2,}: ")  # two words, or what a colon ends
FIELD = re.compile(r"(\{[^{}]*\})")
# The words of others are looked for here: of git, of providers, of SQLite.
PARSING = ("runs.git", "models.http.http_reply", "cache.disk", "cache.queries")
CODE = re.compile(r"SELECT |INSERT |CREATE |DELETE |UPDATE |PRAGMA |\(\?|\\[bsdw]")


class Hashing(ast.NodeTransformer):
    """Replaces the messages of a module, its docstrings apart; each module in a way of its own.

    So a module that looks for the words of another one finds them no more.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def hashed(self, text: str) -> str:
        """Replace the words of a message; the fields of a template stay."""
        if not PROSE.search(text) or CODE.search(text):
            return text
        parts = enumerate(FIELD.split(text))  # each second one is a field
        return "".join(
            part if at % 2 or not part.strip() else self._hash(part) for at, part in parts
        )

    def _hash(self, text: str) -> str:
        return hashlib.sha256(f"{self._module} {text}".encode()).hexdigest()[:8]

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        is_docstring = isinstance(node.value, ast.Constant)
        return node if is_docstring else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            return ast.copy_location(ast.Constant(self.hashed(node.value)), node)
        return node


class Loader(SourceFileLoader):
    """Compiles a module without its messages, and keeps no bytecode of it."""

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path))
        if not fullname.endswith(PARSING):
            tree = ast.fix_missing_locations(Hashing(fullname).visit(tree))
        return compile(tree, self.path, "exec", dont_inherit=True)


class Finder:
    """Finds the modules of the package alone."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != PACKAGE:
            return None
        spec: Any = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def pytest_configure() -> None:
    assert isinstance(sys.modules[f"{PACKAGE}.settings"].__loader__, Loader), "it has its words"


if PACKAGE not in sys.modules:
    sys.meta_path.insert(0, Finder)
