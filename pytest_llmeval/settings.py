"""Every option of a session, one row each beside the check of its values.

A row is a field of ``Settings``, or of its ``GateRules``: the option's name, its check, its default
and its line of ``--help``. The command line, the ini file and the errors about a value follow from
the row, and ``make docs`` writes ``docs/options.md``. A check takes a typed text and returns its
value, or raises ``ValueError`` with the end of a sentence: what the value must be, and an example.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from pytest_llmeval.errors import SettingsError, without_user

T = TypeVar("T")

DIRECTORY = ".llmeval"
MARKER = "llm_eval"
RERUNS = ("rerun", "rerun-always")  # values of --llm-on-missing
BRIEF = "llmeval-brief"  # the plugin that tells a session to make the run of a baseline
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # names the file that GitHub shows on the page of a job
TYPED_KEY = "llmeval_typed"  # under which xdist's workers find what was typed
REPEATS = 5
# ini keys of earlier versions, and what to do instead
REMOVED = {
    "llm_gate_order": "this key was removed, as the order that it gave could hide a drop. Take "
    "the lines out: every function is judged"
}
# options of the command line, likewise
REMOVED_OPTIONS = {
    "--llm-retry-errors": "run the same again without it: what is paid for is replayed, and only "
    "what got no reply is asked"
}

CacheMode = Literal["auto", "replay", "refresh", "off"]
KeylessCases = Literal["fail", "defer"]
EditedCases = Literal["leave_out", "compare"]
OnMissing = Literal["error", "warn", "rerun", "rerun-always"]
Multiplicity = Literal["holm", "bh"]
GateTest = Literal[
    "paired-t", "log-ratio", "sign-flip", "mcnemar", "mcnemar-exact", "mcnemar-mid-p"
]
# tests that speak of these cases or trials alone: not for a gate
FixedTest = Literal[
    "exact-within-case", "welch", "cmh", "chi-square", "chi-square-plain", "two-proportion-z"
]
AnyTest = Literal[GateTest, FixedTest]

ACCEPTED = "{} {} {:.12g}"  # a function and metric, a sign, the worst mean that is accepted
_ACCEPTED = re.compile(
    r"(?P<name>[^\[\]*?]*[^:\[\]*?]:[^:\[\]*?@]+?)\s*(?P<sign>[<>]=)\s*(?P<bound>\S+)"
)
SCHEME = "git+refs://"  # begins the name of a team's store
_ADDRESS = re.compile(r"[/\\:]")
LARGEST_REPLY = 256  # MiB
JSON, MARKDOWN, HTML = REPORT_ENDINGS = (".json", ".md", ".html")
# tests that can compare a margin with a spread
MARGIN_TESTS: tuple[GateTest, ...] = ("paired-t", "log-ratio")
IN_INI = " in the ini file"  # where a value stands


def checked(name: str, check: Callable[[Any], Any], value: Any, *, where: str = "") -> Any:
    """Read a value by one of the checks below.

    Args:
        name: of the option or key.
        check: reads it.
        value: it.
        where: it stands, such as ``IN_INI``.

    Raises:
        SettingsError: the check refuses the value; the message names it.
    """
    try:
        return check(value)
    except SettingsError as exc:  # of one entry among several
        raise SettingsError(f"{name}{where}: {exc}") from None
    except (ValueError, TypeError) as exc:
        shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        raise SettingsError(f"{name}={without_user(shown)}{where}: {exc}") from None


def each(check: Callable[[str], T]) -> Callable[[Sequence[str]], tuple[T, ...]]:
    """Make a check of several entries out of the check of one."""

    def check_entry(entry: str) -> T:
        try:
            return check(entry)
        except ValueError as exc:
            raise SettingsError(f"{entry!r} {exc}") from None

    return lambda entries: tuple(map(check_entry, entries))


def _number(value: object, otherwise: str) -> float:
    """Read a finite number."""
    try:
        found = float(str(value))
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(otherwise)
    return found


def _within(
    fits: Callable[[float], bool], wanted: str, otherwise: str = "must be a number, such as 0.05"
) -> Callable[[object], float]:
    def check(value: object) -> float:
        found = _number(value, otherwise)
        if not fits(found):
            raise ValueError(wanted)
        return found

    return check


def _text(fits: Callable[[str], object], wanted: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if not fits(value):
            raise ValueError(wanted)
        return value

    return check


def _whole(least: int, most: float, wanted: str) -> Callable[[object], int]:
    def check(value: object) -> int:
        text = str(value).strip()
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise ValueError(f"must be a whole number of {wanted}")
        return int(text)

    return check


_SECONDS = "must be a number of seconds above 0, such as 600"
# a one-sided level of one half is a coin; no test can show anything at less than 1e-12
level = _within(
    lambda level: 1e-12 <= level < 0.5,  # noqa: PLR2004
    "must lie above 0 and below 0.5, such as 0.05",
)
chance = _within(lambda share: 0 < share < 1, "must lie above 0 and below 1, such as 0.80")
share = _within(lambda share: 0 <= share <= 1, "must lie between 0 and 1, such as 0.10")
positive = _within(lambda number: number > 0, "must be above 0, such as 0.10")
not_negative = _within(lambda number: number >= 0, "must be 0 or more, such as 0.02")
whole = _whole(1, math.inf, "1 or more, such as 5")
seconds = _within(lambda number: number > 0, _SECONDS, _SECONDS)
count = _whole(0, math.inf, "0 or more, such as 50")
mebibytes = _whole(1, LARGEST_REPLY, f"1 to {LARGEST_REPLY}, such as 128")  # more no cache holds


def amount(value: object) -> Decimal:
    """Read a sum of money."""
    try:
        found = Decimal(str(value).strip().removeprefix("$"))
    except InvalidOperation:
        found = Decimal(-1)
    if not found.is_finite() or found < 0:
        raise ValueError("must be a sum in dollars of 0 or more, such as 2.50")
    return found


def choice_of(literal: Any) -> Callable[[Any], Any]:
    """Make a check that lets the values of a ``Literal`` through."""
    known = get_args(literal)

    def check(value: object) -> object:
        if value not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return value

    return check


not_blank = _text(str.strip, "the value is empty")
team_store = _text(
    lambda name: re.fullmatch(r"git\+refs://[^\s-][^\s]*", name) and name.isprintable(),
    "must be git+refs:// and the name of a remote, such as git+refs://origin",
)
below_rootdir = _text(
    lambda name: not Path(name).is_absolute() and ".." not in Path(name).parts,
    "is not below rootdir; write a path relative to it, as in  data/questions.csv",
)
host = _text(
    lambda name: "/" not in name and "*" not in name,
    "is no host; write a name, with or without a port, such as gateway.example.com or "
    "10.0.0.7:8080",
)
# what a branch gives up: a function, ``function:metric``, or a pattern; without its metric
given_up = _text(
    lambda entry: re.sub(r"(?<!:):[^:]+$", "", entry).strip("*?[]!/.: "),
    "gives everything up; name what is gone, as in  test_old  or  tests/test_old.py::*  or "
    " test_a:tone",
)


def is_address(remote: str) -> bool:
    """Tell whether a text is the address of a remote; no remote has such a name."""
    return _ADDRESS.search(remote.removeprefix(SCHEME)) is not None


def untyped_store(value: str) -> str:
    """Read the name of a team's store that stands in a file: a branch may change it.

    A name gets its meaning from the config of the checkout, which no commit can change.
    """
    if is_address(team_store(value)):
        raise ValueError(
            "an address holds only where it is typed, as a branch could name a store of its own: "
            "name a remote, such as git+refs://origin"
        )
    return value


def boolean(value: object) -> bool:
    """Read true or false."""
    if isinstance(value, str):  # pytest could not read the value as true or false
        raise ValueError("must be true or false")  # noqa: TRY004 - as every check
    return bool(value)


def report_paths(
    values: Sequence[str], endings: Sequence[str] = REPORT_ENDINGS
) -> tuple[Path, ...]:
    """Read names of report files, each with one of some endings."""
    paths = tuple(map(Path, values))
    if any(path.suffix not in endings for path in paths):
        listed = ", ".join((*endings[:-2], " or ".join(endings[-2:])))
        raise ValueError(f"a report ends in {listed}")
    return paths


def alias(line: str) -> tuple[str, str]:
    """Read a pair of origins."""
    alias, equals, origin = (part.strip() for part in line.partition("="))
    if not equals or "://" not in alias or "://" not in origin:
        raise ValueError(
            "is no pair of origins; write http://127.0.0.1:8001 = https://api.example.com"
        )
    return alias, origin


class TokenPrice(NamedTuple):
    """Dollars for a million tokens."""

    input: Decimal
    output: Decimal


def prices(lines: Sequence[str]) -> dict[str, TokenPrice]:
    """Read prices of models."""
    return dict(each(_price)(lines))


def _price(line: str) -> tuple[str, TokenPrice]:
    model, _, given = line.rpartition("=")
    try:
        price = TokenPrice(*map(amount, given.split(",")))
    except (ValueError, TypeError):
        price = None
    if price is None or "/" not in model:
        raise ValueError(
            "is no price; write dollars per million tokens, input and output, as in  "
            "openai/gpt-6-luna = 0.10, 0.50"
        )
    return model.strip(), price


def accepted(line: str) -> str:
    """Read an accepted drop, with the worst mean that passes."""
    parts = _ACCEPTED.fullmatch(line.strip())
    try:
        bound = _number(parts["bound"] if parts else "", "")
    except ValueError:
        bound = None
    if parts is None or bound is None:
        name, at, _ = line.rpartition("@")
        example = f"{name.strip()} >= 0.38" if at and ":" in name else "test_a:pass >= 0.38"
        raise ValueError(
            "accepts no drop; write a test function, its metric and the worst mean that is "
            f"accepted, as the section prints it: {example}  (<= where lower is better)"
        )
    return ACCEPTED.format(parts["name"], parts["sign"], bound)


def new_names(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Read an old and a new name."""
    pairs: list[tuple[str, str]] = []
    for old, new in each(_new_name)(lines):
        for first in pairs:
            if old == first[0] or new == first[1]:
                raise SettingsError(
                    f"{' -> '.join(first)} and {old} -> {new}: one name stands for one; remove a "
                    "line"
                )
        pairs.append((old, new))
    return tuple(pairs)


