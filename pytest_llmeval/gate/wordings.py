"""Cases that put the same question in several wordings: a table of topics and wordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_llmeval.gate.pairing import Pair
from pytest_llmeval.stats.significance.crossed import FEWEST_WORDINGS

FEWEST_TOPICS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WordingTable:
    """The differences of all changed cases, and of the unchanged ones between them.

    Attributes:
        differences: a row a topic, a column a wording.
    """

    differences: tuple[tuple[float, ...], ...]

    @property
    def size(self) -> int:
        """How many cases are in it."""
        return len(self.differences) * len(self.differences[0])


def wordings_of(pairs: Sequence[Pair]) -> int:
    """Count the wordings of common cases, 0 where the test names none."""
    return len({pair.wording for pair in pairs if pair.wording is not None})


def wording_table(pairs: Sequence[Pair], *, units: int) -> WordingTable | None:
    """Cross the topics of the changed cases with their wordings.

    Args:
        pairs: all common cases.
        units: the independent units that hold changed ones.

    Returns:
        None unless the table speaks of wordings in general: at least 3 of them, at least 2
        independent topics, and a case for each topic in each wording.
    """
    changed = [pair for pair in pairs if pair.kind is not None]
    topics = sorted({pair.topic for pair in changed if pair.topic is not None})
    wordings = sorted({pair.wording for pair in changed if pair.wording is not None})
    if len(wordings) < FEWEST_WORDINGS or len(topics) < FEWEST_TOPICS or units != len(topics):
        return None
    cells = {(pair.topic, pair.wording): pair.difference for pair in pairs}
    if len(cells) != len(pairs) or any((t, w) not in cells for t in topics for w in wordings):
        return None
    return WordingTable(
        differences=tuple(tuple(cells[topic, word] for word in wordings) for topic in topics)
    )
