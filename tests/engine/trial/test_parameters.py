"""Each trial has its own copy of parameters that a test can change."""

from __future__ import annotations

import pytest

from tests.forked import run_forked

COPIED = """
import collections, dataclasses, io, types
import pytest
from pytest_llmeval import llm_eval


@dataclasses.dataclass
class Chat:
    turns: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Slim:
    turns: list


@dataclasses.dataclass(frozen=True)
class Frozen:
    turns: list


class Client:
    pass


CLIENT = Client()
PLACE = object()
Named = collections.namedtuple("Named", "turns")
SHARED = [1]


@llm_eval(repeats=4, min_score=1)
@pytest.mark.parametrize(
    ("value", "turns"),
    [
        ([{"role": "user"}], lambda v: v),
        ({"turns": []}, lambda v: v["turns"]),
        (([1], 2), lambda v: v[0]),
        (Named([]), lambda v: v.turns),
        (Chat(), lambda v: v.turns),
        (Slim([]), lambda v: v.turns),
        (Frozen([]), lambda v: v.turns),
        (types.SimpleNamespace(turns=[]), lambda v: v.turns),
        (collections.defaultdict(list), lambda v: v["turns"]),
        (collections.deque([1]), lambda v: v),
        (bytearray(b"a"), lambda v: v),
    ],
)
def test_a_value_is_a_trials_own(llm, value, turns):
    before = list(turns(value))
    turns(value).append(1)
    llm.ask("anything")
    assert len(turns(value)) == len(before) + 1 <= 2


@llm_eval(repeats=4, min_score=1)
@pytest.mark.parametrize("many", [{1, 2}])
def test_a_set(llm, many):
    assert many.pop() and len(many) == 1
    llm.ask("anything")
    assert len(many) == 1


@llm_eval(repeats=4, min_score=1)
@pytest.mark.parametrize("lines", [iter(["a", "b"]), io.StringIO("a")])
def test_what_is_used_up(llm, lines):
    llm.ask("anything")
    assert next(lines) == "a"


@llm_eval(repeats=4, min_score=1)
@pytest.mark.parametrize("held", [[CLIENT, PLACE, SHARED, SHARED, len, Client]])
def test_what_has_an_identity_stays(held):
    assert held[0] is CLIENT and held[1] is PLACE
    assert held[2] is held[3] is not SHARED
    assert held[4] is len and held[5] is Client


@pytest.fixture(params=[["a"]])
def asked(request):
    request.param.append("b")
    return request.param


@pytest.fixture(params=[["a"]], scope="module")
def once(request):
    request.param.append("b")
    return request.param


@llm_eval(repeats=4, min_score=1)
def test_fixtures(llm, asked, once):
    llm.ask("anything")
    assert asked == once == ["a", "b"]
"""
CHANGED = """
import pytest
from pytest_llmeval import llm_eval


class Chat:
    def __init__(self):
        self.turns = []


@llm_eval(repeats=2)
@pytest.mark.parametrize("quiet", [Chat(), len, object()])
@pytest.mark.parametrize("chat", [Chat(), Chat(), [Chat()]], ids="abc")
def test_changes(llm, chat, quiet):
    turns = (chat[0] if isinstance(chat, list) else chat).turns
    turns.append(1)
    llm.ask("anything")


@llm_eval(repeats=2)
@pytest.mark.parametrize("chat", [Chat(), {"a": Chat()}])
def test_only_looks(llm, chat):
    llm.ask(str(type(chat)))


@llm_eval(repeats=1)
@pytest.mark.parametrize("chat", [Chat()])
def test_runs_once(llm, chat):
    chat.turns.append(1)
"""
INI = "[pytest]\nllm_model = function/model:answer\n"
MODEL = "def answer(messages):\n    return 'yes'\n"


@pytest.mark.parametrize("concurrency", ["8", "1"])
def test_each_trial_has_its_own_copy_of_values(pytester: pytest.Pytester, concurrency: str) -> None:
    pytester.makefile(".ini", pytest=INI)
    pytester.makepyfile(model=MODEL, test_copied=COPIED)

    result = run_forked(pytester, f"--llm-concurrency={concurrency}")

    result.assert_outcomes(passed=16)
    result.stdout.no_fnmatch_line("*changed its parameter*")


def test_a_change_that_all_trials_see_is_noted_once_a_function(pytester: pytest.Pytester) -> None:
    pytester.makefile(".ini", pytest=INI)
    pytester.makepyfile(model=MODEL, test_changed=CHANGED)

    result = run_forked(pytester)

    result.stdout.fnmatch_lines(["*test_changes?*: a trial changed its parameter chat, which the*"])
    assert str(result.stdout).count("changed its parameter") == 1
