"""The lines of ``llmeval show RUN CASE`` and ``llmeval diff``: what was asked and answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmeval.errors import counted, listed_names
from pytest_llmeval.models.message import Message
from pytest_llmeval.records import PASS_METRIC, SCORE_METRIC, Case, Run, Trial, bare
from pytest_llmeval.reports.common_causes import marked
from pytest_llmeval.reports.notation import aligned, columns, hits, outcome_and_score
from pytest_llmeval.reports.terminal.fitting import Page, StyledLine
from pytest_llmeval.stats.sample import HITS
from pytest_llmeval.transcripts.messages import Asked
from pytest_llmeval.transcripts.transcript import (
    ChangedRequest,
    Parting,
    Transcript,
    Utterance,
    first_asked,
)
from pytest_llmeval.transcripts.word_diff import in_context

_CONTEXT = 12  # words on each side of a change
_SETTINGS = 6
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_STYLES = {" ": "", "-": "red", "+": "green"}

Letters = Mapping[tuple[Message, ...], str]  # a name for each different answer


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSide:
    """One side of a case, or the only one.

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
    def asked(self) -> Asked | None:
        """Its first request that is here."""
        return first_asked(self.transcripts)

    @property
    def metric(self) -> str:
        """The metric that is shown besides the outcome."""
        gated = self.case.gate if self.case else ()
        is_scored = any(SCORE_METRIC in trial.scores for trial in self.trials)
        return gated[0] if gated else SCORE_METRIC if is_scored else PASS_METRIC

    @property
    def scores(self) -> tuple[float, ...]:
        """The scores of its trials on that metric, those that have one."""
        return tuple(one.scores[self.metric] for one in self.trials if self.metric in one.scores)


def case_lines(
    sides: Sequence[CaseSide],
    page: Page,
    *,
    requests: Sequence[ChangedRequest] | None = None,
    alike: str = "",
    parting: Parting | None = None,
) -> Iterator[StyledLine]:
    """Show the requests and replies of the sides of a case.

    Args:
        sides: the baseline, and the run that is compared with it; or one run alone.
        page: to which texts are fitted.
        requests: the changed ones; None if a side's requests are not here.
        alike: how many other cases were asked the same change; "" for nothing to say.
        parting: where the answers part.
    """
    trial = next(trial for side in reversed(sides) for trial in side.trials)
    yield from (((trial.case, "bold"),), *_headings(sides), ())
    if requests is None:
        for side in sides:
            yield from _request(side, page)
    elif not requests or (requests[0].call > 1 and sides[0].asked == sides[-1].asked):
        # the first reply below answers call 1, so its request is shown, too
        of = " of call 1" if requests else ""
        yield (("request", "bold"), (f"{of}, the same on both sides", ""))
        yield from _messages(sides[0].asked, page)
    if requests:
        yield from _requests(requests, page, alike)
    letters = _letters(sides)
    yield from ((), *_plain(_table(sides, letters, page)), *_failures(sides))
    if parting is not None:
        yield from _parting(parting, sides, page)
    yield from _replies(sides, letters, page)


def _requests(requests: Sequence[ChangedRequest], page: Page, alike: str) -> Iterator[StyledLine]:
    for changed in requests:
        of = "" if len(requests) == changed.call == 1 else f" of call {changed.call}"
        yield (("request", "bold"), (f"{of}, [-only in the baseline-] {{+only here+}}", ""))
        for message in changed.diff:
            pieces = in_context(message.pieces, words=_CONTEXT)
            words = [(marked(piece), _STYLES[piece.op]) for piece in pieces]
            yield from page.text(words, label=f"  {message.role} ", indent=12)
    if alike:
        yield ((f"  {alike}", "dim"),)


def _plain(lines: Sequence[str]) -> Iterator[StyledLine]:
    yield from (((line, ""),) for line in lines)


def _headings(sides: Sequence[CaseSide]) -> Iterator[StyledLine]:
    rows, are_hits = [], all(HITS.issuperset(side.scores) for side in sides)
    here = sides[-1].case
    for side in sides:
        run, scored = side.run, side.scores
        of = f"{run.ref or ''}{f'@{run.commit[:7]}' if run.commit else ''}"
        score = hits(scored, side.metric, are_hits=are_hits) if scored else "not scored"
        metric = "passed" if side.metric == PASS_METRIC else side.metric
        told = f"{score} {metric}" if side.trials else "has no such case"
        if here and side.case and side.case.id != here.id:
            told += f", as {side.case.id}"
        rows.append([side.name, f"run {run.id}", f"{of}{' (dirty)' * run.dirty}", told])
    yield from _plain(aligned(rows, left=range(4)))


def _request(side: CaseSide, page: Page) -> Iterator[StyledLine]:
    of = f", {side.name}" if side.name else ""
    if side.asked is None:
        calls = sum(len(trial.calls) for trial in side.trials)
        why = "not in the cache here: pruned, or paid for on another machine"
        yield (("request", "bold"), (f"{of}: {why if calls else 'none was made'}", ""))
        return
    different = {each.asked.messages for each in side.transcripts if each.asked}
    more = f", as the first trial sent it; {len(different)} differ" if len(different) > 1 else ""
    yield (("request", "bold"), (of + more, ""))
    yield from _messages(side.asked, page)


def _messages(asked: Asked | None, page: Page) -> Iterator[StyledLine]:
    if asked is None:
        return
    for message in asked.messages:
        yield from page.text([(message.text, "")], label=_label(message), indent=12)
    settings = [f"{name} {value}" for name, value in asked.settings.items()]
    text = listed_names(settings, _SETTINGS)
    yield from page.text([(text, "dim")], label="  settings", indent=12) if text else ()


def _label(message: Message) -> str:
    return f"  {message.label} "


