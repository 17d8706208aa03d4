"""`llmeval doctor`: advice on a suite, with figures and lines to type."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.records import Run
from tests.cli.recording import record
from tests.cli.test_selfcheck import hits_of
from tests.gate.builders import CaseAndTrials, a_call, a_case, a_run
from tests.gate.test_advice import steady


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def doctor(*arguments: str, run: Run | None = None) -> Result:
    if run is not None:
        record(run)
    return CliRunner().invoke(main, ["doctor", *arguments], catch_exceptions=False)


def later(run: Run, day: int = 22, **more: object) -> Run:
    stamp = f"202611{day}T084100-1a2b3c"
    return dataclasses.replace(
        run,
        id=stamp,
        created=f"2026-11-{day}T08:41:00+00:00",
        **more,  # type: ignore[arg-type] - fields
    )


def many() -> Run:
    """A run with more than five troubles."""
    quiet = [a_case(f"c{at}", scores=[0.5, 0.51, 0.5], function="test_g") for at in range(9)]
    return a_run(
        *steady(12),
        *quiet,
        a_case("loud", scores=[0.1, 0.9, 0.5], function="test_g"),
        *(a_case(f"c{at}", "ppppp", function="test_i", replies="same") for at in range(12)),
        *(a_case(f"c{at}", "pmpmm", function="test_j") for at in range(20)),
        *(a_case(f"c{at}", ("pmeee", "mpeee")[at % 2], function="test_k") for at in range(6)),
    )


def test_one_screen_of_at_most_five_pieces_each_with_a_figure_and_a_line_to_type() -> None:
    result = doctor(run=many())

    head, *lines = result.stdout.splitlines()
    assert head == f"run {many().id} (60 cases, 280 trials)"
    assert [line[:3] for line in lines] == [
        start for number in range(1, 6) for start in (f"{number}. ", "   ")
    ]
    assert all(any(letter.isdigit() for letter in line[3:]) for line in lines[::2])


def test_nothing_to_say_is_one_line() -> None:
    result = doctor(run=a_run(*steady(200)))
    assert result.exit_code == 0
    assert result.stdout == (f"run {a_run().id} (200 cases, 1000 trials): nothing to advise\n")


def lines_of(result: Result, word: str) -> tuple[str, str]:
    """The advice with a word in it, and the line to type."""
    lines = result.stdout.splitlines()
    (at,) = [at for at, line in enumerate(lines) if word in line and line[:1].isdigit()]
    return lines[at].partition(". ")[2], lines[at + 1].strip()


def test_a_suite_that_is_too_small_is_told_how_many_repeats() -> None:
    said, line = lines_of(doctor(run=a_run(*steady(40))), "finds a drop of 0.1")
    assert "% of builds; " in said
    assert " more cases or " in said
    assert f"{line.removeprefix('pytest --llm-repeats=')} repeats on both sides" in said


def test_a_smaller_target_takes_too_many_repeats_and_is_planned() -> None:
    _, line = lines_of(doctor("--target=0.01", run=a_run(*steady(40))), "finds a drop of 0.01")
    assert line == "llmeval plan last --function=test_f --drop=0.01"
    planned = CliRunner().invoke(main, line.split()[1:])
    assert planned.exit_code == 0


def test_the_target_is_that_of_the_ini_file() -> None:
    Path("pytest.ini").write_text("[pytest]\nllm_target = 0.3\n")
    assert "finds a drop" not in doctor(run=a_run(*steady(40))).stdout


def test_single_trials_are_to_be_repeated() -> None:
    cases = [a_case(f"c{at}", "pm"[at % 2]) for at in range(20)]
    said, line = lines_of(doctor(run=a_run(*cases)), "one trial")
    assert said.startswith("test_f: each case has one trial")
    assert line == "pytest --llm-repeats=5"


def test_cases_that_show_nothing_are_counted_and_one_is_shown() -> None:
    cases = [
        *steady(30),
        *(a_case(f"g{at}", "ppppp") for at in range(10)),
        a_case("bad one", "mmmmm"),
    ]
    said, line = lines_of(doctor(run=a_run(*cases)), "in each trial")
    assert said == (
        "test_f: of 41 cases 10 passed and 1 missed in each trial; they take 27% of its calls "
        "and show no small change"
    )
    assert line == "llmeval show last 'test_f[bad one]'"


def test_one_case_with_most_of_the_noise_is_shown() -> None:
    said, line = lines_of(doctor("--function=test_g", run=many()), "noise")
    assert said == "test_g (score): test_g[loud] has 100% of the noise of 10 independent cases"
    assert line == "llmeval show last 'test_g[loud]'"


def test_a_cluster_with_most_of_the_noise_is_named() -> None:
    quiet = [a_case(f"c{at}", scores=[0.45, 0.55, 0.5]) for at in range(9)]
    loud = [a_case(f"l{at}", scores=[0.4, 0.6, 0.5], cluster="doc") for at in range(4)]
    said, _ = lines_of(doctor(run=a_run(*quiet, *loud)), "noise")
    assert "test_f[l0] with 3 tied to it has " in said
    assert said.endswith("of the noise of 10 independent cases")


def test_trials_that_are_one_draw_need_no_repeats() -> None:
    cases = [a_case(f"c{at}", "pppp" if at % 2 else "mmmm", replies="same") for at in range(8)]
    said, line = lines_of(doctor(run=a_run(*cases)), "one reply")
    assert "all 4 trials of each case got one reply" in said
    assert "75% of its calls bring nothing" in said
    assert line == "pytest --llm-repeats=1"


@pytest.mark.parametrize("cases", [1, 5])
def test_few_cases_with_one_label_are_no_sign_of_a_fixed_seed(cases: int) -> None:
    said = doctor(run=a_run(*(a_case(f"c{at}", "pppppppp", replies="same") for at in range(cases))))
    assert "one reply" not in said.output
    assert "has one trial" not in said.output


def test_a_function_that_stopped_early_is_planned_with_all_its_repeats() -> None:
    run = a_run(*(a_case(f"c{at:02}", ("pmppp", "mpmpp")[at % 2]) for at in range(40)))
    trials = tuple(one for one in run.trials if one.index < 2)
    looks = {case.function: 2 for case in run.cases}
    stopped = dataclasses.replace(run, trials=trials, looks=looks, complete=False, stopped=True)
    said = doctor(run=stopped)
    (found,) = re.findall(r"finds a drop of 0.1 in (\d+)% of builds", said.output)
    plan = CliRunner().invoke(main, ["plan", "last"], catch_exceptions=False)
    assert "40 cases x 5 repeats" in plan.output
    assert f"is found in {found} % of builds" in plan.output


def test_errored_trials_are_to_be_asked_again_as_they_were_selected() -> None:
    def calls(index: int) -> list[object]:
        return [a_call("A", None if index == 2 else f"d{index}", trial=index)]

    lost = [a_case(f"e{at}", "pme", calls=calls) for at in range(10)]  # type: ignore[arg-type] - calls
    run = a_run(*steady(40), *lost, selection=("evals", "-k not slow"))
    said, line = lines_of(doctor(run=run), "errored")
    assert said == "test_f: 10 of 230 trials errored, most by no reply within 600 s (--llm-timeout)"
    assert line == "pytest evals -k 'not slow'"


def test_a_run_that_drifts_is_to_be_recorded_again_and_exits_1() -> None:
    result = doctor(run=a_run(*(a_case(f"c{at}", "pmpm") for at in range(40))))
    said, line = lines_of(result, "differ by more than chance")
    assert re.search(r"\(p \de-\d\d\)", said)
    assert line == "pytest --llm-cache=refresh"
    assert result.exit_code == 1


def day(letters: str, draws: str) -> list[CaseAndTrials]:
    return [a_case(f"c{at:02}", letters, draws=draws) for at in range(40)]


@pytest.mark.parametrize("between", [False, True])
def test_a_run_on_an_odd_day_is_told_from_the_one_before(*, between: bool) -> None:
    first, second = a_run(*day("ppmmp", "one")), a_run(*day("pppmp", "other"))
    record(first)
    record(later(second, 22, compared_with=first.id))
    if between:  # a branch that replays the baseline tells of the baseline
        record(later(second, 23, compared_with=later(second).id))

    said, line = lines_of(doctor(), "odd day")

    assert "the mean of 40 cases that sent the same requests is 0.8" in said
    assert line == "pytest --llm-cache=refresh"


def test_a_test_that_was_written_anew_lets_nothing_be_expected() -> None:
    name = "test_suite.py::test_f"
    record(dataclasses.replace(a_run(*day("ppmmp", "one")), tests={name: "a" * 64}))
    record(later(a_run(*day("pppmp", "other")), tests={name: "b" * 64}))
    assert "odd day" not in doctor().stdout


def test_a_damaged_run_before_is_passed_over() -> None:
    record(a_run(*day("ppmmp", "one")))
    (path,) = Path(".llmeval/runs").rglob("*.jsonl.gz")
    path.write_bytes(b"damaged")
    record(later(a_run(*day("pppmp", "other"))))
    assert "odd day" not in doctor().stdout


def test_metrics_that_move_together_may_be_one() -> None:
    cases = []
    for at in range(30):
        one = a_case(f"c{at}", scores=[0.1 * at % 1, 0.5, 0.7], gate=("score", "tone"))
        trials = tuple(
            dataclasses.replace(t, scores={**t.scores, "tone": 2 * t.scores["score"]})
            for t in one.trials
        )
        cases.append(CaseAndTrials(one.case, trials))
    said, line = lines_of(doctor(run=a_run(*cases)), "moves with tone")
    assert said.startswith("test_f (score): moves with tone (r 1.00): two gated metrics")
    assert line == '@llm_eval(gate="score")'


def test_several_functions_with_one_trouble_are_one_piece_of_advice() -> None:
    functions = [steady(10 + at, function=f"test_{at}") for at in range(4)]
    said, _ = lines_of(doctor(run=a_run(*(one for each in functions for one in each))), "finds a")
    assert said.count("(also, with other figures: test_") == 1
    assert said.endswith("and 1 more)")


def test_json_has_figures_and_words(tmp_path: Path) -> None:
    run = a_run(*(a_case(f"c{at}", "pmpm") for at in range(40)))
    result = doctor("last", "--json", f"--report={tmp_path}/advice.json", run=run)

    entries = json.loads(result.stdout)
    assert json.loads((tmp_path / "advice.json").read_text()) == entries
    assert set(entries[0]) == {
        "trouble", "function", "metric", "others", "gain", "figures", "text", "type",
    }  # fmt: skip
    assert (entries[0]["trouble"], entries[0]["gain"]) == ("drifts", 1.0)
    assert result.exit_code == 1


def test_nothing_to_say_is_an_empty_list() -> None:
    assert json.loads(doctor("--json", run=a_run(*steady(200))).stdout) == []


def test_verbose_has_the_figures_of_selfcheck() -> None:
    result = doctor("-v", run=a_run(*steady(200)))
    old = CliRunner().invoke(main, ["selfcheck", "last"]).stdout.splitlines()
    assert result.stdout.splitlines()[2:] == old[1:]


def test_the_old_name_is_not_listed_and_says_nothing_of_it() -> None:
    listed = CliRunner().invoke(main, ["--help"]).stdout
    assert "doctor" in listed
    assert "selfcheck" not in listed


@pytest.mark.parametrize("letters", ["pmpmpm", "pppppp"])
def test_of_a_score_table_nobody_types_pytest(letters: str) -> None:
    cases = [*steady(20), *(a_case(f"s{at}", letters) for at in range(6))]
    rows = [f"{at},{n},{int(hit)}" for at, one in enumerate(cases) for n, hit in hits_of(one)]
    Path("t.csv").write_text("\n".join(["case_id,repeat,score", *rows]))

    result = doctor("t.csv")

    assert result.stdout.startswith("table t.csv (26 cases, 136 trials)\n")
    assert "llmeval plan t.csv --function=scores" in result.stdout
    assert ("llmeval show t.csv" in result.stdout) == (letters == "pppppp")
    assert "pytest" not in result.stdout
    assert "calls" not in result.stdout
