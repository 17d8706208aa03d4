"""Sessions without a key: what was paid for is judged, what is new is one line.

Only in a pull request from a fork, and only where the ini file says so, may that line end with 0.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.engine.earlier_runs import may_defer
from pytest_llmeval.runs.ci import CiFacts, read_ci
from pytest_llmeval.settings import GateRules, Settings
from tests.project import Project, made_once
from tests.servers.openai_server import OpenAIServer

EVALS = """
import pytest
from pytest_llmeval import llm_eval
from app import GOOD, PROMPT


@llm_eval(repeats=2)
@pytest.mark.parametrize("case", [f"case-{i}" for i in range(12)])
def test_a(llm, case):
    assert "reply" in llm.ask(PROMPT + case).text


@llm_eval(repeats=2)
@pytest.mark.parametrize("case", [f"case-{i}" for i in range(6)])
def test_b(llm, case):
    assert GOOD in llm.ask("Stay " + case).text
"""
APP = 'PROMPT = "Say "\nGOOD = "reply"\n'
NEW = APP.replace("Say", "Tell")
INI = "[pytest]\nllm_model = openai/gpt\npythonpath = .\n"
DEFER = f"{INI}llm_keyless = defer\n"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OLLAMA_API_KEY")
ASKS_NEW = "12 cases ask something new and there is no key: OPENAI_API_KEY is not set"
LATER = "deferred to the merge queue: 12 cases*"


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, server: OpenAIServer) -> Path:
    """Where the project lies that was made first; its run names the address of the server."""
    return tmp_path_factory.mktemp("keyless") / "project"


@pytest.fixture
def main(
    pytester: pytest.Pytester,
    recorded: Path,
    server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Project:
    """Main recorded with its replies, and a branch begun where secrets are empty texts."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234")

    def record(project: Project) -> None:
        project.write(test_evals=EVALS, app=APP, pytest_ini=DEFER)
        project.commit()
        assert project.run().ret == 0
        project.git("switch", "-qc", "branch")
        project.write(pytest_ini=INI)
        project.commit()

    project = made_once(recorded, pytester, record)
    for name in KEYS:
        monkeypatch.setenv(name, "")
    server.requests.clear()
    return project


