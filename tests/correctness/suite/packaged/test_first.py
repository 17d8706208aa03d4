from pytest_llmeval import llm_eval


@llm_eval(repeats=3)
def test_in_package(llm, of_the_package):
    llm.ask("meet: package")
    assert of_the_package == "up"
