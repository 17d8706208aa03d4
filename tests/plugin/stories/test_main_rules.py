"""A branch cannot pass a worse prompt by its own configuration."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main
from tests.plugin.test_gating import record_few
from tests.project import INI, Project, made_once

WORSE = 'PROMPT = "Say yes to {case}. rate=0.2"\n'
GATE = "--llm-baseline=main"


@pytest.fixture
def worse(pytester: pytest.Pytester, originals: Path) -> Project:
    """A branch with a worse prompt; main is recorded."""
    project = made_once(originals / "few", pytester, record_few)
    project.write(app=WORSE)
    return project


def configured(project: Project, lines: str) -> None:
    project.write(pytest_ini=INI + lines)
    project.commit("worse, and laxer")


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ("llm_margin = 0.98\nllm_target = 0.99\n", "llm_margin = 0.98 was not followed"),
        ("llm_alpha = 1e-12\n", "llm_alpha = 1e-12 was not followed"),
        ("addopts = --llm-alpha=1e-12\n", "the baseline was recorded with 0.05"),
        ("llm_test = sign-flip\n", "llm_test = sign-flip was not followed"),
    ],
)
def test_laxer_rules_of_a_branch_do_not_pass_it(worse: Project, lines: str, note: str) -> None:
    configured(worse, lines)

    result, report = worse.gate(GATE)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "regressed")
    assert any(note in line for line in report["notes"])
    assert note in str(result.stdout)


def test_typed_rules_are_followed(worse: Project) -> None:
    worse.commit("worse")

    result, report = worse.gate(GATE, "--llm-margin=0.98", "--llm-target=0.99")

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.OK, "no_significant_change")


def test_cases_that_go_meet_main_limit(worse: Project) -> None:
    fewer = (worse.path / "test_evals.py").read_text().replace("range(10)", "range(2)")
    worse.write(test_evals=fewer)
    configured(worse, "llm_max_gone = 1\n")

    result, report = worse.gate(GATE)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "not_comparable")


@pytest.mark.parametrize("typed", [(), ("--llm-strict",)])
def test_going_on_ungated_is_typed_in_ci(
    worse: Project, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...]
) -> None:
    configured(worse, "addopts = --llm-on-missing=warn --llm-dir=nowhere\n")
    monkeypatch.setenv("CI", "true")

    result = worse.run(GATE, *typed)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--llm-on-missing=warn was set by addopts*Type it in the job's*"])


@pytest.mark.parametrize("line", ["llm_dir = own", "addopts = --llm-dir=own"])
def test_a_folder_that_the_branch_names_is_said(
    worse: Project, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    shutil.copytree(worse.path / ".llmeval", worse.path / "own")  # what a branch could plant
    configured(worse, f"{line}\n")
    (worse.path / ".gitignore").write_text("*\n")
    monkeypatch.setenv("CI", "true")
    said = f"*those of {worse.path / 'own'}, which llm_dir or addopts of this branch name*"

    wide = ("-o", "console_output_style=classic")
    worse.run(GATE, *wide).stdout.fnmatch_lines([said])

    result = worse.run(GATE, "--llm-dir=own", *wide)
    result.stdout.no_fnmatch_line(said)


@pytest.mark.parametrize("part", ["llmeval-session", "llmeval-engine"])
def test_the_gate_cannot_be_taken_out_alone(worse: Project, part: str) -> None:
    configured(worse, f"addopts = -p no:{part}\n")

    result = worse.run(GATE)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*-p no:{part} takes the gate away*"])


def test_a_shard_is_not_made_smaller_by_addopts(project: Project) -> None:
    evals = (project.path / "test_evals.py").read_text()
    project.write(test_other=evals.replace("test_says_yes", "test_other"))
    project.commit("two functions")
    project.run()
    project.git("switch", "-qc", "feature")
    project.write(app=WORSE, pytest_ini=INI + "addopts = --ignore=test_other.py\n")
    project.commit("worse in both")
    shard = Path("shard0")
    project.run(f"--llm-dir={shard}")

    result = CliRunner().invoke(main, ["merge", str(shard), "--baseline=main"])

    assert result.exit_code == 1, result.output
    assert "not judged" not in result.output
    assert "test_other" in result.output
    shutil.rmtree(shard)


@pytest.mark.parametrize(
    "line",
    [
        "config.option.llm_baseline = None",
        "config.option.llm_baseline = 'HEAD'",
        "config.option.llm_alpha = '1e-12'",
    ],
)
def test_a_conftest_cannot_change_what_is_typed(worse: Project, line: str) -> None:
    hook = "@pytest.hookimpl(tryfirst=True)\ndef pytest_configure(config):\n"
    worse.write(conftest=f"import pytest\n{hook}    {line}\n")
    worse.commit("worse, and the gate elsewhere")

    result, report = worse.gate(GATE, "--llm-alpha=0.05")

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "regressed")


FORGED = """
import dataclasses, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    typed = (*config.invocation_params.args, "--llm-alpha=1e-12", "--llm-max-gone=1")
    config.invocation_params = dataclasses.replace(config.invocation_params, args=typed)
    config.known_args_namespace.llm_alpha = "1e-12"
    config.known_args_namespace.llm_baseline = None
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_conftest_cannot_say_that_its_rules_were_typed(
    worse: Project, workers: tuple[str, ...]
) -> None:
    worse.write(conftest=FORGED)
    configured(worse, "addopts = --llm-alpha=1e-12 --llm-max-gone=1\n")

    result, report = worse.gate(GATE, *workers)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "regressed")
    for rule in ("llm_alpha = 1e-12", "llm_max_gone = 1"):
        assert any(line.startswith(f"{rule} was not followed") for line in report["notes"])


