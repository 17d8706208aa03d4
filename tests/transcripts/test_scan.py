from __future__ import annotations

import gzip
import re
from collections import defaultdict
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given

from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.records import Run
from pytest_llmeval.runs import run_file
from pytest_llmeval.runs.run_file import read_run, write_run
from pytest_llmeval.transcripts.scan import HeaderStore, scan_run
from tests.runs.builders import make_run, make_trials
from tests.runs.strategies import runs

GOLDEN = Path(__file__).parents[1] / "golden" / "run-schema-1.jsonl.gz"


def means_of(run: Run) -> dict[str, dict[str, float]]:
    values: defaultdict[str, defaultdict[str, list[float]]]
    values = defaultdict(lambda: defaultdict(list))
    for trial in run.trials:
        for metric, score in trial.scores.items() if trial.outcome.is_scored else ():
            values[trial.case][metric].append(score)
    return {
        case: {metric: sum(scores) / len(scores) for metric, scores in metrics.items()}
        for case, metrics in values.items()
    }


@given(run=runs())
def test_a_scan_finds_what_a_whole_reading_finds(
    tmp_path_factory: pytest.TempPathFactory, run: Run
) -> None:
    path = tmp_path_factory.mktemp("scan") / "run.jsonl.gz"
    write_run(run, path)

    scanned = scan_run(path)
    ids = [case.id for case in run.cases]

    assert scanned.header.run.id == run.id
    for order in (ids, ids[::-1]):
        assert scanned.trials_of(*order) == {
            case: tuple(trial for trial in run.trials if trial.case == case) for case in order
        }
    expected = means_of(run)
    assert scanned.means.keys() == expected.keys()
    for case, means in scanned.means.items():
        assert means == pytest.approx(expected[case], rel=1e-9, nan_ok=True)


def test_a_mean_does_not_hang_on_the_order_of_its_scores(tmp_path: Path) -> None:
    one = make_run(trials=make_trials(4))
    values = [0.1, 0.2, 0.3, 1e16]
    for name, scores in (("one", values), ("other", values[::-1])):
        trials = tuple(
            replace(trial, scores={"score": score})
            for trial, score in zip(one.trials, scores, strict=True)
        )
        write_run(replace(one, trials=trials), tmp_path / name)

    assert scan_run(tmp_path / "one").means == scan_run(tmp_path / "other").means


def test_a_run_of_an_earlier_version_is_scanned() -> None:
    run, scanned = read_run(GOLDEN), scan_run(GOLDEN)

    assert scanned.means == means_of(run)
    assert scanned.trials_of(run.cases[0].id)[run.cases[0].id] == tuple(
        trial for trial in run.trials if trial.case == run.cases[0].id
    )
    assert scanned.trials_of("no such case") == {"no such case": ()}


def test_a_folder_of_headers_gives_a_run_without_its_trials(tmp_path: Path) -> None:
    run = HeaderStore(tmp_path).load(GOLDEN)

    assert run.cases == read_run(GOLDEN).cases
    assert run.trials == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"outcome"', b'"outcame"'),
        (b'"sha256":"', b'"sha256":"0'),
        (b'{"schema":1', b'{"schema":7'),
        (b"\n", b"\r"),
        (b'"trials":', b'"trials":1'),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(gzip.compress(gzip.decompress(GOLDEN.read_bytes()).replace(old, new)))

    with pytest.raises(BaselineUnreadable):
        scan_run(path)


def test_a_line_that_is_no_trial_is_refused(tmp_path: Path) -> None:
    content = gzip.decompress(GOLDEN.read_bytes())
    lines = content.replace(b'"trial":0', b'"trial":"0"').splitlines(keepends=True)
    digest = sha256(b"".join(lines[:-1])).hexdigest().encode()
    lines[-1] = re.sub(rb"[0-9a-f]{64}", digest, lines[-1])
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(lines)))
    scanned = scan_run(path)

    with pytest.raises(BaselineUnreadable, match=r"`\$\.trial`"):
        scanned.trials_of(*(case.id for case in scanned.header.run.cases))


def test_only_so_many_trials_of_a_case_are_read() -> None:
    run = read_run(GOLDEN)
    case = run.trials[0].case

    assert scan_run(GOLDEN).trials_of(case, most=1) == {case: run.trials[:1]}


@pytest.mark.parametrize("cut", [0, 1, 20, 200])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(GOLDEN.read_bytes()[:cut])

    with pytest.raises(BaselineUnreadable):
        scan_run(path)


def test_a_file_of_two_pieces_is_read_whole(tmp_path: Path) -> None:
    content = gzip.decompress(GOLDEN.read_bytes())
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(gzip.compress(content[:300]) + gzip.compress(content[300:]))

    assert scan_run(path).means == scan_run(GOLDEN).means


@pytest.mark.parametrize(("bound", "most"), [("LARGEST", 1000), ("LONGEST_LINE", 100)])
def test_what_unpacks_beyond_all_bounds_is_refused(
    monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(run_file, bound, most)
    with pytest.raises(BaselineUnreadable, match=f"unpacks to more than .*{most}"):
        scan_run(GOLDEN)
