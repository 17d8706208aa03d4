"""A mistake of the user is one ERROR line and exit code 4."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.project import Project

USAGE_ERROR = 4


def error_line(result: pytest.RunResult) -> str:
    lines = [line for line in result.outlines + result.errlines if line.startswith("ERROR: ")]
    assert len(lines) == 1, result.outlines + result.errlines
    assert "Traceback" not in str(result.stdout) + str(result.stderr)
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("repeats=0", "repeats must be a whole number of 1 or more, not 0"),
        ("repeats='5'", "repeats must be a whole number of 1 or more, not '5'"),
        ("repeats=True", "repeats must be a whole number of 1 or more, not True"),
        ("repeats=2.0", "repeats must be a whole number of 1 or more, not 2.0"),
        ("repeat=5", "no argument is called repeat. Did you mean repeats?"),
        ("threshold=5", "no argument is called threshold. It has repeats, min_score"),
        ("5, 3", "only repeats may be given by position"),
        ("min_score='high'", "min_score must be a finite number such as 0.8, not 'high'"),
        ("min_score=float('nan')", "min_score must be a finite number such as 0.8, not nan"),
        ("gate=3", 'gate must name metrics, as in gate="score", not 3'),
        ("gate=['a', 'a']", 'gate must name metrics, as in gate="score"'),
        ("better='bigger'", 'better must be "higher" or "lower", not \'bigger\''),
        ("gate='pass', better='lower'", "nothing to turn: higher of pass is always better"),
        ("gate='seconds', better='lower'", "nothing to turn: lower of seconds is always better"),
        ("gate=('cost', 'pass'), better='lower'", "lower of cost and higher of pass is always"),
        ("gate='tokens', better='higher'", "nothing to turn: lower of tokens is always better"),
        (
            "gate='latency_ms'",
            "of latency_ms, is a higher or a lower value better? Say so, as in better={",
        ),
        (
            "gate=('wer', 'loss'), better={'wer': 'lower'}",
            "of loss, is a higher or a lower value better?",
        ),
        ("better={'wer': 'up'}", 'better must be "higher" or "lower", not \'up\''),
        ("better={'seconds': 'higher'}", "'seconds' has a direction of its own"),
        ("cluster='doc'", "cluster must name an argument of parametrize (none here), not 'doc'"),
    ],
)
def test_an_impossible_marker_argument(
    pytester: pytest.Pytester, arguments: str, expected: str
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.llm_eval({arguments})
        def test_it(): pass
        """
    )

    result = pytester.runpytest()

    assert result.ret == USAGE_ERROR
    line = error_line(result)
    assert "::test_it: @llm_eval: " in line
    assert expected in line


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("@llm_eval(repeats=2)\nasync def test_it(): yield", "an async generator"),
        (
            "import unittest\nclass TestIt(unittest.TestCase):\n"
            "    @llm_eval\n    def test_it(self): pass",
            "a unittest method",
        ),
        (
            "from hypothesis import given, strategies as st\n"
            "@llm_eval\n@given(st.integers())\ndef test_it(n): pass",
            "a @given function",
        ),
    ],
    ids=["async-generator", "unittest", "hypothesis"],
)
def test_what_cannot_be_an_eval(pytester: pytest.Pytester, source: str, expected: str) -> None:
    pytester.makepyfile(f"from pytest_llmeval import llm_eval\n{source}\n")

    result = pytester.runpytest()

    assert result.ret == USAGE_ERROR
    assert f"@llm_eval does not work on {expected}" in error_line(result)


