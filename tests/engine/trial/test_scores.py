"""What ``llm_score`` takes for a number."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest

from pytest_llmeval.engine.trial.ledger import Ledger
from pytest_llmeval.errors import ScoreError


class Tensor:
    """Looks as one of torch does, as far as ``llm_score`` is concerned."""

    def __init__(self, *values: float) -> None:
        self.values = values

    def item(self) -> float:
        if len(self.values) != 1:
            raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")
        return self.values[0]


class Measured:
    def __float__(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    "value",
    [
        0.5, Fraction(1, 2), Decimal("0.5"), np.float16(0.5), np.float32(0.5), np.longdouble(0.5),
        np.array(0.5), np.array([0.5]), Tensor(0.5), Measured(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_single_number_is_a_score(value: object) -> None:
    ledger = Ledger(0)

    ledger.score(value)

    assert ledger.scores == {"score": 0.5}
    assert type(ledger.scores["score"]) is float


@pytest.mark.parametrize("value", [True, np.True_, np.array(True), np.int64(1), np.uint8(1), 1])
def test_what_is_true_or_a_whole_number_is_a_score(value: object) -> None:
    ledger = Ledger(0)

    ledger.score(value)

    assert ledger.scores == {"score": 1.0}


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), np.float64("inf"), Decimal("NaN"), Decimal("sNaN"), Decimal("1e101"),
        10**400, "0.5", np.str_("0.5"), b"1", 1j, np.complex128(1), None, [0.5], {"item": 0.5},
        np.array([1, 2]), np.datetime64("2026-01-01"), Tensor(1, 2), Mock(), MagicMock(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_anything_else_is_none(value: object) -> None:
    ledger = Ledger(0)

    with pytest.raises(ScoreError, match="a score must be a finite number"):
        ledger.score(value)
    assert not ledger.scores
