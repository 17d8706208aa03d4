"""Any run that ``records.Run`` allows."""

from __future__ import annotations

from hypothesis import strategies as st

from pytest_llmeval.errors import Lost
from pytest_llmeval.records import Call, Case, CiJob, Collected, Outcome, Run, Slot, Trial, Usage

# Lone surrogates too: a file name on disk may hold any bytes.
texts = st.text(st.characters(), max_size=12)
counts = st.integers(0, 2**53 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
hashes = st.text("0123456789abcdef", min_size=40, max_size=40)


def maybe(strategy):
    return st.none() | strategy


parameters = st.dictionaries(texts, st.none() | st.booleans() | st.integers() | finite | texts)
calls = st.builds(
    Call,
    key=texts,
    slot=st.builds(Slot, maybe(st.integers(0, 999_999_999)), st.integers(0, 999_999_999)),
    draw=maybe(texts),
    reply_sha256=maybe(texts),
    replayed=st.booleans(),
    model=maybe(texts),
    served=maybe(texts),
    fingerprint=maybe(texts),
    host=maybe(texts),
    parameters=parameters,
    usage=st.builds(
        Usage,
        input_tokens=maybe(counts),
        output_tokens=maybe(counts),
        cached_input_tokens=maybe(counts),
        tier=maybe(texts),
    ),
    seconds=maybe(finite),
    lost=maybe(st.sampled_from(Lost)),
    lost_for=st.lists(texts, max_size=2).map(tuple),
)
cases = st.builds(
    Case,
    id=texts,
    function=texts,
    repeats=counts,
    marked=counts,
    min_score=maybe(finite),
    parameters=maybe(texts),
    positional=st.booleans(),
    gate=st.lists(texts, max_size=2).map(tuple),
    better=st.sampled_from(["higher", "lower"]),
    cluster=maybe(texts),
)


@st.composite
def trials_of(draw, case):
    return [
        Trial(
            case=case.id,
            index=index,
            outcome=draw(st.sampled_from(Outcome)),
            scores=draw(st.dictionaries(texts, finite, max_size=2)),
            calls=tuple(draw(st.lists(calls, max_size=2))),
            message=draw(texts),
            seconds=draw(finite),
        )
        for index in sorted(draw(st.sets(counts, max_size=2)))
    ]


ci_jobs = st.builds(
    CiJob, provider=texts, event=maybe(texts), url=maybe(texts), fork=maybe(st.booleans())
)


@st.composite
def runs(draw):
    collected = draw(st.lists(cases, max_size=3, unique_by=lambda case: case.id))
    created = draw(st.datetimes()).replace(microsecond=0)
    looked_at = {c.function: st.integers(1, c.repeats) for c in collected if c.repeats}
    return Run(
        id=f"{draw(st.integers(0, 10**8 - 1)):08}T{draw(st.integers(0, 10**6 - 1)):06}-00ff00",
        created=f"{created.isoformat()}+00:00",
        commit=draw(maybe(hashes)),
        tree=draw(maybe(hashes)),
        dirty=draw(st.booleans()),
        ref=draw(maybe(texts)),
        root=draw(texts),
        versions=draw(st.dictionaries(texts, texts, max_size=2)),
        selection=tuple(draw(st.lists(texts, max_size=2))),
        complete=draw(st.booleans()),
        partial=tuple(draw(st.lists(texts, max_size=2))),
        cases=tuple(collected),
        trials=tuple(trial for case in collected for trial in draw(trials_of(case))),
        outside_calls=draw(counts),
        attempts=draw(maybe(counts)),
        unseen=draw(st.sampled_from([(), ("conftest.py",), ("a b.py", "ä.py")])),
        ci=draw(maybe(ci_jobs)),
        collected=draw(maybe(st.builds(Collected, cases=counts, sha256=texts))),
        tests=draw(st.dictionaries(texts, texts, max_size=2)),
        fixtures=draw(
            st.dictionaries(texts, st.dictionaries(texts, texts, max_size=2), max_size=2)
        ),
        places=draw(st.dictionaries(texts, texts, max_size=2)),
        made=draw(maybe(st.just("rerun"))),
        compared_with=draw(maybe(st.just("20261121T084100-1a2b3c"))),
        typed=draw(maybe(st.lists(texts, max_size=2).map(tuple))),
        looks=draw(st.fixed_dictionaries({}, optional=looked_at)),
        stopped=draw(st.booleans()),
        rules=draw(st.dictionaries(texts, finite | texts | st.lists(texts).map(tuple), max_size=2)),
    )
