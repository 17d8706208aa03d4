"""Mistakes of beginners: one reading says what is wrong and what to type."""

from __future__ import annotations

import socket

import pytest

from tests.project import Project


def words(project: Project, *options: str) -> str:
    return " ".join(str(project.run(*options).stdout).split())


def test_an_eval_whose_parameters_are_an_empty_list(project: Project) -> None:
    project.write(
        test_evals="""
        import pytest
        from pytest_llmeval import llm_eval

        @llm_eval
        @pytest.mark.parametrize("case", [])
        def test_it(case): pass
        """
    )

    told = (
        "test_evals.py::test_it: no case, as the list of @pytest.mark.parametrize is empty: fill it"
    )
    printed = words(project, "-W", "default")
    assert told in printed
    assert "too few trials" not in printed
    assert "of 1 case ask" not in printed
    assert f"ERROR: {told}" in str(project.run("-W", "error").stderr)


def test_a_case_that_is_skipped_for_another_reason_is_not_called_empty(project: Project) -> None:
    project.write(
        test_evals="""
        import pytest
        from pytest_llmeval import llm_eval

        @llm_eval
        @pytest.mark.skip(reason="later")
        def test_it(): pass
        """
    )

    assert "no case" not in words(project)


@pytest.mark.parametrize(("repeats", "is_told"), [(1, True), (2, False)])
def test_one_trial_of_a_case(project: Project, repeats: int, *, is_told: bool) -> None:
    told = "one trial of a case cannot show how much replies vary: type --llm-repeats=5"

    assert (told in words(project, f"--llm-repeats={repeats}")) is is_told


def test_a_provider_that_is_down(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host, port = taken.getsockname()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://user:secret@{host}:{port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")

    text = words(project, "--llm-model=openai/m", "--llm-repeats=1", "--llm-timeout=1")

    assert f"is {host}:{port} up, and the address right? Then run the same again" in text
    assert "secret" not in text
