"""Which cases are compared, trial by trial with what, and by how much they differ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_llmeval.gate.changes import common_trials, draws_of, kind_of_change
from pytest_llmeval.gate.comparison import ChangeKind, TrialCounts
from pytest_llmeval.gate.counts import count_trials
from pytest_llmeval.gate.scoring import Scored, Scores, score
from pytest_llmeval.gate.sides import Side, Subject
from pytest_llmeval.records import Better, Case, Outcome, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One common case.

    Attributes:
        cluster: label of the unit it belongs to, as the baseline has it; ``wording`` and
            ``topic`` likewise.
        kind: what made it a changed case; None for an unchanged one.
        there: the trials of the baseline that enter the difference, index ascending.
        here: the trials of this run that enter it, likewise.
        all_there: all scored trials of the baseline, whether they enter or not.
        all_here: all scored trials of this run.
        mean_there: of the trials of the baseline that enter; ``mean_here`` likewise.
        difference: d, negative is worse; exactly 0 for an unchanged case.
    """

    case: str
    cluster: str | None
    wording: str | None
    topic: str | None
    kind: ChangeKind | None
    there: Scored
    here: Scored
    all_there: Scored
    all_here: Scored
    mean_there: float
    mean_here: float
    difference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """A subject, case by case.

    Attributes:
        here: the function in this run, the cases that it came to.
        scores_there: scored trials of every case of the baseline; ``scores_here`` of ``here``.
        pairs: the common cases, ordered by id.
        touched: ids of the cases that were asked anew, whether or not that gave a score.
        lost: ids scored in the baseline that are gone here, or skipped in all their trials.
        mismatched: ids made from positions under which the two sides hold unlike cases.
    """

    subject: Subject
    here: Side
    scores_there: Scores
    scores_here: Scores
    pairs: tuple[Pair, ...]
    touched: frozenset[str]
    lost: frozenset[str]
    mismatched: tuple[str, ...]

    @property
    def there(self) -> Side:
        """The function in the baseline, with all of its cases."""
        return self.subject.there

    @property
    def changed(self) -> tuple[Pair, ...]:
        """The common cases that are no replay of the baseline."""
        return tuple(pair for pair in self.pairs if pair.kind is not None)

    def counts_there(self, cases: Collection[str] | None = None) -> TrialCounts:
        """Count how the baseline's trials ended.

        Args:
            cases: ids that count; without them all, or those that ran here too where
                this run does not hold the whole function.
        """
        if cases is None:
            cases = self.here.cases if self.subject.partial else self.there.cases
        return count_trials(self.there, self.scores_there, cases=cases)

    def counts_here(self, cases: Collection[str] | None = None) -> TrialCounts:
        """Count how the trials here ended, of some cases or of all."""
        return count_trials(
            self.here, self.scores_here, cases=self.here.cases if cases is None else cases
        )


def pair_up(subject: Subject) -> Pairing:
    """Match the cases of two runs of a function and say how they differ on a metric.

    Args:
        subject: the function on both sides, and the metric.
    """
    there = subject.there
    here = subject.here.as_far_as_run()
    better = subject.better  # looked up once: it depends on all cases
    scores_there = score(there, subject.metric, better=better, scale=subject.scale)
    scores_here = score(here, subject.metric, better=better, scale=subject.scale)
    collected = subject.here.cases
    matched = [id_ for id_ in sorted(there.cases) if id_ in collected]
    mismatched = [id_ for id_ in matched if _unlike(there.cases[id_], collected[id_])]
    scored_there = {id_ for id_, scored in scores_there.items() if scored}
    known = scored_there.intersection(matched).difference(mismatched)
    present = known.intersection(here.cases)
    skipped = {id_ for id_ in present if _all_skipped(here.trials[id_])}
    common = sorted(id_ for id_ in present if scores_here[id_])
    shared = subject.calls.shared
    in_step = _sharing_replayed_draws(common, scores_there, scores_here, shared=shared)
    pairs = tuple(
        _pair(
            subject, id_, scores_there[id_], scores_here[id_], in_step=id_ in in_step, better=better
        )
        for id_ in common
    )
    replays = {pair.case for pair in pairs if pair.kind is None}
    return Pairing(
        subject=subject,
        here=here,
        scores_there=scores_there,
        scores_here=scores_here,
        pairs=pairs,
        touched=frozenset(present - skipped - replays),
        lost=frozenset(scored_there - known | skipped),
        mismatched=tuple(mismatched),
    )


def _unlike(one: Case, other: Case) -> bool:
    """Tell whether an id that counts positions stands for two different cases."""
    return (one.positional or other.positional) and one.parameters != other.parameters


def _all_skipped(trials: Sequence[Trial]) -> bool:
    return all(trial.outcome is Outcome.SKIPPED for trial in trials)


def _pair(
    subject: Subject,
    case: str,
    all_there: Scored,
    all_here: Scored,
    *,
    in_step: bool,
    better: Better,
) -> Pair:
    kind = kind_of_change(all_there, all_here, subject.calls)
    there, here = _entering(
        all_there,
        all_here,
        in_step=in_step or kind in (None, "score"),
        at_most=sum(t.outcome is not Outcome.SKIPPED for t in subject.there.trials[case]),
    )
    mean_there, mean_here = there.mean, here.mean
    in_baseline = subject.there.cases[case]
    gain = mean_here - mean_there if better == "higher" else mean_there - mean_here
    return Pair(
        case=case,
        cluster=in_baseline.cluster,
        wording=in_baseline.wording,
        topic=in_baseline.topic,
        kind=kind,
        there=there,
        here=here,
        all_there=all_there,
        all_here=all_here,
        mean_there=mean_there,
        mean_here=mean_here,
        difference=0.0 if kind is None else gain,
    )


def _entering(there: Scored, here: Scored, *, in_step: bool, at_most: int) -> tuple[Scored, Scored]:
    """Choose the trials that enter the difference of a case.

    Where both sides hold the same draws they are compared in step, or the trials that
    only one side has would add their chance again. Otherwise no more trials here than
    the baseline ran: one against ten near the ceiling cries wolf.
    """
    if in_step:
        common = common_trials(there, here)
        if common[0]:
            return common
    return there, here.first(at_most)


def _sharing_replayed_draws(
    cases: Sequence[str], scores_there: Scores, scores_here: Scores, *, shared: frozenset[str]
) -> frozenset[str]:
    """Return the cases with a draw that another one has too and that is in both runs."""
    if not shared:
        return frozenset()
    there = {id_: draws_of(scores_there[id_]) for id_ in cases}
    here = {id_: draws_of(scores_here[id_]) for id_ in cases}
    in_both_runs = frozenset().union(*there.values()) & frozenset().union(*here.values())
    owners: dict[str, set[str]] = {}
    for id_ in cases:
        for draw in (there[id_] | here[id_]) & in_both_runs:
            owners.setdefault(draw, set()).add(id_)
    return frozenset().union(*(ids for ids in owners.values() if len(ids) > 1))
