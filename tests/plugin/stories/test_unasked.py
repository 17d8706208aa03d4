"""Where no model can be asked there is nothing to score."""

from __future__ import annotations

import pytest

from pytest_llmeval.runs.run_file import read_run
from tests.project import Project
from tests.servers.openai_server import OpenAIServer, Scripted

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
            "SettingsError: no model is named",
        ),
        ("try: llm.ask('Hello')\n    except Exception as exc: raise exc from exc", "SettingsError"),
        ("try: llm.ask('Hello')\n    except Exception: assert False", "no model is named"),
        ("try: llm.ask('Hello')\n    except Exception: pass", "no model is named"),
        (
            "try: llm.ask('Hello', stream=True, model='openai/x')\n    except Exception: pass",
            "stream",
        ),
    ],
    ids=[
        "none",
        "provider",
        "function",
        "wrapped",
        "circular",
        "asserted",
        "swallowed",
        "impossible",
    ],
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


def test_a_model_that_is_named_later_is_asked_by_the_next_run(project: Project) -> None:
    project.write(test_evals=ASKS.format(body="assert llm.ask('rate=1').text"), pytest_ini=INI)
    project.run()

    result = project.run("--llm-model=function/model:answer")

    assert result.ret == 0
    assert project.calls() == 3


SWALLOWS = """
from pytest_llmeval import llm_eval

def answer(ask):
    try:
        return ask("Hello rate=1").text
    except Exception:
        return ""

@llm_eval(repeats=3)
def test_says_nothing_bad(llm):
    assert "bad" not in answer(llm.ask)

@llm_eval(repeats=3)
def test_is_long(llm, llm_score):
    llm_score(len(answer(llm.ask)))

@llm_eval(repeats=3)
async def test_awaited(async_llm):
    try:
        await async_llm.ask("Hello rate=1")
    except Exception:
        pass
"""


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--llm-cache=replay", "ReplayMiss: no reply is stored"),
        ("--llm-max-calls=0", "BudgetExceeded: function/model:answer was not asked"),
    ],
)
def test_what_the_application_makes_of_our_refusal_is_never_scored(
    project: Project, option: str, reason: str
) -> None:
    project.write(test_evals=SWALLOWS)

    result = project.run(option)

    result.assert_outcomes(errors=3)
    assert outcomes(project) == ["errored"] * 9
    assert {trial.message for trial in read_run(project.runs()[-1]).trials} == {
        reason.partition(":")[0]
    }
    firsts = [line for line in result.outlines if line.startswith("first of them")]
    assert all(reason in line for line in firsts)
    assert len(firsts) == 3


