"""Plugins that follow items, and what hooks put on an item for its test to find."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from tests.forked import run_forked

EVALS = """
import time
import pytest
from pytest_llmeval import llm_eval


def answer(messages):
    time.sleep(0.01)
    return "yes"


@pytest.mark.parametrize("n", ["a", "b", "c"])
@llm_eval(repeats=3)
def test_it(llm, n):
    llm.ask(n)
"""
# As pytest-json-report does: begun in the protocol, and written in every phase.
FOLLOWER = """
import pytest

SEEN = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    item.followed = {}
    try:
        return (yield)
    finally:
        SEEN.append((item.name, list(item.followed)))
        del item.followed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    item.followed["setup"] = None
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    item.followed["reported " + call.when] = None
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    if fixturedef.argname in ("own", "wide"):
        SEEN.append(fixturedef.argname)
    return (yield)


def pytest_exception_interact(node):
    SEEN.append("failure of " + node.name)


def pytest_terminal_summary(terminalreporter):
    for line in SEEN:
        terminalreporter.write_line(f"seen {line}")
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_it=EVALS)
    pytester.makeini("[pytest]\nllm_model = function/test_it:answer\npythonpath = .")
    return pytester


def test_a_plugin_that_follows_items_sees_a_case_once(suite: pytest.Pytester) -> None:
    suite.makepyfile(follower=FOLLOWER)

    result = suite.runpytest("-p", "follower")

    result.assert_outcomes(passed=3)
    phases = ["setup", "reported setup", "reported call", "reported teardown"]
    seen = [line for line in result.outlines if line.startswith("seen ")]
    assert seen == [f"seen {(f'test_it[{n}]', phases)}" for n in "abc"]


def test_it_sees_the_failure_of_a_case_and_none_of_a_trial(suite: pytest.Pytester) -> None:
    body = "    llm.ask(n)\n    assert n == 'a'"
    suite.makepyfile(
        follower=FOLLOWER,
        test_it=EVALS.replace("    llm.ask(n)", body).replace("repeats=3", "repeats=3, min_score=0")
        + "\n\n@llm_eval(repeats=2, min_score=1)\ndef test_strict(): assert False\n",
    )

    result = suite.runpytest("-p", "follower")

    result.assert_outcomes(passed=3, failed=1)
    assert [line for line in result.outlines if "seen failure" in line] == [
        "seen failure of test_strict"
    ]


def test_it_sees_wider_fixtures_and_none_of_a_trial(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        follower=FOLLOWER,
        test_it=EVALS.replace("(llm, n)", "(llm, n, own, wide)")
        + """
@pytest.fixture
def own(): pass

@pytest.fixture(scope="module")
def wide(): pass
""",
    )

    result = suite.runpytest("-p", "follower")

    result.assert_outcomes(passed=3)
    assert result.outlines.count("seen wide") == 1
    assert "seen own" not in result.outlines


def test_hooks_of_another_folder_are_not_called_for_a_trial(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        follower=FOLLOWER,
        **{
            "other/conftest": "def pytest_runtest_setup(item): raise OSError",
            "other/test_other": "def test_other(): pass",
        },
    )

    result = suite.runpytest("-p", "follower")

    result.assert_outcomes(passed=3, errors=1)


def test_a_trial_finds_what_a_conftest_put_on_its_item(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
        import pytest

        KEY = pytest.StashKey()

        def pytest_collection_modifyitems(items):
            for item in items:
                item.stash[KEY] = item.name
                item.collected = item.name

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(item):
            item.begun = item.name
            return (yield)

        @pytest.fixture(autouse=True)
        def check(request):
            node = request.node
            assert node.begun == node.collected == node.stash[KEY] == node.name
        """
    )

    suite.runpytest("-q").assert_outcomes(passed=3)


def test_properties_of_collection_and_of_trials_reach_junit(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_it=EVALS.replace("(llm, n)", "(llm, n, record_property)") + PROPERTIES)
    suite.makeconftest(
        """
        def pytest_collection_modifyitems(items):
            for item in items:
                item.user_properties.append(("ticket", item.name))
        """
    )

    options = ("--junitxml=out.xml", "-o", "junit_family=xunit1")
    suite.runpytest(*options).assert_outcomes(passed=3)

    root = ET.parse(suite.path / "out.xml").getroot()  # noqa: S314
    values = [(p.get("name"), p.get("value")) for p in next(root.iter("testcase")).iter("property")]
    assert values[:2] == [("ticket", "test_it[a]"), ("labels", "['x', 'a']")]
    assert [name for name, _ in values].count("ticket") == 1


PROPERTIES = """
    record_property("labels", ["x", n])
"""


def test_a_report_that_is_kept_back_loses_no_count(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):  # as flaky does
            for is_last in (False, True):
                runtestprotocol(item, log=is_last, nextitem=nextitem)
            return True
        """
    )

    result = suite.runpytest("-p", "no:cacheprovider")

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*9 calls made, 0 replayed*"])
    result.stdout.no_fnmatch_line("*attempts sent*")


# As pytest-socket does: a guard that goes up and down with each test.
GUARD = """
import socket

plain = socket.socket


class SocketBlockedError(RuntimeError):
    pass


class Guarded(socket.socket):
    def __new__(cls, *args, **kwargs):
        raise SocketBlockedError("blocked")


def pytest_addoption(parser):
    parser.addoption("--disable-socket", action="store_true")


def pytest_runtest_setup(item):
    if item.config.option.disable_socket:
        socket.socket = Guarded


def pytest_runtest_teardown():
    socket.socket = plain
"""
GUARDED = """
import socket
import time
from pytest_llmeval import llm_eval


def answer(messages):
    time.sleep(0.01)
    return "yes"


@llm_eval(repeats=3)
async def test_awaiting(async_llm):
    await async_llm.ask("Hello")


@llm_eval(repeats=3)
def test_blocked(llm):
    llm.ask("Is it there?")
    socket.socket().close()


@llm_eval(repeats=3)
def test_not_blocked(llm):
    llm.ask("Bye")
"""


