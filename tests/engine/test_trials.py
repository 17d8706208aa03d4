"""Everything that pytest promises a test holds for every trial of an eval."""

from __future__ import annotations

import pytest

CORRECTNESS = """
import contextlib
import logging
import os
import sys
import warnings

import pytest

from pytest_llmeval import llm_eval

REPEATS = 5
EVENTS = []


@pytest.fixture
def fresh(request):
    EVENTS.append(f"setup {request.node.name}")
    box = []
    yield box
    EVENTS.append(f"teardown {request.node.name}")


@pytest.fixture(scope="module")
def module_thing():
    EVENTS.append("module setup")
    yield object()
    EVENTS.append("module teardown")


@pytest.fixture(scope="session")
def session_thing():
    return object()


@pytest.fixture(params=["a", "b"])
def letter(request):
    return request.param


def test_ordinary_before(module_thing):
    assert EVENTS == ["module setup"]


@llm_eval(repeats=REPEATS)
def test_fresh_fixture(fresh):
    fresh.append(1)
    assert fresh == [1]


def test_each_trial_had_its_own():
    assert EVENTS.count("setup test_fresh_fixture") == REPEATS
    assert EVENTS.count("teardown test_fresh_fixture") == REPEATS


@llm_eval(repeats=REPEATS)
def test_wider_fixtures_are_shared(module_thing, session_thing, request):
    seen = request.config.stash.setdefault(SEEN, set())
    seen.add((id(module_thing), id(session_thing)))
    assert len(seen) == 1


SEEN = pytest.StashKey()


def test_module_fixture_was_set_up_once():
    assert EVENTS.count("module setup") == 1
    assert EVENTS.count("module teardown") == 0


@llm_eval(repeats=REPEATS)
@pytest.mark.parametrize("number", [1, 2])
def test_parametrized_fixture_and_function(letter, number, fresh):
    assert letter in "ab"
    assert number in (1, 2)
    assert fresh == []


@llm_eval(repeats=REPEATS)
def test_dynamic_fixture(request):
    assert request.getfixturevalue("fresh") is request.getfixturevalue("fresh")
    assert request.getfixturevalue("fresh") == []
    request.getfixturevalue("fresh").append(1)


@llm_eval(repeats=REPEATS)
def test_tmp_path_is_empty_each_time(tmp_path):
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("x")


@llm_eval(repeats=REPEATS)
def test_monkeypatch_is_undone_each_time(monkeypatch):
    assert "LLMEVAL_PROBE" not in os.environ
    monkeypatch.setenv("LLMEVAL_PROBE", "1")
    monkeypatch.setattr(sys, "llmeval_probe", 1, raising=False)


def test_monkeypatch_leaves_nothing():
    assert "LLMEVAL_PROBE" not in os.environ
    assert not hasattr(sys, "llmeval_probe")


@llm_eval(repeats=REPEATS)
def test_capsys_sees_its_own_trial(capsys):
    print("hello")
    assert capsys.readouterr().out == "hello\\n"


@llm_eval(repeats=REPEATS)
def test_caplog_sees_its_own_trial(caplog):
    caplog.set_level(logging.INFO)
    logging.getLogger("probe").info("once")
    assert [record.message for record in caplog.records] == ["once"]


@llm_eval(repeats=REPEATS)
def test_warns_and_chdir(tmp_path):
    with pytest.warns(UserWarning, match="careful"):
        warnings.warn("careful", UserWarning)
    with contextlib.chdir(tmp_path):
        assert os.path.realpath(os.getcwd()) == os.path.realpath(tmp_path)


@llm_eval(repeats=REPEATS)
def test_current_test_is_named():
    assert "test_current_test_is_named" in os.environ["PYTEST_CURRENT_TEST"]
    assert "(call)" in os.environ["PYTEST_CURRENT_TEST"]


@llm_eval(repeats=REPEATS)
class TestInAClass:
    @pytest.fixture(autouse=True)
    def _prepare(self):
        self.prepared = True
        yield
        assert self.prepared

    def setup_method(self):
        self.counter = 0

    @classmethod
    def setup_class(cls):
        cls.class_setups = getattr(cls, "class_setups", 0) + 1

    def test_instance_is_new(self):
        self.counter += 1
        assert self.counter == 1
        assert self.prepared
        assert not hasattr(self, "left_behind")
        self.left_behind = True

    def test_class_was_set_up_once(self):
        assert self.class_setups == 1


@llm_eval
@pytest.mark.usefixtures("fresh")
def test_bare_marker():
    EVENTS.append("bare")


def test_bare_marker_runs_five_times():
    assert EVENTS.count("bare") == 5
"""


@pytest.fixture
def correctness(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_correctness=CORRECTNESS)
    return pytester


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("-s",),
        ("--capture=sys",),
        ("-p", "no:logging", "--deselect", "test_correctness.py::test_caplog_sees_its_own_trial"),
        ("-W", "error"),
    ],
    ids=["plain", "no-capture", "capture-sys", "no-logging", "warnings-as-errors"],
)
def test_trials_behave_like_tests_of_their_own(
    correctness: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    result = correctness.runpytest(*arguments)

    deselected = arguments.count("--deselect")
    result.assert_outcomes(passed=21 - deselected, deselected=deselected)


def test_setup_show_lists_the_fixtures_of_every_trial(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.fixture
        def thing():
            yield 1

        @llm_eval(repeats=2)
        def test_it(thing):
            pass
        """
    )

    result = pytester.runpytest("--setup-show")

    result.assert_outcomes(passed=1)
    assert str(result.stdout).count("SETUP    F thing") == 2
    assert str(result.stdout).count("TEARDOWN F thing") == 2


@pytest.mark.parametrize("option", ["--setup-plan", "--setup-only"])
def test_setup_only_calls_no_body(pytester: pytest.Pytester, option: str) -> None:
    pytester.makepyfile(
        """
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2)
        def test_it(tmp_path):
            raise AssertionError("the body ran")
        """
    )

    result = pytester.runpytest(option)

    assert result.ret == 0
    assert "the body ran" not in str(result.stdout)


def test_exit_ends_the_session_and_tears_everything_down(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.fixture(scope="module")
        def wide():
            yield
            print("WIDE DOWN")

        @pytest.fixture
        def narrow(wide):
            yield
            print("NARROW DOWN")

        @llm_eval(repeats=3)
        def test_it(narrow):
            pytest.exit("enough", returncode=3)

        def test_never():
            pass
        """
    )

    result = pytester.runpytest("-s")

    assert result.ret == 3
    result.stdout.fnmatch_lines(["*NARROW DOWN*", "*WIDE DOWN*"])
    assert str(result.stdout).count("NARROW DOWN") == 1
