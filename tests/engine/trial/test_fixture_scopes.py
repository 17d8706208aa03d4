"""Fixtures of trials live exactly as long, and are shared exactly as far, as in serial pytest."""

from __future__ import annotations

import pytest

MODEL = """
import threading

BOTH = threading.Barrier(2)


def answer(messages):
    if messages[-1]["content"] == "meet":
        BOTH.wait(timeout=300)
    return "yes"
"""

INI = "[pytest]\nllm_model = function/bot:answer\npythonpath = .\n"

WIDE = """
import pytest


@pytest.fixture(scope="SCOPE")
def wide(request):
    with open("order.log", "a") as log:
        log.write(f"up {request.node.name}\\n")
    yield request.node.name
    with open("order.log", "a") as log:
        log.write(f"down {request.node.name}\\n")
"""

IN_MODULES = """
from pytest_llmeval import llm_eval

@llm_eval(repeats=3, min_score=1)
def test_it(llm, request):
    llm.ask("question")
    assert request.getfixturevalue("wide") == request.node.parent.name
    llm.ask("another")
"""

IN_CLASSES = """
import pytest
from pytest_llmeval import llm_eval

class Test_1:
    @llm_eval(repeats=3, min_score=1)
    def test_it(self, llm, request):
        llm.ask("question")
        assert request.getfixturevalue("wide") == request.node.parent.name

class Test_2(Test_1):
    pass
"""

IN_PACKAGES = IN_MODULES.replace("request.node.parent.name", "request.node.parent.parent.name")


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(bot=MODEL)
    pytester.makeini(INI)
    return pytester


def passes(suite: pytest.Pytester, *arguments: str, cases: int = 1) -> pytest.RunResult:
    result = suite.runpytest("-p", "no:cacheprovider", *arguments)
    result.assert_outcomes(passed=cases)
    return result


def order(suite: pytest.Pytester) -> list[str]:
    return (suite.path / "order.log").read_text().splitlines()


def test_each_module_has_its_own_fixture_also_if_it_asks_late(suite: pytest.Pytester) -> None:
    suite.makeconftest(WIDE.replace("SCOPE", "module"))
    suite.makepyfile(test_1=IN_MODULES, test_2=IN_MODULES)

    passes(suite, cases=2)

    assert order(suite) == ["up test_1.py", "down test_1.py", "up test_2.py", "down test_2.py"]


def test_each_class_has_its_own_fixture_also_if_it_asks_late(suite: pytest.Pytester) -> None:
    suite.makeconftest(WIDE.replace("SCOPE", "class"))
    suite.makepyfile(test_it=IN_CLASSES)

    passes(suite, cases=2)

    assert order(suite) == ["up Test_1", "down Test_1", "up Test_2", "down Test_2"]


def test_each_package_has_its_own_fixture_also_if_it_asks_late(suite: pytest.Pytester) -> None:
    for name in ("one", "two"):
        package = suite.mkpydir(name)
        (package / "conftest.py").write_text(WIDE.replace("SCOPE", "package"))
        (package / "test_it.py").write_text(IN_PACKAGES)

    passes(suite, cases=2)

    assert order(suite) == ["up one", "down one", "up two", "down two"]


def test_a_wide_fixture_that_is_reached_through_a_narrow_one_counts(suite: pytest.Pytester) -> None:
    narrow = "\n@pytest.fixture\ndef narrow(wide):\n    return wide\n"
    suite.makeconftest(WIDE.replace("SCOPE", "module") + narrow)
    evals = IN_MODULES.replace('"wide"', '"narrow"')
    suite.makepyfile(test_1=evals, test_2=evals)

    passes(suite, cases=2)


def test_a_wide_fixture_remembers_no_trial_that_has_ended(suite: pytest.Pytester) -> None:
    narrow = "\n@pytest.fixture\ndef narrow(wide):\n    return wide\n"
    suite.makeconftest(WIDE.replace("SCOPE", "module") + narrow)
    suite.makepyfile(
        """
        import pytest
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=3, min_score=1)
        @pytest.mark.parametrize("number", range(3))
        def test_it(llm, narrow, number):
            llm.ask(f"question {number}")

        def test_at_the_end(wide, request):
            (definition,) = request._pyfuncitem._fixtureinfo.name2fixturedefs["wide"]
            own = [one for one in definition._finalizers if "narrow" in repr(one)]
            assert definition._finalizers
            assert own == []
        """
    )

    passes(suite, cases=4)

    assert [line.split()[0] for line in order(suite)] == ["up", "down"]


