"""Where a private part has moved trials do not overlap, and come out just the same."""

from __future__ import annotations

import ast
import platform
from pathlib import Path
from textwrap import dedent, indent

import pytest

from pytest_llmeval.engine import compat
from pytest_llmeval.engine.compat import NEEDED
from tests.engine.isolation.patching import APP, INI, MODEL
from tests.forked import run_forked

PRELUDE = """
import os
import warnings
import app
import pytest
from pytest_llmeval import llm_eval
"""
SUITE = """
@pytest.mark.parametrize("n", range(3))
@llm_eval(repeats=2, min_score=1)
def test_monkeypatch(llm, n, monkeypatch):
    monkeypatch.setattr(app, "MODE", n)
    print("printed", n)
    llm.ask(f"monkeypatch {n}")
    assert app.MODE == n and n != 1

@llm_eval(repeats=2)
def test_caplog(llm, caplog):
    caplog.set_level(10, logger="app")
    llm.ask("caplog")
    app.LOGGER.debug("seen")
    assert "seen" in caplog.messages

@llm_eval(repeats=2)
def test_warns(llm):
    with pytest.warns(UserWarning):
        llm.ask("warns")
        warnings.warn("careful")

@llm_eval(repeats=2)
def test_plain(llm):
    os.environ["LLMEVAL_PROBE"] = "1"
    llm.ask("plain")
    assert os.environ.pop("LLMEVAL_PROBE") == "1"
"""

# Hides a part from the engine alone: pytest and Python go on using it.
CONFTEST = """
import importlib
import os
import sys
import warnings
import pytest

def getting_but_for(name, plain):
    def get(self, asked):
        asker = sys._getframe(1).f_globals.get("__name__", "")
        if asked == name and asker.startswith("pytest_llmeval"):
            raise AttributeError(asked)
        return plain.__getattribute__(self, asked)

    return get

def hide(thing, name):
    plain = type(thing)
    body = {"__slots__": (), "__getattribute__": getting_but_for(name, plain)}
    object.__setattr__(thing, "__class__", type("Hiding", (plain,), body))

def hide_in_class(kind, name):
    kind.__getattribute__ = getting_but_for(name, object)

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    get = config.pluginmanager.getplugin
    HIDE
"""

ESSENTIAL = {
    "capture": ('hide(get("capturemanager"), "_global_capturing")', "CaptureManager"),
    "drained": ('hide(get("capturemanager")._global_capturing.out, "snap")', "CaptureManager"),
    "environment": ('hide(os.environ, "_data")', "os.environ._data"),
    "warnings": ('hide(warnings, "_showwarnmsg_impl")', "warnings._showwarnmsg_impl"),
}


def run(
    pytester: pytest.Pytester, hide: str, *arguments: str, suite: str = SUITE
) -> pytest.RunResult:
    pytester.makepyfile(slow=MODEL, app=APP, test_it=PRELUDE + suite)
    pytester.makeini(INI)
    pytester.makeconftest(dedent(CONFTEST).replace("HIDE", hide))
    return run_forked(pytester, "-p", "no:cacheprovider", "-v", *arguments)


def outcomes(result: pytest.RunResult) -> list[str]:
    """What became of each case, and what was printed by the one that failed."""
    lines = [line.partition(" [")[0].partition("::")[2].rstrip() for line in result.outlines]
    ended = [line for line in lines if line.partition(" ")[2].startswith(("2/2 passed", "FAILED"))]
    return ended + [line for line in result.outlines if line.startswith("printed")]


OUTCOMES = [
    "test_monkeypatch[0] 2/2 passed",
    "test_monkeypatch[1] FAILED",
    "test_monkeypatch[2] 2/2 passed",
    "test_caplog 2/2 passed",
    "test_warns 2/2 passed",
    "test_plain 2/2 passed",
    "printed 1",
    "printed 1",
]