def _letters(sides: Sequence[CaseSide]) -> Letters:
    """Give each different answer a letter: the first side first, the most frequent first.

    An answer that is not here may be any text, so it has no letter.
    """
    names: dict[tuple[Message, ...], str] = {}
    for side in sides:
        said = [each.said for each in side.transcripts if each.is_here and each.said]
        for one in sorted(dict.fromkeys(said), key=lambda one: -said.count(one)):
            round_, index = divmod(len(names), len(_LETTERS))
            names.setdefault(one, f"{_LETTERS[index]}{round_ or ''}")
    return names


def _table(sides: Sequence[CaseSide], letters: Letters, page: Page) -> list[str]:
    """Show draw by draw how each trial ended, as far as there is room."""
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
        lines = aligned(rows, left={0, *range(1, len(rows[0]), most)})
        if max(map(columns, lines)) <= page.width:
            break
    return lines


def _cells(one: Transcript, letters: Letters, metric: str) -> Sequence[str]:
    calls, ended = one.trial.calls, outcome_and_score(one.trial, metric)
    if not calls:
        return ended, "", ""
    asked = sum(call.usage.input_tokens or 0 for call in calls)
    answered = sum(call.usage.output_tokens or 0 for call in calls)
    tokens = f"{asked}+{answered}" if asked or answered else ""
    seconds = sum(call.seconds or 0 for call in calls)
    return f"{letters.get(one.said, '?')} {ended}", tokens, f"{seconds:.1f}"


def _failures(sides: Sequence[CaseSide]) -> Iterator[StyledLine]:
    for side in sides:
        for message in dict.fromkeys(trial.message for trial in side.trials if trial.message):
            indices = [str(one.index) for one in side.trials if one.message == message]
            of = f"{side.name}, " if len(sides) > 1 else ""
            noun = "trial" if len(indices) == 1 else "trials"
            yield ((f"{of}{noun} {' '.join(indices)}: ", ""), (message, "red"))


def _parting(parting: Parting, sides: Sequence[CaseSide], page: Page) -> Iterator[StyledLine]:
    utterances = parting.baseline, parting.current
    calls = [utterance.call for utterance in utterances if utterance is not None]
    lengths = {len(one.utterances) for side in sides for one in side.transcripts}
    if {*calls} == lengths == {1}:  # with one reply on each side nothing has to be found
        return
    where = f" in trial {parting.trial} at call {calls[0]}"
    yield from ((), (("the sides part", "bold"), (where, "")))
    nothing = "no such call" if parting.goes_on else "nothing more"
    for side, utterance in zip(sides, utterances, strict=True):
        words = [(nothing, "dim")] if utterance is None else [(utterance.message.text, "")]
        said = "" if utterance is None else f"{utterance.message.label}: "
        yield from page.text([(said, ""), *words], label=f"  {side.name} ", indent=12)


def _replies(sides: Sequence[CaseSide], letters: Letters, page: Page) -> Iterator[StyledLine]:
    for said, letter in letters.items():
        alike = [[each for each in side.transcripts if each.said == said] for side in sides]
        names = [f" {side.name}" if len(sides) > 1 else "" for side in sides]
        told = zip(alike, (len(side.transcripts) for side in sides), names, strict=True)
        counts = ", ".join(f"{len(found)} of {made}{name}" for found, made, name in told if made)
        pairs = zip(reversed(names), reversed(alike), strict=True)
        (name, shown), *others = ((name, each) for name, found in pairs for each in found)
        if any(each.utterances != shown.utterances for _, each in others):
            counts += f"; requests as trial {shown.trial.index}{name} sent them, others differ"
        yield from ((), ((f"reply {letter}", "bold"), (f"  {counts}", "")))
        yield from _utterances(shown.utterances, page)
    for name, each in ((side.name, each) for side in sides for each in side.transcripts):
        if not each.is_here and any(message.kind != "missing" for message in each.said):
            of = f"  trial {each.trial.index}{name and f', {name}'}"
            yield from ((), (("reply ?", "bold"), (of, "")))
            yield from _utterances(each.utterances, page)


def _utterances(utterances: Sequence[Utterance], page: Page) -> Iterator[StyledLine]:
    if len(utterances) == 1 and utterances[0].message.kind in ("text", "other"):
        text = utterances[0].message.text
        yield from page.text([(text, "") if text else ("(empty)", "dim")])
        return
    last, indent = 1, max(len(_label(one.message)) for one in utterances)
    for call, message in ((one.call, one.message) for one in utterances):
        if call != last:
            yield ((f"  call {call}", "dim"),)
            last = call
        style = "dim" if message.kind in ("missing", "thought") else ""
        yield from page.text([(message.text, style)], label=_label(message), indent=indent)


def alike_in_others(count: int, *, of: int, others: int, function: str) -> str:
    """Say in how many of the checked cases of a function, ``of`` all, the same words changed."""
    if not of:
        return ""
    some = f"{count} of {counted(of, 'other case')}"
    cases = some if count < of else f"all {of} other cases" if of > 1 else "the one other case"
    were = "was" if of == 1 else "were"
    told = f"the same words changed in {cases} of {bare(function)} that {were} checked"
    return f"{told}, out of {others}" if of < others else told


def not_here(sides: Sequence[CaseSide]) -> str:
    """Say of which sides replies are not here; "" if all are."""
    missing = [
        f"{count} of {counted(len(side.trials), 'trial')}{side.name and f', {side.name}'}"
        for side in sides
        if (count := sum(not each.is_here for each in side.transcripts))
    ]
    if not missing:
        return ""
    return (
        f"replies marked ? are not here: {'; '.join(missing)}. They lie in .llmeval/cache of the "
        "machine that paid for them (llmeval cache export, import), or were pruned"
    )
