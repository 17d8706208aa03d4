"""Text for numbers, names and rows, from which the sentences and tables are made."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from pytest_llmeval import records
from pytest_llmeval.errors import counted

if TYPE_CHECKING:
    from pytest_llmeval.gate.results import FunctionComparison, FunctionDescription, Interval
    from pytest_llmeval.gate.scoring import FunctionScores

    Named = FunctionComparison | FunctionDescription | FunctionScores

CENT = Decimal("0.01")
_LEAST_SUM = 1e-8  # dollars; a smaller sum is rounded
_LISTS = ("renamed", "accept", "accept_gone", "origin_alias", "prices")
_OF_WORDS = ("llm_intercept_hosts", "llm_replay_allow", "llm_base_files")
_KEYS = "|".join((*(f"llm_{name}" for name in _LISTS), *_OF_WORDS))
_PASTED = re.compile(rf"(?<=  )({_KEYS}) = (\S.*?)(?=  |$)")
_METRIC_OF_TABLE = re.compile(rf"\A{records.TABLE_FUNCTION}::.*", re.DOTALL)
_LEAST_HASH = 4  # digits, as in git
_LONGEST_ID = 100
_LARGE = 1e6  # larger figures are rounded
_MOST_PLACES = 9
_NOISE = 1e-12  # smaller figures are errors of rounding, as for the gate
RED = {"red": True, "bold": True}
GREEN = {"green": True}
YELLOW = {"yellow": True}
BOLD = {"bold": True}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the section; ``markup`` as pytest's terminal writer takes it."""

    text: str = ""
    markup: Mapping[str, bool] = field(default_factory=dict)


