"""How large is the house, and how many calls of ours does one question take?

Counts lines, modules, names and docstrings, then the calls of the package's own functions, in all
threads, for one question through each door. The figures are counts, so they are the same on every
machine. Run: ``make house``.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_llmeval"
LONGEST_FUNCTION = 40  # lines
QUESTION = re.compile(r"(What|Which|Whether|Who|Whose|Where|How|When)\b")

# A pytest plugin of the measured session: loaded before any thread of the engine is started.
COUNTER = dedent(
    """
    import contextlib, sys, threading

    counted = None

    def note(frame, event, argument):
        name = frame.f_code.co_filename
        if counted is not None and event == "call" and PACKAGE in name and "<" not in name:
            counted.append(name)

    @contextlib.contextmanager
    def counting(name, *, trials=1):
        global counted
        counted = []
        try:
            yield
        finally:
            seen, counted = counted, None
            with open("counted.txt", "a") as out:
                print(name, len(seen) // trials, len(set(seen)), sep="\\t", file=out)

    threading.setprofile(note)
    sys.setprofile(note)
    """
)
QUESTIONS = dedent(
    """
    import openai
    from counter import counting
    from pytest_llmeval import llm_eval

    def asked(client, question):
        return client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": question}]
        )

    @llm_eval(repeats=2)
    def test_ask(llm):
        llm.ask("warm")
        with counting("llm.ask, function model"):
            llm.ask("question")

    @llm_eval(repeats=2)
    def test_client(openai_client):
        asked(openai_client, "warm")
        with counting("openai_client"):
            asked(openai_client, "question")

    @llm_eval(repeats=2, intercept=True)
    def test_intercepted():
        client = openai.OpenAI()
        asked(client, "warm, intercepted")
        with counting("intercepted client"):
            asked(client, "question, intercepted")
    """
)
OVERLAPPING = dedent(
    """
    import counter
    import pytest
    from pytest_llmeval import llm_eval

    CASES, REPEATS = 10, 10
    whole = counter.counting("overlapping trial with one ask", trials=(CASES - 2) * REPEATS)

    @llm_eval(repeats=REPEATS)
    @pytest.mark.parametrize("case", range(CASES))
    def test_overlapping(case, llm):
        llm.ask(f"question {case}")

    def pytest_runtest_logreport(report):
        if report.when == "call":
            if "[0]" in report.nodeid:
                whole.__enter__()
            if f"[{CASES - 2}]" in report.nodeid:
                whole.__exit__(None, None, None)
    """
)


def main() -> None:
    """Print one figure a line."""
    for name, figure in (*sizes(), *names(), *calls()):
        print(f"{name:<46} {figure}")


def modules() -> dict[Path, ast.Module]:
    """Return each module of the package, parsed."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}


def sizes() -> Iterator[tuple[str, str]]:
    """Yield the figures of lines, modules and functions."""
    trees = modules()
    code = sum(code_lines(path.read_text(encoding="utf-8"), tree) for path, tree in trees.items())
    yield "lines of code", f"{code}"
    yield "modules", f"{len(trees)}"
    rooms = Counter(path.parent for path in trees if path.name != "__init__.py")
    fullest, most = rooms.most_common(1)[0]
    yield "most modules in one folder", f"{most} ({fullest.relative_to(ROOT)})"
    lengths = sorted(
        node.end_lineno - node.lineno + 1
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    )
    long = sum(length > LONGEST_FUNCTION for length in lengths)
    yield f"functions over {LONGEST_FUNCTION} lines", f"{long} (longest {lengths[-1]})"


def code_lines(text: str, tree: ast.Module) -> int:
    """Count the lines that are neither blank, comment nor docstring."""
    documented: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and ast.get_docstring(node, clean=False):
            first = node.body[0]
            documented.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in documented
        for number, line in enumerate(text.splitlines(), start=1)
    )


def names() -> Iterator[tuple[str, str]]:
    """Yield the figures of names and of docstrings that ask instead of saying."""
    trees = modules()
    files = Counter(path.name for path in trees if path.name != "__init__.py")
    twice = sorted(name for name, times in files.items() if times > 1)
    yield "file names used twice", f"{len(twice)} {' '.join(twice)}"
    public: defaultdict[str, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                public[node.name].add(path)
    homonyms = sorted(name for name, where in public.items() if len(where) > 1)
    yield "public names defined twice", f"{len(homonyms)} {' '.join(homonyms)}"
    asking = sum(bool(QUESTION.match(ast.get_docstring(tree) or "")) for tree in trees.values())
    yield "module docstrings that begin with a question", f"{asking}"


def calls() -> Iterator[tuple[str, str]]:
    """Yield how many calls of ours, in how many modules, one paid question takes."""
    with tempfile.TemporaryDirectory(prefix="llmeval-house-") as name:
        folder = Path(name)
        (folder / "model.py").write_text("def answer(messages):\n    return 'ok'\n")
        (folder / "counter.py").write_text(f"PACKAGE = {str(PACKAGE)!r}\n{COUNTER}")
        (folder / "test_questions.py").write_text(QUESTIONS)
        (folder / "test_overlapping.py").write_text("from overlapping import test_overlapping\n")
        (folder / "overlapping.py").write_text(OVERLAPPING)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.openai_server"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            session(folder, url, "test_questions.py", "--llm-concurrency=1")
            session(folder, url, "test_overlapping.py", "-p", "overlapping")
        finally:
            server.terminate()
            server.wait()
        counted = (folder / "counted.txt").read_text().splitlines()
    last = dict(line.split("\t", 1) for line in counted)  # the first trial imports, say
    for question, figures in last.items():
        times, rooms = figures.split("\t")
        yield f"calls of ours: {question}", f"{times} (in {rooms} modules)"


def session(folder: Path, url: str, *arguments: str) -> None:
    """Run one counted session; end if it fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "counter"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "OPENAI_API_KEY": "house",
        "OPENAI_BASE_URL": url,
    }
    done = subprocess.run(
        [*command, "--llm-model=function/model:answer", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


if __name__ == "__main__":
    main()
