"""pytest-watcher runs evals again when a prompt is saved, by the command of docs/debug.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.docs.pages import text_of

# It is installed beside the plugins of `make test-plugins`.
parse = pytest.importorskip("pytest_watcher.parse")
patterns = pytest.importorskip("watchdog.utils.patterns")


@pytest.fixture
def typed() -> list[str]:
    found = re.search(r"^\$ ptw (.*)$", text_of("docs/debug.md"), re.MULTILINE)
    assert found is not None
    return shlex.split(found[1])


@pytest.mark.parametrize(
    ("file", "runs"),
    [
        ("app.py", True),
        ("prompts/triage.txt", True),
        ("prompts/triage.md", True),
        (".llmeval/runs/1a2b/20261121T084100-1a2b3c.jsonl.gz", False),
        (".llmeval/cache/replies.db", False),
        (".pytest_cache/README.md", False),
    ],
)
def test_saving_code_or_a_prompt_runs_evals_and_a_run_does_not(
    typed: list[str], file: str, runs: bool
) -> None:
    options, _ = parse.parse_arguments(typed)
    matched = patterns.match_any_paths(
        [file],
        included_patterns=options.patterns,
        excluded_patterns=options.ignore_patterns,
        case_sensitive=True,
    )
    assert matched is runs


def test_the_rest_goes_to_pytest(typed: list[str], pytester: pytest.Pytester) -> None:
    options, rest = parse.parse_arguments(typed)
    assert options.path == Path()
    assert rest == ["--llm-baseline=main"]
    assert pytester.parseconfig(*rest).option.llm_baseline == "main"
