from __future__ import annotations

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
