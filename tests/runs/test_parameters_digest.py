from __future__ import annotations

import dataclasses
import enum
import hashlib

import pytest

from pytest_llmeval.runs.run_lines import parameters_digest


def test_the_digest_is_that_of_canonical_json():
    expected = hashlib.sha256(b'{"city":"Li\\u00e8ge","n":[1,2.5,null,true]}').hexdigest()
    assert parameters_digest({"n": (1, 2.5, None, True), "city": "Liège"}) == expected


def test_the_order_of_arguments_does_not_matter():
    assert parameters_digest({"a": 1, "b": 2}) == parameters_digest({"b": 2, "a": 1})


@pytest.mark.parametrize("other", [{"a": 2}, {"b": 1}, {"a": "1"}, {"a": True}, {"a": [1]}, {}])
def test_other_parameters_have_another_digest(other):
    assert parameters_digest({"a": 1}) != parameters_digest(other)


def endless():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, b"bytes", float("nan"), float("inf"), endless(), {1: 0, "a": 0}, 1j],
    ids=["object", "set", "bytes", "nan", "inf", "endless", "mixed keys", "complex"],
)
def test_what_cannot_be_put_as_json_has_none(value):
    assert parameters_digest({"ticket": value}) is None


def test_what_is_nested_too_deeply_has_none():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert parameters_digest({"ticket": deep}) is None


def test_a_lone_surrogate_is_json_too():
    assert parameters_digest({"path": "\udcff"}) is not None


@dataclasses.dataclass
class Ticket:
    mail: str
    label: object
    seen: int = dataclasses.field(default=0, compare=False)


class Label(enum.Enum):
    LEGAL = "legal"
    SALES = "sales"


class Model:  # as pydantic has it
    def __init__(self, label):
        self.label = label

    def model_dump(self, *, mode):
        assert mode == "json"
        return {"label": self.label}


class Failing(Model):
    def model_dump(self, *, mode):
        raise RuntimeError(mode)


@pytest.mark.parametrize("make", [lambda one: Ticket("a", one), lambda one: [one], Model])
def test_records_are_told_apart_by_what_they_hold(make):
    digests = {parameters_digest({"row": make(label)}) for label in ("legal", "sales")}
    assert len(digests) == 2
    assert None not in digests
    assert parameters_digest({"row": make("sales")}) in digests


def test_enums_have_their_values_and_fields_that_are_not_compared_count_for_nothing():
    assert parameters_digest({"row": Label.SALES}) == parameters_digest({"row": "sales"})
    both = (Ticket("a", Label.LEGAL, seen=seen) for seen in (1, 2))
    assert len({parameters_digest({"row": one}) for one in both}) == 1


@pytest.mark.parametrize("value", [Ticket, Ticket("a", object()), Failing("x")])
def test_records_that_hold_more_than_json_have_none(value):
    assert parameters_digest({"row": value}) is None
