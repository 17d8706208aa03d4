from __future__ import annotations

import pytest

from pytest_llmeval.settings import GateRules, Settings


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="there is no field alhpa"):
        GateRules(alhpa=0.3)  # type: ignore[call-arg]


def test_a_field_without_a_default_must_be_given() -> None:
    with pytest.raises(TypeError, match="session is missing"):
        Settings()  # type: ignore[call-arg]