def _new_name(line: str) -> tuple[str, str]:
    # ids may hold an arrow of their own, without blanks
    old, arrow, new = (part.strip() for part in line.partition(" -> "))
    if not (arrow and old and new) or old == new:
        raise ValueError(
            "is not OLD -> NEW with two names of a folder, file, class, function or case, as in  "
            "evals/test_a.py::test_old -> evals/test_a.py::test_new"
        )
    return old, new


def gate_test(value: object) -> GateTest:
    """Read the name of a test that is valid for a gate."""
    if value in get_args(FixedTest):
        why = (
            "holds for these very cases only: the gate takes it by itself below 6 changed cases"
            if value == "exact-within-case"
            else "is not valid for a gate (docs/statistics.md has its false alarms and its power), "
            f"llmeval compare --test={value} has it"
        )
        raise ValueError(f"{why}; must be one of {', '.join(get_args(GateTest))}")
    found: GateTest = choice_of(GateTest)(value)
    return found


IniType = Literal["string", "bool", "int", "float", "linelist", "args"]


class Option(NamedTuple):
    """One option of the command line, the ini file or both.

    Attributes:
        usage: the typed form, ``--llm-max-calls=N``; ``llm_prices`` is in the ini file alone.
        check: takes the typed text and returns its value; raises as the checks above.
        default: the text that is checked where nothing is typed; None for None.
        ini: type of the ini key, None without one.
        help: the text of ``--help``.
    """

    usage: str
    check: Callable[[Any], Any]
    default: object = None
    ini: IniType | None = None
    help: str = ""

    @property
    def flag(self) -> str:
        """The option's name on the command line; empty for an option of the ini file alone."""
        return self.usage.partition("=")[0] if self.usage.startswith("--") else ""

    @property
    def flags(self) -> tuple[str, ...]:
        """The option's names on the command line: one without a value has a name that undoes it."""
        undoing = () if self.metavar else (self.flag.replace("--", "--no-", 1),)
        return (self.flag, *undoing) if self.flag else ()

    @property
    def metavar(self) -> str:
        """The word for its value in the help; empty if it takes none."""
        return self.usage.partition("=")[2]

    @property
    def key(self) -> str:
        """Its name in the ini file, and where argparse puts it."""
        return self.usage.partition("=")[0].removeprefix("--").replace("-", "_")

    def says(self, text: str) -> Any:
        """Make the field of this option; its help ends with a default that is a text."""
        has_default = self.default and isinstance(self.default, str)
        told = self._replace(help=f"{text} (default: {self.default})" if has_default else text)
        return field(
            default_factory=lambda: None if self.default is None else self.check(self.default),
            metadata={"option": told},
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GateRules:
    """Rules by which the gate judges a run.

    Attributes:
        alpha: in (0, 0.5).
        margin: the test asks whether the suite fell by more than this, >= 0, below target.
            Where ratios are compared 0.02 means a factor of 1.02; the target likewise.
        target: in (0, inf).
        max_gone: share of a function's baseline cases that may be gone or skipped, in [0, 1].
        strict: an inconclusive comparison fails, too, and a function that was not judged, or judged
            in part.
        test: for 6 independent changed cases or more, one of ``FixedTest`` for any number; measured
            metrics are always compared by ratio.
        accept_gone: what the baseline gates and this run may do without, ``function`` or
            ``function:metric``.
        accept: accepted drops, each ``function:metric >= bound`` with the worst mean that passes,
            or ``<=`` where lower is better.
        edited: how cases with other parameters than in the baseline are treated.
        keyless: how cases that ask something new without a key are treated.
        sequential: a function is looked at before its last repeats, and may stop there.
    """

    alpha: float = Option("--llm-alpha=P", level, "0.05", ini="float").says(
        "how often a build may fail by bad luck: 0.05 is 1 in 20; above 0 and below 0.5"
    )
    margin: float = Option("--llm-margin=D", not_negative, "0", ini="float").says(
        "ignore drops up to D"
    )
    target: float = Option("--llm-target=D", positive, "0.10", ini="float").says(
        "the smallest drop that you care about: the verdict is inconclusive if a drop of D may be "
        "there unseen"
    )
    max_gone: float = Option("--llm-max-gone=SHARE", share, "0.10", ini="float").says(
        "which share of a function's baseline cases may be gone"
    )
    strict: bool = Option("--llm-strict", boolean, default=False, ini="bool").says(
        "fail also if a comparison is inconclusive, if a function of the baseline was left out as "
        "a whole or in part, or if only another commit's run could be used as the baseline"
    )
    test: AnyTest = Option("--llm-test=NAME", gate_test, "paired-t", ini="string").says(
        f"the statistical test for 6 changed cases or more: {', '.join(get_args(GateTest))}"
    )
    multiplicity: Multiplicity = Option(
        "--llm-multiplicity=holm|bh", choice_of(Multiplicity), "holm", ini="string"
    ).says(
        "with several functions: holm keeps false alarms at 1 in 20 builds; bh finds more drops, "
        "of which a small share is false"
    )
    accept_gone: tuple[str, ...] = Option(
        "llm_accept_gone", each(given_up), (), ini="linelist"
    ).says("test functions, or function:metric, that the baseline has and this branch removed")
    accept: tuple[str, ...] = Option("llm_accept", each(accepted), (), ini="linelist").says(
        "accepted drops, in lines of 'test_a:pass >= 0.38': a function, its metric and the worst "
        "mean that you accept; a line has no effect once the baseline's ini file has it"
    )
    edited: EditedCases = Option(
        "llm_edited", choice_of(EditedCases), "leave_out", ini="string"
    ).says(
        "whether to compare cases whose parameters differ from the baseline's: leave_out compares "
        "them only if most cases differ; a case that is left out counts as gone, unless all its "
        "replies are the baseline's own; compare compares all"
    )
    keyless: KeylessCases = Option(
        "llm_keyless", choice_of(KeylessCases), "fail", ini="string"
    ).says(
        "what happens to cases with a new request if no key is set: fail ends the session red; "
        "defer leaves them to the merge queue, only in a pull request from a fork"
    )
    sequential: bool = Option("--llm-sequential", boolean, default=False, ini="bool").says(
        "look at each function after 2/5 and 3/5 of its repeats, and stop it if its verdict is "
        "clear: saves up to 3 of 5 calls, and adds no false alarms"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRun:
    """What a session is to run for another one, which compares its runs.

    Attributes:
        selection: paths of tests and node ids, relative to rootpath; empty for all evals.
        first: index of its first trial, by which draws are numbered.
        confirmation: name of the confirmation that it is for; "" for the run of a baseline.
        asked_by: see ``records.Run``.
        options: that are typed for it besides.
    """

    selection: tuple[str, ...] = ()
    first: int = 0
    confirmation: str = ""
    asked_by: str | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Settings:
    """Every option of the session, resolved and range-checked.

    Attributes:
        session: id that all processes of the session share.
        typed: names of the options, those of the gate too, that were typed on the command line.
        makes_baseline: the run is made for the comparison of another session, whose id this one
            has.
        asked: what else that session wants of it.
        repeats: from the command line, None if not given there.
        default_repeats: for cases whose marker names no number.
        directory: where cache and runs live, absolute.
        toml: the ini file is one of TOML, such as pyproject.toml.
        typed_directory: that folder if it was typed, else None: it was found, or a file names it,
            which a branch may change.
        typed_model: the model, if it was typed on the command line.
        prices: the user's own, by ``provider/model``.
        renamed: beginnings of node ids in the baseline, each with the beginning here.
        origin_aliases: pairs of origins; a request to the first has the key of the second.
        intercept: whether clients of the application are intercepted: in evals whose marker does
            not say otherwise unless this is False, and while files are imported if it is True.
    """

    session: str
    typed: frozenset[str] = frozenset()
    makes_baseline: bool = False
    asked: AskedRun = AskedRun()
    toml: bool = False
    baseline: str | None = Option("--llm-baseline=REF", not_blank).says(
        "compare with the run of REF, and fail if a function got worse; REF is a branch, tag or "
        "commit, a run id, a run file (./FILE), 'last', or 'auto' for the branch that you will "
        "merge into, else origin's default branch"
    )
    confirm: bool = Option("--llm-confirm", boolean, default=False, ini="bool").says(
        "before the build turns red, repeat the cases that fell, on REF's commit and here; "
        "if they do not fall a second time, the build does not fail"
    )
    anchor: str | None = Option("--llm-anchor=REF", not_blank).says(
        "compare with a second, older run, too, such as the last release's, so that many small "
        "drops cannot add up unseen"
    )
    on_missing: OnMissing = Option(
        "--llm-on-missing=error|warn|rerun|rerun-always", choice_of(OnMissing), "error"
    ).says(
        "if no run of REF is stored: error stops before anything runs; warn runs without a "
        "comparison; rerun runs the evals of REF's commit first, in a worktree; rerun-always does "
        "that even if there is a run"
    )
    base_files: tuple[str, ...] = Option(
        "llm_base_files", each(below_rootdir), (), ini="linelist"
    ).says(
        "files and folders that git ignores, relative to rootdir: they are copied into the "
        "worktree in which the evals of REF's commit run"
    )
    base_setup: str = Option("llm_base_setup", str, "", ini="string").says(
        "a shell command that runs in that worktree first, such as 'make gen'; it is read from the "
        "ini file of REF's commit"
    )
    baseline_reach: int = Option("llm_baseline_reach", count, "50", ini="int").says(
        "how many earlier commits to search for a run if REF's has none; commits that change "
        "nothing below rootdir are not counted"
    )
    baseline_age: int = Option("llm_baseline_age", count, "7", ini="int").says(
        "after how many days a line says how old the baseline is"
    )
    baseline_repeats: int = Option("llm_baseline_repeats", count, "20", ini="int").says(
        "how many trials of a case the baseline may have: earlier runs of main count, too, if they "
        "sent the same requests; 0 for the newest run alone"
    )
    fetch: bool | None = Option("--llm-fetch", boolean, ini="bool").says(
        "fetch commits before REF that this clone lacks, into the folder of the cache; the clone "
        "itself does not change (default: only in CI)"
    )
    store: str | None = Option("--llm-store=git+refs://REMOTE", team_store, ini="string").says(
        "also read the runs of your team, which llmeval push keeps in refs of a git remote: "
        "git+refs://origin"
    )
    model: str | None = Option("--llm-model=PROVIDER/MODEL", not_blank, ini="string").says(
        "the model of the llm fixture: openai/gpt-6-luna, or function/module:callable"
    )
    repeats: int | None = Option("--llm-repeats=N", whole, ini="int").says(
        "how many trials each case has; typed on the command line it overrides the markers "
        f"(default: {REPEATS})"
    )
    default_repeats: int = REPEATS
    fail_on_miss: bool = Option("--llm-fail-on-miss", boolean, default=False).says(
        "a case fails as soon as one of its answers is wrong, so that -x stops and --pdb opens at "
        "it, and --lf runs it again"
    )
    missed: bool = Option("--llm-missed", boolean, default=False).says(
        "run only the cases that had a wrong answer when they last ran, or whose mean differed "
        "from the baseline's; if there is none, run all"
    )
    concurrency: int = Option("--llm-concurrency=N", whole, "32", ini="int").says(
        "how many trials may run at the same time, over all workers"
    )
    timeout: float = Option("--llm-timeout=SECONDS", seconds, "600", ini="float").says(
        "how long one call may take, with its retries; then its trial is errored"
    )
    serial_fixtures: tuple[str, ...] = Option("llm_serial_fixtures", tuple, (), ini="args").says(
        "names of fixtures: a case that uses one of them runs alone, one trial after the other"
    )
    gate: GateRules = field(default_factory=GateRules)
    cache: CacheMode = Option("--llm-cache=MODE", choice_of(CacheMode), "auto", ini="string").says(
        "auto takes known replies from the cache and pays for the rest; replay pays for nothing; "
        "refresh pays for all replies again and keeps the old ones; off uses no cache"
    )
    max_calls: int | None = Option("--llm-max-calls=N", count, ini="int").says(
        "pay for at most N calls, over all workers; trials that need more are errored (default: "
        "any number)"
    )
    max_cost: Decimal | None = Option("--llm-max-cost=DOLLARS", amount, ini="float").says(
        "pay at most this, over all workers; a call that could exceed it is not made (default: any "
        "sum)"
    )
    reports: tuple[Path, ...] = Option("--llm-report=PATH", report_paths, (), ini="linelist").says(
        "write the result to a file, PATH.json, PATH.md or PATH.html; may be repeated"
    )
    html_mb: float = Option("llm_html_mb", not_negative, "1.5", ini="float").says(
        "how many megabytes of replies PATH.html holds, worst cases first"
    )
    show_texts: bool = Option("llm_show_texts", boolean, default=True, ini="bool").says(
        "whether reports quote replies and messages of failed assertions (default: true)"
    )
    directory: Path = Option("--llm-dir=PATH", not_blank, ini="string").says(
        f"where replies and runs are kept (default: {DIRECTORY} beside the ini file)"
    )
    typed_directory: Path | None = None
    typed_model: str | None = None
    renamed: tuple[tuple[str, str], ...] = Option(
        "llm_renamed", new_names, (), ini="linelist"
    ).says(
        "lines of 'evals/test_old.py -> evals/test_new.py': the old and the new name of a folder, "
        "file, class, function or case; one * on both sides is the same text"
    )
    origin_aliases: tuple[tuple[str, str], ...] = Option(
        "llm_origin_alias", each(alias), (), ini="linelist"
    ).says(
        "lines of 'http://127.0.0.1:8001 = https://api.example.com': two addresses of the same "
        "model share cached replies (test servers on random ports, proxies)"
    )
    prices: Mapping[str, TokenPrice] = Option("llm_prices", prices, (), ini="linelist").says(
        "prices in lines of 'openai/model = INPUT, OUTPUT', in dollars per million tokens"
    )
    max_reply_mb: int = Option("llm_max_reply_mb", mebibytes, "128", ini="int").says(
        "how large one reply may be, in MiB"
    )
    intercept: bool | None = Option("llm_intercept", boolean, ini="bool").says(
        "cache the calls that your application makes with its own client: with true also "
        "while test files are imported, with false never (default: in evals)"
    )
    intercept_hosts: tuple[str, ...] = Option(
        "llm_intercept_hosts", each(host), (), ini="args"
    ).says(
        "hosts, or host:port, of your own servers that speak a vendor's API: calls to them are "
        "cached like the vendor's"
    )
    replay_allow: tuple[str, ...] = Option("llm_replay_allow", tuple, (), ini="args").says(
        "hosts, host:port and programs that evals may reach even with --llm-cache=replay, such as "
        "db:5432 and git; * is anything"
    )

    @property
    def prefix(self) -> str:
        """What the options begin with that may be typed here: on the line of pytest, or of us."""
        return "--llm-" if self.session else "--"


def check_rules(rules: GateRules, *, is_typed: bool, prefix: str) -> None:
    """Refuse a margin that is not below the target, or with a test that takes none.

    Args:
        rules: of the gate.
        is_typed: the target was typed and is not the default.
        prefix: what the options begin with, ``--llm-`` or ``--``.

    Raises:
        SettingsError: two of these rules do not go together.
    """
    margin = f"{prefix}margin={rules.margin:g}"
    if rules.margin >= rules.target:
        default = "" if is_typed else " (the default)"
        raise SettingsError(
            f"{margin} must be smaller than {prefix}target={rules.target:g}{default}: "
            "a drop that is allowed cannot be one that must be ruled out. "
            f"Raise the target, as in {prefix}target={rules.margin * 2:g}."
        )
    if rules.margin > 0 and rules.test not in MARGIN_TESTS:
        raise SettingsError(
            f"{margin} with {prefix}test={rules.test}: it tests for any drop and takes "
            f"no margin. Leave the margin out, or choose {' or '.join(MARGIN_TESTS)}."
        )


def is_to_be_gated(settings: Settings) -> bool:
    """Tell whether a session asks for a comparison with another run."""
    return settings.baseline is not None or settings.anchor is not None


def lists_of(settings: Settings) -> frozenset[str]:
    """Name the keys of the ini file with several entries that have one."""
    given = {
        option.key: getattr(owner, name)
        for owner in (settings, settings.gate)
        for name, option in options_of(type(owner)).items()
        if option.ini in ("linelist", "args")
    }
    return frozenset(key for key, value in given.items() if value)


def options_of(kind: type[Settings | GateRules]) -> dict[str, Option]:
    """List the options among the fields of settings, by the names of the fields."""
    found = {one.name: one.metadata.get("option") for one in fields(kind)}
    return {name: option for name, option in found.items() if option is not None}


def every_option() -> Sequence[Option]:
    """List all options, the rules of the gate last."""
    return [*options_of(Settings).values(), *options_of(GateRules).values()]


# The options of a group, in its order; those that stand nowhere are rare.
GROUPS = {
    "Everyday": (
        "llm_baseline", "llm_on_missing", "llm_repeats", "llm_model", "llm_report", "llm_max_cost",
    ),
    "Your application and its replies": (
        "llm_cache", "llm_intercept", "llm_intercept_hosts", "llm_max_calls", "llm_concurrency",
        "llm_timeout", "llm_fail_on_miss", "llm_missed", "llm_prices",
    ),
    "Changes of your suite": (
        "llm_accept", "llm_accept_gone", "llm_renamed", "llm_max_gone", "llm_edited",
    ),
    "CI and teams": (
        "llm_confirm", "llm_store", "llm_fetch", "llm_keyless", "llm_anchor", "llm_strict",
        "llm_show_texts",
    ),
    "Statistics": (
        "llm_target", "llm_alpha", "llm_margin", "llm_sequential", "llm_test", "llm_multiplicity",
    ),
}  # fmt: skip
OTHERS = "Rare"


def options_by_group() -> dict[str, list[Option]]:
    """List all options by the headings of ``--help`` and of docs/options.md."""
    known = {option.key: option for option in every_option()}
    found = {heading: [known.pop(key) for key in keys] for heading, keys in GROUPS.items()}
    return found | {OTHERS: [*known.values()]}


def default_directory(rootpath: Path, *, has_ini: bool) -> Path:
    """Return the folder of cache and runs if the user names none.

    Args:
        rootpath: pytest's.
        has_ini: pytest found an ini file; it lies in rootpath.

    Returns:
        Beside the ini file, else at git's top, else in rootpath; it need not exist. For a linked
        working tree it is the folder of the main one, if there is such a folder.
    """
    tops = (top for top in (rootpath, *rootpath.parents) if (top / ".git").exists())
    top = next(tops, rootpath)
    home = rootpath if has_ini else top
    shared = main_worktree(top) / home.relative_to(top)
    return (shared if shared.is_dir() else home) / DIRECTORY


def pytest_into(typed: Path | None) -> str:
    """Write how to start a session that keeps its runs in the folder that was typed, if any was."""
    return "pytest" if typed is None else shlex.join(("pytest", f"--llm-dir={typed}"))


def dir_option(typed: Path | None) -> str:
    """Write the option by which ``llmeval`` reads the folder that was typed, after a blank."""
    return "" if typed is None else f" {shlex.quote(f'--dir={typed}')}"


def main_worktree(top: Path) -> Path:
    """Find the main working tree of a repository; ``top`` itself unless it is a linked one.

    In a linked working tree ``.git`` is a file that names a folder, where ``commondir`` names the
    repository. A submodule has no such file.

    Args:
        top: folder of a working tree.
    """
    try:
        named = (top / ".git").read_text(encoding="utf-8", errors="surrogateescape")
        folder = top / named.removeprefix("gitdir:").strip()
        common = folder / (folder / "commondir").read_text(encoding="utf-8").strip()
    except OSError:
        return top
    repository = common.resolve()
    return repository.parent if repository.name == ".git" else top
