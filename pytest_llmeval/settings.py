"""Every option of a session, one row each, and what is made of them.

A row is a field of ``Settings``, or of its ``GateRules``: the option's name, the check of its
values, its default and its line of ``--help``. The command line, the ini file and the errors about
a value follow from it, and the table of the README is held against it.
"""

# ruff: noqa: RUF009 - a row makes a field

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from pytest_llmeval import ranges
from pytest_llmeval.ranges import AnyTest, CacheMode, GateTest, Multiplicity, OnMissing

if TYPE_CHECKING:
    from decimal import Decimal

    from pytest_llmeval.records import TokenPrice

DIRECTORY = ".llmeval"
REPEATS = 5

IniType = Literal["string", "bool", "int", "float", "linelist", "args"]


class Option(NamedTuple):
    """One option: ``--llm-NAME`` on the command line, ``llm_NAME`` in the ini file.

    Attributes:
        name: with dashes.
        check: takes what was typed and returns what it means; see ``ranges``.
        default: what is checked where nothing is typed; None for None.
        help: what ``--help`` says.
        metavar: of its value on the command line.
        ini: type of the ini key, None without one.
        kind: ``flag`` takes no value, ``list`` may be repeated, ``ini`` is no option of the
            command line.
    """

    name: str
    check: Callable[[Any], Any]
    default: object
    help: str
    metavar: str
    ini: IniType | None
    kind: Literal["value", "flag", "list", "ini"]

    @property
    def flag(self) -> str:
        """How it is written on the command line."""
        return f"--llm-{self.name}"

    @property
    def key(self) -> str:
        """How it is written in the ini file, and where argparse puts it."""
        return f"llm_{self.name.replace('-', '_')}"


