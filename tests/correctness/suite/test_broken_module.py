"""A module whose setup fails before any trial can begin."""

from pytest_llmeval import llm_eval


def setup_module():
    raise OSError("no module")


@llm_eval(repeats=2)
def test_never_begins(llm):
    llm.ask("alone: never")


def test_ordinary_never_begins():
    raise AssertionError
