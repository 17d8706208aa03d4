"""Kinds that differ in how the model is asked."""

from __future__ import annotations

from tests.truth.kinds import Kind

ASKING = [
    Kind(
        name="one ask, seldom right",
        rates={"pass": 0.1},
        source="""
@evaluated()
def test_a(llm, i):
    body()
    assert llm.ask(f"q {i} rate=0.1").text == "yes"
""",
    ),
    Kind(
        name="one ask, mostly right",
        rates={"pass": 0.9},
        source="""
@evaluated()
def test_a(llm, i):
    body()
    assert llm.ask(f"q {i} rate=0.9").text == "yes"
""",
    ),
    Kind(
        name="three asks of one prompt, all must pass",
        source="""
@evaluated()
def test_a(llm, i):
    body()
    for _ in range(3):
        assert llm.ask(f"q {i} rate={0.5 ** (1 / 3)}").text == "yes"
""",
    ),
    Kind(
        name="two prompts in an executor of the test",
        source="""
@evaluated()
def test_a(llm, i):
    body()
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(llm.ask, f"{who} {i} rate={0.5 ** 0.5}") for who in "ab"]
        assert all(one.result().text == "yes" for one in asked)
""",
    ),
    Kind(
        name="one prompt twice in an executor",
        source="""
@evaluated()
def test_a(llm, i):
    body()
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(llm.ask, f"q {i} rate={1 - 0.5 ** 0.5}") for _ in range(2)]
        assert any(one.result().text == "yes" for one in asked)
""",
    ),
    Kind(
        name="map over an executor that outlives trials",
        source="""
POOL = ThreadPoolExecutor(8)

@evaluated()
def test_a(llm, i):
    body()
    replies = list(POOL.map(llm.ask, [f"{who} {i} rate={0.5 ** 0.25}" for who in "abcd"]))
    assert all(reply.text == "yes" for reply in replies)
""",
    ),
    Kind(
        name="threads of the test, joined",
        source="""
@evaluated()
def test_a(llm, i):
    body()
    said = []
    asks = [lambda: said.append(llm.ask(f"q {i} rate=0.5").text)]
    threads = [threading.Thread(target=ask) for ask in asks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["yes"]
""",
    ),
    Kind(
        name="gather of one prompt, the second answer counts",
        model="answer_async",
        source="""
@evaluated()
async def test_a(async_llm, i):
    body()
    replies = await asyncio.gather(*[async_llm.ask(f"q {i} rate=0.5") for _ in range(4)])
    assert replies[1].text == "yes"
""",
    ),
    Kind(
        name="gather of two prompts",
        model="answer_async",
        source="""
@evaluated()
async def test_a(async_llm, i):
    body()
    asked = [async_llm.ask(f"{who} {i} rate={0.5 ** 0.5}") for who in "ab"]
    assert all(reply.text == "yes" for reply in await asyncio.gather(*asked))
""",
    ),
    Kind(
        name="gather that returns exceptions",
        model="answer_async",
        source="""
async def right(async_llm, i):
    assert (await async_llm.ask(f"q {i} rate=0.5")).text == "yes"

@evaluated()
async def test_a(async_llm, i):
    body()
    (error,) = await asyncio.gather(right(async_llm, i), return_exceptions=True)
    if error:
        raise error
""",
    ),
    Kind(
        name="asyncio.run in a test that is not async",
        model="answer_async",
        source="""
@evaluated()
def test_a(async_llm, i):
    body()
    async def both():
        return await asyncio.gather(*[async_llm.ask(f"{w} {i} rate={0.5 ** 0.5}") for w in "ab"])
    assert all(reply.text == "yes" for reply in asyncio.run(both()))
""",
    ),
    Kind(
        name="asyncio.to_thread",
        source="""
@evaluated()
async def test_a(llm, i):
    body()
    assert (await asyncio.to_thread(llm.ask, f"q {i} rate=0.5")).text == "yes"
""",
    ),
    Kind(
        name="a task that is awaited late",
        model="answer_async",
        source="""
@evaluated()
async def test_a(async_llm, i):
    body()
    task = asyncio.create_task(async_llm.ask(f"q {i} rate=0.5"))
    assert (await async_llm.ask(f"first {i} rate=1")).text == "yes"
    assert (await task).text == "yes"
""",
    ),
    Kind(
        name="a prompt that holds an earlier reply",
        source="""
@evaluated()
def test_a(llm, i):
    body()
    first = llm.ask(f"q {i} rate=0.5").text
    rate = 0.75 if first == "yes" else 0.25
    assert llm.ask(f"{first}, are you sure? {i} rate={rate}").text == "yes"
""",
    ),
    Kind(
        name="one retry of its own",
        rates={"pass": 0.75},
        source="""
@evaluated()
def test_a(llm, i):
    body()
    assert any(llm.ask(f"q {i} rate=0.5").text == "yes" for _ in range(2))
""",
    ),
    Kind(
        name="a retry that waits longer each time",
        rates={"pass": 1 - 0.5**3},
        source="""
@evaluated()
def test_a(llm, i):
    body()
    for attempt in range(3):
        try:
            assert llm.ask(f"q {i} rate=0.5").text == "yes"
        except AssertionError:
            if attempt == 2:
                raise
            time.sleep(0.002 * 2**attempt)
        else:
            break
""",
    ),
    Kind(
        name="a question that all cases share",
        source="""
@evaluated()
def test_a(llm, i):
    body()
    assert llm.ask("one for all rate=1").text == "yes"
    assert llm.ask(f"q {i} rate=0.5").text == "yes"
""",
    ),
    Kind(
        name="two hundred cases once",
        source="""
@evaluated(cases=200, repeats=1)
def test_a(llm, i):
    body()
    assert llm.ask(f"q {i} rate=0.5").text == "yes"
""",
    ),
    Kind(
        name="ten cases thirty times",
        trials=300,
        source="""
@evaluated(cases=10, repeats=30)
def test_a(llm, i):
    body()
    assert llm.ask(f"q {i} rate=0.5").text == "yes"
""",
    ),
    Kind(
        name="six hundred cases twice",
        trials=1200,
        source="""
@evaluated(cases=600, repeats=2)
def test_a(llm, i):
    body()
    assert llm.ask(f"q {i} rate=0.5").text == "yes"
""",
    ),
    Kind(
        name="a list of the module, in the prompt",
        source="""
SEEN = []

@evaluated(concurrency="serial")
def test_a(llm, i):
    body()
    SEEN.append(i)
    assert llm.ask(f"q {i} after {len(SEEN)} rate=0.5").text == "yes"
""",
        is_alike_afresh=False,  # globals are the affair of the test: workers share none
    ),
    Kind(
        name="hedged: the first of two answers counts",
        is_alike_afresh=False,
        rates={"pass": 0.9},
        model="hedged_async",
        source="""
@evaluated()
async def test_a(async_llm, i):
    body()
    asked = [asyncio.create_task(async_llm.ask(f"{who} {i}")) for who in ("thorough", "fast")]
    first = await next(asyncio.as_completed(asked))
    await asyncio.wait(asked)
    assert first.text == "yes"
""",
    ),
    Kind(
        name="hedged in threads",
        is_alike_afresh=False,
        rates={"pass": 0.9},
        model="hedged",
        source="""
@evaluated()
def test_a(llm, i):
    body()
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(llm.ask, f"{who} {i}") for who in ("thorough", "fast")]
        assert next(as_completed(asked)).result().text == "yes"
""",
    ),
    Kind(
        name="hedged, the slow one is given up",
        is_alike_afresh=False,
        rates={"pass": 0.9},
        model="hedged_async",
        source="""
@evaluated()
async def test_a(async_llm, i):
    body()
    asked = [asyncio.create_task(async_llm.ask(f"{who} {i}")) for who in ("thorough", "fast")]
    done, late = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    for one in late:
        one.cancel()
    assert done.pop().result().text == "yes"
""",
    ),
    Kind(
        name="a race of equals",
        model="answer_async",
        source="""
@evaluated()
async def test_a(async_llm, i):
    body()
    asked = [asyncio.create_task(async_llm.ask(f"{who} {i} rate=0.5")) for who in "ab"]
    first = await next(asyncio.as_completed(asked))
    await asyncio.wait(asked)
    assert first.text == "yes"
""",
        is_alike_afresh=False,
    ),
    Kind(
        name="a conversation in a parameter",
        rates={"pass": 0.9},
        model="chat",
        source="""
@llm_eval(repeats=5)
@pytest.mark.parametrize("chat", [[{"role": "user", "content": f"q {i}"}] for i in range(40)])
def test_a(llm, chat):
    body()
    reply = llm.chat(chat)
    chat.append({"role": "assistant", "content": reply.text})
    chat.append({"role": "user", "content": "Are you sure?"})
    assert llm.chat(chat).text == "yes"
""",
    ),
]
