"""Runs whose requests and replies lie in a cache, made without a session."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.key import Canonical, canonical_request
from pytest_llmeval.cache.reply import StoredReply, encode, paid_reply
from pytest_llmeval.cache.requests import request_rows
from pytest_llmeval.records import Call, Case, Outcome, Run, Slot, Trial, Usage, bare_run

FUNCTION = "evals/test_shop.py::test_label"
COMMIT = "a" * 40
PLACE = "AssertionError evals/test_shop.py:12"

Message = dict[str, Any]
Exchange = tuple[Sequence[Message], object]  # what was asked, and the body of its reply


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def said(text: str) -> object:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


class Recorder:
    """Writes runs and replies below one folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = Store(home, warn=print)

    def call(
        self, messages: Sequence[Message], reply: object, *, trial: int, **settings: object
    ) -> Call:
        """Keep one request and one draw of it."""
        body = {"model": "m", "messages": list(messages), **settings}
        request = canonical_request(
            provider="openai", method="POST", origin="https://h.example", path="/chat", body=body
        )
        content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        stored = paid_reply(body=content)
        return self.keep(request, stored, Slot(trial, 0))

    def keep(self, request: Canonical, stored: StoredReply, slot: Slot) -> Call:
        key, generation = request.key(), 0
        rows = list(request_rows(key, request, session="s"))
        while not self.store.add(f"{key}/{slot}/{generation}", encode(stored), beside=rows):
            generation += 1
        return Call(
            key=key,
            slot=slot,
            draw=stored.draw,
            reply_sha256=stored.sha256,
            model="openai/m",
            usage=Usage(input_tokens=21, output_tokens=2),
            seconds=0.8,
        )

    def case(
        self,
        name: str,
        outcomes: str,
        exchanges: Callable[[int], Sequence[Exchange]],
        *,
        function: str = FUNCTION,
    ) -> tuple[Case, tuple[Trial, ...]]:
        """Make a case whose trials made these exchanges; ``pm`` are a passed and a missed one."""
        case_id = f"{function}[{name}]"
        trials = tuple(
            Trial(
                case=case_id,
                index=index,
                outcome=Outcome.PASSED if letter == "p" else Outcome.MISSED,
                scores={"pass": float(letter == "p")},
                calls=tuple(
                    self.call(messages, reply, trial=index) for messages, reply in exchanges(index)
                ),
                message="" if letter == "p" else PLACE,
                seconds=0.9,
            )
            for index, letter in enumerate(outcomes)
        )
        return Case(id=case_id, function=function, repeats=len(outcomes)), trials


def run_of(
    *cases: tuple[Case, tuple[Trial, ...]], second: int = 0, commit: str = COMMIT, **more: Any
) -> Run:
    """Make a run of cases; runs of a later second are later."""
    bare = bare_run(
        f"20261121T0841{second:02}-1a2b3c",
        created=f"2026-11-21T08:41:{second:02}+00:00",
        commit=commit,
    )
    return replace(
        bare,
        cases=tuple(case for case, _ in cases),
        trials=tuple(trial for _, trials in cases for trial in trials),
        **more,
    )
