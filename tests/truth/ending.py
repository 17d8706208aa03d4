"""Kinds that differ in how a trial ends."""

from __future__ import annotations

from tests.truth.kinds import Kind


def ends_by(name: str, statement: str, *, before: str = "", marks: str = "") -> Kind:
    """A kind whose trials end by a statement where the answer is wrong."""
    return Kind(
        name=name,
        source=f"""
{before}
@evaluated()
{marks}
def test_a(llm, i):
    body()
    if llm.ask(f"q {{i}} rate=0.5").text != "yes":
        {statement}
""",
    )


ENDING = [
    ends_by("KeyError", 'raise KeyError("no such field")'),
    ends_by("SystemExit", "sys.exit(3)"),
    ends_by(
        "a BaseException of its own",
        'raise Stop("it")',
        before="class Stop(BaseException): pass",
    ),
    ends_by("pytest.fail", 'pytest.fail("wrong")'),
    ends_by("pytest.xfail", 'pytest.xfail("known")'),
    ends_by("an xfail mark", "assert False", marks='@pytest.mark.xfail(reason="known")'),
    ends_by(
        "a warning that is an error",
        'warnings.warn("wrong", UserWarning)',
        marks='@pytest.mark.filterwarnings("error")',
    ),
    ends_by(
        "a group of assertions", 'raise ExceptionGroup("all", [AssertionError("a"), KeyError(1)])'
    ),
    ends_by("a group of misses alone", 'raise ExceptionGroup("all", [AssertionError("a")])'),
    ends_by(
        "KeyboardInterrupt that is caught",
        "assert quits(), 1",
        before="""
def quits():
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        return False
""",
    ),
    ends_by(
        "os.abort in a child",
        "subprocess.run([sys.executable, '-c', 'raise SystemExit(3)'], check=True)",
    ),
    ends_by(
        "a generator that is left open",
        "assert next(later())",
        before="""
def later():
    try:
        yield False
    finally:
        time.sleep(0)
""",
    ),
    Kind(
        name="skip by a reply",
        is_scored_throughout=False,
        source="""
@evaluated()
def test_a(llm, i):
    body()
    if llm.ask(f"is it asked {i} rate=0.5").text != "yes":
        pytest.skip("not asked")
    assert llm.ask(f"q {i} rate=0.5").text == "yes"
""",
    ),
    Kind(
        name="an assertion in a fixture",
        source="""
@pytest.fixture
def answered(llm, i):
    body()
    assert llm.ask(f"q {i} rate=0.5").text == "yes"

@evaluated()
def test_a(answered, i): pass
""",
    ),
    Kind(
        name="an assertion in teardown",
        rates={"pass": 1.0},
        source="""
@pytest.fixture
def answered(llm, i):
    body()
    yield
    assert llm.ask(f"q {i} rate=0.5").text == "yes"

@evaluated()
def test_a(answered, i): pass
""",
    ),
    Kind(
        name="two gated metrics",
        rates={"tone": 0.6, "pass": 0.5},
        source="""
@evaluated(gate=("pass", "tone"))
def test_a(llm, llm_score, i):
    body()
    llm_score(llm.ask(f"tone {i} rate=0.6").text == "yes", metric="tone")
    assert llm.ask(f"q {i} rate=0.5").text == "yes"
""",
    ),
    Kind(
        name="a score after an assertion",
        rates={"score": 0.25},
        source="""
@evaluated()
def test_a(llm, llm_score, i):
    body()
    assert llm.ask(f"q {i} rate=0.5").text == "yes"
    llm_score(float(llm.ask(f"tone {i} rate=0.5").text == "yes"))
""",
    ),
    Kind(
        name="a score between 0 and 5",
        rates={"score": 2.5},
        spread=1.12,
        source="""
@evaluated()
def test_a(llm, llm_score, i):
    body()
    llm_score(sum(llm.ask(f"part {n} of {i} rate=0.5").text == "yes" for n in range(5)))
""",
    ),
    Kind(
        name="subtests",
        rates={"pass": 0.25},
        source="""
@evaluated()
def test_a(llm, i, subtests):
    body()
    for part in "ab":
        with subtests.test(part):
            assert llm.ask(f"{part} {i} rate=0.5").text == "yes"
""",
    ),
    Kind(
        name="tasks, and an early return",
        model="answer_async",
        source="""
@evaluated()
async def test_a(async_llm, i):
    body()
    other = asyncio.create_task(async_llm.ask(f"other {i} rate=0.5"))
    if (await async_llm.ask(f"q {i} rate=0.5")).text == "yes":
        await other
        return
    await other
    raise AssertionError("wrong")
""",
    ),
    Kind(
        name="a TaskGroup in which one task misses",
        model="answer_async",
        source="""
async def check(async_llm, question):
    assert (await async_llm.ask(question)).text == "yes"

@evaluated()
async def test_a(async_llm, i):
    body()
    async with asyncio.TaskGroup() as group:
        group.create_task(check(async_llm, f"q {i} rate=0.5"))
""",
    ),
    Kind(
        name="a TaskGroup that gives up the other task",
        model="answer_async",
        source="""
async def check(async_llm, question):
    assert (await async_llm.ask(question)).text == "yes"

@evaluated()
async def test_a(async_llm, i):
    body()
    async with asyncio.TaskGroup() as group:
        for who in "ab":
            group.create_task(check(async_llm, f"{who} {i} rate={0.5 ** 0.5}"))
""",
        is_alike_afresh=False,
    ),
]