OTHER_KINDS = '''
import unittest
import pytest
from hypothesis import given, strategies as st

pytestmark = pytest.mark.llm_eval(repeats=2)


def answer(messages):
    """
    >>> 1
    1
    """
    return "yes"


@given(st.integers())
def test_given(n):
    assert n == n


@pytest.mark.llm_eval(repeats=3)
class TestOld(unittest.TestCase):
    def test_method(self):
        pass
'''
PLAIN = """

def test_plain(llm):
    assert llm.ask("a").text == "yes"
"""
WARNS = ("-p", "no:cacheprovider", "-W", "default::pytest.PytestWarning", "--doctest-modules")
BESIDE = (
    "*test_kinds.py*PytestWarning: test_kinds.py::test_kinds.answer is a DoctestItem, and 2 more "
    "like it: under the @llm_eval of a module or class such a test runs once, as an ordinary test"
)


@pytest.mark.parametrize("options", [(), ("-n2",)])
def test_what_stands_under_the_mark_of_a_module_or_class_stays_an_ordinary_test(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_kinds=OTHER_KINDS + PLAIN)
    pytester.makeini("[pytest]\nllm_model = function/test_kinds:answer\npythonpath = .")

    result = pytester.runpytest(*WARNS, *options)

    result.assert_outcomes(passed=4, warnings=1)
    result.stdout.fnmatch_lines([BESIDE, "1 case x 2 repeats *2 calls made*"])


def test_without_an_eval_beside_them_there_is_no_section(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_kinds=OTHER_KINDS)

    result = pytester.runpytest(*WARNS)

    result.assert_outcomes(passed=3, warnings=1)
    result.stdout.no_fnmatch_line("*llm evals*")


def test_where_warnings_are_errors_it_is_a_line_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_kinds=OTHER_KINDS + PLAIN)

    result = pytester.runpytest("-W", "error::pytest.PytestWarning")

    assert result.ret == USAGE_ERROR
    assert "test_kinds.py::test_given is a @given function, and 1 more" in error_line(result)