@pytest.mark.parametrize("name", ["collectonly", "setupplan"])
def test_a_conftest_cannot_let_no_test_run(worse: Project, name: str) -> None:
    hook = "@pytest.hookimpl(tryfirst=True)\ndef pytest_configure(config):\n"
    worse.write(conftest=f"import pytest\n{hook}    config.option.{name} = True\n")
    worse.commit("worse")

    assert worse.run(GATE).ret == pytest.ExitCode.TESTS_FAILED


def test_a_conftest_cannot_let_a_gate_go_on_ungated(
    worse: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = "@pytest.hookimpl(tryfirst=True)\ndef pytest_configure(config):\n"
    worse.write(conftest=f"import pytest\n{hook}    config.option.llm_on_missing = 'warn'\n")
    worse.commit("worse")
    shutil.rmtree(worse.path / ".llmeval" / "runs")
    monkeypatch.setenv("CI", "true")

    assert worse.run(GATE, "--llm-on-missing=error").ret == pytest.ExitCode.USAGE_ERROR


APART = """
RATES = {}

def ask_for(case):
    return f"Say yes to {case}. rate={RATES.get(case, 1)}"
"""
MARKED = """
import pytest
from pytest_llmeval import llm_eval
from app import ask_for

@llm_eval(repeats=4, min_score=0.75)
@pytest.mark.parametrize("case", [f"case-{i}" for i in range(8)])
def test_says_yes(llm, llm_score, case):
    llm_score(len(case), "length")
    llm_score(case.count("-"), "dashes")
    llm_score(ord(case[-1]), "last")
    assert llm.ask(ask_for(case)).text == "yes"
"""


def record_marked(project: Project) -> None:
    project.write(app=APART, test_evals=MARKED)
    project.commit("marked")
    assert project.run().ret == 0
    project.git("switch", "-qc", "branch")


@pytest.fixture
def marked(pytester: pytest.Pytester, originals: Path) -> Project:
    """A branch whose main has a mark with repeats and a least mean; main is recorded."""
    return made_once(originals / "marked", pytester, record_marked)


def branch_off(project: Project, rates: dict[str, float], old: str, new: str) -> None:
    """Commit a worse prompt of these rates, with another mark."""
    assert old in MARKED
    project.write(app=APART.replace("{}", str(rates), 1), test_evals=MARKED.replace(old, new))
    project.commit("worse, and another mark")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", min_score=0.75", ", min_score=0"),
        (", min_score=0.75", ""),
        (", min_score=0.75", ", min_score=0.75, gate='length'"),
        ("@pytest.mark.param", "@pytest.mark.xfail\n@pytest.mark.param"),
    ],
)
def test_a_branch_cannot_lower_min_score_for_itself(marked: Project, old: str, new: str) -> None:
    branch_off(marked, {"case-3": 0}, old, new)

    result, report = marked.gate(GATE, *(("-n", "1") if new else ()))

    assert (result.ret, report["fails"]) == (pytest.ExitCode.TESTS_FAILED, True)
    assert report["verdict"] != "regressed"  # one case of eight
    result.stdout.fnmatch_lines(
        ["*below the min_score of the baseline: test_says_yes[[]case-3[]] (pass 0.000, 0.75). *"]
    )


def test_a_min_score_that_is_lowered_alone_is_said_and_passes(marked: Project) -> None:
    branch_off(marked, {}, ", min_score=0.75", ", min_score=0.5")

    result, report = marked.gate(GATE)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.OK, "unchanged")
    said = "test_says_yes: min_score=0.5 was not followed: the baseline was recorded with 0.75, "
    assert any(line.startswith(said) for line in report["notes"])

    marked.git("switch", "-q", "main")
    marked.git("merge", "-q", "branch")
    assert marked.run(GATE).ret == pytest.ExitCode.OK
    marked.git("switch", "-q", "branch")
    marked.write(app=APART.replace("{}", "{'case-3': 0}", 1))
    marked.write(test_evals=MARKED.replace("0.75", "0"))
    marked.commit("worse, by the rules of main")
    result, report = marked.gate(GATE)
    assert "(pass 0.000, 0.5)" in str(result.stdout)


def test_more_metrics_in_gate_hide_no_fall(marked: Project) -> None:
    rates = {f"case-{at}": 0 for at in range(5)}
    branch_off(marked, rates, "min_score=0.75", "gate=('pass', 'length', 'dashes', 'last')")

    result, report = marked.gate(GATE)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    verdicts = {one["metric"]: one["verdict"] for one in report["functions"]}
    assert verdicts == {"pass": "regressed", "length": "new", "dashes": "new", "last": "new"}


@pytest.mark.parametrize("how", ["mark", "ini", "addopts"])
def test_fewer_repeats_of_a_branch_hide_no_fall(marked: Project, how: str) -> None:
    rates = {f"case-{at}": 0.7 for at in range(3)}
    mark, lines = {
        "mark": ("repeats=1", "# no other line\n"),
        "ini": ("", "llm_repeats = 1\n"),
        "addopts": ("repeats=4", "addopts = --llm-repeats=1\n"),
    }[how]
    branch_off(marked, rates, "repeats=4, min_score=0.75", mark)
    configured(marked, lines)

    result, report = marked.gate(GATE)

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "inconclusive")
    said = "test_says_yes: repeats=1 here, and 4 in the baseline: inconclusive fails the build"
    assert any(line.startswith(said) for line in report["notes"])
    result.stdout.fnmatch_lines(["*inconclusive*fails the build: fewer repeats than *"])

    (note,) = [line for line in report["notes"] if line.startswith(said)]
    for typed in ("--llm-repeats=2", note.rpartition(", type ")[2]):
        marked.run(GATE, typed).stdout.no_fnmatch_line("*fewer repeats*")
