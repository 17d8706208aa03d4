"""Fixtures of every scope, made while other trials wait."""

import pytest

from pytest_llmeval import llm_eval

EVENTS = []
REPEATS = 5


def count(*event):
    return EVENTS.count(event)


@pytest.fixture
def fresh(llm, request):
    EVENTS.append(("fresh", "up"))
    llm.ask(f"meet: setup of {request.node.name}")
    yield []
    llm.ask(f"meet: teardown of {request.node.name}")
    EVENTS.append(("fresh", "down"))


@pytest.fixture(scope="module")
def shared():
    EVENTS.append(("shared", "up"))
    yield object()
    EVENTS.append(("shared", "down"))


@pytest.fixture(scope="module", params=["one", "two"])
def wide_kind(request):
    EVENTS.append(("wide", request.param, "up"))
    yield request.param
    EVENTS.append(("wide", request.param, "down"))


@pytest.fixture(params=["a", "b"])
def letter(request):
    return request.param


@pytest.fixture
def word(letter, fresh):
    fresh.append(letter)
    return fresh


@pytest.fixture
def doubled(request):
    return request.param * 2


@pytest.fixture
def asked_for():
    EVENTS.append(("asked for", "up"))
    yield []
    EVENTS.append(("asked for", "down"))


@pytest.fixture(scope="module")
def asked_for_wide():
    EVENTS.append(("asked for wide", "up"))
    yield
    EVENTS.append(("asked for wide", "down"))


@pytest.fixture
def finalized(request):
    order = []
    request.addfinalizer(lambda: EVENTS.append(("order", *order)))
    request.addfinalizer(lambda: order.append("second"))
    request.addfinalizer(lambda: order.append("first"))
    return order


@pytest.fixture
def unnamed():
    EVENTS.append(("unnamed", "up"))
    yield
    EVENTS.append(("unnamed", "down"))


@llm_eval(repeats=REPEATS)
def test_fresh_for_each_trial(llm, fresh):
    assert fresh == []
    fresh.append(1)
    llm.ask("meet: fresh")
    assert fresh == [1]


def test_after_fresh():
    assert count("fresh", "up") == count("fresh", "down") == REPEATS


@llm_eval(repeats=REPEATS)
@pytest.mark.parametrize("number", [1, 2])
def test_shared_by_module(llm, shared, number, request):
    llm.ask(f"meet: shared {number}")
    assert request.getfixturevalue("shared") is shared


def test_after_shared_by_module():
    assert count("shared", "up") == 1
    assert count("shared", "down") == 0


@llm_eval(repeats=REPEATS)
def test_wide_parameter(llm, wide_kind):
    llm.ask(f"meet: wide {wide_kind}")
    assert count("wide", wide_kind, "up") == 1
    assert count("wide", wide_kind, "down") == 0


def test_after_wide_parameter():
    wide = [event for event in EVENTS if event[0] == "wide"]
    assert wide[:3] == [("wide", "one", "up"), ("wide", "one", "down"), ("wide", "two", "up")]


@llm_eval(repeats=REPEATS)
@pytest.mark.parametrize("number", [1, 2])
def test_parametrised_fixture_and_parameters(llm, letter, word, number):
    assert word == [letter]
    llm.ask(f"meet: {letter}{number}")
    word.append(number)
    assert word == [letter, number]


@llm_eval(repeats=REPEATS)
@pytest.mark.parametrize("doubled", ["x", "y"], indirect=True)
def test_indirect_parameter(llm, doubled):
    llm.ask(f"meet: {doubled}")
    assert doubled in ("xx", "yy")


@llm_eval(repeats=REPEATS)
def test_value_asked_for_before_the_call(llm, request):
    mine = request.getfixturevalue("asked_for")
    mine.append(1)
    llm.ask("meet: asked before")
    assert request.getfixturevalue("asked_for") is mine
    assert mine == [1]


@llm_eval(repeats=REPEATS)
def test_value_asked_for_after_the_call(llm, request):
    llm.ask("meet: asked after")
    assert request.getfixturevalue("asked_for") == []
    request.getfixturevalue("asked_for_wide")


def test_after_value_asked_for():
    assert count("asked for", "up") == count("asked for", "down") == 2 * REPEATS
    assert count("asked for wide", "up") == 1
    assert count("asked for wide", "down") == 0


@llm_eval(repeats=REPEATS)
def test_finalizers(llm, finalized):
    llm.ask("meet: finalizers")
    assert finalized == []


def test_after_finalizers():
    assert count("order", "first", "second") == REPEATS


@pytest.mark.usefixtures("unnamed")
@llm_eval(repeats=REPEATS)
def test_used_fixture(llm):
    llm.ask("meet: used")


def test_after_used_fixture():
    assert count("unnamed", "up") == count("unnamed", "down") == REPEATS


@llm_eval(repeats=REPEATS)
def test_folder_of_its_own(llm, tmp_path):
    trial = llm.ask("meet: folder").text
    (tmp_path / trial).touch()
    llm.ask("meet: folder again")
    assert [path.name for path in tmp_path.iterdir()] == [trial]


@llm_eval(repeats=REPEATS)
def test_wide_as_the_session(llm, session_wide):
    llm.ask("meet: session")
    assert session_wide == ["up"]


def test_after_wide_as_the_session(session_wide):
    assert session_wide == ["up"]