@pytest.fixture
def fork(main: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The branch as the pull request of a fork."""
    become(main.path, monkeypatch, head="stranger/bot")
    return main


def become(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    head: str | None,
    event: str = "pull_request",
    content: str | None = None,
) -> None:
    """Let a session run as a job of GitHub."""
    repository = {"full_name": "octo/bot", "default_branch": "main"}
    theirs = {"sha": "a" * 40, "repo": {"full_name": head} if head else None}
    document: dict[str, Any] = {"repository": repository}
    if event.startswith("pull_request"):
        document["pull_request"] = {"head": theirs}
    path = folder / "out" / "event.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document) if content is None else content)
    for name, value in {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": event,
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_BASE_REF": "main",
        "GITHUB_REF": "refs/pull/7/merge",
        "GITHUB_SHA": "b" * 40,
    }.items():
        monkeypatch.setenv(name, value)


def gate(project: Project, *arguments: str) -> tuple[pytest.RunResult, dict[str, Any]]:
    return project.gate("--llm-baseline=main", *arguments)


def test_what_main_paid_for_is_replayed_and_judged(fork: Project, server: OpenAIServer) -> None:
    result, report = gate(fork)

    assert (result.ret, report["verdict"], report["keyless"]) == (0, "unchanged", None)
    assert server.requests == []


def test_cases_that_ask_something_new_are_one_line_and_no_errors(
    fork: Project, server: OpenAIServer
) -> None:
    fork.write(app=NEW)

    result, report = gate(fork)

    assert result.ret == 1
    result.assert_outcomes(passed=6, skipped=12)
    result.stdout.fnmatch_lines([ASKS_NEW, f"*llm evals: {ASKS_NEW}*"])
    assert (report["verdict"], report["fails"], report["why"]) == ("not_comparable", True, ASKS_NEW)
    assert len(report["keyless"]["cases"]) == 12
    assert report["keyless"]["deferred"] is False
    (judged,) = report["functions"]
    assert (judged["function"], judged["cases"]) == ("test_evals.py::test_b", 6)
    assert judged["verdict"] == "unchanged"
    assert server.requests == []


def test_a_single_case_is_counted_as_one(fork: Project) -> None:
    fork.write(test_evals=EVALS.replace("PROMPT + case", 'PROMPT + case.replace("e-3", "?")'))
    result, report = gate(fork)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["1 case asks something new and there is no key: *"])
    assert [one["cases"] for one in report["functions"]] == [11, 6]


def test_a_fork_defers_to_the_merge_queue_where_the_ini_file_says_so(
    fork: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "llmeval-no-key-is-set")
    fork.write(app=NEW, pytest_ini=DEFER)

    result, report = gate(fork)

    assert (result.ret, report["verdict"], report["fails"]) == (0, "deferred", False)
    result.stdout.fnmatch_lines([LATER])
    result.stdout.no_fnmatch_line("*12 cases ask something new*")
    assert report["keyless"]["deferred"] is True
    assert "deferred" in report["why"]


def test_no_branch_lets_itself_off(
    fork: Project, monkeypatch: pytest.MonkeyPatch, server: OpenAIServer
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234")
    fork.write(pytest_ini=INI)
    assert fork.run().ret == 0
    monkeypatch.setenv("OPENAI_API_KEY", "")
    fork.write(app=NEW, pytest_ini=DEFER)

    result = fork.run("--llm-baseline=last")

    assert result.ret == 1
    told = f"{ASKS_NEW} (not deferred: the ini file of the baseline does not say so)"
    result.stdout.fnmatch_lines([told, "differs from the baseline: llm_keyless: fail -> defer"])
    assert server.requests == []


def test_every_case_may_be_deferred(fork: Project) -> None:
    new = EVALS.replace("Stay ", "Go ")
    fork.write(app=NEW, test_evals=new, pytest_ini=DEFER)
    result, report = gate(fork)
    assert (result.ret, report["verdict"], report["functions"]) == (0, "deferred", [])
    result.stdout.fnmatch_lines(["deferred to the merge queue: 18 cases*"])
    result.stdout.no_fnmatch_line("*not gated*")

    fork.write(pytest_ini=INI)
    result, report = gate(fork)
    assert (result.ret, report["verdict"]) == (1, "not_comparable")


def test_cases_that_a_fork_removed_are_named_where_the_rest_is_deferred(fork: Project) -> None:
    fewer = EVALS.replace("range(12)", "range(6)")
    fork.write(app=NEW, test_evals=fewer, pytest_ini=DEFER)
    result, report = gate(fork)
    assert (result.ret, report["verdict"]) == (0, "deferred")
    result.stdout.fnmatch_lines(["note: 6 cases of the baseline are not here any more*case-6*"])


def test_workers_defer_alike(fork: Project) -> None:
    fork.write(app=NEW, pytest_ini=DEFER)
    result, report = gate(fork, "-p", "xdist", "-n2")
    assert (result.ret, report["verdict"]) == (0, "deferred")
    result.assert_outcomes(passed=6, skipped=12)


def test_a_session_that_is_not_to_be_gated_has_an_error_a_case(fork: Project) -> None:
    fork.write(app=NEW, pytest_ini=DEFER)
    result, report = fork.gate()
    assert (result.ret, report["verdict"], report["keyless"]) == (1, "not_gated", None)
    result.assert_outcomes(passed=6, errors=12)
    result.stdout.fnmatch_lines(["first of them *OPENAI_API_KEY is not set*"])


def test_the_branch_itself_does_not_pass_for_want_of_a_key(
    main: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a missing baseline stops no job of CI, so nothing else would."""
    become(main.path, monkeypatch, head=None, event="push")
    monkeypatch.setenv("GITHUB_REF", "refs/heads/main")
    main.git("switch", "-q", "main")
    for path in main.runs():
        path.unlink()
    main.write(app=NEW, test_evals=EVALS.replace("Stay", "Go"), pytest_ini=DEFER)
    monkeypatch.setenv("GITHUB_SHA", main.commit())
    result, report = gate(main)
    assert (result.ret, report["verdict"]) == (1, "could_not_judge")
    result.assert_outcomes(skipped=18)


def test_further_repeats_ask_something_new(fork: Project) -> None:
    fork.write(pytest_ini=DEFER)
    result, _ = gate(fork, "--llm-repeats=3")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["deferred to the merge queue: 18 cases*"])


