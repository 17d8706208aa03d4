"""The lines of ``llmeval show RUN CASE`` and ``llmeval diff``: what was asked and answered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmeval.gate.scoring import bare
from pytest_llmeval.records import PASS_METRIC, SCORE_METRIC, Case, Run, Trial
from pytest_llmeval.reports.formats import aligned, columns, counted, hits, number
from pytest_llmeval.safe_text import printable_lines
from pytest_llmeval.transcripts.transcript import Parting, Step, Transcript
from pytest_llmeval.transcripts.turns import Asked, Turn
from pytest_llmeval.transcripts.word_diff import Piece, TurnDiff

_LINES = 40  # of one text
_CONTEXT = 12  # words on each side of what changed
_SETTINGS = 6
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_VERBS = {"call": " calls", "thought": " thinks", "result": " returns"}
_TOKENS = re.compile(r"\s+|\S+")
_STYLES = {" ": "", "-": "red", "+": "green"}
_MARKS = {" ": ("", ""), "-": ("[-", "-]"), "+": ("{+", "+}")}

Words = tuple[str, str]  # a text, and its style: "", bold, dim, red or green
StyledLine = tuple[Words, ...]
Letters = Mapping[tuple[Turn, ...], str]  # a name for each different answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a case, or all that is shown of it.

    Attributes:
        name: such as ``baseline``.
        run: without its trials.
        case: as this run has it; None if it has none.
        transcripts: of its trials.
    """

    name: str
    run: Run
    case: Case | None
    transcripts: tuple[Transcript, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Its trials."""
        return tuple(each.trial for each in self.transcripts)

    @property
    def metric(self) -> str:
        """The metric that is shown besides the outcome."""
        gated = self.case.gate if self.case else ()
        is_scored = any(SCORE_METRIC in trial.scores for trial in self.trials)
        return gated[0] if gated else SCORE_METRIC if is_scored else PASS_METRIC


class Layout:
    """Texts laid out for a terminal.

    Args:
        width: columns of a line.
        is_full: no text is cut.
    """

    def __init__(self, width: int, *, is_full: bool) -> None:
        self.width = width
        self._most = None if is_full else _LINES

    def text(
        self, pieces: Sequence[Words], *, label: str = "", indent: int = 2
    ) -> Iterator[StyledLine]:
        """Lay out a text behind its label, of so many lines at most.

        Args:
            pieces: of the text, with line ends in it.
            label: stands before the first line.
            indent: columns before every line; the label has them.
        """
        room = max(self.width - indent, 20)
        lines = _wrapped(self._begun(pieces, room), room)
        shown = lines[: self._most]
        for number_, line in enumerate(shown):
            yield ((f"{'' if number_ else label}".ljust(indent), "bold"), *line)
        total = sum(len(text) for text, _ in pieces)
        if len(lines) > len(shown):
            more = f"... ({total} characters in all; --full shows them)"
            yield ((" " * indent, ""), (more, "dim"))

    def fit(self, lines: Iterable[StyledLine]) -> Iterator[StyledLine]:
        """Break lines that are too long for the terminal."""
        for line in lines:
            if sum(columns(text) for text, _ in line) <= self.width:
                yield line
                continue
            first, *others = _wrapped(line, self.width)
            yield first
            indent = min(4, self.width // 4)
            rest = [part for other in others for part in other]
            yield from (((" " * indent, ""), *one) for one in _wrapped(rest, self.width - indent))

    def _begun(self, pieces: Sequence[Words], room: int) -> Iterator[Words]:
        """Give what can be seen of a text: nobody waits for the layout of a megabyte."""
        left = None if self._most is None else room * (self._most + 1)
        for text, style in pieces:
            yield text[:left], style
            left = None if left is None else max(0, left - len(text))


def _wrapped(pieces: Iterable[Words], room: int) -> list[StyledLine]:
    lines: list[list[Words]] = [[]]
    column = 0
    for text, style in pieces:
        for place, line in enumerate(printable_lines(text)):
            if place:
                lines.append([])
                column = 0
            for part in (part for token in _TOKENS.findall(line) for part in _cut(token, room)):
                if column and column + columns(part) > room:
                    lines.append([])
                    column = 0
                    part = part.lstrip() if part.isspace() else part  # noqa: PLW2901
                lines[-1].append((part, style))
                column += columns(part)
    return list(map(tuple, lines))


def _cut(token: str, room: int) -> Iterator[str]:
    """Cut a word that is wider than a line."""
    while columns(token) > room:
        end = room
        while columns(token[:end]) > room:
            end -= 1
        yield token[:end]
        token = token[end:]
    yield token


def shown_case(side: Side, layout: Layout) -> Iterator[StyledLine]:
    """Tell what one run asked and was answered in a case."""
    yield ((side.trials[0].case, "bold"),)
    yield from _headings([side])
    yield ()
    asked = next((each.asked for each in side.transcripts if each.asked), None)
    yield from _request(side, asked, layout)
    yield ()
    letters = _letters([side])
    yield from _plain(_table([side], letters, layout))
    yield from _failures([side])
    yield from _replies([side], letters, layout)


def case_diff(
    sides: tuple[Side, Side],
    *,
    request: tuple[TurnDiff, ...] | None,
    alike: str,
    parting: Parting | None,
    layout: Layout,
) -> Iterator[StyledLine]:
    """Tell what both sides of a case asked and were answered.

    Args:
        sides: the baseline, and the run that is held against it.
        request: their first requests; None if one of them is not here.
        alike: how many other cases were asked the same change; "" for nothing to say.
        parting: where the answers part.
        layout: of texts.
    """
    trial = next(trial for side in sides for trial in side.trials)
    yield ((trial.case, "bold"),)
    yield from _headings(sides)
    yield ()
    if request is None:
        for side in sides:
            yield from _request(side, _first_asked(side), layout)
    elif any(turn.edit for turn in request):
        yield (("request", "bold"), (", [-only before-] {+only here+}", ""))
        yield from _request_diff(request, layout)
        if alike:
            yield ((f"  {alike}", "dim"),)
    else:
        yield (("request", "bold"), (", the same on both sides", ""))
        yield from _turns(_first_asked(sides[0]), layout)
    yield ()
    letters = _letters(sides)
    yield from _plain(_table(sides, letters, layout))
    yield from _failures(sides)
    if parting is not None:
        yield from _parting(parting, sides, layout)
    yield from _replies(sides, letters, layout)


def _plain(lines: Sequence[str]) -> Iterator[StyledLine]:
    for line in lines:
        yield ((line, ""),)


def _headings(sides: Sequence[Side]) -> Iterator[StyledLine]:
    rows = []
    for side in sides:
        scored = [one.scores[side.metric] for one in side.trials if side.metric in one.scores]
        commit = "" if side.run.commit is None else f"@{side.run.commit[:7]}"
        of = f"{side.run.ref or ''}{commit}{' (dirty)' if side.run.dirty else ''}"
        score = hits(scored, side.metric) if scored else "not scored"
        metric = "passed" if side.metric == PASS_METRIC else side.metric
        told = f"{score} {metric}" if side.trials else "has no such case"
        rows.append([side.name, f"run {side.run.id}", of, told])
    yield from _plain(aligned(rows, left=4))


def _first_asked(side: Side) -> Asked | None:
    return next((each.asked for each in side.transcripts if each.asked), None)


def _request(side: Side, asked: Asked | None, layout: Layout) -> Iterator[StyledLine]:
    of = f" of {side.name}" if side.name else ""
    if asked is None:
        calls = sum(len(trial.calls) for trial in side.trials)
        why = " is not here: pruned, or its cache was not brought along"
        yield (("request", "bold"), (of + (why if calls else ": none was made"), ""))
        return
    different = {each.asked.turns for each in side.transcripts if each.asked}
    more = f", that of the first trial; {len(different)} differ" if len(different) > 1 else ""
    yield (("request", "bold"), (of + more, ""))
    yield from _turns(asked, layout)


def _turns(asked: Asked | None, layout: Layout) -> Iterator[StyledLine]:
    if asked is None:
        return
    for turn in asked.turns:
        yield from layout.text([(turn.text, "")], label=_label(turn), indent=12)
    settings = [f"{name} {value}" for name, value in asked.settings.items()]
    more = len(settings) - _SETTINGS
    text = ", ".join(settings[:_SETTINGS]) + (f" and {more} more" if more > 0 else "")
    yield from layout.text([(text, "dim")], label="  settings", indent=12) if text else ()


def _label(turn: Turn) -> str:
    return f"  {turn.role}{_VERBS.get(turn.kind, '')} "


def _request_diff(request: Sequence[TurnDiff], layout: Layout) -> Iterator[StyledLine]:
    for turn in request:
        pieces: list[Words] = []
        for place, piece in enumerate(turn.pieces):
            if piece.op == " ":
                ends = place > 0, place < len(turn.pieces) - 1
                pieces.append((_context(piece.text, before=ends[0], after=ends[1]), ""))
            else:
                pieces.append((_marked(piece), _STYLES[piece.op]))
        yield from layout.text(pieces, label=f"  {turn.role} ", indent=12)


def _context(text: str, *, before: bool, after: bool) -> str:
    """Cut what both sides have to what stands beside a change.

    Args:
        text: that both have.
        before: a change stands before it.
        after: a change stands behind it.
    """
    words = list(re.finditer(r"\S+", text))
    if len(words) <= 4 * _CONTEXT or not (before or after):
        return text
    head = text[: words[_CONTEXT - 1].end()]
    tail = text[words[-_CONTEXT].start() :] if after else ""
    return f"{head} ... ({len(words) - _CONTEXT * (1 + after)} words) ... {tail}"


def _marked(piece: Piece) -> str:
    """Mark what only one side has, with the blanks before it outside the mark."""
    begin, end = _MARKS[piece.op]
    text = piece.text.lstrip(" ")
    return f"{' ' * (len(piece.text) - len(text))}{begin}{text}{end}"


def _letters(sides: Sequence[Side]) -> Letters:
    """Name each different answer, those of the first side first, the most frequent first."""
    names: dict[tuple[Turn, ...], str] = {}
    for side in sides:
        said = [each.said for each in side.transcripts]
        for one in sorted(dict.fromkeys(said), key=lambda one: -said.count(one)):
            index = len(names)
            suffix = str(index // len(_LETTERS)) if index >= len(_LETTERS) else ""
            names.setdefault(one, f"{_LETTERS[index % len(_LETTERS)]}{suffix}")
    return names


def _table(sides: Sequence[Side], letters: Letters, layout: Layout) -> list[str]:
    """Tell draw by draw how each trial ended; what there is no room for is left out."""
    by_index = [{each.trial.index: each for each in side.transcripts} for side in sides]
    draws = {index: each.draws for index, each in by_index[0].items() if any(each.draws)}
    indices = sorted({index for found in by_index for index in found})
    for most in (3, 2, 1):
        titles = [side.name if len(sides) > 1 else "reply" for side in sides]
        heads = (head for title in titles for head in (title, "tokens", "seconds")[:most])
        rows = [["trial", *heads, ""]]
        for index in indices:
            row = [str(index)]
            for side, found in zip(sides, by_index, strict=True):
                one = found.get(index)
                cells = ("-", "", "") if one is None else _cells(one, letters, side.metric)
                row += cells[:most]
            second = by_index[-1].get(index)
            is_replay = len(sides) > 1 and second and second.draws == draws.get(index)
            rows.append([*row, "= replay" if is_replay else ""])
        lines = aligned(_flush_left(rows, columns=range(1, len(rows[0]) - 1, most)), left=2)
        if max(map(columns, lines)) <= layout.width:
            break
    return lines


def _flush_left(rows: Sequence[Sequence[str]], *, columns: range) -> list[list[str]]:
    widths = {column: max(len(row[column]) for row in rows) for column in columns}
    return [[cell.ljust(widths.get(place, 0)) for place, cell in enumerate(row)] for row in rows]


def _cells(one: Transcript, letters: Letters, metric: str) -> Sequence[str]:
    trial, calls = one.trial, one.trial.calls
    score = trial.scores.get(metric)
    told = f" {number(score)}" if metric != PASS_METRIC and score is not None else ""
    tokens = [sum(filter(None, (getattr(call, name) for call in calls))) for name in _TOKEN_FIELDS]
    seconds = sum(call.seconds or 0 for call in calls)
    return (
        f"{letters[one.said]} {trial.outcome}{told}" if calls else f"{trial.outcome}{told}",
        f"{tokens[0]}+{tokens[1]}" if any(tokens) else "",
        f"{seconds:.1f}" if calls else "",
    )


_TOKEN_FIELDS = ("input_tokens", "output_tokens")


def _failures(sides: Sequence[Side]) -> Iterator[StyledLine]:
    for side in sides:
        for message in dict.fromkeys(trial.message for trial in side.trials if trial.message):
            indices = [str(one.index) for one in side.trials if one.message == message]
            of = f"{side.name}, " if len(sides) > 1 else ""
            noun = "trial" if len(indices) == 1 else "trials"
            yield ((f"{of}{noun} {' '.join(indices)}: ", ""), (message, "red"))


def _parting(parting: Parting, sides: tuple[Side, Side], layout: Layout) -> Iterator[StyledLine]:
    steps = parting.baseline, parting.current
    if all(step is None or step.call == 1 for step in steps):
        lengths = {len(one.steps) for side in sides for one in side.transcripts}
        if lengths == {1}:  # with one reply each there is nothing to look for
            return
    call = next(step.call for step in steps if step is not None)
    yield ()
    yield (("the sides part", "bold"), (f" in trial {parting.trial} at call {call}", ""))
    for side, step in zip(sides, steps, strict=True):
        words = [("nothing more", "dim")] if step is None else [(step.turn.text, "")]
        said = "" if step is None else f"{step.turn.role}{_VERBS.get(step.turn.kind, '')}: "
        yield from layout.text([(said, ""), *words], label=f"  {side.name} ", indent=12)


def _replies(sides: Sequence[Side], letters: Letters, layout: Layout) -> Iterator[StyledLine]:
    for said, letter in letters.items():
        alike = [[each for each in side.transcripts if each.said == said] for side in sides]
        if not said:
            continue
        counts = ", ".join(
            f"{len(found)} of {len(side.transcripts)}" + (f" {side.name}" if len(sides) > 1 else "")
            for side, found in zip(sides, alike, strict=True)
            if side.transcripts
        )
        yield ()
        yield ((f"reply {letter}", "bold"), (f"  {counts}", ""))
        steps = next(each.steps for found in alike for each in found)
        yield from _steps(steps, layout)


def _steps(steps: Sequence[Step], layout: Layout) -> Iterator[StyledLine]:
    if len(steps) == 1 and steps[0].turn.kind in ("text", "other"):
        text = steps[0].turn.text
        yield from layout.text([(text, "") if text else ("(empty)", "dim")])
        return
    last, indent = 1, max(len(_label(step.turn)) for step in steps)
    for step in steps:
        if step.call != last:
            yield ((f"  call {step.call}", "dim"),)
            last = step.call
        style = "dim" if step.turn.kind in ("missing", "thought") else ""
        yield from layout.text([(step.turn.text, style)], label=_label(step.turn), indent=indent)


def alike_in_others(count: int, *, of: int, function: str) -> str:
    """Say how many other cases of a function were asked the same change, of those looked at."""
    if not of:
        return ""
    others = f"{counted(of, 'other case')} of {bare(function)} looked at"
    return f"the same change in {f'{count} of ' if count < of else ''}{others}"


def not_here(sides: Sequence[Side]) -> str:
    """Say of which sides replies are not here; "" if all are."""
    missing = [
        f"{side.name}: {counted(count, 'trial')} of {len(side.trials)}"
        for side in sides
        if (count := sum(not each.is_here for each in side.transcripts))
    ]
    if not missing:
        return ""
    return (
        f"replies that are not here: {'; '.join(missing)}. They lie in .llmeval/cache of the "
        "machine that paid for them (llmeval cache export, import), or were pruned"
    )