def test_a_guard_of_sockets_is_up_for_all_trials_of_a_case(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(pytest_socket=GUARD, test_it=GUARDED)
    pytester.makeini("[pytest]\nllm_model = function/test_it:answer\npythonpath = .")
    options = ("-p", "pytest_socket", "-p", "no:cacheprovider", "-W", "error")

    run_forked(pytester, *options).assert_outcomes(passed=3)
    result = run_forked(pytester, *options, "--disable-socket", "--llm-cache=refresh")

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*(3 errored): pytest_socket.SocketBlockedError: blocked"])


# As a plugin of snapshots does: it keeps what it saw, and reads it when all has ended.
KEEPER = """
import gc
import weakref
import pytest

KEPT = []
WEAK = []


@pytest.fixture
def kept(request):
    KEPT.append(request.node)
    return [request.node]


@pytest.fixture(scope="session")
def wide(request):
    KEPT.append(request._pyfuncitem)


@pytest.fixture
def let_go(request):
    WEAK.append(weakref.ref(request.node))
    return [request.node]


def pytest_runtest_teardown(item):
    assert item.funcargs is not None


def pytest_terminal_summary(terminalreporter):
    for item in KEPT:
        assert item.nodeid == "test_kept.py::TestKept::test_kept[1]" and item.stash is not None
        assert item.function.__name__ == item.originalname == "test_kept"
        assert item.obj.__self__.__class__.__name__ == item.cls.__name__ == "TestKept"
        assert item.callspec.params == {"n": 1} and item.module.__name__ == "test_kept"
        assert item.get_closest_marker("llm_eval") and "llm_eval" in item.keywords
        assert item.location[2] == "TestKept.test_kept[1]" and item.fixturenames
        assert (item._request, item.funcargs) == (False, None), "as pytest leaves an item"
        assert repr(item) == repr(item.keywords.node) and item.listchain()[-1] is item
        assert item.reportinfo()[0] and item.repr_failure and item.user_properties == []
    left = sum(ref() is not None for ref in WEAK)
    terminalreporter.write_line(f"{len(KEPT)} answered, {left} of {len(WEAK)} are left")
"""
KEPT = """
import gc
import pytest
from pytest_llmeval import llm_eval


class TestKept:
    @llm_eval(repeats=3)
    @pytest.mark.parametrize("n", [1])
    def test_kept(self, kept, wide, n):
        assert kept != [1]
        assert False


@llm_eval(repeats=3)
def test_let_go(let_go):
    gc.disable()  # counted references alone are to free it
"""


@pytest.mark.parametrize("concurrency", ["8", "1"])
def test_an_item_that_a_plugin_keeps_stays_whole(
    pytester: pytest.Pytester, concurrency: str
) -> None:
    pytester.makeconftest(KEEPER)
    pytester.makepyfile(test_kept=KEPT)

    result = run_forked(pytester, f"--llm-concurrency={concurrency}")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*4 answered, 0 of 3 are left*"])


SOFT_CHECKS = """
import pytest

FAILED = []


@pytest.fixture
def check():
    return lambda holds: None if holds else FAILED.append("it does not hold")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if FAILED:
        report.outcome, report.longrepr = "failed", FAILED.pop()
        if TELLS_MORE:  # as pytest-check does
            try:
                raise AssertionError(report.longrepr)
            except AssertionError:
                call.excinfo = pytest.ExceptionInfo.from_current()
    return report
"""


@pytest.mark.parametrize("tells_more", [False, True])
def test_a_trial_of_which_a_plugin_reports_a_failure_has_missed(
    pytester: pytest.Pytester, tells_more: bool
) -> None:
    pytester.makeconftest(SOFT_CHECKS.replace("TELLS_MORE", str(tells_more)))
    pytester.makepyfile("""
        from pytest_llmeval import llm_eval

        def answer(prompt, draw):
            return "yes" if draw.trial else "no"

        @llm_eval(repeats=4)
        def test_it(llm, check):
            check(llm.ask("it").text == "yes")
    """)
    pytester.makeini(
        "[pytest]\nllm_model = function/test_a_trial_of_which_a_plugin_reports_a_failure_has_missed"
        ":answer\npythonpath = .\nllm_serial_fixtures = check"
    )

    result = run_forked(pytester, "-rm")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*test_it *1  0.750*", "*: it does not hold*"])


def test_a_skip_that_a_plugin_reports_is_no_miss(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest

        @pytest.hookimpl(wrapper=True, trylast=True)
        def pytest_runtest_makereport(item, call):
            report = yield
            if call.when == "call":
                report.outcome, report.longrepr = "skipped", ("test_it.py", 1, "of no interest")
            return report
    """)
    pytester.makepyfile("""
        from pytest_llmeval import llm_eval

        def answer(prompt, draw):
            return "yes"

        @llm_eval(repeats=2)
        def test_it(llm): assert llm.ask("it").text == "yes"
    """)
    pytester.makeini(
        "[pytest]\nllm_model = function/test_a_skip_that_a_plugin_reports_is_no_miss:answer\n"
        "pythonpath = ."
    )

    result = run_forked(pytester)

    result.stdout.fnmatch_lines(["*test_it *1  1.000*"])