@pytest.mark.parametrize(
    ("variables", "may"),
    [
        ({}, True),
        (dict.fromkeys(KEYS, ""), True),  # a secret that a fork is not given
        (dict.fromkeys(KEYS, "  "), True),
        (dict.fromkeys(KEYS, "llmeval-no-key-is-set"), True),  # what a workflow puts in its place
        *(({name: "sk-other"}, False) for name in (*KEYS, "AZURE_OPENAI_API_KEY")),
    ],
)
def test_a_fork_that_was_given_any_key_does_not_defer(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], may: bool
) -> None:
    settings = Settings(session="s", gate=GateRules(keyless="defer"))
    fork = CiFacts(provider="github", event="pull_request", fork=True)
    assert may_defer(settings, fork, variables) is may
    assert not may_defer(replace(settings, gate=GateRules()), fork, variables)
    assert not may_defer(settings, replace(fork, is_queued=True), variables)
    assert not may_defer(settings, replace(fork, fork=None), variables)


JOBS: dict[str, dict[str, Any]] = {
    "push": {"head": "stranger/bot", "event": "push"},
    "merge queue": {"head": "stranger/bot", "event": "merge_group"},
    "pull_request_target": {"head": "stranger/bot", "event": "pull_request_target"},
    "workflow_run": {"head": "stranger/bot", "event": "workflow_run"},
    "no JSON": {"head": "stranger/bot", "content": "{"},
    "another JSON": {"head": "stranger/bot", "content": "[]"},
    "no head": {"head": None, "content": '{"repository": {"full_name": "octo/bot"}}'},
    "no repository": {"head": None, "content": '{"pull_request": {"head": {"repo": null}}}'},
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_no_other_job_is_one_of_a_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: dict[str, Any]
) -> None:
    become(tmp_path, monkeypatch, **job)
    assert read_ci(os.environ).fork is None


