"""Connections that the cache did not see: which evals made them, and how to have them seen."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import chain

from pytest_llmeval.errors import counted, listed_names
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Run, ended_unasked, trials_by_case

_LISTED_FUNCTIONS = 5
_LISTED_HOSTS = 5
_HTTPS = 443


def unseen_cases(run: Run | None) -> list[str]:
    """List the cases that reached an outcome without a call that was seen."""
    trials = {} if run is None else trials_by_case(run)
    return [case for case, of_case in trials.items() if ended_unasked(of_case)]


def unseen(judgement: Judgement) -> Iterator[str]:
    """Say what to do about unseen connections, and which cases made no call that was seen."""
    if judgement.connections:
        yield from _cures(judgement)
    run = None if judgement.is_of_tables else judgement.run
    if run is not None and (cases := {*unseen_cases(run)}):
        shown = judgement.names
        names = list(dict.fromkeys(shown[one.function] for one in run.cases if one.id in cases))
        made = f"made no call that the cache saw ({listed_names(names, _LISTED_FUNCTIONS)})"
        todo = "what they ask may be paid for each time; if they call no model, remove the mark"
        yield f"{counted(len(cases), 'case')} {made}: {todo}"


def _cures(judgement: Judgement) -> Iterator[str]:
    """Name the hosts that the ini file may name, and the libraries that are not seen."""
    from pytest_llmeval.models.vendors.recognition import Recognition

    known = Recognition(judgement.settings.intercept_hosts)
    hosts: dict[str, dict[str, None]] = {}  # in order, by library
    for host, _, library in sorted(judgement.connections):
        hosts.setdefault(library, {})[host] = None
    seen = hosts.pop("", {})
    models = [host for host in seen if known.is_model_host(*_host_and_port(host))]
    others = [host for host in seen if host not in models]
    if others:
        named = " ".join(others[:_LISTED_HOSTS])
        urls = sorted(each for each in os.environ.items() if each[0].endswith("_BASE_URL"))
        leading = [name for name, url in urls if any(f"//{host}" in url for host in others)]
        by = "".join(f", which {one} names" for one in leading)
        todo = "add its host to the ini file, so that the cache sees it"
        at = f"{listed_names(others, _LISTED_HOSTS)}{by}"
        yield f"if a model is at {at}, {todo}:  llm_intercept_hosts = {named}"
    if hosts:
        places = list(dict.fromkeys(chain.from_iterable(hosts.values())))
        calls = f"{listed_names([*hosts], _LISTED_HOSTS)} ({listed_names(places, _LISTED_HOSTS)})"
        seen_ones = "httpx, aiohttp, requests or an SDK that sends through one of them"
        yield f"the cache does not see calls by {calls}: call models by {seen_ones}"
    if models:
        kept = f"of what was sent to {listed_names(models, _LISTED_HOSTS)} only questions sent as"
        lost = "no uploads, no lists, and nothing of an eval with intercept=False"
        yield f"{kept} JSON are kept: {lost}"


def _host_and_port(shown: str) -> tuple[str, int]:
    host, _, port = shown.rpartition(":")
    is_whole = not port.isdigit() or (":" in host and host[-1:] != "]")
    return (shown, _HTTPS) if is_whole else (host, int(port))


def unseen_connections(judgement: Judgement) -> Iterator[str]:
    """Name the hosts to which trials went past the cache, the most frequented first."""
    counts: Counter[str] = Counter()
    functions: dict[str, dict[str, None]] = {}  # in order, by host
    shown = judgement.names
    for (host, function, _), count in sorted(judgement.connections.items()):
        counts[host] += count
        functions.setdefault(host, {})[shown[function]] = None
    for host, count in counts.most_common(_LISTED_HOSTS):
        of = listed_names([*functions[host]], _LISTED_FUNCTIONS)
        yield f"{counted(count, 'connection')} to {host} that the cache did not see ({of})"
    if rest := counts.most_common()[_LISTED_HOSTS:]:
        more = counted(sum(count for _, count in rest), "connection")
        yield f"{more} to {counted(len(rest), 'other host')} that the cache did not see"
