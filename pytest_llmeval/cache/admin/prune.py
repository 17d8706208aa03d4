"""Which draws may go: the only place where a reply is ever removed, and only when asked to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pytest_llmeval.cache.admin.contents import StoredDraw, draws_in
from pytest_llmeval.cache.requests import PREFIX, row_name
from pytest_llmeval.cache.storage.queries import Change, StoredRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What may go.

    Attributes:
        before: only what was paid for before then, UTC as ``Row.created`` has it.
        kept: ids of draws that stay, however old.
    """

    before: str
    kept: frozenset[str]

    def lets_go(self, draw: StoredDraw) -> bool:
        """Whether a draw may go; one that we did not write, or of unknown age, may not."""
        if draw.row is None or not draw.row.created:
            return False
        return draw.row.created < self.before and draw.row.reply.draw not in self.kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What a rule does to a cache.

    Attributes:
        change: for ``Store.rewrite``.
        replies: how many go; ``size`` is their bytes.
        requests: how many requests lose their last reply.
        spared: how many are old enough, and stay because they are kept.
        left: how many stay altogether.
    """

    change: Change
    replies: int
    size: int
    requests: int
    spared: int
    left: int


def prune(rows: Iterable[StoredRow], rule: Rule) -> Pruning:
    """Work out what goes.

    The generations of a slot must have no gap, or lookups would end at it: those that stay
    move up. A slot that holds a row which we did not write is left as it is.

    Args:
        rows: all rows of a cache.
        rule: what may go.
    """
    rows = list(rows)
    draws = list(draws_in(rows))
    locked = {draw.at[:2] for draw in draws if draw.row is None}
    going = [draw for draw in draws if rule.lets_go(draw) and draw.at[:2] not in locked]
    gone = {draw.name for draw in going}
    staying = [draw for draw in draws if draw.name not in gone]
    keys = {draw.at.key for draw in going} - {draw.at.key for draw in staying}
    told = {row.name for row in rows if row.name.startswith(PREFIX)}
    return Pruning(
        change=Change(
            removed=[*gone, *({row_name(key) for key in keys} & told)],
            renamed=list(_moving_up(staying)),
        ),
        replies=len(going),
        size=sum(draw.size for draw in going),
        requests=len(keys),
        spared=sum(_is_spared(draw, rule) for draw in staying),
        left=len(staying),
    )


def _is_spared(draw: StoredDraw, rule: Rule) -> bool:
    return draw.row is not None and "" < draw.row.created < rule.before


def _moving_up(staying: Iterable[StoredDraw]) -> Iterator[tuple[str, str]]:
    slots: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for draw in staying:
        if draw.at.generation is not None:
            slots[draw.at.key, draw.at.slot].append(draw.at.generation)
    for (key, slot), generations in slots.items():
        for new, old in enumerate(sorted(generations)):
            if new != old:
                yield f"{key}/{slot}/{old}", f"{key}/{slot}/{new}"
