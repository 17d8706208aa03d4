"""Classes and modules with setups of their own."""

import pytest

from pytest_llmeval import llm_eval

EVENTS = []
REPEATS = 4


def setup_module():
    EVENTS.append("module up")


def teardown_module():
    EVENTS.append("module down")


def setup_function():
    EVENTS.append("function up")


def teardown_function():
    EVENTS.append("function down")


@pytest.fixture(scope="class")
def of_the_class():
    EVENTS.append("fixture up")
    yield []
    EVENTS.append("fixture down")


class TestSetUp:
    @classmethod
    def setup_class(cls):
        EVENTS.append("class up")

    @classmethod
    def teardown_class(cls):
        EVENTS.append("class down")

    def setup_method(self):
        self.mine = ["set up"]

    def teardown_method(self):
        EVENTS.append(tuple(self.mine))

    @pytest.fixture(autouse=True)
    def automatic(self, llm, request):
        llm.ask(f"meet: {request.node.name}")
        self.mine.append("automatic")

    @llm_eval(repeats=REPEATS)
    @pytest.mark.parametrize("number", [1, 2])
    def test_instance_of_its_own(self, llm, of_the_class, number):
        trial = llm.ask(f"meet: class {number}").text
        self.mine.append(trial)
        llm.ask(f"meet: class {number} again")
        assert self.mine == ["set up", "automatic", trial]
        of_the_class.append(trial)


def test_after_class():
    for event in ("class up", "class down", "fixture up", "fixture down", "module up"):
        assert EVENTS.count(event) == 1
    assert EVENTS.index("fixture down") < EVENTS.index("class down")
    for trial in map(str, range(REPEATS)):
        assert EVENTS.count(("set up", "automatic", trial)) == 2


@llm_eval(repeats=REPEATS)
class TestMarked:
    def test_in_marked_class(self, llm):
        llm.ask("meet: marked class")

    @llm_eval(repeats=2)
    def test_with_a_mark_of_its_own(self, llm):
        llm.ask("meet: mark of its own")


@llm_eval(repeats=REPEATS)
def test_with_setup_function(llm):
    llm.ask("meet: setup function")


def test_after_setup_function():
    assert EVENTS.count("function up") == EVENTS.count("function down") + 1
    assert EVENTS.count("function down") == REPEATS + 1
    assert EVENTS.count("module up") == 1
    assert "module down" not in EVENTS
