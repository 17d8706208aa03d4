"""Where no model can be asked there is nothing to score."""

from __future__ import annotations

import pytest

from pytest_llmeval.runs.file import read_run
from tests.project import Project

ASKS = """
from pytest_llmeval import llm_eval

@llm_eval(repeats=3)
def test_it(llm):
    {body}
"""
INI = "[pytest]\npythonpath = .\n"


def outcomes(project: Project) -> list[str]:
    return [trial.outcome for trial in read_run(project.runs()[-1]).trials]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("llm.ask('Hello')", "no model is named. Type --llm-model=provider/model"),
        ("llm.ask('Hello', model='opnai/gpt')", "opnai"),
        ("llm.ask('Hello', model='function/nowhere:answer')", "nowhere"),
        (
            "try: llm.ask('Hello')\n    except Exception as exc: raise RuntimeError from exc",
            "RuntimeError",
        ),
        ("try: llm.ask('Hello')\n    except Exception as exc: raise exc from exc", "SettingsError"),
        ("try: llm.ask('Hello')\n    except Exception: assert False", "assert False"),
    ],
    ids=["none", "provider", "function", "wrapped", "circular", "asserted"],
)
def test_trials_that_could_ask_no_model_are_errored(
    project: Project, body: str, reason: str
) -> None:
    project.write(test_evals=ASKS.format(body=body), pytest_ini=INI)

    result = project.run()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert outcomes(project) == ["errored"] * 3
    (first,) = [line for line in result.outlines if line.lstrip().startswith("first of them")]
    assert reason in first


def test_a_model_that_is_named_later_is_asked_by_a_retry(project: Project) -> None:
    project.write(test_evals=ASKS.format(body="assert llm.ask('rate=1').text"), pytest_ini=INI)
    project.run()

    result = project.run("--llm-retry-errors", "--llm-model=function/model:answer")

    assert result.ret == 0
    assert project.calls() == 3


def test_a_settings_error_that_the_test_survives_is_no_harm(project: Project) -> None:
    project.write(
        pytest_ini=INI,
        test_evals=ASKS.format(
            body="import pytest\n    with pytest.raises(Exception): llm.ask('Hello')\n    assert 0"
        ),
    )

    project.run()

    assert outcomes(project) == ["missed"] * 3
