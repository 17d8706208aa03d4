"""The changes of requests that cases have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_llmeval.records import Run, trials_by_case
from pytest_llmeval.transcripts import transcript
from pytest_llmeval.transcripts.word_diff import MessageDiff, Piece, in_context, shortened

_LOOKED_AT = 200  # cases
_MOST_CHANGES = 2
_MOST_PARTS = 4  # of a change
_CONTEXT = 6  # words beside a change
_ENDS = 10  # words at each end of a long piece
_LONGEST = 400  # characters of a piece

Changes = tuple[transcript.ChangedRequest, ...]


@dataclass(frozen=True, slots=True)
class RequestChange:
    """A change of requests, and the cases that have it.

    Attributes:
        cases: how many cases have it, out of ``looked_at`` cases of the same functions.
        functions: the functions of these cases.
        case: the first of them.
        parts: the changed messages and settings, with a few words beside each change.
    """

    cases: int
    looked_at: int
    functions: tuple[str, ...]
    case: str
    parts: tuple[MessageDiff, ...]


def request_changes(
    baseline: Run, current: Run, cases: Mapping[str, str], stored: transcript.StoredTexts
) -> tuple[RequestChange, ...]:
    """Find the changes that most cases have; if none is common, the change of the first case.

    Args:
        baseline: the run that is compared with.
        current: the run that is judged.
        cases: the function of each case whose requests changed, the most telling case first.
        stored: the cache; a case whose requests are not in it is left out.
    """
    found = dict(_by_case(baseline, current, [*cases][:_LOOKED_AT], stored))
    alike: dict[object, list[str]] = {}
    for case, changes in found.items():
        alike.setdefault(transcript.edits_of(changes), []).append(case)
    groups = sorted(alike.values(), key=len, reverse=True)
    common = [group for group in groups if len(group) > 1] or groups[:1]
    told = list[RequestChange]()
    for group in common[:_MOST_CHANGES]:
        first, own = group[0], tuple(dict.fromkeys(cases[case] for case in group))
        looked_at = sum(cases[case] in own for case in found)
        told.append(RequestChange(len(group), looked_at, own, first, tuple(_parts(found[first]))))
    return tuple(told)


def _by_case(
    baseline: Run, current: Run, cases: Sequence[str], stored: transcript.StoredTexts
) -> Iterator[tuple[str, Changes]]:
    """Compare the requests of the first trial that both sides have, case by case."""
    before, after = (trials_by_case(run, cases) for run in (baseline, current))
    for case in cases:
        old, new = ({trial.index: trial for trial in side[case]} for side in (before, after))
        index = next((index for index in old if index in new), None)
        if index is not None:
            sides = transcript.transcripts(stored, [old[index]], [new[index]])
            if changes := transcript.changed_requests(*sides):
                yield case, changes


def _parts(changes: Changes) -> Iterator[MessageDiff]:
    """Cut what changed to what can be shown: each part once, a few words beside each change."""
    parts = dict.fromkeys(part for one in changes for part in one.diff if part.edit)
    for part in list(parts)[:_MOST_PARTS]:
        pieces = map(_cut, in_context(part.pieces, words=_CONTEXT))
        yield replace(part, pieces=tuple(pieces))


def _cut(piece: Piece) -> Piece:
    text = shortened(piece.text, _ENDS)
    if len(text) > _LONGEST:  # it has few blanks
        text = f"{text[:_LONGEST]} ... ({len(text) - _LONGEST} more characters)"
    return Piece(piece.op, text)