def test_a_doctest_cannot_be_an_eval(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.llm_eval)
        """
    )
    pytester.makepyfile('def f():\n    """\n    >>> 1\n    1\n    """\n')

    result = pytester.runpytest("--doctest-modules")

    assert result.ret == USAGE_ERROR
    assert "does not work on a DoctestItem" in error_line(result)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--llm-repeats=0", "--llm-repeats=0: must be a whole number of 1 or more"),
        ("--llm-repeats=five", "--llm-repeats=five: must be a whole number"),
        ("--llm-alpha=0.5", "--llm-alpha=0.5: must lie above 0 and below 0.5"),
        ("--llm-alpha=1e-300", "--llm-alpha=1e-300: must lie above 0"),
        ("--llm-alpha=nan", "--llm-alpha=nan: must be a number"),
        ("--llm-timeout=0", "--llm-timeout=0: must be a number of seconds above 0, such as 600"),
        ("--llm-timeout=soon", "--llm-timeout=soon: must be a number of seconds above 0"),
        ("--llm-margin=-1", "--llm-margin=-1: must be 0 or more"),
        ("--llm-target=0", "--llm-target=0: must be above 0"),
        ("--llm-margin=0.1", "--llm-margin=0.1 must be smaller than --llm-target=0.1"),
        ("--llm-cache=on", "--llm-cache=on: must be one of auto, replay, refresh, off"),
        ("--llm-on-missing=skip", "--llm-on-missing=skip: must be one of error, warn"),
        ("--llm-report=out.pdf", "--llm-report=out.pdf: a report ends in .json, .md or .html"),
        ("--llm-model= ", "--llm-model= : the value is empty"),
    ],
)
def test_an_unknown_option_value(pytester: pytest.Pytester, option: str, expected: str) -> None:
    pytester.makepyfile("def test_ordinary(): pass")

    result = pytester.runpytest(option)

    assert result.ret == USAGE_ERROR
    assert expected in error_line(result)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("llm_repeats = five", "llm_repeats=five in the ini file: must be a whole number of 1 or"),
        ("llm_max_cost = $x", "llm_max_cost=$x in the ini file: must be"),
        ("llm_intercept = maybe", "llm_intercept=maybe in the ini file: must be true or false"),
        ("llm_alpha = 2", "llm_alpha=2.0 in the ini file: must lie above 0 and below 0.5"),
        ("llm_cache = on", "llm_cache=on in the ini file: must be one of auto"),
        ("llm_max_reply_mb = 0", "llm_max_reply_mb=0 in the ini file: must be a whole number of 1"),
        ("llm_max_reply_mb = 257", "must be a whole number of 1 to 256, such as 128"),
        ("llm_max_gone = 2", "llm_max_gone=2.0 in the ini file: must lie between 0 and 1"),
        ("llm_accept_gone = *", "'*' gives everything up; name what is gone"),
        ("llm_accept_gone = **::*:*", "gives everything up"),
        ("llm_accept = test_a:pass", "'test_a:pass' accepts no drop; write a test function, its"),
        ("llm_accept = test_b:pass @ 97a1bbe", "as the section prints it: test_b:pass >= 0.38  ("),
        ("llm_accept = test_a:pass >= nan", "'test_a:pass >= nan' accepts no drop"),
        ("llm_accept = test_a:pass >= x", "prints it: test_a:pass >= 0.38  (<= where lower is"),
        ("llm_accept = e.py::test_a >= 0.3", "'e.py::test_a >= 0.3' accepts no drop"),
        ("llm_accept = :pass >= 0.3", "':pass >= 0.3' accepts no drop"),
        ("llm_accept = *:pass >= 0.3", "'*:pass >= 0.3' accepts no drop"),
        ("llm_accept = test_a[x]:pass >= 0.3", "'test_a[x]:pass >= 0.3' accepts no drop"),
        (
            "llm_renamed = test_a",
            "'test_a' is not OLD -> NEW with two names of a folder, file, class,",
        ),
        ("llm_renamed = a -> a", "'a -> a' is not OLD -> NEW with two names"),
        ("llm_renamed =\n  a -> c\n  b -> c", "a -> c and b -> c: one name stands for one"),
        ("llm_renamed =\n  a -> b\n  a -> c", "a -> b and a -> c: one name stands for one"),
        ("llm_origin_alias = localhost", "'localhost' is no pair of origins"),
        ("llm_strict = perhaps", "llm_strict=perhaps in the ini file: must be true or false"),
    ],
)
def test_an_unknown_ini_value(pytester: pytest.Pytester, line: str, expected: str) -> None:
    pytester.makeini(f"[pytest]\n{line}\n")
    pytester.makepyfile("def test_ordinary(): pass")

    result = pytester.runpytest()

    assert result.ret == USAGE_ERROR
    assert expected in error_line(result)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o", "gpt-4o"),
        ("openai/", "openai/"),
        ("acme/gpt", "acme"),
        ("function/model", "function/model"),
        ("function/nowhere:answer", "nowhere"),
        ("function/model:nothing", "nothing"),
        ("function/model:CALLS", "CALLS"),
    ],
)
def test_a_model_that_cannot_be(project: Project, model: str, expected: str) -> None:
    result = project.run(f"--llm-model={model}")

    assert result.ret == USAGE_ERROR
    assert expected in error_line(result)
    assert project.calls() == 0


def test_an_llm_fixture_outside_an_eval_is_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_ordinary(llm): pass")

    result = pytester.runpytest()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*py::test_ordinary uses an llm fixture but is no eval: mark it with @llm_eval*"]
    )


def test_the_command_line_overrides_the_ini_file(project: Project) -> None:
    project.write(pytest_ini="[pytest]\nllm_model = acme/none\npythonpath = .\nllm_strict = true\n")

    result, report = project.gate("--llm-model=function/model:answer", "--no-llm-strict")

    assert result.ret == 0
    assert report["settings"]["strict"] is False


def test_repeats_of_the_command_line_override_the_marker(project: Project) -> None:
    project.run("--llm-repeats=2").assert_outcomes(passed=20)

    assert project.calls() == 40


def test_marks_are_merged_argument_by_argument(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_llmeval import llm_eval

        pytestmark = pytest.mark.llm_eval(repeats=2, min_score=0.5)

        @llm_eval(min_score=0.25)
        class TestIt:
            @llm_eval(repeats=4)
            @pytest.mark.parametrize(
                "n", [1, pytest.param(2, marks=pytest.mark.llm_eval(repeats=8))]
            )
            def test_it(self, n, llm_score):
                llm_score(0.3)
        """
    )

    result = pytester.runpytest("-v")

    result.stdout.fnmatch_lines(["*test_it?1? 4/4 passed*", "*test_it?2? 8/8 passed*"])


