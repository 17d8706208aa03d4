"""Every option of a session, one row each, and what is made of them.

A row is a field of ``Settings``, or of its ``GateRules``: the option's name, the check of its
values, its default and its line of ``--help``. The command line, the ini file and the errors about
a value follow from it, and ``make docs`` writes ``docs/options.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, dataclass_transform, get_args

from pytest_llmeval import checks
from pytest_llmeval.checks import (
    AnyTest,
    CacheMode,
    EditedCases,
    GateTest,
    KeylessCases,
    Multiplicity,
    OnMissing,
)

if TYPE_CHECKING:
    from decimal import Decimal

    from pytest_llmeval.records import TokenPrice

DIRECTORY = ".llmeval"
MARKER = "llm_eval"
RERUNS = ("rerun", "rerun-always")  # values of --llm-on-missing
BRIEF = "llmeval-brief"  # the plugin that tells a session to make the run of a baseline
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # names the file that GitHub shows on the page of a job
TYPED_KEY = "llmeval_typed"  # under which xdist's workers find what was typed
REPEATS = 5
# keys of the ini file that an earlier version had, and what to do instead
REMOVED = {
    "llm_gate_order": "there is no such order any more, as a function that held ended it for all "
    "that came after. Take the lines out: every function is judged"
}

IniType = Literal["string", "bool", "int", "float", "linelist", "args"]


class Option(NamedTuple):
    """One option of the command line, the ini file or both.

    Attributes:
        usage: how it is typed, ``--llm-max-calls=N``; ``llm_prices`` stands in the ini file alone.
        check: takes what was typed and returns what it means; see ``checks``.
        default: what is checked where nothing is typed; None for None.
        ini: type of the ini key, None without one.
        help: what ``--help`` says.
    """

    usage: str
    check: Callable[[Any], Any]
    default: object = None
    ini: IniType | None = None
    help: str = ""

    @property
    def flag(self) -> str:
        """The beginning of it on the command line; empty for an option of the ini file alone."""
        return self.usage.partition("=")[0] if self.usage.startswith("--") else ""

    @property
    def flags(self) -> tuple[str, ...]:
        """All ways to begin it on the command line: one that takes no value can be undone."""
        undoing = () if self.metavar else (self.flag.replace("--", "--no-", 1),)
        return (self.flag, *undoing) if self.flag else ()

    @property
    def metavar(self) -> str:
        """The word that stands for its value; empty if it takes none."""
        return self.usage.partition("=")[2]

    @property
    def key(self) -> str:
        """Its name in the ini file, and where argparse puts it."""
        return self.usage.partition("=")[0].removeprefix("--").replace("-", "_")

    def says(self, text: str) -> Any:
        """Make the field of this option; in its help ``{default}`` stands for the default."""
        return field(
            default_factory=lambda: None if self.default is None else self.check(self.default),
            metadata={"option": self._replace(help=text.format(default=self.default))},
        )


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Frozen:
    """A dataclass whose methods stand here: to generate them costs every pytest session 4 ms."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(self, **values: Any) -> None:
        for each in fields(self):
            if each.name in values:
                vars(self)[each.name] = values.pop(each.name)
            elif each.default_factory is MISSING:
                raise TypeError(f"{each.name} is missing")
            else:
                vars(self)[each.name] = each.default_factory()
        if values:
            raise TypeError(f"there is no field {', '.join(values)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")


class GateRules(_Frozen):
    """Rules by which the gate judges a run.

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
        accept_gone: what the baseline gates and this run may do without, ``function`` or
            ``function:metric``.
        accept: drops that are meant, each ``function:metric >= bound`` with the worst mean that is
            accepted, or ``<=`` where lower is better.
        edited: what becomes of cases whose parameters are others than in the baseline.
        keyless: what becomes of cases that ask something new without a key.
    """

    alpha: float = Option("--llm-alpha=P", checks.alpha, "0.05", ini="float").says(
        "one-sided level of the test, above 0 and below 0.5 (default: {default})"
    )
    margin: float = Option("--llm-margin=D", checks.not_negative, "0", ini="float").says(
        "fail only on a drop of more than D (default: {default})"
    )
    target: float = Option("--llm-target=D", checks.positive, "0.10", ini="float").says(
        "the drop that must be ruled out, or would have been caught (default: {default})"
    )
    max_gone: float = Option("--llm-max-gone=SHARE", checks.share, "0.10", ini="float").says(
        "share of a function's baseline cases that may be gone (default: {default})"
    )
    strict: bool = Option("--llm-strict", checks.boolean, default=False, ini="bool").says(
        "an inconclusive comparison fails too, and a function of the baseline that was left "
        "out, as a whole or in part; no other commit's run stands in for the baseline's"
    )
    test: AnyTest = Option("--llm-test=NAME", checks.gate_test, "paired-t", ini="string").says(
        f"test for 6 changed cases or more: {', '.join(get_args(GateTest))} (default: {{default}})"
    )
    multiplicity: Multiplicity = Option(
        "--llm-multiplicity=holm|bh", checks.choice_of(Multiplicity), "holm", ini="string"
    ).says(
        "how several comparisons share the error rate: no false alarm among all, or a small "
        "share of false ones among the found (default: {default})"
    )
    accept_gone: tuple[str, ...] = Option("llm_accept_gone", checks.gone, (), ini="linelist").says(
        "test functions, or function:metric, that the baseline gates and this branch gives up"
    )
    accept: tuple[str, ...] = Option("llm_accept", checks.accepted, (), ini="linelist").says(
        "lines of 'test_a:pass >= 0.38': drops that are meant, each with the worst mean that is "
        "accepted; void as soon as the baseline has the line"
    )
    edited: EditedCases = Option(
        "llm_edited", checks.choice_of(EditedCases), "leave_out", ini="string"
    ).says(
        "cases whose parameters differ from the baseline's: leave_out shows them beside the "
        "test, and counts those that ask otherwise as gone; compare compares them (default: "
        "{default})"
    )
    keyless: KeylessCases = Option(
        "llm_keyless", checks.choice_of(KeylessCases), "fail", ini="string"
    ).says(
        "what cases do that ask something new where no key is set: fail the session, or, in a "
        "pull request from a fork alone, defer to the merge queue (default: {default})"
    )