def _option(
    name: str,
    check: Callable[[Any], Any],
    default: object = None,
    *,
    help: str,
    metavar: str = "",
    ini: IniType | None = None,
    kind: Literal["value", "flag", "list", "ini"] = "value",
) -> Any:
    """Make a field that is an option; ``{default}`` in its help stands for the default."""
    row = Option(name, check, default, help.format(default=default), metavar, ini, kind)
    return field(
        default_factory=lambda: None if default is None else check(default),
        metadata={"option": row},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """What the gate holds a run against.

    Attributes:
        alpha: in (0, 0.5).
        margin: the test asks whether the suite fell by more than this, >= 0, below target.
            Where ratios are compared 0.02 means a factor of 1.02; the target likewise.
        target: in (0, inf).
        max_gone: share of a function's baseline cases that may be gone or skipped, in [0, 1].
        strict: an inconclusive comparison fails too, and a function that was not judged, or
            in part alone.
        test: for 6 independent changed cases or more, one of ``FixedTest`` for any number;
            what is measured from calls is always compared by ratio.
        order: comparisons that are tested in this order instead, each at the full level as
            long as all before it regressed: ``function`` or ``function:metric``.
        accept_gone: what the baseline gates and this run may do without, named likewise.
    """

    alpha: float = _option(
        "alpha",
        ranges.alpha,
        "0.05",
        metavar="P",
        ini="float",
        help="one-sided level of the test, above 0 and below 0.5 (default: {default})",
    )
    margin: float = _option(
        "margin",
        ranges.not_negative,
        "0",
        metavar="D",
        ini="float",
        help="fail only on a drop of more than D (default: {default})",
    )
    target: float = _option(
        "target",
        ranges.positive,
        "0.10",
        metavar="D",
        ini="float",
        help="the drop that must be ruled out, or would have been caught (default: {default})",
    )
    max_gone: float = _option(
        "max-gone",
        ranges.share,
        "0.10",
        ini="float",
        kind="ini",
        help="share of a function's baseline cases that may be gone ({default})",
    )
    strict: bool = _option(
        "strict",
        ranges.flag,
        default=False,
        ini="bool",
        kind="flag",
        help="an inconclusive comparison fails too, and a function of the baseline that was left "
        "out, as a whole or in part",
    )
    test: AnyTest = _option(
        "test",
        ranges.gate_test,
        "paired-t",
        metavar="NAME",
        ini="string",
        help=f"test for 6 changed cases or more: {', '.join(get_args(GateTest))} "
        "(default: {default})",
    )
    multiplicity: Multiplicity = _option(
        "multiplicity",
        ranges.one_of(Multiplicity),
        "holm",
        metavar="holm|bh",
        ini="string",
        help="how several comparisons share the error rate: no false alarm among all, or a small "
        "share of false ones among the found (default: {default})",
    )
    order: tuple[str, ...] = _option(
        "gate-order",
        tuple,
        (),
        ini="linelist",
        kind="ini",
        help="test functions, or function:metric, tested in this order, each at the full level as "
        "long as all before it regressed",
    )
    accept_gone: tuple[str, ...] = _option(
        "accept-gone",
        ranges.gone,
        (),
        ini="linelist",
        kind="ini",
        help="test functions, or function:metric, that the baseline gates and this branch gives up",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every option of the session, resolved and range-checked.

    Attributes:
        session: id that all processes of the session share.
        repeats: from the command line, None if not given there.
        default_repeats: for cases whose marker names no number.
        directory: where cache and runs live, absolute.
        directory_is_named: an option or the ini file says so; else it was found.
        prices: the user's own, by ``provider/model``.
        renamed: beginnings of node ids in the baseline, each with what stands for it here.
        origin_aliases: pairs of origins; a request to the first has the key of the second.
        intercept: whether clients of the application are intercepted where no marker says.
    """

    session: str
    baseline: str | None = _option(
        "baseline",
        ranges.text,
        metavar="REF",
        help="compare with the run recorded for REF: a branch, tag or commit, a run id, "
        "a run file, or 'last'; a significant drop fails the session",
    )
    anchor: str | None = _option(
        "anchor",
        ranges.text,
        metavar="REF",
        help="compare with a second, older run too, such as the last release's, so that many "
        "small drops cannot add up unseen",
    )
    on_missing: OnMissing = _option(
        "on-missing",
        ranges.one_of(OnMissing),
        "error",
        metavar="error|warn",
        help="without a stored run for REF: stop before anything is run, or run ungated "
        "(default: {default})",
    )
    retry_errors: bool = _option(
        "retry-errors",
        ranges.flag,
        default=False,
        kind="flag",
        help="run only the errored trials of the last run again, and record that run completed",
    )
    model: str | None = _option(
        "model",
        ranges.text,
        metavar="PROVIDER/MODEL",
        ini="string",
        help="model that the llm fixture asks: openai/gpt-4o-mini, or function/module:callable",
    )
    repeats: int | None = _option(
        "repeats",
        ranges.whole,
        metavar="N",
        ini="int",
        help="trials of every case; on the command line it overrides the markers "
        f"(default: {REPEATS})",
    )
    default_repeats: int = REPEATS
    concurrency: int = _option(
        "concurrency",
        ranges.whole,
        "32",
        metavar="N",
        ini="int",
        help="how many trials may be in flight at once, over all workers (default: {default})",
    )
    timeout: float = _option(
        "timeout",
        ranges.seconds,
        "600",
        metavar="SECONDS",
        ini="float",
        help="how long one call may take, its retries included, before its trial is errored "
        "(default: {default})",
    )
    serial_fixtures: tuple[str, ...] = _option(
        "serial-fixtures",
        tuple,
        (),
        ini="args",
        kind="ini",
        help="names of fixtures whose cases must run alone",
    )
    gate: GateRules = field(default_factory=GateRules)
    cache: CacheMode = _option(
        "cache",
        ranges.one_of(CacheMode),
        "auto",
        metavar="MODE",
        ini="string",
        help="auto: replay what is stored, ask for the rest; replay: ask for nothing; "
        "refresh: draw everything anew and keep the old draws; off: neither (default: {default})",
    )
    max_calls: int | None = _option(
        "max-calls",
        ranges.count_of_calls,
        metavar="N",
        ini="int",
        help="the most calls that may be made, over all workers; the trials of further ones are "
        "errored (default: any number)",
    )
    max_cost: Decimal | None = _option(
        "max-cost",
        ranges.dollars,
        metavar="DOLLARS",
        ini="float",
        help="the most that the calls may cost, over all workers; a call that could exceed it is "
        "not made (default: any sum)",
    )
    reports: tuple[Path, ...] = _option(
        "report",
        ranges.report_paths,
        (),
        metavar="PATH.json",
        ini="linelist",
        kind="list",
        help="write the comparison to a file; repeatable",
    )
    directory: Path = _option(
        "dir",
        ranges.text,
        metavar="PATH",
        ini="string",
        help=f"where replies and runs are kept (default: {DIRECTORY} beside the ini file)",
    )
    directory_is_named: bool = False
    renamed: tuple[tuple[str, str], ...] = _option(
        "renamed",
        ranges.renamed,
        (),
        ini="linelist",
        kind="ini",
        help="lines of 'evals/test_old.py -> evals/test_new.py': beginnings of node ids in the "
        "baseline and here",
    )
    origin_aliases: tuple[tuple[str, str], ...] = _option(
        "origin-alias",
        ranges.aliases,
        (),
        ini="linelist",
        kind="ini",
        help="lines of 'http://127.0.0.1:8001 = https://api.example.com': two origins, one key",
    )
    prices: Mapping[str, TokenPrice] = _option(
        "prices",
        ranges.prices,
        (),
        ini="linelist",
        kind="ini",
        help="lines of 'openai/model = INPUT, OUTPUT': dollars per million tokens, input and "
        "output",
    )
    max_reply_mb: int = _option(
        "max-reply-mb",
        ranges.mebibytes,
        "128",
        ini="int",
        kind="ini",
        help="the most that is read of one reply, in MiB (default: {default})",
    )
    intercept: bool = _option(
        "intercept",
        ranges.flag,
        default=False,
        ini="bool",
        kind="ini",
        help="keep what clients of the application ask (default: false)",
    )
    intercept_hosts: tuple[str, ...] = _option(
        "intercept-hosts",
        ranges.hosts,
        (),
        ini="args",
        kind="ini",
        help="hosts, or host:port, of gateways that speak the language of openai, anthropic or "
        "ollama",
    )


def options_of(kind: type[Settings | GateRules]) -> Iterator[tuple[str, Option]]:
    """List the options among the fields of settings, with the names of the fields."""
    for each in fields(kind):
        if "option" in each.metadata:
            yield each.name, each.metadata["option"]


def every_option() -> Sequence[Option]:
    """List all options, the rules of the gate where ``Settings`` has them."""
    rows: list[Option] = []
    for each in fields(Settings):
        if each.name == "gate":
            rows += [row for _, row in options_of(GateRules)]
        elif "option" in each.metadata:
            rows.append(each.metadata["option"])
    return rows


def default_directory(rootpath: Path, *, has_ini: bool) -> Path:
    """Tell where cache and runs lie unless a place is named.

    Args:
        rootpath: pytest's.
        has_ini: pytest found an ini file; it lies in rootpath.

    Returns:
        Beside the ini file, else at git's top, else in rootpath; it need not exist.
    """
    tops = (top for top in (rootpath, *rootpath.parents) if (top / ".git").exists())
    return (rootpath if has_ini else next(tops, rootpath)) / DIRECTORY
