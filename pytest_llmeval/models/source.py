"""Digests of Python code without its comments, layout and docstrings.

They stand for a function model in every key, and for test functions and fixtures in a run file,
which never holds the text of any.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
# Decorators that say how a test is run, by the last parts of their names.
_HOW_TO_RUN = ("llm_eval", "fixture")


def drop_docstrings(tree: ast.Module) -> None:
    """Remove the docstrings of a module, and of all that it defines."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | Definition)
            and ast.get_docstring(node, clean=False) is not None
        ):
            del node.body[0]


def innermost(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function in a partial, or in a partial of one."""
    while isinstance(function, partial):
        function = function.func
    return function


class SourceFiles:
    """Source files of tests, each read once."""

    def __init__(self) -> None:
        self._read: dict[Path, _SourceFile | None] = {}

    def digest(self, function: Callable[..., object], *, file: Path, name: str) -> str | None:
        """Digest a test function.

        A scorer often stands beside its test. So the functions and classes of its own file count
        too that the code names, and those that these name. Marks do not count, and neither does
        its own name: parameters have a digest of their own, and a test may be renamed.

        Args:
            function: as pytest calls it.
            file: in which the test was collected.
            name: of the test there, ``TestTone.test_polite`` for a method.

        Returns:
            A sha256 in hex, the same for all versions of Python; None where there is no source.
        """
        found = self._file(file)
        definition = None if found is None else found.named(name)
        if found is None or definition is None:  # made by a decorator or by a factory
            return self.code_digest(function, constants=False)
        return _sha256(found.dumps(definition, constants=False))

    def code_digest(self, function: Callable[..., object], *, constants: bool = True) -> str | None:
        """Digest a function, such as a fixture, by where its code stands.

        Args:
            function: as pytest calls it.
            constants: of its file count not only the functions and classes that it names, but
                the constants too: the rubric of a judge is one.

        Returns:
            As ``digest``.
        """
        code: Any = getattr(inspect.unwrap(innermost(function)), "__code__", None)
        found = None if code is None else self._file(Path(code.co_filename))
        definition = None if found is None else found.at_line.get(code.co_firstlineno)
        if found is None or definition is None:
            return None
        return _sha256(found.dumps(definition, constants=constants))

    def _file(self, path: Path) -> _SourceFile | None:
        if path not in self._read:
            try:
                self._read[path] = _SourceFile(ast.parse(path.read_bytes()))
            except (OSError, SyntaxError, ValueError):
                self._read[path] = None
        return self._read[path]


class _SourceFile:
    """The definitions of one file."""

    def __init__(self, tree: ast.Module) -> None:
        functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
        self.at_line: dict[int, list[Definition]] = {
            min([one.lineno, *(above.lineno for above in one.decorator_list)]): [one]
            for one in functions
        }
        drop_docstrings(tree)
        for node in ast.walk(tree):
            if isinstance(node, Definition):
                node.decorator_list[:] = [one for one in node.decorator_list if not _is_mark(one)]
            for name, value in list(ast.iter_fields(node)):
                if value == [] or isinstance(value, ast.expr_context):
                    delattr(node, name)  # some versions of Python leave them out of a dump
        self._top: dict[str, ast.stmt] = {**_definitions(tree)}
        self._constants = dict(_constants(tree))

    def named(self, name: str) -> list[Definition] | None:
        """Find a function by its name and the names of the classes around it, outermost first."""
        found: list[Any] = []
        inside: dict[str, Any] = self._top
        for part in name.split("."):
            if part not in inside:
                return None
            found.append(inside[part])
            inside = _definitions(inside[part])
        return found if isinstance(found[-1], Function) else None

    def dumps(self, test: list[Definition], *, constants: bool) -> Iterator[str]:
        """Write a function without its name and marks, then what it names in this file."""
        top = {**self._constants, **self._top} if constants else self._top
        function = test[-1]
        assert isinstance(function, Function)  # noqa: S101 - both searches find no other
        decorators, body = (getattr(function, name, ()) for name in ("decorator_list", "body"))
        parts = [function.args, *decorators, *body]
        yield from map(ast.dump, parts)
        methods = _definitions(test[-2]) if len(test) > 1 else {}
        used: dict[str, ast.stmt] = {}
        todo: list[ast.AST] = [*parts]
        while todo:
            for name, definition in _named_in(todo.pop(), top, methods):
                if definition is not function and name not in used:
                    used[name] = definition
                    todo.append(definition)
        for name in sorted(used):
            yield f"{name} {ast.dump(used[name])}"


def _named_in(
    code: ast.AST, top: Mapping[str, ast.stmt], methods: Mapping[str, Definition]
) -> Iterator[tuple[str, ast.stmt]]:
    """List what code names of the top of its file: also fixtures, by its arguments."""
    for node in ast.walk(code):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) if name in top:
                yield name, top[name]
            case ast.Attribute(value=ast.Name(id="self" | "cls" as owner), attr=name):
                if name in methods:
                    yield f"{owner}.{name}", methods[name]


def _sha256(dumps: Iterator[str]) -> str:
    return hashlib.sha256("\n".join(dumps).encode()).hexdigest()


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """List the names that statements at the top of a file set."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for node in (node for target in targets for node in ast.walk(target)):
                if isinstance(node, ast.Name):
                    yield node.id, statement


def _definitions(node: Any) -> dict[str, Definition]:
    body = getattr(node, "body", ())
    return {one.name: one for one in body if isinstance(one, Definition)}


def _is_mark(decorator: ast.expr) -> bool:
    """Whether a decorator changes nothing of what a function does."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    parts = ast.unparse(node).split(".")
    return "mark" in parts[:-1] or parts[-1] in _HOW_TO_RUN
