"""The report on a judgement: records in figures and words, made once by ``make_report``.

The terminal, Markdown and HTML read the report; JSON is its dump, and docs/report-schema.json its
types. A field that is named in ``INLINE`` has no key in JSON, where the keys of its record replace
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pytest_llmeval.gate.changes import ChangeKind
from pytest_llmeval.gate.results import (
    CaseDescription,
    Confirmation,
    EditedCase,
    FunctionComparison,
    FunctionDescription,
    Interval,
    Verdict,
)
from pytest_llmeval.gate.scoring import PassHat, Scale
from pytest_llmeval.records import Better, CiJob
from pytest_llmeval.reports.provenance import Difference
from pytest_llmeval.runs.lookup.refs import How
from pytest_llmeval.settings import GateRules
from pytest_llmeval.transcripts.common_change import RequestChange

LEFT_OUT = frozenset({"confirmation", "excerpt"})  # no value, and so no key in JSON
SCHEMA_VERSION = 1
INLINE = frozenset({"side", "recorded", "of", "effect", "evidence", "place"})

R = TypeVar("R")
SessionVerdict = Verdict | Literal["could_not_judge", "deferred"]


class Change(NamedTuple):
    """A parameter, or a column of a row, that was edited; both values as text."""

    field: str
    baseline: str
    here: str


class EditedEntry(NamedTuple):
    """A case that is not compared, as it was edited.

    Attributes:
        of: the case.
        changes: what was edited; empty where the cache does not have it.
    """

    of: EditedCase
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEntry:
    """A common case, with the fields of the gate's ``CaseComparison``.

    Attributes:
        unchanged: the case asked what the baseline asked, and has the same draws.
    """

    case: str
    kind: ChangeKind | None
    difference: float
    baseline_scores: tuple[float, ...]
    scores: tuple[float, ...]
    baseline_mean: float
    mean: float
    unchanged: bool


C = TypeVar("C", CaseEntry, CaseDescription)


class PlaceOfTest(NamedTuple):
    """The place of a test: its file below git's top, and its line from 1; None if not known."""

    file: str | None = None
    line: int | None = None


class RequestDraws(NamedTuple):
    """A request that a case sent, by its key, and the ids of its draws in the order of trials."""

    key: str
    draws: tuple[str, ...]


class Requests(NamedTuple):
    """The number of different requests that a case sent in a run, and the first of these."""

    requests: int = 0
    listed: tuple[RequestDraws, ...] = ()


class Replies(NamedTuple):
    """Where the replies of a case are found."""

    baseline: Requests = Requests()
    here: Requests = Requests()


class Excerpt(NamedTuple):
    """A line of a reply of each run; None where the reply is not here."""

    baseline: str | None
    here: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedCase(Generic[C]):
    """A case that moved, or fell short in a run that is compared with nothing.

    Attributes:
        of: its figures.
        place: of its function.
        failure: the first line of the first failure here; "" for a case that rose or passed.
        replies: where its replies are found.
        excerpt: None where nothing was looked up.
    """

    of: C
    place: PlaceOfTest = field(default=PlaceOfTest())
    failure: str = ""
    replies: Replies = field(default=Replies())
    excerpt: Excerpt | None = None


