"""What the setup of a module prints and logs is shown once, whichever trial is on its way."""

import logging

from pytest_llmeval import llm_eval


def setup_module():
    print("module is set up")
    logging.getLogger("suite").warning("log of the module's setup")


@llm_eval(repeats=3, min_score=1)
def test_fails_in_a_module_that_prints(llm):
    assert llm.ask("meet: module that prints").text == "0"