def test_a_report_is_looked_for_where_pytest_was_started(project: Project) -> None:
    (project.path / "below").mkdir()
    (project.path / "out.json").mkdir()
    project.write(conftest="import os; os.chdir('below')")

    result = project.pytester.runpytest_subprocess("--llm-report=out.json")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --llm-report=out.json: this is a folder; name a file*"])


def test_two_cases_of_one_id_are_found_before_the_first_call(project: Project) -> None:
    result = project.run("--keep-duplicates", "test_evals.py", "test_evals.py")

    assert result.ret == USAGE_ERROR
    line = error_line(result)
    assert "test_evals.py::test_says_yes[case-0] was collected 2 times, and 19 more like it" in line
    assert project.calls() == 0


BAD = "\x1b[2J\u202e\u2028\n::error::x"
QUOTED = repr(BAD)


def assert_is_spelled_out(result: pytest.RunResult) -> None:
    shown = "\n".join([*result.outlines, *result.errlines])
    assert r"\x1b" in shown
    assert not set("\x1b\u202e\u2028") & set(shown)
    assert not any(line.lstrip().startswith("::") for line in shown.split("\n"))


@pytest.mark.parametrize(
    "mark",
    [
        f"@llm_eval(**{{{QUOTED}: 1}})",
        f"@llm_eval(gate={QUOTED}, better={QUOTED})",
        f"@llm_eval(cluster={QUOTED})",
        f"@pytest.mark.parametrize('n', cases_from({QUOTED} + '.csv', id='a'))\n@llm_eval",
        f"@pytest.mark.parametrize('n', cases_from('rows.csv', id={QUOTED}))\n@llm_eval",
    ],
)
@pytest.mark.parametrize("arguments", [(), ("-n", "1")])
def test_a_value_of_a_test_is_spelled_out_in_the_message(
    pytester: pytest.Pytester, mark: str, arguments: tuple[str, ...]
) -> None:
    (pytester.path / "rows.csv").write_text(f"a,{BAD[:6]}\n,1\n")
    pytester.makepyfile(
        "import pytest\nfrom pytest_llmeval import cases_from, llm_eval\n"
        f"{mark}\ndef test_it(n=1): pass\n"
    )
    assert_is_spelled_out(pytester.runpytest("--tb=line", *arguments))


@pytest.mark.parametrize(
    "option", ["--llm-model", "--llm-baseline", "--llm-anchor", "--llm-test", "--llm-report"]
)
def test_a_value_that_was_typed_is_spelled_out_in_the_message(
    project: Project, option: str
) -> None:
    baseline = () if option == "--llm-baseline" else ("--llm-baseline=main",)
    project.run("--llm-repeats=1")
    assert_is_spelled_out(project.run(*baseline, f"{option}={BAD}", "--llm-repeats=1"))


@pytest.mark.parametrize("model", [f"function/{BAD}:answer", f"function/model:{BAD}", BAD])
def test_a_model_is_spelled_out_in_the_message(project: Project, model: str) -> None:
    assert_is_spelled_out(project.run(f"--llm-model={model}", "--llm-repeats=1"))


def test_the_folder_of_runs_is_spelled_out_in_the_message(project: Project) -> None:
    result = project.run("--llm-baseline=last", f"--llm-dir={BAD}")
    assert result.ret == USAGE_ERROR
    assert_is_spelled_out(result)