class Settings(_Frozen):
    """Every option of the session, resolved and range-checked.

    Attributes:
        session: id that all processes of the session share.
        typed: names of the options, those of the gate too, that were typed on the command line.
        makes_baseline: the run is the baseline of another session, whose id this one has.
        repeats: from the command line, None if not given there.
        default_repeats: for cases whose marker names no number.
        directory: where cache and runs live, absolute.
        toml: the ini file is one of TOML, such as pyproject.toml.
        directory_is_typed: else it was found, or stands in a file that a branch may change.
        typed_model: the model, if it was typed on the command line.
        prices: the user's own, by ``provider/model``.
        renamed: beginnings of node ids in the baseline, each with what stands for it here.
        origin_aliases: pairs of origins; a request to the first has the key of the second.
        intercept: whether clients of the application are intercepted: in evals whose marker does
            not say otherwise unless this is False, and while files are imported if it is True.
    """

    session: str
    typed: frozenset[str] = field(default_factory=frozenset)
    makes_baseline: bool = field(default_factory=bool)
    toml: bool = field(default_factory=bool)
    baseline: str | None = Option("--llm-baseline=REF", checks.not_blank).says(
        "compare with the run recorded for REF: a branch, tag or commit, a run id, a run file "
        "(./FILE), 'last', or 'auto' for the branch that this is to be merged into, else origin's "
        "default branch; a significant drop fails the session"
    )
    anchor: str | None = Option("--llm-anchor=REF", checks.not_blank).says(
        "compare with a second, older run too, such as the last release's, so that many "
        "small drops cannot add up unseen"
    )
    on_missing: OnMissing = Option(
        "--llm-on-missing=error|warn|rerun|rerun-always", checks.choice_of(OnMissing), "error"
    ).says(
        "without a stored run for REF: stop before anything is run, run ungated, or run the evals "
        "of REF's commit first, in a worktree; rerun-always does that though there is a stored run "
        "(default: {default})"
    )
    base_files: tuple[str, ...] = Option(
        "llm_base_files", checks.base_files, (), ini="linelist"
    ).says(
        "files and folders that git does not keep, relative to rootdir, to copy into the worktree "
        "in which the evals of REF's commit run"
    )
    base_setup: str = Option("llm_base_setup", str, "", ini="string").says(
        "a command of the shell that runs in that worktree first, such as 'make gen'; the one in "
        "the ini file of REF's commit counts"
    )
    baseline_reach: int = Option("llm_baseline_reach", checks.count, "50", ini="int").says(
        "how many commits before REF's may stand in for it, commits that change nothing below "
        "rootdir not counted (default: {default})"
    )
    baseline_age: int = Option("llm_baseline_age", checks.count, "7", ini="int").says(
        "days after which the age of the baseline is named (default: {default})"
    )
    fetch: bool | None = Option("--llm-fetch", checks.boolean, ini="bool").says(
        "fetch history that this clone lacks for REF, beside the cache; the clone stays as it is "
        "(default: in CI alone)"
    )
    store: str | None = Option("--llm-store=git+refs://REMOTE", checks.store, ini="string").says(
        "read the runs of a team, too, which llmeval push keeps in refs of a git remote: "
        "git+refs://origin"
    )
    retry_errors: bool = Option("--llm-retry-errors", checks.boolean, default=False).says(
        "run only the errored trials of the last run again, and record that run completed"
    )
    model: str | None = Option("--llm-model=PROVIDER/MODEL", checks.not_blank, ini="string").says(
        "model that the llm fixture asks: openai/gpt-6-luna, or function/module:callable"
    )
    repeats: int | None = Option("--llm-repeats=N", checks.whole, ini="int").says(
        f"trials of every case; on the command line it overrides the markers (default: {REPEATS})"
    )
    default_repeats: int = field(default_factory=lambda: REPEATS)
    fail_on_miss: bool = Option("--llm-fail-on-miss", checks.boolean, default=False).says(
        "a case fails as soon as one of its trials misses, so that -x, --pdb and --lf stop at it"
    )
    concurrency: int = Option("--llm-concurrency=N", checks.whole, "32", ini="int").says(
        "how many trials may be in flight at once, over all workers (default: {default})"
    )
    timeout: float = Option("--llm-timeout=SECONDS", checks.seconds, "600", ini="float").says(
        "how long one call may take, its retries included, before its trial is errored "
        "(default: {default})"
    )
    serial_fixtures: tuple[str, ...] = Option("llm_serial_fixtures", tuple, (), ini="args").says(
        "names of fixtures whose cases must run alone"
    )
    gate: GateRules = field(default_factory=GateRules)
    cache: CacheMode = Option(
        "--llm-cache=MODE", checks.choice_of(CacheMode), "auto", ini="string"
    ).says(
        "auto: replay what is stored, ask for the rest; replay: ask for nothing; "
        "refresh: draw everything anew and keep the old draws; off: neither (default: {default})"
    )
    max_calls: int | None = Option("--llm-max-calls=N", checks.count, ini="int").says(
        "the most calls that may be made, over all workers; the trials of further ones are "
        "errored (default: any number)"
    )
    max_cost: Decimal | None = Option("--llm-max-cost=DOLLARS", checks.amount, ini="float").says(
        "the most that the calls may cost, over all workers; a call that could exceed it is "
        "not made (default: any sum)"
    )
    reports: tuple[Path, ...] = Option(
        "--llm-report=PATH", checks.report_paths, (), ini="linelist"
    ).says("write the comparison to a file, PATH.json, PATH.md or PATH.html; repeatable")
    html_mb: float = Option("llm_html_mb", checks.not_negative, "1.5", ini="float").says(
        "megabytes of replies that PATH.html holds, worst cases first (default: {default})"
    )
    show_texts: bool = Option("llm_show_texts", checks.boolean, default=True, ini="bool").says(
        "whether reports quote replies and messages of failed assertions (true)"
    )
    directory: Path = Option("--llm-dir=PATH", checks.not_blank, ini="string").says(
        f"where replies and runs are kept (default: {DIRECTORY} beside the ini file)"
    )
    directory_is_typed: bool = field(default_factory=bool)
    typed_model: str | None = field(default_factory=lambda: None)
    renamed: tuple[tuple[str, str], ...] = Option(
        "llm_renamed", checks.renamed, (), ini="linelist"
    ).says(
        "lines of 'evals/test_old.py -> evals/test_new.py': a folder, file, class, function or "
        "case of the baseline, and its name here; one * on both sides is the same text"
    )
    origin_aliases: tuple[tuple[str, str], ...] = Option(
        "llm_origin_alias", checks.aliases, (), ini="linelist"
    ).says(
        "lines of 'http://127.0.0.1:8001 = https://api.example.com': two origins, one key (test "
        "servers on random ports, proxies)"
    )
    prices: Mapping[str, TokenPrice] = Option("llm_prices", checks.prices, (), ini="linelist").says(
        "lines of 'openai/model = INPUT, OUTPUT': dollars per million tokens, input and output"
    )
    max_reply_mb: int = Option("llm_max_reply_mb", checks.mebibytes, "128", ini="int").says(
        "the most that is read of one reply, in MiB (default: {default})"
    )
    intercept: bool | None = Option("llm_intercept", checks.boolean, ini="bool").says(
        "keep what clients of the application ask: true, while test files are imported too, or "
        "false (default: in evals)"
    )
    intercept_hosts: tuple[str, ...] = Option(
        "llm_intercept_hosts", checks.hosts, (), ini="args"
    ).says("hosts, or host:port, of gateways that speak the language of a vendor")
    replay_allow: tuple[str, ...] = Option("llm_replay_allow", tuple, (), ini="args").says(
        "hosts, host:port and programs that evals may reach under --llm-cache=replay too, such as "
        "db:5432 and git; * stands for anything"
    )


def is_to_be_gated(settings: Settings) -> bool:
    """Tell whether a session is to be held against another run, be there one or not."""
    return settings.baseline is not None or settings.anchor is not None


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
        Beside the ini file, else at git's top, else in rootpath; it need not exist. Of a linked
        working tree the place in the main one, where that has such a folder.
    """
    tops = (top for top in (rootpath, *rootpath.parents) if (top / ".git").exists())
    top = next(tops, rootpath)
    home = rootpath if has_ini else top
    shared = main_worktree(top) / home.relative_to(top)
    return (shared if shared.is_dir() else home) / DIRECTORY


def main_worktree(top: Path) -> Path:
    """Find the main working tree of a repository; ``top`` itself if that is no linked one.

    In a linked one ``.git`` is a file that names a folder, and there ``commondir`` names the
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
