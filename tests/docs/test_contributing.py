"""CONTRIBUTING.md says what is true: commands, rooms, files, names, limits."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from functools import cache
from shutil import which

import pytest
import yaml

from pytest_llmeval.vendors import SERVICES
from tests.docs.pages import ROOT, chapter, in_backticks, text_of

PACKAGE = ROOT / "pytest_llmeval"
CONTRIBUTING = "CONTRIBUTING.md"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
CONFIGURED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TEXTS = {
    path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
}
LINES = {path: text.splitlines() for path, text in TEXTS.items()}
NAMED = set(in_backticks(CONTRIBUTING))


@cache
def trees() -> dict[str, ast.Module]:
    return {path: ast.parse(text) for path, text in TEXTS.items()}


@cache
def functions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return [
        (path, node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_the_table_of_floors_is_what_lint_imports_reads() -> None:
    (layers,) = (
        contract["layers"]
        for contract in CONFIGURED["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers" and "containers" not in contract
    )
    rows = re.findall(r"^\| \w+ \| (`.*?`) \|", chapter(CONTRIBUTING, "The house"), re.MULTILINE)
    names = r"pytest_llmeval\.(\w+)"

    assert [set(re.findall(r"`(\w+)(?:/|\.py)`", row)) for row in rows] == [
        set(re.findall(names, layer)) for layer in layers
    ]


def test_each_file_and_folder_that_is_named_is_there() -> None:
    named = {name.replace("NAME", "openai") for name in NAMED if re.fullmatch(r"\S+[/.]\w*", name)}
    named -= {"sys.executable", "Scripted.until"}
    workflows = ROOT / ".github" / "workflows"

    assert len(named) > 50
    assert [
        name
        for name in sorted(named)
        if not any((folder / name).exists() for folder in (ROOT, PACKAGE, workflows))
    ] == []


def test_each_name_of_the_code_is_there() -> None:
    texts = [MAKEFILE, *TEXTS.values()]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    code = "\n".join(texts)
    named = {name.partition(".")[0] for name in NAMED if re.fullmatch(r"[A-Z]\w+(\.[a-z]+)?", name)}
    named -= {"CHANGELOG"}

    assert len(named) >= 10
    assert [
        name
        for name in sorted(named)
        if not re.search(rf"^(?:class {name}\b|{name}\b.*=)", code, re.MULTILINE)
    ] == []
    tests = [name for name in NAMED if re.fullmatch(r"test_\w+", name)]
    assert [name for name in tests if f"def {name}(" not in code] == []


@pytest.mark.skipif(which("make") is None, reason="needs make")
def test_every_target_exists_and_runs_files_that_exist() -> None:
    targets = re.findall(r"\bmake ([a-z][a-z-]+)(?=`| +#)", text_of(CONTRIBUTING))
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", *targets],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    named = set(re.findall(r"(?<= )(?:tests|benchmarks|demo|docs)/[\w/.]*\w", done.stdout))

    assert done.returncode == 0, done.stderr
    assert len(named) > 50
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_each_target_is_named() -> None:
    named = re.findall(r"^\$ make ([a-z-]+)", text_of(CONTRIBUTING), re.MULTILINE)
    there = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)

    assert sorted(named) == sorted(there[0].split())


def test_pre_commit_runs_what_make_lint_runs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (own,) = (repo["hooks"] for repo in hooks["repos"] if repo["repo"] == "local")
    recipe = MAKEFILE.partition("\nlint: ")[2].partition("\n\n")[0]
    linted = re.findall(r"\$\(BIN\)/([\w-]+(?: check| format)?)", recipe)

    assert [" ".join(hook["entry"].split()[:2]).partition(" -")[0] for hook in own] == linted


def test_the_twelve_files_have_about_as_many_lines_as_is_said() -> None:
    section = chapter(CONTRIBUTING, "Read these twelve files in this order")
    files = re.findall(r"^\d+\. `pytest_llmeval/(.+?)`", section, re.MULTILINE)
    said = re.search(r"about (\d),(\d)00 lines, two thirds", section)
    assert said is not None
    lines = [len(LINES[path]) for path in files]

    assert len(files) == 12
    assert abs(sum(lines) - 1000 * int(said[1]) - 100 * int(said[2])) < 200
    assert 0.6 < sum(_lines_of_code(path, trees()[path]) for path in files) / sum(lines) < 0.72


def _lines_of_code(path: str, whole: ast.AST) -> int:
    """Count the lines of a module or function that are neither blank, comment nor docstring."""
    lines = LINES[path]
    told: set[int] = set()
    for node in ast.walk(whole):
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            told.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    first = getattr(whole, "lineno", 1)
    last = getattr(whole, "end_lineno", len(lines))
    return sum(
        number not in told and not re.match(r"\s*(#|$)", lines[number - 1])
        for number in range(first, last + 1)
    )


def test_a_function_has_forty_lines_at_most_and_a_module_about_three_hundred() -> None:
    long = [(path, node.name) for path, node in functions() if _lines_of_code(path, node) > 40]
    large = {path for path, tree in trees().items() if _lines_of_code(path, tree) > 350}

    assert long == []
    assert large == {"settings.py"}


def test_no_public_name_stands_in_two_modules_of_a_room() -> None:
    defined = Counter(
        (path.partition("/")[0], node.name)
        for path, tree in trees().items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
    )

    assert [name for name, times in defined.items() if times > 1] == []


ALONE = {
    "scipy": "stats/",
    "numpy": "stats/",
    "diskcache": "cache/",
    "_pytest": "engine/compat.py",
    **dict.fromkeys(("openai", "anthropic", "ollama", "httpx", "httpx2", "aiohttp"), "models/"),
}


def test_a_package_is_imported_where_the_table_says() -> None:
    # a vendor names what makes an object of its SDK, by module
    imports = re.compile(
        r'^ *(?:(?:import|from) |rebuild="|return import_module\(")(\w+)', re.MULTILINE
    )
    imported = {(name, path) for path, text in TEXTS.items() for name in imports.findall(text)}
    elsewhere = ("cli/", "reports/", "gate/", "models/", "runs/", "stats/", "cache/", "session.py")

    assert [
        (name, path)
        for name, path in imported
        if not path.startswith(ALONE.get(name, ""))
        or (name == "pytest" and path.startswith(elsewhere))
    ] == []
    assert set(ALONE) <= {name for name, _ in imported}


def test_git_is_run_and_files_are_opened_where_the_table_says() -> None:
    runs_git = re.compile(r'(?:which\(|\[)\s*"git"')
    opens = re.compile(r"\bopen\(|\.(?:read|write)_(?:text|bytes)\(")

    assert [path for path, text in TEXTS.items() if runs_git.search(text)] == ["runs/git.py"]
    assert not any(opens.search(TEXTS[door]) for door in ("plugin.py", "fixtures.py"))


CHANGES = {"append", "add", "update", "setdefault", "pop", "clear", "remove", "extend", "insert"}
# the environment of the process, whose items a turn swaps; it is not ours
NOT_OURS = ("engine/isolation/environment.py", "_ENVIRON")


def test_a_module_has_no_state_but_the_locks_that_a_fork_frees() -> None:
    changed = {
        (path, inner.value.id)
        for path, function in functions()
        for inner in ast.walk(function)
        if (isinstance(inner, ast.Attribute) and inner.attr in CHANGES)
        or (isinstance(inner, ast.Subscript) and not isinstance(inner.ctx, ast.Load))
        if isinstance(inner.value, ast.Name) and inner.value.id in _constants(path)
    }

    assert changed - {NOT_OURS} == {("cache/locks.py", "_freed_in_children")}
    assert not any(re.search(r"^ *global ", text, re.MULTILINE) for text in TEXTS.values())


@cache
def _constants(path: str) -> set[str]:
    return {
        target.id
        for node in trees()[path].body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def test_each_room_has_a_folder_of_tests() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert {room for room in rooms if not (ROOT / "tests" / room).is_dir()} == set()


def test_the_changelog_has_the_headings_that_are_named() -> None:
    unreleased = text_of("CHANGELOG.md").partition("\n## Unreleased\n")[2].partition("\n## ")[0]

    assert set(re.findall(r"^### (.*)$", unreleased, re.MULTILINE)) <= {"Added", "Changed", "Fixed"}


def test_each_service_that_speaks_a_dialect_is_told() -> None:
    page = text_of("docs/clients.md")

    assert [line.name for line in SERVICES if line.name not in page] == []