def test_reports_that_cannot_be_written_are_named_in_a_line(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", f"{project.path}/{BAD}/summary.md")
    (project.path / "file").touch()
    result = project.run(f"--llm-report=file/{BAD}.json", "--llm-repeats=1")
    assert result.ret == 4
    assert_is_spelled_out(result)


@pytest.mark.parametrize("arguments", [(), ("-v",), ("-n", "1", "-v")])
def test_the_name_of_a_metric_is_spelled_out(project: Project, arguments: tuple[str, ...]) -> None:
    project.write(
        test_score=f"""
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2, gate={QUOTED})
        def test_it(llm_score): llm_score(1, {QUOTED})
        """
    )
    assert_is_spelled_out(project.run("test_score.py", *arguments))


@pytest.mark.parametrize(
    ("arguments", "marker", "why"),
    [
        (["--llm-baseline=nowhere"], "repeats=1", "--llm-baseline=nowhere: "),
        (["--llm-repeats=0"], "repeats=1", "--llm-repeats"),
        ([], "repeats=0", "repeats must be a whole number of 1 or more, not 0"),
    ],
)
def test_ci_is_told_why_a_session_ends_before_it_begins(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    marker: str,
    why: str,
) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.llm_eval({marker})\ndef test_it(): pass\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    result = pytester.runpytest("--junitxml=out/junit.xml", *arguments)

    assert result.ret == USAGE_ERROR
    told = [line for line in result.outlines if line.startswith("::error ")]
    assert len(told) == 1
    assert why in told[0]
    (failed,) = ElementTree.parse(Path("out/junit.xml")).iter("testcase")  # noqa: S314 - our own
    assert failed.attrib["name"] == "gate"
    assert why in str(failed[0].text)


def test_a_report_of_junit_that_cannot_be_written_is_named(pytester: pytest.Pytester) -> None:
    pytester.makefile("", out="no folder")

    result = pytester.runpytest("--junitxml=out/junit.xml", "--llm-baseline=nowhere")

    assert result.ret == USAGE_ERROR
    result.stderr.fnmatch_lines(["*--junitxml=*junit.xml: not written: *"])


def test_nothing_is_told_where_there_is_no_ci(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--llm-baseline=nowhere")

    assert result.ret == USAGE_ERROR
    assert "::error" not in result.stdout.str()


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_a_misspelled_key_of_the_ini_file_is_named(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makeini("[pytest]\nllm_repeat = 3")
    pytester.makepyfile("def test_it(): pass")

    result = pytester.runpytest_subprocess(*workers) if workers else pytester.runpytest()

    assert result.ret == USAGE_ERROR
    assert "llm_repeat in the ini file: there is no such key. Did you mean llm_repeats?" in (
        error_line(result)
    )
    assert "1 passed" not in str(result.stdout)


def test_a_key_of_somebody_else_stays_a_matter_of_pytest(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nllm_weather_station = 3\nrepeats = 3")
    pytester.makepyfile("def test_it(): pass")

    assert pytester.runpytest("-W", "default").ret == 0


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("--llm-repeat=3", "Did you mean --llm-repeats?"),
        ("--llm-base-line=main", "Did you mean --llm-baseline?"),
        ("--llm-accept=a:pass >= 0.3", "Write llm_accept into the ini file"),
        ("--llm-max-reply-mb=3", "Write llm_max_reply_mb into the ini file"),
    ],
)
def test_a_misspelled_option_is_named(pytester: pytest.Pytester, typed: str, hint: str) -> None:
    pytester.makepyfile("def test_it(): pass")

    result = pytester.runpytest(typed)

    assert result.ret == USAGE_ERROR
    name = typed.partition("=")[0]
    assert error_line(result) == f"ERROR: {name}: there is no such option. {hint}"


def test_an_option_of_a_conftest_is_nobody_s_mistake(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--llm-repeat')")
    pytester.makepyfile("def test_it(): pass")

    assert pytester.runpytest("--llm-repeat=3").ret == 0