@pytest.mark.parametrize("arguments", [(), ("--llm-concurrency=1",)], ids=["overlapping", "inline"])
def test_nothing_is_missing_here(pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    result = run(pytester, "pass", *arguments)

    assert outcomes(result) == OUTCOMES
    result.stdout.no_fnmatch_line("note: *serially*")


@pytest.mark.parametrize(("hide", "part"), ESSENTIAL.values(), ids=ESSENTIAL)
def test_without_a_part_all_cases_run_serially_with_the_same_outcomes(
    pytester: pytest.Pytester, hide: str, part: str
) -> None:
    result = run(pytester, hide)

    assert outcomes(result) == OUTCOMES
    result.stdout.fnmatch_lines([f"6 cases ran serially: no {part}* (6)"])
    on = f"pytest {pytest.__version__} on Python {platform.python_version()}"
    result.stdout.fnmatch_lines([f"note: all cases ran serially, *{part}*{on}*pip install*"])
    assert str(result.stdout).count("not as expected") == 1


def test_without_the_inside_of_the_handlers_only_caplog_runs_alone(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, 'hide(get("logging-plugin"), "report_handler")')

    assert outcomes(result) == OUTCOMES
    result.stdout.fnmatch_lines(
        ["1 case ran serially: caplog (1)", "note: cases with caplog ran serially*"]
    )


def test_an_exclusive_fixture_is_refused_to_a_body_that_asks_for_it(
    pytester: pytest.Pytester,
) -> None:
    test = """
    @llm_eval(repeats=2)
    def test_it(llm, request):
        llm.ask("first")
        request.getfixturevalue("caplog")
    """
    hidden = 'hide(get("logging-plugin"), "report_handler")'
    result = run(pytester, hidden, suite=dedent(test))

    result.stdout.fnmatch_lines(["*caplog was asked for by getfixturevalue*"])


def test_what_is_missing_is_not_told_where_nothing_would_overlap(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, ESSENTIAL["environment"][0], "-s")

    result.stdout.fnmatch_lines(["6 cases ran serially: -s (6)"])
    result.stdout.no_fnmatch_line("*not as expected*")


def test_workers_tell_once_what_is_missing(pytester: pytest.Pytester) -> None:
    result = run(pytester, ESSENTIAL["environment"][0], "-n", "2")

    assert str(result.stdout).count("not as expected") == 1


OWNERS = """
owners = {
    "Session": get("session"),
    "Function": items[0],
    "Function with parameters": items[1],
    "FixtureDef": items[0]._fixtureinfo.name2fixturedefs["wide"][-1],
    "LoggingPlugin": get("logging-plugin"),
}
def take_away(name, part):
    owner = owners.get(name) or importlib.import_module(name)
    *inner, last = part.split(".")
    for one in inner:
        owner = getattr(owner, one)
    hide(owner, last) if name != "FixtureDef" else hide_in_class(pytest.FixtureDef, last)
"""
# Each name, and what holds it: without Session._setupstate there is no stack either.
NAMES = sorted(
    {
        (owner, ".".join(part.split(".")[:length]))
        for owner, parts in NEEDED.items()
        for part in parts
        for length in range(1, part.count(".") + 2)
    }
)
PLAIN = """
@pytest.fixture(scope="module")
def wide():
    return 1

EVAL
def test_plain(wide):
    assert wide

@pytest.mark.parametrize("n", [2])
EVAL
def test_with_parameters(n):
    assert n
"""


def run_without(pytester: pytest.Pytester, *names: tuple[str, str], mark: str) -> pytest.RunResult:
    """Run two tests where the engine finds a name of pytest no more; pytest itself does."""
    taken = "\n".join(f"take_away({owner!r}, {part!r})" for owner, part in names)
    forgotten = """
for name in [*sys.modules]:
    if name.startswith("pytest_llmeval.engine."):
        del sys.modules[name]  # it is imported without the name
"""
    hook = indent(OWNERS + taken + forgotten, "    ").lstrip()
    return run(pytester, hook, "-p", "no:randomly", suite=PLAIN.replace("EVAL", mark))


@pytest.mark.parametrize(("owner", "part"), NAMES, ids=[".".join(name) for name in NAMES])
def test_without_a_name_that_every_trial_needs_the_session_ends_with_a_sentence(
    pytester: pytest.Pytester, owner: str, part: str
) -> None:
    result = run_without(pytester, (owner, part), mark="@llm_eval(repeats=2)")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert f" is not supported: {owner}.{part}" in line
    assert line.endswith("moved. Install a supported one: pip install 'pytest>=8.4,<10'")


def test_a_session_without_evals_misses_no_name_of_pytest(pytester: pytest.Pytester) -> None:
    result = run_without(pytester, *NAMES, mark="")

    result.assert_outcomes(passed=2)


def test_names_of_pytest_s_own_modules_are_imported_in_one_module() -> None:
    package = Path(compat.__file__).parents[1]
    importing = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
        if str(name).partition(".")[0] == "_pytest"
    }
    assert importing == {"engine/compat.py"}