def columns(text: str) -> int:
    """Count the columns of a printable text on a terminal: wide letters of the East take two."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def aligned(rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> list[str]:
    """Line rows up in columns.

    Args:
        rows: at least one, equally long; the first is usually the heading.
        left: the columns that are set flush left, like the last one; all others hold figures and
            are set flush right.

    Returns:
        One line a row, without trailing blanks.
    """
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    lines = []
    for row in rows:
        cells = []
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            blanks = " " * (width - columns(cell))
            cells.append(cell + blanks if index in left or index == last else blanks + cell)
        lines.append("  ".join(cells).rstrip())
    return lines


def counted_comparisons(
    functions: Sequence[str], *, more: str = "", besides: Sequence[str] = ()
) -> str:
    """Write ``9 functions``; each metric of a function is a comparison.

    Args:
        functions: the name of each comparison's function.
        more: a word before the noun.
        besides: of the comparisons that are told already.
    """
    every = (*besides, *functions)
    kinds = functions_of(every)
    noun = "function" if len(kinds) == len(every) else "comparison"
    return counted(len(functions), more + ("metric" if kinds == {records.TABLE_FUNCTION} else noun))


def kind_of(functions: Iterable[str]) -> str:
    """Say what names in a column are: each metric of a score table is a function."""
    return "metric" if functions_of(functions) == {records.TABLE_FUNCTION} else "test function"


def functions_of(comparisons: Iterable[str]) -> set[str]:
    """Return the functions of comparisons; all metrics of a score table are of one."""
    return {_METRIC_OF_TABLE.sub(records.TABLE_FUNCTION, name) for name in comparisons}


def case_count(run: records.Run) -> int:
    """Count the cases of a run; one of a score table has an id of its own in each metric."""
    return len({case.id.removeprefix(f"{records.bare(case.function)}::") for case in run.cases})


def recorded_by(how: str, job: records.CiJob | None) -> str:
    """Say who recorded a baseline: this job, or an earlier one; empty for a run of a laptop.

    Args:
        how: as of a ``Baseline``.
        job: the one that recorded it, if any did.
    """
    if how == "rerun":
        return " here"
    if job is None:
        return ""
    if job.event:
        return f" by {job.provider}'s {job.event}"
    return f" by a job of {'CI' if job.provider == 'other' else job.provider}"


def is_own_hash(reference: str, commit: str | None) -> bool:
    """Whether a name of a commit is its hash, so that one of both is enough."""
    return len(reference) >= _LEAST_HASH and (commit or "").startswith(reference.lower())


def name_of(name: str, metric: str) -> str:
    """Name a function, and the metric unless it is the plain pass rate."""
    return name if metric == records.PASS_METRIC else f"{name} ({metric})"


def short(one: Named) -> str:
    """Name a function without its file, unless another one of the session has that name."""
    return one.name or records.bare(one.function)


def label(one: Named) -> str:
    """Name what is compared or described; a function of a score table is a metric."""
    name = short(one)
    return name if one.metric == name else name_of(name, one.metric)


def case_name(case: str, of: Named) -> str:
    """Name a case, by its id, as its function is named: ``test_x[Peru]``."""
    if case == of.function or case.startswith(f"{of.function}["):
        return short(of) + case.removeprefix(of.function)
    # the id of a table's case is any text, such as a whole prompt
    return case if len(case) <= _LONGEST_ID else f"{case[: _LONGEST_ID - 1]}\N{HORIZONTAL ELLIPSIS}"


def digits(value: float, count: int = 3, sign: str = "") -> str:
    """Write a figure with so many digits, the same for any order of its sum."""
    return f"{float(f'{value:.12g}'):{sign}.{count}g}"


def decimals(value: float, places: int = 3, *, signed: bool = False) -> str:
    """Write a figure with so many decimals, the same for any order of its sum.

    If these decimals would all be 0, or many digits stand before them, the figure has a few digits
    instead. A figure that is 0 or an error of rounding has no sign.
    """
    sign, value = "+" if signed else "", float(f"{value:.12g}")
    if abs(value) >= _LARGE:
        return digits(value, 4, sign)
    if _NOISE < abs(value) < 0.5 * 10**-places:
        return f"{value:{sign}.2g}"
    text = f"{value:{sign}.{places}f}"
    return text if float(text) else f"{0:.{places}f}"


def number(value: float, *, signed: bool = False) -> str:
    """Write a figure of the suite with three decimals; a 0 as ``0``."""
    return "0" if abs(value) <= _NOISE else decimals(value, signed=signed)


def pasted(key: str, value: str, *, toml: bool) -> str:
    """Write a line of the ini file; in TOML a list of entries."""
    if not toml:
        return f"{key} = {value}"
    entries = value.split() if key in _OF_WORDS else [value]
    return f"{key} = {json.dumps(entries, ensure_ascii=False)}"


def in_form(text: str, *, toml: bool, known: Collection[str] = ()) -> str:
    """Write the lines in a sentence as the user's own file has them; they stand between blanks.

    Args:
        text: the sentence.
        toml: that file is one of TOML.
        known: keys that it has already: of those it takes the value alone, as a further entry.
    """
    if "ini file" not in text:
        return text

    def written(line: re.Match[str]) -> str:
        key, value = line[1], line[2]
        is_ready = toml and value.startswith("[")
        if key not in known:
            return line[0] if is_ready else pasted(key, value, toml=toml)
        entry = value.strip("[]") if is_ready else json.dumps(value) if toml else value
        return f"{entry}  in a line of its own below {key}"

    return _PASTED.sub(written, text)


def keys_in(text: str) -> list[str]:
    """List the keys of the lines that a sentence tells to paste into the ini file."""
    return [line[1] for line in _PASTED.finditer(text)] if "ini file" in text else []


def limit(value: float) -> str:
    """Write a chosen value, with two decimals or all that there are: ``0.10``, ``0.015``."""
    return max(f"{value:g}", f"{value:.2f}" if value < 1 else "", key=len)


def dollars(amount: Decimal) -> str:
    """Write a sum with cents, a smaller one with two digits that are not 0."""
    if not amount:
        return "$0"
    if not _LEAST_SUM <= amount < _LARGE:
        return f"${float(amount):.2g}"
    if amount >= CENT:
        return f"${amount:.2f}"
    return f"${amount.quantize(Decimal(1).scaleb(amount.adjusted() - 1)):f}"


def percent(share: float) -> str:
    """Write a share without a loss: ``97.5%``."""
    return f"{100 * share:.6g}%"


def figure(value: float, metric: str) -> str:
    """Write a mean of any metric; measured metrics have no usual size."""
    return digits(value, 4) if metric in records.MEASURED_METRICS else number(value)


def factor(ratio: float) -> str:
    """Write a ratio current / baseline: ``x1.27``. One that differs from 1 does not read as 1."""
    written = (digits(ratio, count) for count in range(3, 10))
    return f"x{next((text for text in written if text != '1'), 1)}"


def p_value(p: float, *, after: str = "") -> str:
    """Write a p-value; every one below .001 as ``< 0.001``.

    Args:
        p: in [0, 1].
        after: the text before it: ``p`` makes ``p = 0.012`` and ``p < 0.001``.
    """
    is_small, text = p < 0.001, f"{max(p, 0.001):.3f}"  # noqa: PLR2004
    if after:
        return f"{after} {'<' if is_small else '='} {text}"
    return f"<{text}" if is_small else text


def places_beside(value: float, limit: float, places: int = 3) -> int:
    """Return the decimals with which a figure does not read as a limit that it differs from."""
    most = places if math.isclose(value, limit) else _MOST_PLACES
    while places < most and decimals(value, places) == decimals(limit, places):
        places += 1
    return places


def worth(units: int, effective: float) -> str:
    """Say how many equal units unlike ones count for: ``, worth 3.6 of one size``; else ""."""
    return "" if effective > units - 0.05 else f", worth {decimals(effective, 1)} of one size"


def too_few_units(one: FunctionComparison) -> str:
    """Write ``2 cases are too few``, or ``4 clusters are too few`` where these tie the cases."""
    effect, units = one.effect, one.effect.units
    if not 0 < units < effect.changed:
        noun = "case" if effect.changed == effect.cases else "changed case"
        return f"{counted(effect.changed, noun)} {'is' if effect.changed == 1 else 'are'} too few"
    noun = "topic" if one.evidence.wordings else "cluster"
    also = worth(units, effect.effective_units)
    return f"{counted(units, noun)}{also}{',' if also else ''} are too few"


def ends(interval: Interval, write: Callable[[float], str] = decimals) -> str:
    """Write the ends of an interval, each in the given way: ``[0.820, 0.890]``."""
    return f"[{', '.join(map(write, interval))}]"


def ends_of(interval: Interval | None, metric: str) -> str:
    """Write the ends of the interval of a mean, if there is one."""
    if interval is None:
        return ""
    is_measured = metric in records.MEASURED_METRICS
    return ends(interval, partial(digits, count=4) if is_measured else decimals)


def mean_with_ends(mean: float | None, interval: Interval | None, *, log: bool) -> str:
    """Write a mean with its own interval: ``0.861 [0.82, 0.89]``."""
    if mean is None:
        return ""
    text = digits(mean) if log else number(mean)
    write = digits if log else partial(decimals, places=2)
    return f"{text} {ends(interval, write)}" if interval else text


def hits(scores: Sequence[float], metric: str, *, are_hits: bool) -> str:
    """Write scores of a function as ``4/5`` if all are 0 or 1, else as their mean."""
    if are_hits:
        return f"{sum(map(int, scores))}/{len(scores)}"
    return figure(sum(scores) / len(scores), metric)


def outcome_and_score(trial: records.Trial, metric: str) -> str:
    """Write how a trial ended, with its score unless the outcome says it: ``passed 0.800``."""
    score = trial.scores.get(metric)
    if score is None or metric == records.PASS_METRIC:
        return str(trial.outcome)
    return f"{trial.outcome} {number(score)}"
