from packaged.conftest import EVENTS
from pytest_llmeval import llm_eval


@llm_eval(repeats=3)
def test_in_package_too(llm, of_the_package):
    llm.ask("meet: package too")
    assert of_the_package == "up"


def test_after_package(of_the_package):
    assert EVENTS.count("up") == EVENTS.count("down") + 1
