"""The records that all rooms share: slots, calls, trials, cases, runs.

These records are frozen and have no behaviour of their own, so that each can cross any border: to a
worker process, a file, a report.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import chain
from typing import Literal

from pytest_llmeval.errors import Failure, Lost

Better = Literal["higher", "lower"]
Parameter = str | int | float | bool | None
Strand = tuple[int, ...]
Setting = Parameter | tuple[str, ...]

PASS_METRIC = "pass"  # noqa: S105 - a metric, no password
SCORE_METRIC = "score"
SECONDS_METRIC = "seconds"
TOKENS_METRIC = "tokens"
COST_METRIC = "cost"
# measured from the calls of a trial, not recorded by the test
MEASURED_METRICS = (SECONDS_METRIC, TOKENS_METRIC, COST_METRIC)
TABLE_FUNCTION = "scores"  # of a score table; of one with several metrics each is below it
# metrics with a direction of their own, whatever ``better=`` says
OWN_DIRECTIONS: Mapping[str, Better] = {
    PASS_METRIC: "higher",
    **dict.fromkeys(MEASURED_METRICS, "lower"),
}

# words in names of metrics of which lower is usually better
_USUALLY_LOWER = re.compile(
    r"(?<![a-z])(?:latency|durations?|times?|runtime|elapsed|delay|ttft|ms|seconds|costs?|tokens|"
    r"err|errors?|failures?|violations?|loss|nll|wer|cer|ter|mae|mse|rmse|rmsd|brier|perplexity|"
    r"ppl|bpb|bits_per_byte|distance|edits|toxicity|hallucinations?)(?![a-z])"
)

# the first index of trials of older runs beside those of the newest run in one baseline; of those
# among them by which a fall was looked at again
POOLED, CONFIRMED = 10_000, 1_000_000
RERUN, CONFIRM = "rerun", "confirm"  # why a run was made for the comparison of another session
MOST_CRASHED_SOON = 0.2  # of the scored trials of a function that is a baseline
MOST_ERRORED = 0.05  # of the trials that ran; a single one is never too many


class Outcome(StrEnum):
    """The way one trial ended."""

    PASSED = "passed"
    MISSED = "missed"
    CRASHED = "crashed"
    ERRORED = "errored"
    SKIPPED = "skipped"

    @property
    def is_scored(self) -> bool:
        """Whether a trial with this outcome has scores."""
        return self in (Outcome.PASSED, Outcome.MISSED, Outcome.CRASHED)


class CaseOutcome(StrEnum):
    """The way a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a draw among all draws of a request.

    Attributes:
        trial: index of the trial that asks, from 0; None for a call made outside
            any trial (written "shared").
        occurrence: how many identical requests came before it there, from 0.
    """

    trial: int | None
    occurrence: int

    def __str__(self) -> str:
        """Write the slot as ``3/0`` or ``shared/0``."""
        trial = "shared" if self.trial is None else self.trial
        return f"{trial}/{self.occurrence}"

    @classmethod
    def parse(cls, text: str) -> Slot:
        """Read a slot that ``str`` wrote.

        Raises:
            ValueError: the text is no slot.
        """
        trial, _, occurrence = text.partition("/")
        return cls(None if trial == "shared" else int(trial), int(occurrence))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of one reply, as the provider told; the price of a call depends on this alone.

    Attributes:
        input_tokens: tokens of the request, 0 or more; None if the provider did not say.
        output_tokens: tokens of the answer, 0 or more; None if the provider did not say.
        cached_input_tokens: how many of the ``input_tokens`` the provider had in its own cache;
            None for none, or if it did not say.
        tier: the tier of service that answered, such as ``flex``; None for the usual one.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    tier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of a trial, and its outcome: one entry a slot.

    Attributes:
        key: sha256 of the canonical request, 64 hex digits.
        draw: id of the draw, 32 hex digits; None if the request got no reply. A call that the
            application gave up has a draw without a reply: a replay gives it up again.
        reply_sha256: digest of the reply's bytes; None if there was none.
        replayed: the reply came from the cache.
        model: the model asked for; ``served`` is the one that answered, as the provider told.
        host: origin of the API, such as ``https://api.openai.com``.
        parameters: sampling parameters named in the request (temperature, seed, top_p).
        usage: of the reply, when it was paid for.
        seconds: how long the call took when it was paid for.
        lost: why there is no reply, None if there is one.
        lost_for: the values beside ``lost``; see ``Lost``.
        strand: where its trial asked it, if calls of the trial were open at once: pairs of
            numbers, a pair for each time that the trial did several things at once. The first
            number says which time, the second which of the several things.
    """

    key: str
    slot: Slot
    draw: str | None = None
    reply_sha256: str | None = None
    replayed: bool = False
    model: str | None = None
    served: str | None = None
    fingerprint: str | None = None
    host: str | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    usage: Usage = Usage()
    seconds: float | None = None
    lost: Lost | None = None
    lost_for: tuple[str, ...] = ()
    strand: Strand = ()

    @property
    def failure(self) -> Failure | None:
        """``content`` or ``infrastructure``, see ``Lost``; None if there is a reply."""
        return None if self.lost is None else self.lost.failure

    @property
    def reason(self) -> str:
        """The loss in a few words, "" if there was none."""
        return "" if self.lost is None else self.lost.told(self.lost_for)

    def is_beside(self, other: Call) -> bool:
        """Whether both calls were open at once, so that chance decides which was answered first."""
        places = enumerate(zip(self.strand, other.strand, strict=False))
        return next((place % 2 == 1 for place, (one, two) in places if one != two), False)

    @property
    def was_given_up(self) -> bool:
        """Whether the application gave up waiting for the reply."""
        return self.lost is not None and self.draw is not None

    @property
    def was_paid(self) -> bool:
        """Whether the call was made in this run and brought a reply."""
        return not self.replayed and self.lost is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """A slowdown: a provider asked for fewer calls, and got fewer.

    Attributes:
        provider: first half of a model name.
        times: how often the number of calls in flight was halved.
        lowest: the fewest calls that were let in flight, over all workers.
        seconds: for how long no call was let start.
        status: of its last refusal.
    """

    provider: str
    times: int
    lowest: int
    seconds: float
    status: int = 429


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of one case.

    Attributes:
        index: from 0; also the trial part of the slots of its calls.
        scores: value for each metric that the trial recorded itself, or that its
            outcome gives it. Empty for an errored or skipped trial.
        calls: in the order in which they were made; calls that were open at once in the order of
            their strands.
        message: type of the exception and ``path:line``; never a reply or a prompt.
        seconds: wall time of setup, call and teardown.
        in_setup: a fixture raised, so the body did not run.
    """

    case: str
    index: int
    outcome: Outcome
    scores: Mapping[str, float] = field(default_factory=dict)
    calls: tuple[Call, ...] = ()
    message: str = ""
    seconds: float = 0.0
    in_setup: bool = False

    @property
    def asked(self) -> bool:
        """Whether the trial made a call itself, beside the calls of wider fixtures."""
        return any(call.slot.trial is not None for call in self.calls)


def too_many_errored(errored: int, *, ran: int) -> bool:
    """Tell whether a part of a run has too many errored trials for the gate to judge.

    Args:
        errored: how many trials are errored.
        ran: how many trials are not skipped; a skipped one tells nothing of the provider.
    """
    return errored > max(1, MOST_ERRORED * ran + 1e-9)


def first_failed(trials: Iterable[Trial]) -> Trial | None:
    """Return the first trial that did not pass; an errored one only if no trial has a score."""
    ran = [one for one in trials if one.outcome is not Outcome.SKIPPED]
    told = [one for one in ran if one.outcome.is_scored] or ran
    return next((one for one in told if one.outcome is not Outcome.PASSED), None)


def crashed_too_soon(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Return the trials because of which a function of a run is no baseline.

    If each scored trial crashed, these are all: a bug, not a rate. Else these are the trials that
    crashed before their first call, in a fixture or where other trials came to a call, if they are
    two or more and a fifth of the scored ones. A trial that crashed on a reply of a model has a
    score.

    Args:
        trials: of a function.
    """
    scored = [trial for trial in trials if trial.outcome.is_scored]
    crashed = [trial for trial in scored if trial.outcome is Outcome.CRASHED]
    if len(crashed) == len(scored):
        return tuple(crashed)
    asks = any(trial.asked for trial in scored)
    soon = tuple(one for one in crashed if not one.asked and (one.in_setup or asks))
    return soon if len(soon) >= max(2, MOST_CRASHED_SOON * len(scored)) else ()


