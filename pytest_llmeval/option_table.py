"""Every option and ini key, with what ``--help`` says of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pytest_llmeval.records import GateTest

DIRECTORY = ".llmeval"

IniType = Literal["string", "bool", "int", "float", "linelist", "args"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: ``--llm-NAME`` on the command line, ``llm_NAME`` in the ini file."""

    name: str
    metavar: str
    help: str
    ini: IniType | None
    kind: Literal["value", "flag", "list"] = "value"

    @property
    def flag(self) -> str:
        """How it is written on the command line."""
        return f"--llm-{self.name}"

    @property
    def key(self) -> str:
        """How it is written in the ini file, and where argparse puts it."""
        return f"llm_{self.name.replace('-', '_')}"


OPTIONS = (
    Option(
        name="baseline",
        metavar="REF",
        ini=None,
        help="compare with the run recorded for REF: a branch, tag or commit, a run id, "
        "a run file, or 'last'; a significant drop fails the session",
    ),
    Option(
        name="anchor",
        metavar="REF",
        ini=None,
        help="compare with a second, older run too, such as the last release's, so that many "
        "small drops cannot add up unseen",
    ),
    Option(
        name="on-missing",
        metavar="error|warn",
        ini=None,
        help="without a stored run for REF: stop before anything is run, or run ungated "
        "(default: error)",
    ),
    Option(
        name="retry-errors",
        metavar="",
        ini=None,
        kind="flag",
        help="run only the errored trials of the last run again, and record that run completed",
    ),
    Option(
        name="model",
        metavar="PROVIDER/MODEL",
        ini="string",
        help="model that the llm fixture asks: openai/gpt-4o-mini, or function/module:callable",
    ),
    Option(
        name="repeats",
        metavar="N",
        ini="int",
        help="trials of every case; on the command line it overrides the markers (default: 5)",
    ),
    Option(
        name="concurrency",
        metavar="N",
        ini="int",
        help="how many trials may be in flight at once, over all workers (default: 32)",
    ),
    Option(
        name="timeout",
        metavar="SECONDS",
        ini="float",
        help="how long one call may take, its retries included, before its trial is errored "
        "(default: 600)",
    ),
    Option(
        name="alpha",
        metavar="P",
        ini="float",
        help="one-sided level of the test, above 0 and below 0.5 (default: 0.05)",
    ),
    Option(
        name="margin",
        metavar="D",
        ini="float",
        help="fail only on a drop of more than D (default: 0)",
    ),
    Option(
        name="target",
        metavar="D",
        ini="float",
        help="the drop that must be ruled out, or would have been caught (default: 0.10)",
    ),
    Option(
        name="test",
        metavar="NAME",
        ini="string",
        help=f"test for 6 changed cases or more: {', '.join(get_args(GateTest))} "
        "(default: paired-t)",
    ),
    Option(
        name="multiplicity",
        metavar="holm|bh",
        ini="string",
        help="how several comparisons share the error rate: no false alarm among all, or a small "
        "share of false ones among the found (default: holm)",
    ),
    Option(
        name="strict",
        metavar="",
        ini="bool",
        kind="flag",
        help="an inconclusive comparison fails too, and a function of the baseline that was left "
        "out, as a whole or in part",
    ),
    Option(
        name="cache",
        metavar="MODE",
        ini="string",
        help="auto: replay what is stored, ask for the rest; replay: ask for nothing; "
        "refresh: draw everything anew and keep the old draws; off: neither (default: auto)",
    ),
    Option(
        name="max-calls",
        metavar="N",
        ini="int",
        help="the most calls that may be made, over all workers; the trials of further ones are "
        "errored (default: any number)",
    ),
    Option(
        name="max-cost",
        metavar="DOLLARS",
        ini="float",
        help="the most that the calls may cost, over all workers; a call that could exceed it is "
        "not made (default: any sum)",
    ),
    Option(
        name="report",
        metavar="PATH.json",
        ini="linelist",
        kind="list",
        help="write the comparison to a file; repeatable",
    ),
    Option(
        name="dir",
        metavar="PATH",
        ini="string",
        help=f"where replies and runs are kept (default: {DIRECTORY} beside the ini file)",
    ),
)
INI_ONLY = (
    ("llm_serial_fixtures", "args", "names of fixtures whose cases must run alone"),
    ("llm_max_gone", "float", "share of a function's baseline cases that may be gone (0.10)"),
    (
        "llm_gate_order",
        "linelist",
        "test functions, or function:metric, tested in this order, each at the full level as "
        "long as all before it regressed",
    ),
    (
        "llm_accept_gone",
        "linelist",
        "test functions, or function:metric, that the baseline gates and this branch gives up",
    ),
    (
        "llm_renamed",
        "linelist",
        "lines of 'evals/test_old.py -> evals/test_new.py': beginnings of node ids in the baseline "
        "and here",
    ),
    (
        "llm_origin_alias",
        "linelist",
        "lines of 'http://127.0.0.1:8001 = https://api.example.com': two origins, one key",
    ),
    (
        "llm_prices",
        "linelist",
        "lines of 'openai/model = INPUT, OUTPUT': dollars per million tokens, input and output",
    ),
    ("llm_max_reply_mb", "int", "the most that is read of one reply, in MiB (default: 128)"),
    ("llm_intercept", "bool", "keep what clients of the application ask (default: false)"),
    (
        "llm_intercept_hosts",
        "args",
        "hosts, or host:port, of gateways that speak the language of openai, anthropic or ollama",
    ),
)


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
