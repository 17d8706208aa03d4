"""What asked a model in the baseline and asks none here, or asks none in some trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.test_gating import only_function, record_main
from tests.project import Project, made_once, make_project


@pytest.fixture
def main(pytester: pytest.Pytester, originals: Path) -> Project:
    return made_once(originals / "main", pytester, record_main)


STUB = """
import types, pytest

@pytest.fixture
def llm():
    return types.SimpleNamespace(ask=lambda *_: types.SimpleNamespace(text="yes"))
"""


def test_a_stub_that_answers_every_case_is_not_compared(main: Project) -> None:
    main.write(conftest=STUB)
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    assert result.ret == 1
    found = only_function(report)
    assert (found["verdict"], found["row"]) == ("not_comparable", 4)
    assert found["why"].startswith(
        "10 of the 10 cases that made calls in the baseline made none that was seen"
    )
    assert "a random id" not in str(result.stdout)  # of a request that was not made
    result.stdout.fnmatch_lines(["*10 cases made no call that the cache saw*"])
    result.stdout.fnmatch_lines(["note: *: llm is a fixture of this project here*"])


def test_a_stub_that_answers_some_cases_is_not_compared_either(main: Project) -> None:
    asks_some = """
    import types, pytest

    @pytest.fixture
    def llm(request, _llm_models, llm_score):
        from pytest_llmeval.fixtures import _ledger
        if "case-1" in request.node.name or "case-5" in request.node.name:
            return types.SimpleNamespace(ask=lambda *_: types.SimpleNamespace(text="yes"))
        return _llm_models.model(_llm_models.settings.model, _ledger(_llm_models))
    """
    main.write(conftest=asks_some)
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    assert result.ret == 1
    found = only_function(report)
    assert (found["verdict"], found["row"]) == ("not_comparable", 4)


STOPS = """
import collections, itertools, pytest
from pytest_llmeval import llm_eval

COUNT = collections.defaultdict(itertools.count)


@llm_eval(repeats=3)
@pytest.mark.parametrize("case", ["Peru", "Lima"])
def test_it(llm, case):
    if next(COUNT[case]) > 1:
        raise KeyError(case)
    assert llm.ask(f"{case} rate=1").text
"""


def test_trials_that_crashed_alike_before_they_asked_change_nothing(
    pytester: pytest.Pytester,
) -> None:
    project = make_project(pytester)
    project.write(test_evals=STOPS)
    project.run()

    _, report = project.gate("--llm-baseline=last")

    assert only_function(report)["changed"] == 0

    project.write(test_evals=STOPS.replace("raise", "\n        raise"))
    result, report = project.gate("--llm-baseline=last")

    assert only_function(report)["changed_kinds"] == {"unseen": 2}
    result.stdout.fnmatch_lines(["*2 of 6 trials of 2 cases made no call that the cache saw*"])


REFUSED = """
import pytest
from pytest_llmeval import llm_eval


@llm_eval(repeats=2)
@pytest.mark.parametrize("case", ["Peru", "Lima"])
def test_no_model_is_named(llm, case):
    assert llm.ask(case).text


@llm_eval(repeats=2)
def test_breaks_off():
    raise KeyError("before it asks")


@llm_eval(repeats=2)
def test_asks_no_model():
    pass
"""


def test_cases_that_were_refused_or_crashed_are_not_told_to_take_the_mark_off(
    pytester: pytest.Pytester,
) -> None:
    project = make_project(pytester)
    project.write(test_evals=REFUSED, pytest_ini="[pytest]\npythonpath = .\n")

    result = project.run()

    result.stdout.fnmatch_lines(["*1 case made no call that the cache saw (test_asks_no_model)*"])