def test_parameters_of_a_wide_fixture_that_is_named_by_a_hook_come_in_turn(
    suite: pytest.Pytester,
) -> None:
    suite.makeconftest(
        """
        import pytest

        def pytest_generate_tests(metafunc):
            metafunc.fixturenames.append("wide")
            metafunc.parametrize("wide", ["a", "b"], indirect=True, scope="module")

        @pytest.fixture(scope="module")
        def wide(request):
            with open("order.log", "a") as log:
                log.write(f"up {request.param}\\n")
            yield request.param
            with open("order.log", "a") as log:
                log.write(f"down {request.param}\\n")
        """
    )
    suite.makepyfile(
        test_it="""
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=3, min_score=1)
        def test_it(llm, request):
            llm.ask("question")
            assert request.getfixturevalue("wide") == request.node.callspec.params["wide"]
        """
    )

    passes(suite, cases=2)

    assert order(suite) == ["up a", "down a", "up b", "down b"]


MEETING = """
from pytest_llmeval import llm_eval

@llm_eval(repeats=1, min_score=1)
def test_it(llm):
    assert llm.ask("meet").text == "yes"
"""


def test_modules_without_wide_fixtures_overlap(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_1=MEETING, test_2=MEETING)

    passes(suite, "--llm-cache=off", cases=2)


def test_wide_fixtures_of_one_module_keep_no_others_apart(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_1=MEETING,
        test_2=MEETING,
        test_3=WIDE.replace("SCOPE", "module") + "def test_it(wide): pass",
    )

    passes(suite, "--llm-cache=off", cases=3)


def test_a_class_fixture_of_a_function_in_no_class_is_fresh(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_it="""
        import os
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.fixture(scope="class")
        def box():
            os.environ["LLMEVAL_BOX"] = "mine"
            box = []
            yield box
            box.append("torn down")

        @pytest.mark.parametrize("n", range(2))
        @llm_eval(repeats=4, min_score=1)
        def test_it(llm, box, n):
            assert box == []
            box.append(n)
            llm.ask(f"{n}")
            assert box == [n]

        def test_others_are_not_reached_by_what_it_does(): pass
        """
    )

    passes(suite, cases=3)


def test_a_wide_fixture_that_gets_values_of_a_narrow_parametrize_is_fresh(
    suite: pytest.Pytester,
) -> None:
    suite.makepyfile(
        test_it="""
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.fixture(scope="module")
        def box(request):
            box = [request.param]
            yield box
            box.append("torn down")

        @pytest.mark.parametrize(("box", "n"), [("a", 1), ("b", 2)], indirect=["box"])
        @llm_eval(repeats=4, min_score=1)
        def test_it(llm, box, n):
            assert len(box) == 1
            box.append(n)
            llm.ask(f"{n}")
            assert len(box) == 2
        """
    )

    passes(suite, cases=2)


def test_an_exclusive_fixture_is_refused_whatever_its_scope(suite: pytest.Pytester) -> None:
    suite.makeini(INI + "llm_serial_fixtures = database\n")
    suite.makepyfile(
        test_it="""
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.fixture(scope="session")
        def database():
            return 1

        @llm_eval(repeats=2, min_score=1)
        def test_it(llm, request):
            assert request.getfixturevalue("database") == 1
        """
    )

    result = suite.runpytest("-p", "no:cacheprovider")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*(2 errored): *SettingsError: database was asked for by getfixturevalue while*"]
    )


def test_a_fixture_asked_for_after_a_body_blocked_is_given_without_a_warning(
    suite: pytest.Pytester,
) -> None:
    suite.makepyfile(
        test_it="""
        import time
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.fixture
        def late():
            return "late"

        @llm_eval(repeats=2, min_score=1)
        def test_it(llm, request):
            llm.ask("question")
            time.sleep(0.6)
            assert request.getfixturevalue("late") == "late"
        """
    )

    result = passes(suite)

    assert "warnings summary" not in str(result.stdout)
    result.stdout.no_fnmatch_line("*did not pass*")