def test_nobody_else_defers(main: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a branch of the same repository, whose workflow leaves the key out."""
    become(main.path, monkeypatch, head="octo/bot")
    main.write(app=NEW, pytest_ini=DEFER)

    result, report = main.gate(f"--llm-baseline={run_id(main)}")

    assert (result.ret, report["verdict"]) == (1, "not_comparable")
    result.stdout.fnmatch_lines(
        [f"{ASKS_NEW} (not deferred: this is no pull request of a fork, or a key is set)"]
    )


def run_id(project: Project) -> str:
    return project.runs()[0].name.partition(".")[0]


def test_nor_does_a_laptop(main: Project) -> None:
    main.write(app=NEW, pytest_ini=DEFER)
    result, report = gate(main)
    assert (result.ret, report["verdict"]) == (1, "not_comparable")


GITLAB = {
    "GITLAB_CI": "true",
    "CI_PIPELINE_SOURCE": "merge_request_event",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    "CI_MERGE_REQUEST_PROJECT_ID": "1",
    "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "2",
    "CI_COMMIT_SHA": "b" * 40,
}


@pytest.mark.parametrize(("kind", "ends"), [("detached", 0), ("merge_train", 1)])
def test_a_merge_train_defers_to_nobody(
    main: Project, monkeypatch: pytest.MonkeyPatch, kind: str, ends: int
) -> None:
    for name, value in {**GITLAB, "CI_MERGE_REQUEST_EVENT_TYPE": kind}.items():
        monkeypatch.setenv(name, value)
    main.write(app=NEW, pytest_ini=DEFER)
    assert main.run(f"--llm-baseline={run_id(main)}").ret == ends


def test_a_conftest_cannot_make_a_fork_of_it(
    main: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    become(main.path, monkeypatch, head="octo/bot")
    forged = json.dumps(
        {
            "repository": {"full_name": "octo/bot"},
            "pull_request": {"head": {"sha": "a" * 40, "repo": {"full_name": "else/bot"}}},
        }
    )
    (main.path / "out" / "forged.json").write_text(forged)
    conftest = 'import os\nos.environ["GITHUB_EVENT_PATH"] = "out/forged.json"\n'
    main.write(app=NEW, pytest_ini=DEFER, conftest=conftest)
    assert main.run("--llm-baseline=main").ret == 1


def test_a_conftest_cannot_take_the_key_away(
    fork: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234")
    conftest = 'import os\nos.environ.pop("OPENAI_API_KEY", None)\n'
    fork.write(app=NEW, pytest_ini=DEFER, conftest=conftest)
    assert gate(fork)[0].ret == 1


@pytest.mark.parametrize("strict", [(), ("--llm-strict",)], ids=["plain", "strict"])
def test_a_regression_beside_what_is_deferred_fails(fork: Project, strict: tuple[str, ...]) -> None:
    fork.write(app=NEW.replace('"reply"', '"REPLY"'), pytest_ini=DEFER)

    result, report = gate(fork, *strict)

    assert (result.ret, report["verdict"], report["fails"]) == (1, "regressed", True)
    result.stdout.fnmatch_lines([LATER, "*llm evals: test_b fell by 1.000 *"])


def test_a_function_that_is_gone_beside_what_is_deferred_fails(fork: Project) -> None:
    fork.write(app=NEW, pytest_ini=DEFER, test_evals=EVALS.replace("def test_b", "def helper"))
    result, report = gate(fork)
    assert (result.ret, report["fails"]) == (1, True)
    result.stdout.fnmatch_lines(["*test_b: not comparable: the baseline has it*"])


def test_cases_that_a_conftest_passes_over_are_not_deferred(fork: Project) -> None:
    conftest = """
    def pytest_runtest_protocol(item):
        return True if "case-5" in item.name else None
    """
    fork.write(app=NEW, pytest_ini=DEFER, conftest=conftest)
    result, report = gate(fork)
    assert (result.ret, report["fails"]) == (1, True)


BROKEN = """
    try:
        llm.ask("Hi", model="function/model:broken")
    except Exception:
        pass
"""


@pytest.mark.parametrize("place", ["same trial", "another trial"])
def test_a_case_that_lost_calls_for_another_reason_too_is_not_deferred(
    fork: Project, place: str
) -> None:
    """In the same trial the loss alone would be none: the trial goes on without it."""
    model = "def broken(messages):\n    raise OSError('down')\n"
    body = BROKEN
    if place == "another trial":
        body = '    if request.node.name == "test_a[case-3]":\n        llm.ask("rate=1", model='
        body += '"function/model:once")\n'
        model = "TIMES = []\n\ndef once(messages):\n    TIMES.append(1)\n"
        model += "    if len(TIMES) > 1:\n        raise OSError('down')\n    return 'yes'\n"
    evals = EVALS.replace("test_a(llm, case):\n", f"test_a(llm, case, request):\n{body}")
    fork.write(app=NEW, test_evals=evals, model=model, pytest_ini=DEFER)

    result, report = gate(fork)

    assert result.ret == 1
    assert report["keyless"]["deferred"] is False
    result.stdout.fnmatch_lines(["*(not deferred: some of them lost calls for another reason too)"])


def test_other_errors_beside_what_is_deferred_fail(fork: Project) -> None:
    evals = EVALS.replace('llm.ask("Stay " + case)', 'llm.ask("x", model="function/model:broken")')
    model = "def broken(messages):\n    raise OSError('down')\n"
    fork.write(app=NEW, test_evals=evals, model=model, pytest_ini=DEFER)
    result, report = gate(fork)
    assert (result.ret, report["fails"]) == (1, True)
    result.assert_outcomes(errors=6, skipped=12)


def test_without_a_baseline_nothing_is_deferred(fork: Project) -> None:
    fork.write(app=NEW, pytest_ini=DEFER)
    for path in fork.runs():
        path.unlink()
    result, report = gate(fork, "--llm-on-missing=warn")
    assert (result.ret, report["verdict"]) == (1, "could_not_judge")
    assert {one["function"] for one in report["functions"]} == {"test_evals.py::test_b"}
    result.stdout.fnmatch_lines(
        ["*12 cases ask something new*(not deferred: there is no baseline)"]
    )


BUILDS = """
import openai
from pytest_llmeval import llm_eval
from app import PROMPT

@llm_eval(repeats=2, intercept=True)
def test_app():
    messages = [{"role": "user", "content": PROMPT}]
    reply = openai.OpenAI().chat.completions.create(model="gpt", messages=messages)
    assert "reply" in reply.choices[0].message.content
"""


def test_clients_of_the_application_need_no_more_than_a_text_in_the_place_of_a_key(
    main: Project, monkeypatch: pytest.MonkeyPatch, server: OpenAIServer
) -> None:
    become(main.path, monkeypatch, head="stranger/bot")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234")
    main.write(test_evals=BUILDS, pytest_ini=DEFER)
    assert main.run().ret == 0
    assert len(server.requests) == 2
    monkeypatch.setenv("OPENAI_API_KEY", "llmeval-no-key-is-set")
    baseline = f"--llm-baseline={main.runs()[-1].name.partition('.')[0]}"

    assert main.gate(baseline)[1]["verdict"] == "unchanged"
    main.write(app=NEW)
    result, report = main.gate(baseline)

    assert (result.ret, report["verdict"]) == (0, "deferred")
    assert len(server.requests) == 2


SWALLOWS = """
import pytest
from pytest_llmeval import llm_eval
from app import PROMPT

@pytest.fixture
def asked(llm):
    return llm.ask(PROMPT).text

@pytest.fixture(scope="module")
def asked_once(request):
    return request.config

@llm_eval(repeats=2)
def test_in_setup(asked):
    assert asked

@llm_eval(repeats=2)
def test_swallows(llm, llm_score):
    try:
        llm.ask(PROMPT)
    except Exception:
        llm_score(1)

@llm_eval(repeats=2)
def test_skips(llm):
    try:
        llm.ask(PROMPT)
    except Exception:
        pytest.skip("no key, no test")

@llm_eval(repeats=2)
@pytest.mark.xfail
def test_may_fail(llm):
    assert llm.ask(PROMPT)

@llm_eval(repeats=2)
async def test_gathers(async_llm):
    import asyncio
    await asyncio.gather(*(async_llm.ask(f"{PROMPT} {i}") for i in range(3)))
"""


def test_whatever_a_test_makes_of_it_the_line_is_the_same(fork: Project) -> None:
    fork.write(test_evals=SWALLOWS, app=NEW)

    result = fork.run("--llm-baseline=main")

    assert result.ret == 1
    result.assert_outcomes(skipped=5)
    result.stdout.fnmatch_lines(["5 cases ask something new and there is no key*"])


def test_a_base_url_that_is_not_set_is_named_as_the_reason(
    fork: Project, monkeypatch: pytest.MonkeyPatch, server: OpenAIServer
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "")

    result, _ = gate(fork)

    assert result.ret == 1
    alias = f"llm_origin_alias = https://api.openai.com = {server.origin}"
    told = f"18 cases ask something new and there is no key: OPENAI_API_KEY is not set; *{alias}"
    result.stdout.fnmatch_lines([told])
    result.stdout.fnmatch_lines(["*OPENAI_BASE_URL is not set either, and the host is part of*"])

    fork.write(pytest_ini=f"{INI}{alias}\n")
    result, report = gate(fork)
    assert (result.ret, report["verdict"]) == (0, "unchanged")

    fork.write(app=NEW)
    result, _ = gate(fork)
    assert result.ret == 1
    result.stdout.fnmatch_lines([ASKS_NEW])