def ended_unasked(trials: Iterable[Trial]) -> bool:
    """Tell whether a case reached an outcome without a call: none was refused, not all crashed."""
    outcomes = {Outcome.ERRORED if trial.calls else trial.outcome for trial in trials}
    return Outcome.ERRORED not in outcomes and not outcomes <= {Outcome.CRASHED, Outcome.SKIPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a session.

    Attributes:
        done: trials that ended, of ``total``, or of fewer if ``may_stop``: functions are looked at
            early.
        made: calls of these trials that were paid for; ``replayed`` the others.
        in_flight: trials that are under way, None where other processes run them.
        seconds_left: at the latest rate, None if there is none yet.
        holding_back: the last status of each provider that refuses calls now.
    """

    done: int
    total: int
    may_stop: bool = False
    made: int = 0
    replayed: int = 0
    in_flight: int | None = None
    seconds_left: float | None = None
    holding_back: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One collected item under ``llm_eval``: the unit of analysis.

    Attributes:
        id: the node id.
        function: the node id without the brackets of its parameters.
        repeats: how many trials were asked for.
        marked: how many the mark or the ini file asks for, whatever was typed; 0 if not recorded.
        parameters: sha256 of the parameters, None where they cannot be put as JSON.
        positional: (a part of) the id counts positions: made by pytest, or by ``sample_cases``.
        min_score: the least mean of a gated metric that records a score; None for any.
        gate: metrics to gate on; empty for the default.
        better: which direction is good of the metrics that the test records.
        lower: metrics of which lower is better, whatever ``better`` says.
        cluster: cases with the same label are one unit; None for a unit of its own.
        wording: digest of how the case puts its question; None where its test names none.
        topic: digest of the rest of its parameters: cases with the same topic ask the same
            in several wordings, and are one unit.
    """

    id: str
    function: str
    repeats: int
    marked: int = 0
    min_score: float | None = None
    parameters: str | None = None
    positional: bool = False
    gate: tuple[str, ...] = ()
    better: Better = "higher"
    lower: tuple[str, ...] = ()
    cluster: str | None = None
    wording: str | None = None
    topic: str | None = None

    def direction(self, metric: str) -> Better:
        """Return which direction of a metric is good."""
        return OWN_DIRECTIONS.get(metric) or ("lower" if metric in self.lower else self.better)


def is_usually_lower(metric: str) -> bool:
    """Tell whether lower is usually better for this name, so that a default would be a guess."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", metric).lower()
    return metric not in OWN_DIRECTIONS and _USUALLY_LOWER.search(words) is not None


def function_of(nodeid: str) -> str:
    """Return the node id of a test function, without a case in brackets."""
    return nodeid.partition("[")[0]


def bare(function: str) -> str:
    """Return the name of a function without its file and its class."""
    return function.rpartition("::")[2]


def distinct_names(functions: Iterable[str]) -> dict[str, str]:
    """Shorten node ids of functions: to the last name, or to as much as tells two apart.

    ``a/test_x.py::test_one`` and ``b/test_x.py::test_one`` stay whole.
    """
    endings = {one: _endings(one) for one in functions}
    counts = Counter(chain.from_iterable(endings.values()))
    return {
        one: next((end for end in ends if counts[end] == 1), one) for one, ends in endings.items()
    }


def _endings(function: str) -> list[str]:
    """List the ends of a node id that begin with a name, the shortest first, itself last."""
    parts = re.findall(r"[^/]*/|.+?::|.+", function) if "::" in function else [function]
    return ["".join(parts[at:]) for at in reversed(range(len(parts)))]


def paths_of(selection: Sequence[str]) -> tuple[str, ...]:
    """Return the path arguments of a selection; without any it is everything."""
    return tuple(one for one in selection if not one.startswith("-"))


def is_below(name: str, beginning: str) -> bool:
    """Tell whether a node id has this beginning, by whole names of folders, files and functions."""
    ends = tuple(beginning + end for end in ("/", "::", "["))
    return name == beginning or name.startswith(ends)


def filters_of(selection: Sequence[str]) -> frozenset[str]:
    """Return the options of a selection; each one only ever leaves tests out."""
    return frozenset(one for one in selection if one.startswith("-"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CiJob:
    """The CI job that recorded a run.

    Attributes:
        provider: such as ``github``; ``other`` for a CI of which only ``CI`` is known.
        event: what started the job, by the provider's own word, such as ``push``.
        url: the web page of the job's run.
        fork: whether a pull or merge request came from another repository; None at other events.
    """

    provider: str
    event: str | None = None
    url: str | None = None
    fork: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The cases that a session collected, before any of them was deselected.

    Attributes:
        cases: how many.
        sha256: of their sorted ids as canonical JSON, in hex.
    """

    cases: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All trials of one session, recorded for one commit.

    A run file has the fields in this order, cases and trials last. A field with a default may be
    missing in a file; a field without a default is in each, if null.

    Attributes:
        id: UTC seconds and six hex digits, ``20261121T084100-1a2b3c``.
        created: UTC, ISO 8601 with seconds.
        commit: full hash, None outside git. ``tree`` is its tree.
        dirty: a tracked file differed from the commit at session start, or files are ``unseen``.
        changed: the tracked ones of these files, a few of them; empty if that was not noted.
        ref: name of the branch, None if HEAD was detached.
        root: pytest's rootpath relative to git's top level, ``.`` for the same.
        versions: of python, of this plugin, of pytest and of the SDKs in use.
        selection: path arguments of the session, relative to rootpath, and the options that
            left tests out, as they can be typed: ``-k not slow``, ``--ignore=evals/old``.
        complete: every trial of every case of this selection ended; False if nobody can select the
            same again (``--lf``, ``--sw``, node ids, items that a plugin dropped).
        partial: functions of which cases were left out by what was typed, by ``-k``, ``-m`` or
            ``--deselect`` wherever they were set, or as a plugin announced it.
        cases: every collected case, in order of collection, ended or not.
        trials: ordered by case as in ``cases``, then by index.
        outside_calls: how many calls belonged to no case.
        attempts: how many calls were sent to models, including retried and lost ones, and those of
            trials that did not end; None if nobody counted.
        unseen: files that may differ from the commit without git's notice, relative to its top
            level: modules, conftest.py and ini files that the session used and git neither tracks
            nor ignores, and tracked files that git was told not to look at.
        rules: the settings of the gate that the session had, by their names in ``GateRules``; a
            setting that its version did not know is missing.
        ci: the job that recorded it; None outside of CI.
        collected: the collected cases, which shards of one suite share; None if not counted.
        tests: digest of each test function, by its node id without brackets; empty if they were
            not taken.
        fixtures: digest of each fixture of the project that a test function uses, by the node id
            of the function and the name of the fixture; likewise.
        places: where each test function stands, ``path:line`` relative to rootpath, by its node id
            without brackets; empty if that was not noted.
        made: ``rerun`` where a session of another commit made it for its own comparison,
            ``confirm`` for fresh trials by which a fall was looked at again; None for a run of
            its own.
        compared_with: id of the baseline that the session had; None without one.
        typed_model: the model that was typed for this session alone (``--llm-model``).
        typed: the typed part of the selection, ``--lf`` and ``--stepwise`` too, as a person chose
            only this; None where an earlier version did not record it.
        looks: of each function that was looked at early, after how many repeats of each case it
            stopped; all of them where it went on to its end.
        stopped: all that it lacks to be ``complete`` are trials of functions that stopped early.
        asked_by: where it was made to confirm a fall, id of the run that seemed to have fallen.
    """

    id: str
    created: str
    commit: str | None
    tree: str | None
    dirty: bool
    ref: str | None
    root: str
    versions: Mapping[str, str]
    selection: tuple[str, ...]
    complete: bool
    partial: tuple[str, ...]
    cases: tuple[Case, ...]
    trials: tuple[Trial, ...]
    outside_calls: int
    attempts: int | None = None
    unseen: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    rules: Mapping[str, Setting] = field(default_factory=dict)
    ci: CiJob | None = None
    collected: Collected | None = None
    tests: Mapping[str, str] = field(default_factory=dict)
    fixtures: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    made: str | None = None
    compared_with: str | None = None
    typed_model: str | None = None
    typed: tuple[str, ...] | None = None
    looks: Mapping[str, int] = field(default_factory=dict)
    stopped: bool = False
    asked_by: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every trial of this selection ended that was to run."""
        return self.complete or self.stopped


def only_functions(run: Run, functions: Container[str]) -> Run:
    """Return a run with some of its test functions alone."""
    return only_cases(run, {case.id for case in run.cases if case.function in functions})


def stops_of(run: Run) -> dict[str, int]:
    """Map each function that stopped early to the number of repeats that it ran."""
    planned: dict[str, int] = {}
    for case in run.cases:
        planned[case.function] = max(case.repeats, planned.get(case.function, 0))
    return {name: stop for name, stop in run.looks.items() if stop < planned.get(name, 0)}


def as_stopped(run: Run) -> Run:
    """Return a run in which as many repeats were planned as were made before functions stopped."""
    if not run.looks:
        return run
    cases = tuple(replace(c, repeats=run.looks.get(c.function, c.repeats)) for c in run.cases)
    repeats = {case.id: case.repeats for case in cases}
    trials = tuple(trial for trial in run.trials if trial.index < repeats[trial.case])
    return replace(run, cases=cases, trials=trials, looks={})


def trials_by_case(run: Run, cases: Collection[str] | None = None) -> dict[str, list[Trial]]:
    """Look up the trials of some cases, or of all, in one pass over a run."""
    names = (case.id for case in run.cases) if cases is None else cases
    found: dict[str, list[Trial]] = {name: [] for name in names}
    for trial in run.trials:
        if trial.case in found:
            found[trial.case].append(trial)
    return found


def only_cases(run: Run, ids: Container[str]) -> Run:
    """Return a run with some of its cases, and their trials, alone."""
    cases = tuple(case for case in run.cases if case.id in ids)
    functions = {case.function for case in cases}
    return replace(
        run,
        cases=cases,
        trials=tuple(trial for trial in run.trials if trial.case in ids),
        looks={name: looks for name, looks in run.looks.items() if name in functions},
    )


def bare_run(run_id: str, *, created: str, commit: str | None = None, root: str = ".") -> Run:
    """Make a run that no session recorded: complete, and without cases."""
    return Run(
        id=run_id,
        created=created,
        commit=commit,
        tree=None,
        dirty=False,
        ref=None,
        root=root,
        versions={},
        selection=(),
        complete=True,
        partial=(),
        cases=(),
        trials=(),
        outside_calls=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """News of a process that belong to no single case, since its last news.

    Attributes:
        notes: sentences for the section.
        outside_calls: how many calls belonged to no case.
        attempts: how many calls were sent.
        connections: host, test function, library and number of connections that the cache did not
            see.
    """

    notes: tuple[str, ...] = ()
    outside_calls: int = 0
    attempts: int = 0
    slowdowns: tuple[Slowdown, ...] = ()
    connections: tuple[tuple[str, str, str, int], ...] = ()

    def __add__(self, later: News) -> News:
        """Put the news of two times together."""
        names = (one.name for one in fields(self))
        return News(**{name: getattr(self, name) + getattr(later, name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The result of a case, which rides on its report to the session, from a worker too.

    Attributes:
        id: of the result, so that none is taken in twice.
        case: id of the case; "" where there is nothing to tell but news. ``function`` likewise.
        outcome: None if the case did not come to its end.
        trials: those that have ended, by index.
        means: by metric that is gated, None without a score.
        score: the means in words.
        fell_short: a trial of the case missed or crashed.
        headline: first line of the first failure that scored, else of the first.
        serial: why its trials ran one after the other, "" if they overlapped.
        is_ordinary: the case asked nothing and missed throughout, as an ordinary test does.
        looks: of its function, as in ``Run.looks``; None if that was not looked at early.
        opening: the run that begins; on the first result of a process.
        total: trials that this process will run; likewise.
    """

    id: str
    case: str = ""
    function: str = ""
    outcome: CaseOutcome | None = None
    trials: tuple[Trial, ...] = ()
    means: Mapping[str, float | None] = field(default_factory=dict)
    score: str = ""
    fell_short: bool = False
    headline: str = ""
    serial: str = ""
    is_ordinary: bool = False
    looks: int | None = None
    opening: Run | None = None
    total: int = 0
    news: News = News()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFailure:
    """A failure of a session, in the form of a list of tests.

    Attributes:
        name: as the node id of a test.
        word: by which it is counted: ``regressed``.
        title: one line.
        lines: why, the sentence first; safe to print.
        properties: figures, by name.
        file: below git's top, ``line`` counted from 1; None if the failure is not of one test.
    """

    name: str
    word: str
    title: str
    lines: tuple[str, ...]
    properties: tuple[tuple[str, str], ...] = ()
    file: str | None = None
    line: int | None = None
