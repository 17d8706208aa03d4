"""Kinds whose calls are given up, as they come too late for the application.

Replies come at once or long after the deadline, so that a busy machine changes no outcome.
"""

from __future__ import annotations

from tests.truth.kinds import Kind

LATE = [
    Kind(
        name="a deadline of asyncio, caught",
        model="late_async",
        trials=100,
        is_alike_afresh=False,
        source="""
@evaluated(cases=20)
async def test_a(async_llm, i):
    body()
    try:
        await asyncio.wait_for(async_llm.ask(f"q {i} rate=0.5"), 4)
        is_late = False
    except TimeoutError:
        is_late = True
    assert not is_late
""",
    ),
    Kind(
        name="a deadline of asyncio, asserted where it is caught",
        model="late_async",
        trials=100,
        is_alike_afresh=False,
        source="""
@evaluated(cases=20)
async def test_a(async_llm, i):
    body()
    try:
        await asyncio.wait_for(async_llm.ask(f"q {i} rate=0.5"), 4)
    except TimeoutError:
        assert False, "late"
""",
    ),
    Kind(
        name="a deadline of asyncio, not caught",
        model="late_async",
        trials=100,
        is_alike_afresh=False,
        source="""
@evaluated(cases=20)
async def test_a(async_llm, i):
    body()
    async with asyncio.timeout(4):
        await async_llm.ask(f"q {i} rate=0.5")
""",
    ),
    Kind(
        name="a deadline after another answer",
        model="late_async",
        trials=100,
        is_alike_afresh=False,
        source="""
@evaluated(cases=20)
async def test_a(async_llm, i):
    body()
    assert (await async_llm.ask(f"first {i} rate=1")).text == "yes"
    try:
        await asyncio.wait_for(async_llm.ask(f"q {i} rate=0.5"), 4)
    except TimeoutError:
        pytest.fail("late")
""",
    ),
    Kind(
        name="a deadline of a future, caught",
        model="late",
        trials=100,
        is_alike_afresh=False,
        source="""
@evaluated(cases=20)
def test_a(llm, i):
    body()
    pool = ThreadPoolExecutor(1)
    asked = pool.submit(llm.ask, f"q {i} rate=0.5")
    try:
        asked.result(timeout=4)
        is_late = False
    except TimeoutError:
        is_late = True
    pool.shutdown(wait=False)
    assert not is_late
""",
    ),
    Kind(
        name="a fallback when the first is late",
        model="late_async",
        rates={"pass": 0.75},
        trials=100,
        is_alike_afresh=False,
        source="""
@evaluated(cases=20)
async def test_a(async_llm, i):
    body()
    try:
        reply = await asyncio.wait_for(async_llm.ask(f"first {i} rate=0.5"), 4)
    except TimeoutError:
        reply = await asyncio.wait_for(async_llm.ask(f"second {i} rate=0.5"), 4)
    assert reply.text == "yes"
""",
    ),
]
