"""Cures of what the commands say work where they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ci.origin import run_git
from tests.cures.bench import Bench, taken

RUNS = ".llmeval/runs"


@pytest.mark.parametrize(
    ("command", "said", "cure"),
    [
        (("show",), "no run in", r"Record one: (pytest)"),
        (("list",), "no run is recorded", r"Record one: (pytest)"),
        (("plan",), "no run in", r"Record one: (pytest)"),
        (("plan",), "no run in", r"pass rates: (llmeval plan --rates 0\.5,0\.9)"),
        (("show", "main"), "recorded for", r"Record one: (git switch .*? && pytest)"),
        (("history",), "no complete run", r"Record one: (pytest)"),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, tuple) else None,
)
def test_nothing_is_recorded(bench: Bench, command: tuple[str, ...], said: str, cure: str) -> None:
    printed = bench.llmeval(*command)
    assert said in printed, printed

    printed = bench.type(taken(printed, cure))

    assert said not in printed
    assert bench.exit == 0


@pytest.mark.parametrize(
    ("command", "cure"),
    [
        (("show",), r"Record one: (pytest .*--llm-dir=\S+)"),
        (("list",), r"Record one: (pytest .*--llm-dir=\S+)"),
        (("plan",), r"Record one: (pytest .*--llm-dir=[^\s.]+)"),
        (("show", "main"), r"Record one: (git switch .*? && pytest --llm-dir=\S+)"),
        (("history",), r"Record one: (pytest .*--llm-dir=\S+)"),
        (("tries",), r"Record one: (pytest --llm-dir=\S+) --llm-baseline=main"),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, tuple) else None,
)
def test_nothing_is_recorded_in_a_folder_that_was_typed(
    bench: Bench, command: tuple[str, ...], cure: str
) -> None:
    home = bench.project.path / "our-runs"
    printed = bench.llmeval(*command, f"--dir={home}")
    assert bench.exit == 4

    bench.type(taken(printed, cure))

    assert len(list((home / "runs").glob("*/*.jsonl.gz"))) == 1
    assert not (bench.project.path / RUNS).exists()
    assert bench.exit == (4 if "tries" in command else 0)  # no try was made of that run yet


def test_the_doctor_names_the_folder_that_was_typed(bench: Bench) -> None:
    home = f"--llm-dir={bench.project.path / 'our-runs'}"
    bench.session("--llm-repeats=1", home)
    printed = bench.llmeval("doctor", home.replace("llm-", ""))
    bench.type(taken(printed, r"(pytest --llm-dir=\S+ --llm-repeats=5)"))

    printed = bench.llmeval("doctor", home.replace("llm-", ""), "--target=0.01")
    planned = bench.type(taken(printed, r"(llmeval plan last \S+ --drop=0.01 --dir=\S+)"))

    assert bench.exit == 0, planned


def test_a_run_has_too_little_to_plan_from(bench: Bench) -> None:
    bench.project.run("-q", "--llm-repeats=1", "-k", "case-3")
    printed = bench.llmeval("plan")
    assert "Record with more" in printed, printed

    bench.type(taken(printed, r"with more: (pytest --llm-repeats=5)"))
    assert bench.exit == 0


def test_what_the_doctor_says_can_be_typed(bench: Bench) -> None:
    bench.project.run("-q", "--llm-repeats=1")
    printed = bench.llmeval("doctor")
    assert "each case has one trial" in printed, printed
    bench.type(taken(printed, r"(pytest --llm-repeats=5)"))

    printed = bench.llmeval("doctor", "--target=0.01")
    assert "each case has one trial" not in printed
    assert "finds a drop of 0.01" in printed, printed
    planned = bench.type(taken(printed, r"(llmeval plan last \S+ --drop=0.01)"))
    assert bench.exit == 0, planned


def test_a_case_that_the_doctor_names_is_shown(bench: Bench) -> None:
    bench.commit(app='PROMPT = "Say yes to {case}. rate=1.0"\n')
    bench.session("--llm-repeats=3")
    printed = bench.llmeval("doctor")
    assert "show no small change" in printed, printed
    shown = bench.type(taken(printed, r"(llmeval show last '\S+')"))
    assert bench.exit == 0, shown
    bench.type(taken(printed, r"bring nothing (pytest --llm-repeats=1)"))
    assert bench.exit == 0


def test_one_case_of_a_run_that_is_like_its_baseline_is_named(bench: Bench) -> None:
    bench.session()
    bench.topic()
    bench.session("--llm-baseline=main")
    printed = bench.llmeval("diff")
    assert "every case scored the same" in printed

    typed = taken(printed, r"name one: (llmeval diff CASE)").replace("CASE", "case-0")
    printed = bench.llmeval(*typed.split()[1:])
    assert bench.exit == 0


def test_a_run_without_its_baseline_is_compared_with_a_named_one(bench: Bench) -> None:
    bench.session()
    (first,) = bench.project.runs()
    bench.topic(app='PROMPT = "Say yes to {case}. rate=0.3"\n')
    bench.session("--llm-baseline=main")
    first.rename(first.with_name("away"))
    printed = bench.llmeval("diff")
    assert "was compared with no run that is here" in printed, printed
    first.with_name("away").rename(first)

    typed = taken(printed, r"Name two: (llmeval diff A B)")
    bench.llmeval(*typed.replace("A", "main").replace("B", "last").split()[1:])
    assert bench.exit == 0


def test_a_run_that_was_gated_is_compared_as_show_says(bench: Bench) -> None:
    bench.session()
    bench.topic(app='PROMPT = "Say yes to {case}. rate=0.3"\n')
    bench.session("--llm-baseline=main")
    printed = bench.llmeval("show", "last")

    printed = bench.type(taken(printed, r"To compare the run, type (llmeval compare \S+ last)"))
    assert (bench.exit, "fell most" in printed) == (0, True), printed


def test_a_name_that_no_run_has(bench: Bench) -> None:
    bench.session()
    printed = bench.llmeval("show", "nothing")
    assert "has that name" in printed

    printed = bench.type(taken(printed, r"List them: (llmeval list)"))
    assert (bench.exit, printed.startswith("run commit")) == (0, True), printed


def test_a_name_that_is_the_beginning_of_several_run_ids(bench: Bench) -> None:
    for _ in range(2):
        bench.session()
    printed = bench.llmeval("compare", "2", "last")
    assert "2: it is the beginning of 2 run ids" in printed

    printed = bench.type(taken(printed, r"a whole one \((llmeval list)\)"))
    assert (bench.exit, printed.startswith("run commit")) == (0, True), printed


def test_compare_with_one_run_alone(bench: Bench) -> None:
    bench.session()
    bench.session()
    printed = bench.llmeval("compare", "main")
    assert "ERROR: compare needs two runs" in printed

    bench.llmeval(*taken(printed, r"such as: (llmeval compare main last)").split()[1:])
    assert bench.exit == 0


def test_a_drop_that_cannot_be(bench: Bench) -> None:
    bench.session()
    printed = bench.llmeval("plan", "--rates=0.03,0.05")
    assert "Ask for a smaller one" in printed, printed

    printed = bench.type(taken(printed, r"as in (--drop=\S+)"))
    assert bench.exit == 0, printed


def test_outside_git_init_wants_a_repository(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    printed = bench.llmeval("init")
    assert bench.exit != 0
    run_git(tmp_path, *taken(printed, r"commits: (git init)").split()[1:])
    bench.last()
    assert bench.exit == 0


def test_what_init_prints_next_can_be_typed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git(tmp_path, "init", "--quiet", "--initial-branch=main")
    monkeypatch.chdir(tmp_path)
    printed = bench.llmeval("init")
    first = taken(printed, r"next: (git add \. && git commit -m evals)")
    for command in first.split(" && "):
        run_git(tmp_path, *command.split()[1:])
    assert taken(printed, r"(pytest evals) records a run")
    assert taken(printed, r"(git switch -c shorter) then")
    assert taken(printed, r"(pytest evals --llm-baseline=main) is it")


def with_origin(bench: Bench) -> Path:
    origin = bench.project.path.with_name(f"{bench.project.path.name}-origin")
    run_git(bench.project.path, "clone", "--quiet", "--bare", ".", str(origin))
    bench.project.git("remote", "add", "origin", str(origin))
    bench.project.git("fetch", "-q", "origin")
    return origin


def test_a_laptop_vouches_for_its_run_and_another_fetches_it(bench: Bench) -> None:
    with_origin(bench)
    bench.session()
    printed = bench.llmeval("fetch")
    assert taken(printed, r"sends them: (llmeval push)") == "llmeval push"
    printed = bench.llmeval("push")
    assert bench.exit == 4

    bench.type(taken(printed, r"type (llmeval push --from-laptop)"))
    assert bench.exit == 0
    bench.llmeval("fetch")
    assert bench.exit == 0


def test_shards_of_other_paths_are_joined_by_union(bench: Bench) -> None:
    source = (bench.project.path / "test_evals.py").read_text()
    bench.commit(test_other=source.replace("test_says", "test_tells"))
    for file in ("test_evals.py", "test_other.py"):
        bench.session(file)
    printed = bench.llmeval("merge", RUNS)
    assert "different paths" in printed, printed

    bench.type(taken(printed, r"say (--union)"))
    assert bench.exit == 0


@pytest.mark.parametrize(
    ("command", "cure"),
    [
        (("until", "--width=0.9", "--", "--llm-repeats=3"), r"say (--max-repeats)"),
    ],
)
def test_until(bench: Bench, command: tuple[str, ...], cure: str) -> None:
    printed = bench.llmeval(*command)
    assert bench.exit != 0
    option = taken(printed, cure).replace("--max-repeats", "--max-repeats=2")

    printed = bench.llmeval("until", option, "--width=0.9", "--", "-p", "no:cacheprovider")

    assert "Usage" not in printed, printed


def test_a_folder_without_replies_is_named_otherwise(bench: Bench, tmp_path: Path) -> None:
    bench.session()
    printed = bench.llmeval("cache", "export", str(tmp_path / "x"), f"--dir={tmp_path}")
    assert "with --dir" in printed, printed

    option = taken(printed, r"with (--dir)")
    bench.llmeval("cache", "export", str(tmp_path / "x"), f"{option}=.llmeval")
    assert bench.exit == 0


def table(folder: Path, name: str, rows: list[str]) -> str:
    path = folder / f"{name}.csv"
    path.write_text("\n".join(["case_id,repeat,score", *rows, ""]))
    return str(path)


FULL = [f"c{i},0,{i % 2}" for i in range(20)]


@pytest.mark.parametrize(
    ("other", "option"),
    [([f"c{i},0," for i in range(4)] + FULL[4:], "--max-errored"), (FULL[4:], "--max-gone")],
)
def test_tables_that_lack_scores(
    bench: Bench, tmp_path: Path, other: list[str], option: str
) -> None:
    printed = bench.llmeval("compare", table(tmp_path, "a", FULL), table(tmp_path, "b", other))
    typed = taken(printed, rf"type ({option}=SHARE)").replace("SHARE", "0.5")

    again = bench.type(typed)

    assert f"type {option}" not in again
    assert "not comparable" not in again


def wide(folder: Path, name: str, header: str, rows: list[str]) -> str:
    path = folder / f"{name}.csv"
    path.write_text("\n".join([header, *rows, ""]))
    return str(path)


def both(folder: Path, header: str, *sides: list[str]) -> tuple[str, str]:
    one, other = (wide(folder, name, header, rows) for name, rows in zip("ab", sides, strict=True))
    return one, other


METRICS = [f"c{i},0,{metric},{i % 2}" for i in range(8) for metric in ("tone", "recall")]
TONE = [row for row in METRICS if "tone" in row]


@pytest.mark.parametrize(
    "tables",
    [
        ("case_id,repeat,metric,score", (METRICS, METRICS), "--better=lower",
         "would hold for", r"as in (--better tone=lower)"),
        ("case_id,repeat,score,better", ([f"c{i},0,1,lower" for i in range(8)],
                                         [f"c{i},0,1,higher" for i in range(8)]),
         "--alpha=0.05", "says that lower is better, and", r"or type (--better=lower)"),
        ("case_id,repeat,metric,score", (METRICS, TONE), "--alpha=0.05",
         "there is nothing of it here", r"another metric by (--metric=NAME)"),
        ("case_id,repeat,tone", ([f"c{i},0,1" for i in range(8)],) * 2, "--alpha=0.05",
         "no column 'score'", r"as in (--metric=tone)"),
        ("case_id,repeat,score,tone", ([f"c{i},0,gpt-85%,1" for i in range(8)],) * 2,
         "--alpha=0.05", "not a finite number", r"another column by (--metric=NAME)"),
    ],
    ids=["directions", "unlike directions", "metric gone", "wide", "text"],
)  # fmt: skip
def test_a_table_of_several_metrics_or_columns(
    bench: Bench, tmp_path: Path, tables: tuple[str, tuple[list[str], ...], str, str, str]
) -> None:
    header, sides, typed, said, cure = tables
    pair = both(tmp_path, header, *sides)
    printed = bench.llmeval("compare", *pair, typed)
    assert said in printed, printed
    assert bench.exit != 0
    option = taken(printed, cure).replace("NAME", "tone")

    rest = () if "better" in typed else (typed,)
    printed = bench.llmeval("compare", *pair, *rest, *option.split())

    assert (bench.exit, said in printed) == (0, False), printed


def test_rates_are_shares(bench: Bench) -> None:
    printed = bench.llmeval("plan", "--rates=0.5,90")
    assert bench.exit == 4

    bench.llmeval("plan", taken(printed, r"as in (--rates=\S+)"))
    assert bench.exit == 0


def test_nobody_is_there_to_be_asked(bench: Bench) -> None:
    bench.session()
    printed = bench.llmeval("cache", "clear")
    assert bench.exit != 0
    assert "stopped; nothing was changed" in printed, printed

    bench.type(taken(printed, r"say (--yes)"))
    assert bench.exit == 0


def test_what_export_wrote_is_imported(bench: Bench, tmp_path: Path) -> None:
    bench.session()
    other = tmp_path / "other"
    other.write_text("{}\n")
    printed = bench.llmeval("cache", "import", str(other))
    assert bench.exit != 0

    export = taken(printed, r"no file of `(llmeval cache export)`")
    bench.llmeval(*export.split()[1:], str(tmp_path / "replies"))
    bench.llmeval("cache", "import", str(tmp_path / "replies"))
    assert bench.exit == 0


def test_replies_that_another_machine_has(bench: Bench, tmp_path: Path) -> None:
    bench.session()
    cache, theirs = bench.project.path / ".llmeval/cache", tmp_path / "theirs"
    bench.llmeval("cache", "export", str(theirs))
    cache.rename(tmp_path / "away")
    printed = bench.llmeval("show", "last", "case-0")
    assert "replies marked ? are not here" in printed, printed

    bench.llmeval("cache", taken(printed, r"llmeval cache export, (import)"), str(theirs))
    printed = bench.llmeval("show", "last", "case-0")
    assert "replies marked ?" not in printed


def test_a_look_whose_runs_lie_elsewhere(bench: Bench) -> None:
    bench.ini("addopts = --llm-dir=elsewhere")
    look = ("until", "--width=0.9", "--max-repeats=3", "--", "-p", "no:cacheprovider")
    printed = bench.llmeval(*look)
    assert "pytest recorded no run" in printed, printed

    option = taken(printed, r"Name the directory with (--dir)")
    printed = bench.llmeval("until", f"{option}=elsewhere", *look[1:])
    assert "narrow" in printed, printed


def test_a_width_is_one_of_scores(bench: Bench) -> None:
    evals = bench.project.path / "test_evals.py"
    evals.write_text(evals.read_text().replace("repeats=5", "repeats=5, gate='seconds'"))
    look = ("until", "--width=0.9", "--max-repeats=3", "--", "-p", "no:cacheprovider")
    printed = bench.llmeval(*look)
    assert "all that is gated is what calls took" in printed, printed

    gate = taken(printed, r"as in (gate=\('pass', 'seconds'\))")
    evals.write_text(evals.read_text().replace("gate='seconds'", gate))
    assert "narrow" in bench.llmeval(*look)