class ConfirmationEntry(NamedTuple):
    """What came of asking again; as the gate's ``Confirmation``, with ``why`` as a sentence."""

    of: Confirmation
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFunction:
    """A test function on a metric, compared.

    Attributes:
        of: the comparison; its figures are the gate's.
        name: what to call the function; ``label`` names the metric too.
        place: where the test stands.
        why: the reason of the verdict as a sentence, "" where it needs none.
        sentence: the meaning of the verdict; ``remarks`` are further sentences.
        accepting_line: the line of the ini file that would accept the drop.
        confirmation: None where nothing was to be confirmed.
        moved: the cases that moved most, both ways.
        compared: all common cases.
    """

    of: FunctionComparison
    name: str
    label: str
    place: PlaceOfTest
    why: str
    sentence: str
    remarks: tuple[str, ...]
    accepting_line: str | None
    confirmation: ConfirmationEntry | None
    pass_hat: PassHat | None
    edited: tuple[EditedEntry, ...]
    moved: tuple[MovedCase[CaseEntry], ...]
    compared: tuple[CaseEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedFunction:
    """A test function on a metric, in a run that is compared with nothing; fields likewise."""

    of: FunctionDescription
    name: str
    label: str
    place: PlaceOfTest
    why: str
    verdict: Literal[Verdict.NOT_GATED]
    moved: tuple[MovedCase[CaseDescription], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UngatedFunction:
    """A metric that decides nothing; fields as in the gate's ``FunctionComparison``."""

    function: str
    name: str
    metric: str
    better: Better
    scale: Scale
    cases: int
    changed: int
    difference: float | None
    baseline_mean: float | None
    mean: float | None
    interval: Interval | None
    interval_level: float | None
    ratio: float | None
    ratio_interval: Interval | None


class Fall(NamedTuple):
    """The function that fell most, and its difference; negative is worse."""

    function: str
    difference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonCause:
    """A change that several functions have in common, and how all their cases moved together.

    Attributes:
        changes: the facts that changed, as in ``differences``, or fields of requests, of which
            ``request_changes`` has the texts.
        functions: that have the change, as node ids.
        sentence: the change and the figures in a line.
        figures: the metric that most of the functions gate, over all their cases; then those that
            are not gated. The intervals are the gate's, with cases as units, not adjusted.
        worst: of the functions.
    """

    changes: tuple[Change, ...]
    functions: tuple[str, ...]
    sentence: str
    figures: tuple[UngatedFunction, ...]
    worst: Fall


class CallCounts(NamedTuple):
    """Calls of a run: docs/report-format.md tells what is counted."""

    made: int
    replayed: int
    failed: int
    outside: int
    attempts: int | None
    capped: int


class UnknownCost(NamedTuple):
    """Calls that could not be priced, as their price or their tokens are not known."""

    model: str | None
    calls: int
    why: str


class CostOfRun(NamedTuple):
    """Cost of a run in US dollars at today's list prices; None where a call has no price."""

    currency: Literal["USD"]
    spent: float | None
    saved: float | None
    unknown: tuple[UnknownCost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """A run without its trials; ``file`` can be typed where the session was started."""

    id: str
    created: str
    commit: str | None
    dirty: bool
    ref: str | None
    complete: bool
    cases: int
    trials: int
    models: tuple[str, ...]
    served: tuple[str, ...]
    fingerprints: tuple[str, ...]
    hosts: tuple[str, ...]
    calls: CallCounts
    cost: CostOfRun
    versions: Mapping[str, str]
    file: str | None
    ci: CiJob | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineEntry:
    """The run that is compared with, and how it was found; see ``runs.lookup.refs.Baseline``.

    Attributes:
        age: seconds between the creation of both runs; None without a run here.
    """

    recorded: RunEntry
    reference: str
    how: How
    wanted: str | None
    substitute: bool
    distance: int
    differing_files: int | None
    age: float | None
    notes: tuple[str, ...]

    @property
    def is_table(self) -> bool:
        """Whether it is a score table: there are no calls, no tests and no ini file."""
        return self.how == "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The result of a run beside one baseline, or by itself.

    Attributes:
        verdict: of all functions.
        fails: it turns a green session red.
        why: a sentence where the whole comparison fails for a reason of its own, else "".
        baseline: None for a run that is compared with nothing.
        functions: as the gate has them; described ones without a baseline.
    """

    verdict: SessionVerdict
    fails: bool
    why: str
    baseline: BaselineEntry | None
    functions: tuple[ComparedFunction, ...] | tuple[DescribedFunction, ...]

    @property
    def compared(self) -> list[ComparedFunction]:
        """The functions that were compared."""
        return [one for one in self.functions if isinstance(one, ComparedFunction)]

    @property
    def described(self) -> list[DescribedFunction]:
        """The functions of a run that is compared with nothing."""
        return [one for one in self.functions if isinstance(one, DescribedFunction)]


class NotJudged(NamedTuple):
    """A function of the baseline of which nothing ran here, with the number of its cases."""

    function: str
    name: str
    cases: int
    why: str


class KeylessCases(NamedTuple):
    """Cases that asked something new without a key, and whether the merge queue judges them."""

    cases: tuple[str, ...]
    deferred: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """Connections of trials that the cache did not see, and the libraries that are not seen."""

    host: str
    function: str
    libraries: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A judgement in figures and words.

    Attributes:
        side: the comparison with the baseline, or the run by itself; it fails if the session does,
            for any reason.
        settings: the rules of the gate.
        run: this session; None if no eval trial finished.
        differences: of both runs, besides the application.
        common_causes: changes that several functions have in common.
        request_changes: what changed in the requests; the changes that most cases have.
        scope: sentences: what the figures hold for.
        ungated: metrics that decide nothing.
        not_judged: functions of the baseline that did not run.
        keyless: None where each case had a key, or asked nothing new.
        anchor: the comparison with the second baseline; None without one.
        unseen_cases: ids of the cases none of whose trials made a call that was seen.
        notes: sentences that came up on the way.
        to_decide: what to type where something is inconclusive, else "".
    """

    schema_version: int
    side: Side
    settings: GateRules
    run: RunEntry | None
    differences: tuple[Difference, ...]
    common_causes: tuple[CommonCause, ...]
    request_changes: tuple[RequestChange, ...]
    scope: tuple[str, ...]
    ungated: tuple[UngatedFunction, ...]
    not_judged: tuple[NotJudged, ...]
    keyless: KeylessCases | None
    anchor: Side | None
    connections: tuple[Connections, ...]
    unseen_cases: tuple[str, ...]
    notes: tuple[str, ...]
    to_decide: str


def taken_from(kind: type[R], *parts: object, **own: Any) -> R:
    """Make an entry of the report: a field that is not given is the one of the first part with it.

    Args:
        kind: a dataclass.
        parts: records of the gate or of a run.
        own: the fields that no part has, or that are worded here.
    """
    names = [one.name for one in fields(kind) if one.name not in own]  # type: ignore[arg-type]
    found = {name: next(getattr(p, name) for p in parts if hasattr(p, name)) for name in names}
    return kind(**found, **own)