def test_nor_is_it_where_no_key_is_set(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    project.write(test_evals=SWALLOWS)

    result = project.run("--llm-model=openai/foo")

    assert outcomes(project) == ["errored"] * 9
    result.stdout.fnmatch_lines(["first of them*OPENAI_API_KEY is not set*"])


def test_a_client_of_the_application_without_a_key_is_no_miss(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "from openai import OpenAI; client = OpenAI()"
    said = "[{'role': 'user', 'content': 'Hi'}]"
    asked = f"client.chat.completions.create(model='m', messages={said})"
    project.write(test_evals=ASKS.format(body=f"{body}; {asked}").replace("(llm)", "()"))
    project.commit()
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        assert project.run().ret == 0
    monkeypatch.delenv("OPENAI_API_KEY")
    project.write(test_evals=(project.path / "test_evals.py").read_text().replace("Hi", "Ho"))
    project.commit()

    result, report = project.gate("--llm-baseline=HEAD~1")

    assert outcomes(project) == ["errored"] * 3
    assert (result.ret, report["verdict"]) == (1, "not_comparable")
    result.stdout.fnmatch_lines(["*first of them*OpenAIError*OPENAI_API_KEY*"])


DOWN = """
def answer(messages):
    raise OSError("down")

def second(messages):
    return "good"
"""


def test_what_the_application_makes_of_no_reply_at_all_is_no_result(project: Project) -> None:
    project.write(test_evals=SWALLOWS, model=DOWN)

    result = project.run()

    assert outcomes(project) == ["errored"] * 9
    told = "first of them*a reply was lost: *OSError*"
    result.stdout.fnmatch_lines([told] * 3)


def test_no_reply_at_all_is_not_judged(project: Project) -> None:
    swallows = "try: text = llm.ask('rate=1').text\n    except Exception: text = 'yes'"
    project.write(test_evals=ASKS.format(body=f"{swallows}\n    assert text == 'yes'"))
    project.commit()
    assert project.run().ret == 0
    project.write(model=DOWN)
    project.commit()

    result, report = project.gate("--llm-baseline=HEAD~1")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert report["verdict"] == "not_comparable"


SECOND = """
from pytest_llmeval import llm_eval

def answer(ask):
    try:
        return ask("Hello").text
    except Exception:
        return ask("Hello", model="function/model:second").text

@llm_eval(repeats=3)
def test_says_nothing_bad(llm):
    assert "bad" not in answer(llm.ask)

@llm_eval(repeats=3)
def test_is_long(llm, llm_score):
    llm_score(len(answer(llm.ask)))
"""


def test_a_second_model_that_replied_makes_no_result_of_a_lost_reply(
    project: Project,
) -> None:
    project.write(test_evals=SECOND, model=DOWN)

    result = project.run()

    assert outcomes(project) == ["errored"] * 6
    result.stdout.fnmatch_lines(["first of them*test_is_long*a reply was lost: *OSError*"])


TRIES = """
import openai
import pytest
from pytest_llmeval import llm_eval

def ask(prompt):
    try:
        with openai.OpenAI(max_retries=2) as client:
            return client.chat.completions.create(
                model="gpt", messages=[{{"role": "user", "content": prompt}}]
            )
    except openai.APIError:
        return None

@pytest.fixture(scope="module")
def shared():
    return ask("shared")

@llm_eval(repeats=2, intercept=True)
def test_it(shared, openai_client):
    {body}
"""
AWAY = Scripted(status=500)
LOST = Scripted(status=500, headers={"x-should-retry": "false"})
LISTS = "try: openai_client.models.list()\n    except openai.APIError: pass"


@pytest.mark.parametrize(
    ("body", "script", "outcome"),
    [
        ("ask('own')", [Scripted()] + [AWAY] * 6, "errored"),
        ("pass", [AWAY] * 3, "errored"),
        ("ask('own') or ask('own')", [Scripted(), *[LOST, Scripted()] * 2], "passed"),
        ("ask('own') or ask('other')", [Scripted(), *[LOST, Scripted()] * 2], "errored"),
        ("ask('own')", [Scripted()] + [Scripted(status=400)] * 2, "passed"),
        (f"ask('own')\n    {LISTS}", [Scripted(), *[LOST, Scripted()] * 2], "errored"),
        (LISTS, [Scripted()] + [AWAY] * 2, "errored"),
        (LISTS, [Scripted()] + [Scripted(status=404)] * 2, "passed"),
        (LISTS, [Scripted()] + [Scripted()] * 2, "passed"),
    ],
    ids=[
        "only the shared call came",
        "no call of its own",
        "came at last",
        "another one came",
        "refused for its content",
        "only a list came",
        "a list that is lost",
        "a list that is not there",
        "a list",
    ],
)
def test_a_trial_is_a_result_if_all_of_its_calls_got_a_reply(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    script: list[Scripted],
    outcome: str,
) -> None:
    project.write(test_evals=TRIES.format(body=body))
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        server.then(*script)
        project.run("--llm-concurrency=1")

    assert outcomes(project) == [outcome] * 2


def test_our_refusal_in_a_fixture_of_several_trials_errs_each_of_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    project.write(
        test_evals="""
        import openai
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.fixture(scope="module")
        def rubric():
            try:
                return openai.OpenAI(base_url="https://api.openai.com/v1").embeddings.create(
                    model="e", input="x"
                )
            except openai.APIStatusError:
                return None

        @llm_eval(repeats=2, intercept=True)
        @pytest.mark.parametrize("n", [1, 2])
        def test_it(rubric, n):
            assert rubric is None
        """
    )

    project.run("--llm-cache=replay")

    assert outcomes(project) == ["errored"] * 4


UNKEPT = """
from pytest_llmeval import llm_eval

@llm_eval(repeats=2)
def test_lists(openai_client):
    openai_client.models.list()

@llm_eval(repeats=2)
def test_scores(openai_client, llm_score):
    try:
        listed = len(list(openai_client.models.list()))
    except Exception:
        listed = 0
    llm_score(listed)
"""


def test_nor_is_a_failure_of_what_is_never_kept(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    project.write(test_evals=UNKEPT)
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        server.then(*[Scripted(status=500)] * 4)

        project.run().assert_outcomes(errors=2)
        assert outcomes(project) == ["errored"] * 4
        project.run().assert_outcomes(passed=2)
        assert outcomes(project) == ["passed"] * 4
        sent = len(server.requests)
        result = project.run("--llm-cache=replay")

    assert outcomes(project) == ["errored"] * 4
    assert len(server.requests) == sent
    result.stdout.fnmatch_lines(["first of them*GET /v1/models is never kept*"])


@pytest.mark.parametrize(
    ("scripted", "outcome"),
    [
        (Scripted(status=405), "errored"),
        (Scripted(status=498), "errored"),
        (Scripted(status=400, body={"error": {"code": "invalid_api_key"}}), "errored"),
        (Scripted(status=413), "crashed"),
        (Scripted(status=403, body={"error": {"code": "content_policy_violation"}}), "crashed"),
        (Scripted(body={"choices": [{}]}), "errored"),
        (Scripted(body={"choices": [{"message": None}]}), "errored"),
        (Scripted(body=b"<html>"), "errored"),
        (Scripted(body={"choices": [{"finish_reason": "content_filter"}]}), "missed"),
    ],
)
def test_a_trial_is_scored_where_the_content_is_at_fault_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch, scripted: Scripted, outcome: str
) -> None:
    body = "assert llm.ask('Hello', model='openai/gpt').text"
    project.write(test_evals=ASKS.format(body=body), pytest_ini=INI)
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        server.then(*[scripted] * 9)
        project.run()

    assert outcomes(project) == [outcome] * 3


def test_a_reply_that_is_larger_than_the_ini_file_allows_errs_its_trial(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "assert llm.ask('Hello', model='openai/gpt').text"
    ini = f"{INI}llm_max_reply_mb = 1\n"
    project.write(test_evals=ASKS.format(body=body), pytest_ini=ini)
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        server.then(*[Scripted(body={"choices": [], "more": "x" * 2**20})] * 3)
        result = project.run()

    assert outcomes(project) == ["errored"] * 3
    result.stdout.fnmatch_lines(["first of them*larger than 1 MiB*llm_max_reply_mb*"])


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [(404, "", ": the provider has no such model or address: correct the name of the model"),
     (401, "invalid_api_key", ": the provider refuses the key: set another one"),
     (429, "insufficient_quota", ": the account has no money left: pay the provider, then")],
)  # fmt: skip
def test_a_mistake_is_not_to_be_run_again(
    project: Project, monkeypatch: pytest.MonkeyPatch, status: int, code: str, told: str
) -> None:
    project.write(test_evals=ASKS.format(body="llm.ask('Hello')"), pytest_ini=INI)
    refused = Scripted(status=status, body={"error": {"message": "no", "code": code}})
    with OpenAIServer() as server:
        server.then(*[refused] * 3)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        printed = " ".join(str(project.run("--llm-model=openai/m").stdout).split())

    assert f"errored trials have no score{told}" in printed
    assert "only calls without a reply" not in printed


def test_where_nothing_could_be_asked_nobody_is_told_to_run_again(project: Project) -> None:
    project.write(test_evals=ASKS.format(body="llm.ask('Hello')"), pytest_ini=INI)

    assert "only calls without a reply" not in str(project.run().stdout)
